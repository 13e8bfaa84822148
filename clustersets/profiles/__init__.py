"""ClusterProfile of SIG Multicluster: the inventory that other tools read, one object per cluster and bound namespace.

In: clusters, sets and bindings, by the work queue. Out: ClusterProfiles in namespaces into which sets are bound, for
Kueue, Argo CD and others. Called by the work queue, the admin and the start of a hub. ``profile_contents`` says what a
profile holds, ``profile_reconcilers`` where there is one.
"""
