"""Kinds of add-ons and works: ManagedClusterAddOn and ClusterManagementAddOn in two versions, ManifestWork.

In: documents of one version. Out: the same in another version, printer columns. Called by ``kubeapi.kinds``, where they
are registered, and by reconcilers of clusters. What add-ons do to a cluster's labels is in ``health.addon_health``.
"""
