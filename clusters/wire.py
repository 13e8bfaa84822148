"""Printer columns of ManagedCluster, ClusterClaim and Lease."""

from __future__ import annotations

from ocmconsole.core.wire import AGE
from ocmconsole.kubeapi.kinds import PrinterColumn


def condition_column(name: str, type: str, description: str) -> PrinterColumn:  # noqa: A002 - the field's name on the wire
    """The status of one condition; blank until somebody has set it."""
    return PrinterColumn(name, "string", f'.status.conditions[?(@.type=="{type}")].status', description=description)


MANAGED_CLUSTER_COLUMNS = (
    PrinterColumn(
        "Hub Accepted", "boolean", ".spec.hubAcceptsClient", description="Whether the hub lets the cluster in."
    ),
    PrinterColumn(
        "Managed Cluster URLs",
        "string",
        ".spec.managedClusterClientConfigs[*].url",
        description="Where the cluster's own API is.",
    ),
    condition_column("Joined", "ManagedClusterJoined", "Whether the cluster's agent has joined."),
    condition_column("Available", "ManagedClusterConditionAvailable", "Whether the cluster's API answers."),
    AGE,
)
CLUSTER_CLAIM_COLUMNS = (AGE,)
LEASE_COLUMNS = (PrinterColumn("Holder", "string", ".spec.holderIdentity", description="Who holds the lease."), AGE)
