"""ManagedCluster, ClusterClaim, Lease, add-ons and works, and what the hub knows of each cluster.

Kind files are on this level (``models schemas wire kinds admission queries services``); ``object_writer`` has the hub's
own writes. Rooms: ``acceptance`` (let in, send away), ``health`` (silence, status), ``taints``, ``addons``, ``fleet``
(the list), ``cluster`` (one).
"""
