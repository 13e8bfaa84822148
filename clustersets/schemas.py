"""Structural schemas of ManagedClusterSet and ManagedClusterSetBinding v1beta2 (ocm.md 1.4, 1.5)."""

from __future__ import annotations

from ocmconsole.corekinds.schemas import condition_list, label_selector
from ocmconsole.corekinds.shapes import LABEL_PATTERN, keyed, structure, text
from ocmconsole.kubeapi.errors import Doc

EXCLUSIVE = "ExclusiveClusterSetLabel"
BY_LABELS = "LabelSelector"

_SELECTOR = structure(
    "Which clusters belong to the set.",
    {
        "selectorType": text(
            f"{EXCLUSIVE}: those whose label names the set, and a cluster is in one such set only. "
            f"{BY_LABELS}: those that labelSelector matches.",
            enum=[EXCLUSIVE, BY_LABELS],
            default=EXCLUSIVE,
        ),
        "labelSelector": label_selector(f"Selects clusters when selectorType is {BY_LABELS}."),
    },
    required=("selectorType",),
    default={"selectorType": EXCLUSIVE},
)

MANAGED_CLUSTER_SET: Doc = structure(
    "A group of clusters. Permissions are given, and placements choose, by set.",
    {
        "spec": structure(
            "Who belongs to the set, and what its clusters get.",
            {
                "clusterSelector": _SELECTOR,
                "managedNamespaces": keyed(
                    "Namespaces that the agents create on every cluster of the set.",
                    structure(
                        "One namespace.",
                        {"name": text("Name of the namespace.", maxLength=63, pattern=LABEL_PATTERN)},
                        required=("name",),
                    ),
                    ["name"],
                ),
            },
            default={"clusterSelector": {"selectorType": EXCLUSIVE}},
        ),
        "status": structure("What the hub found out about the set.", {"conditions": condition_list(list_map=False)}),
    },
)

MANAGED_CLUSTER_SET_BINDING: Doc = structure(
    "Lets the placements of a namespace choose from a cluster set. Has the name of the set.",
    {
        "spec": structure("Which set.", {"clusterSet": text("Name of the cluster set.", minLength=1)}, ["clusterSet"]),
        "status": structure(
            "What the hub found out about the binding.", {"conditions": condition_list(list_map=False)}
        ),
    },
)
