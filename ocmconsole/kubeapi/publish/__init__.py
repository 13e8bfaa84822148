"""What the hub says that it serves: discovery, OpenAPI v2 and v3, version, and the paths of health and metrics.

In: the registry of kinds and their schemas. Out: the documents that kubectl and client libraries read first. Called by
``http`` and ``kubeapi.urls``.
"""
