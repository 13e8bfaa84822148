"""Reconcilers of add-ons: their health on the cluster's labels, and the cluster's silence on the add-ons (H40, H41).

What an add-on does, and how it is, is for its own agents and controllers to say.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from clusters import object_writer
from clusters.addons.addon_kinds import MANAGED_CLUSTER_ADDON
from clusters.kinds import MANAGED_CLUSTER, ConditionType, conditions_of, is_deleting
from clusters.models import ManagedCluster, ManagedClusterAddOn
from clusters.object_writer import CONTROLLER
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.control import controllers
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema import conditions, names
from ocmconsole.kubeapi.schema.conditions import Condition

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

log = logging.getLogger(__name__)

AVAILABLE = "Available"
FEATURE = "feature.open-cluster-management.io/addon-"
WORDS = {"True": "available", "False": "unhealthy"}
UNREACHABLE = "unreachable"


def _addon_available(doc: Doc) -> str:
    return conditions.status_of(conditions_of(doc), AVAILABLE)


def _cluster_available(doc: Doc) -> Doc | None:
    return conditions.find_condition(conditions_of(doc), ConditionType.AVAILABLE)


def _is_unknown(doc: Doc) -> bool:
    return (_cluster_available(doc) or {}).get("status") == "Unknown"


def _has_available(doc: Doc) -> bool:
    return _cluster_available(doc) is not None


def _features(doc: Doc) -> dict[str, str]:
    labels = doc["metadata"].get("labels") or {}
    return {label: value for label, value in labels.items() if label.startswith(FEATURE)}


def _cluster_of_addon(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:
    return [Key("", key.namespace) for _ in _moved(old, new, key)]


_moved = controllers.changed(is_deleting, _addon_available)


# ---------------------------------------------------------------- labels on the cluster


@controllers.reconciler(
    MANAGED_CLUSTER,
    keys=controllers.changed_in(is_deleting, _has_available, _features),
    also={MANAGED_CLUSTER_ADDON: _cluster_of_addon},
)
def reconcile_features(key: Key) -> None:
    """H40: each add-on is a label of its cluster: available, unhealthy or unreachable.

    1. A cluster that is gone, being deleted or without an Available condition is left as it is.
    2. The labels of present add-ons are computed; one whose name is too long for a label is left out (D12).
    3. The cluster's feature labels are replaced by them; other labels stay.
    """
    cluster = ManagedCluster.objects.at(key).first()
    if cluster is None or cluster.deleted_at is not None or not cluster.available:
        return
    wanted = dict(_feature(addon) for addon in _present(key.name) if _can_be_label(addon))

    def label(doc: Doc) -> None:
        labels = doc["metadata"].get("labels") or {}
        others = {name: value for name, value in labels.items() if not name.startswith(FEATURE)}
        doc["metadata"]["labels"] = {**others, **wanted}

    verbs.edit(CONTROLLER, MANAGED_CLUSTER, key, label)


def _present(cluster: str) -> list[ManagedClusterAddOn]:
    return list(ManagedClusterAddOn.objects.filter(namespace=cluster, deleted_at=None).order_by("name"))


def _can_be_label(addon: ManagedClusterAddOn) -> bool:
    """D12: an add-on whose name is too long for a label is left out and disturbs no other."""
    return not any(names.key_flaws(f"{FEATURE}{addon.name}"))


def _feature(addon: ManagedClusterAddOn) -> tuple[str, str]:
    return f"{FEATURE}{addon.name}", WORDS.get(_addon_available(addon.doc), UNREACHABLE)


# ---------------------------------------------------------------- silence


def _with_addons(clusters: Collection[Key]) -> Iterable[Key]:
    names = ManagedClusterAddOn.objects.filter(namespace__in=[key.name for key in clusters]).order_by()
    return [Key("", name) for name in names.values_list("namespace", flat=True).distinct()]


@controllers.reconciler(
    MANAGED_CLUSTER,
    keys=controllers.changed(_cluster_available, only=_is_unknown),
    also={MANAGED_CLUSTER_ADDON: _cluster_of_addon},
    among=_with_addons,
)
def reconcile_addon_health(key: Key) -> None:
    """H41: while a cluster is Unknown, Available of its add-ons is Unknown too, with the same reason and message.

    1. A cluster whose Available is not Unknown is left as it is.
    2. Its condition is copied into the status of each add-on in its namespace.
    """
    cluster = ManagedCluster.objects.at(key).first()
    said = _cluster_available(cluster.doc) if cluster is not None else None
    if said is None or said["status"] != "Unknown":
        return
    silence = Condition(AVAILABLE, "Unknown", said["reason"], said["message"])
    for addon in ManagedClusterAddOn.objects.filter(namespace=key.name).order_by("name"):
        try:
            verbs.edit(
                CONTROLLER, MANAGED_CLUSTER_ADDON, addon.key, object_writer.set_condition(silence), subresource="status"
            )
        except errors.NotFound:
            continue
