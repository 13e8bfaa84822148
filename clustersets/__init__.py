"""ManagedClusterSet and ManagedClusterSetBinding, in three versions at once.

Kind files are on this level; ``membership`` is the single definition of which clusters belong to a set. Rooms:
``rights`` (who may do what with sets), ``moves`` (clusters that change sets), ``pages``.
"""
