"""What a cluster's tab says of sets: which it is in, by which label or selector, and where those are bound.

The tab is registered by ``placements.pages.cluster_tab``, which adds placements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters.cluster import page_frame
from clusters.cluster.page_frame import Opened
from clusters.kinds import CLUSTERSET_LABEL
from clustersets import queries
from clustersets.kinds import DEFAULT_SET
from clustersets.pages import selector_help
from clustersets.rights.visible_bindings import bindings_for

if TYPE_CHECKING:
    from clustersets.membership import Membership

SHOWN = 20  # namespaces; the others are counted


def sets_of_cluster(cluster: Opened) -> dict[str, Any]:
    """Only sets that the user may see are named; bindings where the user may list them."""
    labels = cluster.doc["metadata"].get("labels") or {}
    seen = queries.memberships_for(cluster.actor)
    member_of = [each for each in seen if each.includes(labels)]
    bound: dict[str, list[str]] = {}
    for row in bindings_for(cluster.actor).filter(cluster_set__in=[each.name for each in member_of]):
        bound.setdefault(row.cluster_set, []).append(row.namespace)
    label = labels.get(CLUSTERSET_LABEL, "")
    return {
        "sets": [_shown(each, labels, bound.get(each.name, [])) for each in member_of],
        "others": len(seen) - len(member_of),
        "label": label,
        "is_hidden": bool(label) and label not in {each.name for each in seen},
        "move_url": page_frame.link("clustersets:move", cluster.name),
        "may_move": page_frame.to_move(cluster),
        "commands": [
            f"kubectl label managedcluster {cluster.name} {CLUSTERSET_LABEL}={DEFAULT_SET} --overwrite",
            f"clusteradm clusterset set {DEFAULT_SET} --clusters {cluster.name}",
        ],
    }


def _shown(each: Membership, labels: dict[str, str], namespaces: list[str]) -> dict[str, Any]:
    keys = [requirement.key for requirement in each.selector.requirements]
    return {
        "name": each.name,
        "url": page_frame.link("clustersets:set", each.name),
        "kind": selector_help.kind(each),
        "sentence": selector_help.membership_sentence(each),
        "because": [(key, labels[key]) for key in dict.fromkeys(keys) if key in labels],
        "namespaces": sorted(namespaces)[:SHOWN],
        "more": max(0, len(namespaces) - SHOWN),
    }
