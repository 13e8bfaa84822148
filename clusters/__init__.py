"""ManagedCluster, ClusterClaim, Lease, add-ons and works, and what the hub knows of each cluster.

Kind files are on this level (``models schemas wire kinds admission queries services``); ``object_writer`` has the hub's
own writes. In: writes of agents and people, by ``verbs``. Out: state of clusters for pages, reconcilers and the apps
above. Called by ``clustersets``, ``registration``, ``ocmconsole.console`` and ``ocmconsole.urls``. Rooms:
``acceptance`` (let in, send away), ``health`` (silence, status), ``renewals`` (the lease path), ``taints``, ``addons``,
``fleet`` (the list), ``cluster`` (one).
"""
