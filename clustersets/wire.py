"""Printer columns of ManagedClusterSet (ocm.md 1.1). Its bindings declare none and show their age."""

from __future__ import annotations

from clusters.wire import condition_column
from ocmconsole.corekinds.wire import AGE

MANAGED_CLUSTER_SET_COLUMNS = (condition_column("Empty", "ClusterSetEmpty", "Whether the set has no cluster."), AGE)
