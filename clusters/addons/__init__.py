"""Kinds of add-ons and works: ManagedClusterAddOn and ClusterManagementAddOn in two versions, ManifestWork.

In and out: documents; registered with ``kubeapi.kinds``. What add-ons do to a cluster's labels is in
``health.addon_health``.
"""
