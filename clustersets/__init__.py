"""ManagedClusterSet and ManagedClusterSetBinding, in three versions at once.

Kind files are on this level; ``membership`` is the single definition of which clusters belong to a set.
In: sets, bindings and labels of clusters, by ``verbs``. Out: members, who may do what with them. Called by
``registration``, ``ocmconsole.console`` and ``ocmconsole.urls``. Rooms:
``profiles`` (ClusterProfile), ``rights`` (who may do what with sets), ``moves`` (clusters that change sets), ``pages``.
"""
