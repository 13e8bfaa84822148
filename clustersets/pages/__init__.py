"""The pages of sets and bindings: list, map, one set, a cluster's tab of sets, namespaces.

In: requests. Out: HTML; acts go through ``clustersets.services``. Called by ``clustersets.urls``.
"""
