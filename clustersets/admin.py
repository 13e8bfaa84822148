"""Django admin of cluster sets and their bindings."""

from __future__ import annotations

from clustersets import kinds
from ocmconsole.kubeapi.admin import register

register(kinds.MANAGED_CLUSTER_SET, kinds.MANAGED_CLUSTER_SET_BINDING)
