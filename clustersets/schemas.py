"""Structural schemas of ManagedClusterSet and ManagedClusterSetBinding in each served version (D1, T6, T7).

Fields that two versions share have one name and one shape in both: conversions and managedFields rely on it.
"""

from __future__ import annotations

from ocmconsole.corekinds.schemas import condition_list, label_selector
from ocmconsole.corekinds.shapes import LABEL_PATTERN, keyed, structure, text
from ocmconsole.kubeapi.errors import Doc

EXCLUSIVE = "ExclusiveClusterSetLabel"
LEGACY = "LegacyClusterSetLabel"  # What v1beta1 calls it.
BY_LABELS = "LabelSelector"


def _cluster_set(spec: Doc) -> Doc:
    return structure(
        "A group of clusters. Permissions are given, and placements choose, by set.",
        {
            "spec": spec,
            "status": structure(
                "What the hub found out about the set.", {"conditions": condition_list(list_map=False)}
            ),
        },
    )


def _spec(exclusive: str, more: Doc) -> Doc:
    selector = {"selectorType": exclusive}
    return structure(
        "Who belongs to the set, and what its clusters get.",
        {"clusterSelector": _selector(exclusive, default=selector), **more},
        default={"clusterSelector": selector},
    )


def _selector(exclusive: str, default: Doc) -> Doc:
    return structure(
        "Which clusters belong to the set.",
        {
            "selectorType": text(
                f"{exclusive}: those whose label names the set, and a cluster is in one such set only. "
                f"{BY_LABELS}: those that labelSelector matches.",
                enum=[exclusive, BY_LABELS],
                default=exclusive,
            ),
            "labelSelector": label_selector(f"Selects clusters when selectorType is {BY_LABELS}."),
        },
        required=("selectorType",),
        default=default,
    )


_MANAGED_NAMESPACES = keyed(
    "Namespaces that the agents create on every cluster of the set.",
    structure(
        "One namespace.",
        {"name": text("Name of the namespace.", maxLength=63, pattern=LABEL_PATTERN)},
        required=("name",),
    ),
    ["name"],
)

MANAGED_CLUSTER_SET = _cluster_set(_spec(EXCLUSIVE, {"managedNamespaces": _MANAGED_NAMESPACES}))
MANAGED_CLUSTER_SET_V1BETA1 = _cluster_set(_spec(LEGACY, {}))
# Typed clients of that time always send an empty spec; it is taken and never shown.
MANAGED_CLUSTER_SET_V1ALPHA1 = _cluster_set(structure("Empty: a set of this version is its name.", {}))

# The same in all three versions.
MANAGED_CLUSTER_SET_BINDING: Doc = structure(
    "Lets the placements of a namespace choose from a cluster set. Has the name of the set.",
    {
        "spec": structure("Which set.", {"clusterSet": text("Name of the cluster set.", minLength=1)}, ["clusterSet"]),
        "status": structure(
            "What the hub found out about the binding.", {"conditions": condition_list(list_map=False)}
        ),
    },
)
