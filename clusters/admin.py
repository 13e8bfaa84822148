"""Django admin of claims that the hub's own cluster makes. Clusters: see ``registration``."""

from __future__ import annotations

from clusters import kinds
from ocmconsole.kubeapi.admin import register

register(kinds.CLUSTER_CLAIM)
