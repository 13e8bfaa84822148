"""Reconcilers of cluster sets: the two that always exist, counts, bindings and managed namespaces (H22 to H26, H33)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from django.conf import settings

from clusters import object_writer
from clusters.kinds import MANAGED_CLUSTER, conditions_of, spec_of
from clusters.models import ManagedCluster
from clustersets import membership, queries
from clustersets.kinds import DEFAULT_SET, GLOBAL_SET, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from clustersets.models import ManagedClusterSet, ManagedClusterSetBinding
from clustersets.wire import BY_LABELS, EXCLUSIVE
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.control.controllers import changed, reconciler
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema.conditions import Condition
from ocmconsole.kubeapi.storage import reader

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind

log = logging.getLogger(__name__)

CONTROLLER = Actor.controller("clustersets")
AUTOUPDATE = "cluster.open-cluster-management.io/autoupdate"
SELECTORS: dict[str, Doc] = {
    DEFAULT_SET: {"selectorType": EXCLUSIVE},
    GLOBAL_SET: {"selectorType": BY_LABELS, "labelSelector": {}},
}

# What is wrong with a selector quotes it, and a selector may be long.
LONGEST_PROBLEM = 1024

BOUND = Condition("Bound", "True", "ClusterSetBound")
NOT_BOUND = Condition("Bound", "False", "ClusterSetNotFound")


def _labels(doc: Doc) -> dict[str, str]:
    return dict(doc["metadata"].get("labels") or {})


def _report(kind: Kind, key: Key, condition: Condition) -> None:
    """Set a condition; nothing is written when it says so already. What is gone needs none."""
    try:
        verbs.edit(CONTROLLER, kind, key, object_writer.set_condition(condition), subresource="status")
    except errors.NotFound:
        return


# ---------------------------------------------------------------- default and global


def _standing(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    return (key,) if key.name in SELECTORS and not stands(key.name, new) else ()


def stands(name: str, present: Doc | None) -> bool:
    """Whether one of the two is as it should be, or not ours to mend."""
    if not settings.OCMCONSOLE_FEATURE_GATES["DefaultClusterSet"]:
        return True
    if present is None:
        return False
    metadata = present["metadata"]
    if metadata.get("deletionTimestamp") or (metadata.get("annotations") or {}).get(AUTOUPDATE) == "false":
        return True
    return _selector(present) == SELECTORS[name]


@reconciler(MANAGED_CLUSTER_SET, keys=_standing)
def reconcile_standing_set(key: Key) -> None:
    """H23, H24: the sets ``default`` and ``global`` exist and have their selectors.

    1. With the gate off, or the annotation ``autoupdate: "false"``, nothing is written.
    2. A missing set is created.
    3. Another selector is replaced; all other fields are left to users.
    """
    wanted = SELECTORS[key.name]
    present = verbs.find(MANAGED_CLUSTER_SET, key)
    if stands(key.name, present):
        return
    if present is None:
        verbs.create(
            CONTROLLER,
            MANAGED_CLUSTER_SET,
            {
                "apiVersion": MANAGED_CLUSTER_SET.storage.api_version,
                "kind": MANAGED_CLUSTER_SET.kind,
                "metadata": {"name": key.name},
                "spec": {"clusterSelector": wanted},
            },
        )
    else:
        verbs.edit(CONTROLLER, MANAGED_CLUSTER_SET, key, lambda doc: _select(doc, wanted))


def _select(doc: Doc, wanted: Doc) -> None:
    doc.setdefault("spec", {})["clusterSelector"] = dict(wanted)


# ---------------------------------------------------------------- counts


def _selector(doc: Doc) -> object:
    return spec_of(doc).get("clusterSelector")


def _set_conditions(doc: Doc) -> object:
    return conditions_of(doc)


def _affected_sets(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    """Sets that the cluster came into or left."""
    if old is not None and new is not None and _labels(old) == _labels(new):
        return ()
    sets = queries.all_memberships()
    before = set(membership.sets_of(_labels(old), sets)) if old is not None else set()
    after = set(membership.sets_of(_labels(new), sets)) if new is not None else set()
    return [Key("", name) for name in before ^ after]


@reconciler(
    MANAGED_CLUSTER_SET,
    keys=changed(_selector, _set_conditions),
    also={MANAGED_CLUSTER: _affected_sets},
    pause=timedelta(seconds=1),
)
def reconcile_set_members(key: Key) -> None:
    """H22, T8: condition ClusterSetEmpty counts a set's members.

    1. A set that is gone or being deleted is skipped.
    2. All clusters count, accepted or not, being deleted or not (K35); with a selector that cannot be used, none.
    3. The condition is written when it differs.
    """
    row = reader.read_row(MANAGED_CLUSTER_SET, key)
    if row is None or row.deleted_at is not None:
        return
    found = membership.membership_of(row.doc)
    if found.problem:
        log.warning("cluster set %s has no members: %s", key.name, found.problem)
    count = ManagedCluster.objects.filter(found.condition()).count()
    says = object_writer.set_condition(emptiness(count, found.problem))
    with suppress(errors.NotFound), verbs.batch(CONTROLLER) as batch:
        batch.edit(MANAGED_CLUSTER_SET, key, says, subresource="status")
        batch.settled.add(("set_members", key))


def emptiness(count: int, problem: str = "") -> Condition:
    """T8: condition ClusterSetEmpty in upstream's words. K24, D12: a set that cannot be read is empty and says why."""
    if count:
        return Condition("ClusterSetEmpty", "False", "ClustersSelected", f"{count} ManagedClusters selected")
    why = f": {problem[:LONGEST_PROBLEM]}" if problem else ""
    return Condition("ClusterSetEmpty", "True", "NoClusterMatched", f"No ManagedCluster selected{why}")


# ---------------------------------------------------------------- bindings


def _bindings_of(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:
    """A set that came or went concerns every binding of its name."""
    if old is not None and new is not None:
        return ()
    rows = ManagedClusterSetBinding.objects.filter(cluster_set=key.name)
    return [Key(*place) for place in rows.values_list("namespace", "name")]


@reconciler(MANAGED_CLUSTER_SET_BINDING, keys=changed(_set_conditions), also={MANAGED_CLUSTER_SET: _bindings_of})
def reconcile_binding(key: Key) -> None:
    """H25: condition Bound of a binding is True while its set exists. H26: a binding grants no rights.

    1. Whether the set exists is read.
    2. The condition is written when it differs.
    """
    row = ManagedClusterSetBinding.objects.at(key).first()
    if row is None:
        return
    exists = ManagedClusterSet.objects.filter(name=row.cluster_set).exists()
    _report(MANAGED_CLUSTER_SET_BINDING, key, BOUND if exists else NOT_BOUND)


# ---------------------------------------------------------------- managed namespaces


def _managed_namespaces(doc: Doc) -> list[Doc]:
    return list((doc.get("status") or {}).get("managedNamespaces") or ())


def _namespaces_asked(doc: Doc) -> list[str]:
    return [str(each["name"]) for each in spec_of(doc).get("managedNamespaces") or ()]


_about_namespaces: tuple[Callable[[Doc], object], ...] = (
    _namespaces_asked,
    _selector,
    lambda doc: doc["metadata"].get("deletionTimestamp"),
)


def _members(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    """Clusters to which the set's wishes apply, or did."""
    docs = [doc for doc in (old, new) if doc is not None]
    if not any(_namespaces_asked(doc) for doc in docs):
        return ()
    if len(docs) > 1 and all(part(docs[0]) == part(docs[1]) for part in _about_namespaces):
        return ()
    concerned = reduce(or_, (membership.membership_of(doc).condition() for doc in docs))
    return [Key("", name) for name in ManagedCluster.objects.filter(concerned).values_list("name", flat=True)]


@reconciler(MANAGED_CLUSTER, keys=changed(_labels, _managed_namespaces), also={MANAGED_CLUSTER_SET: _members})
def reconcile_managed_namespaces(key: Key) -> None:
    """H33: ``status.managedNamespaces`` lists what the cluster's sets ask for, sorted by set and name.

    1. The entries are computed from the sets that the cluster belongs to.
    2. They replace those of the status; conditions that agents wrote into an entry stay with it (K23).
    3. A cluster that has none and needs none is not written.
    """
    row: Any = reader.read_row(MANAGED_CLUSTER, key)
    if row is None:
        return
    wanted = list(_wanted_namespaces(row))
    if wanted or _managed_namespaces(row.doc):
        verbs.edit(CONTROLLER, MANAGED_CLUSTER, key, lambda doc: _manage(doc, wanted), subresource="status")


def _wanted_namespaces(row: ManagedCluster) -> Iterable[tuple[str, str]]:
    for asking in ManagedClusterSet.objects.filter(deleted_at=None, manages_namespaces=True).order_by("name"):
        doc = asking.doc
        if membership.membership_of(doc).includes(row.labels):
            yield from ((asking.name, namespace) for namespace in sorted(_namespaces_asked(doc)))


def _manage(doc: Doc, wanted: list[tuple[str, str]]) -> None:
    present = {(entry["clusterSet"], entry["name"]): entry for entry in _managed_namespaces(doc)}
    status = doc.setdefault("status", {})
    if wanted:
        status["managedNamespaces"] = [present.get(each, {"clusterSet": each[0], "name": each[1]}) for each in wanted]
    else:
        status.pop("managedNamespaces", None)
