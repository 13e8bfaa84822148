"""Structural schemas of ManagedCluster v1, ClusterClaim v1alpha1 and Lease v1 (W29)."""

from __future__ import annotations

from ocmconsole.corekinds.schemas import condition_list
from ocmconsole.corekinds.shapes import (
    LABEL_PATTERN,
    QUALIFIED_PATTERN,
    flag,
    int32,
    keyed,
    listing,
    mapping,
    micro_moment,
    moment,
    octets,
    structure,
    text,
)
from ocmconsole.kubeapi.errors import Doc

_QUANTITY: Doc = {
    "x-kubernetes-int-or-string": True,
    "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
}

_SPEC = structure(
    "What is wanted of the cluster, and how it can be reached.",
    {
        "hubAcceptsClient": flag(
            "Whether the hub lets the cluster's agent in. Changing it needs the right to accept clusters."
        ),
        "leaseDurationSeconds": int32(
            "How often the agent shows a sign of life; after five times as long without one it counts as unreachable.",
            default=60,
        ),
        "managedClusterClientConfigs": listing(
            "Where the cluster's own API is.",
            structure(
                "One address of the cluster's API.",
                {
                    "url": text("The address; https only."),
                    "caBundle": octets("The authority that vouches for the address, in PEM."),
                },
                required=("url",),
            ),
        ),
        "taints": listing(
            "Reasons why placements should keep away from the cluster.",
            structure(
                "Keeps away all placements that do not tolerate it.",
                {
                    "key": text("What the taint is about.", maxLength=316, pattern=QUALIFIED_PATTERN),
                    "value": text("More about it.", maxLength=1024),
                    "effect": text(
                        "What it does to placements that do not tolerate it.",
                        enum=["NoSelect", "PreferNoSelect", "NoSelectIfNew"],
                    ),
                    "timeAdded": moment("When the taint was added. Set by the hub.", nullable=True),
                },
                required=("effect", "key"),
            ),
        ),
    },
)

_MANAGED_NAMESPACE = structure(
    "One namespace on the cluster.",
    {
        "clusterSet": text("The cluster set that asks for it."),
        "name": text("Name of the namespace.", maxLength=63, pattern=LABEL_PATTERN),
        "conditions": condition_list(list_map=True),
    },
    required=("clusterSet", "name"),
)

_STATUS = structure(
    "What the agent and the hub found out about the cluster.",
    {
        "conditions": condition_list(list_map=True),
        "capacity": mapping("All resources of the cluster's nodes together.", _QUANTITY),
        "allocatable": mapping("The part of the capacity that workloads can use.", _QUANTITY),
        "version": structure("What the cluster runs.", {"kubernetes": text("Version of Kubernetes.")}),
        "clusterClaims": listing(
            "What the cluster says of itself.",
            structure(
                "One statement.",
                {
                    "name": text("What it is about.", minLength=1, maxLength=253),
                    "value": text("What is said.", minLength=1, maxLength=1024),
                },
            ),
        ),
        "managedNamespaces": keyed(
            "Namespaces that the cluster's sets want on it.", _MANAGED_NAMESPACE, ["clusterSet", "name"]
        ),
    },
)

MANAGED_CLUSTER: Doc = structure(
    "A cluster that registers with the hub. Its agent asks to join, the hub accepts; both sides must agree.",
    {"spec": _SPEC, "status": _STATUS},
)

CLUSTER_CLAIM: Doc = structure(
    "Something that a cluster says of itself. Its agent reports it to the hub.",
    {
        "spec": structure(
            "What is said.",
            {"value": text("The value of the claim.", minLength=1, maxLength=1024)},
        )
    },
)

LEASE: Doc = structure(
    "A sign of life that its holder renews.",
    {
        "spec": structure(
            "Who holds the lease, and since when.",
            {
                "holderIdentity": text("Who holds it."),
                "leaseDurationSeconds": int32("How long after a renewal the lease still counts."),
                "acquireTime": micro_moment("When the holder took it."),
                "renewTime": micro_moment("When the holder renewed it last."),
                "leaseTransitions": int32("How often it went from one holder to another."),
                "strategy": text("How a new holder is chosen."),
                "preferredHolder": text("Who should get it next."),
            },
        )
    },
)
