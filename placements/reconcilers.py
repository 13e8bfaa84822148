"""Reconcilers of placements: who is scheduled again because of a write, and what a schedule writes (P1 to P30).

A write to a cluster, set or score asks for one small piece of work for its exclusive set, and one for all sets that
select by labels, for each moved part, so that a storm folds into few. Nothing is read for it in the request; that piece
of work finds the placements which read the part. A placement's own piece runs the pipeline on one snapshot and commits
what differs in one transaction (K16).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER, spec_of
from clustersets import membership
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from clustersets.models import ManagedClusterSet, ManagedClusterSetBinding
from ocmconsole.kubeapi import clock, verbs
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.control.controllers import changed, reconciler
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.storage import plain_sql
from placements.controller import metrics, runs
from placements.kinds import (
    ADD_ON_PLACEMENT_SCORE,
    PLACEMENT,
    PLACEMENT_DECISION,
    PLACEMENT_LABEL,
    is_disabled,
)
from placements.models import Placement
from placements.scheduler import relevance
from placements.scheduler.pipeline import Unfinished
from placements.scheduler.specification import PlacementSpec

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

# In the key of work that a write to a cluster or score causes, instead of the name of a set, which never is such.
BY_LABELS, ANY_SET = "", "*"


def any_placement() -> bool:
    """Without placements no change of a cluster is work."""
    return plain_sql.is_there(Placement)


# ---------------------------------------------------------------- whom a write concerns


def _labels(doc: Doc | None) -> Mapping[str, str]:
    return (doc["metadata"].get("labels") or {}) if doc is not None else {}


def _status(doc: Doc) -> object:
    return doc.get("status")


def _sets_of_cluster(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    """(part, set) for the exclusive set that the cluster's label names, and (part, BY_LABELS) for all other sets."""
    parts = relevance.changes(old, new)
    before, after = (_labels(doc).get(CLUSTERSET_LABEL, "") for doc in (old, new))
    found = {Key(relevance.MEMBERS, name) for name in {before, after} if name and before != after}
    names = {BY_LABELS, after} if before == after and after else {BY_LABELS}
    return found | {Key(part, name) for name in names for part in parts}


def _set_itself(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:
    """Its selector decides who is a member; one that comes or goes makes bindings valid or not (P3)."""
    if old is not None and new is not None and spec_of(old) == spec_of(new):
        return ()
    return (Key(relevance.MEMBERS, key.name),)


def _score(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:
    """(part, ANY_SET): placements that read the score, whatever sets its cluster is in."""
    if old is not None and new is not None and _status(old) == _status(new):
        return ()
    return [Key(part, ANY_SET) for part in (relevance.score(key.name), relevance.ANY_SCORE)]


@reconciler(
    MANAGED_CLUSTER_SET,
    keys=_set_itself,
    also={MANAGED_CLUSTER: _sets_of_cluster, ADD_ON_PLACEMENT_SCORE: _score},
    is_wanted=any_placement,
    folds=True,
)
def reconcile_bound_placements(key: Key) -> None:
    """P1: placements of the namespaces in which a set is bound are scheduled again, if they read what has moved.

    The key's namespace is the part of a cluster or of its scores that moved (``relevance``), its name is the set, or
    stands for several. Sets, bindings and placements are read now, after the commit, so that none is missed.

    1. Of sets that select by labels, those whose selectors read the part may have other members.
    2. The namespaces that bind the sets are read.
    3. Of their placements, those are queued that may use such a set, and read the part or a set with other members.
    """
    part, name = key
    moved = _memberships_moved(part) if name == BY_LABELS else {name: part == relevance.MEMBERS}
    bindings = ManagedClusterSetBinding.objects.all()
    if name != ANY_SET:
        bindings = bindings.filter(cluster_set__in=list(moved))
    bound: defaultdict[str, list[str]] = defaultdict(list)
    for namespace, cluster_set in bindings.values_list("namespace", "cluster_set"):
        bound[namespace].append(cluster_set)
    rows = Placement.objects.filter(namespace__in=bindings.values("namespace"), deleted_at=None)
    work = {
        ("placement", Key(namespace, placement))
        for namespace, placement, sets, read in rows.values_list("namespace", "name", "cluster_sets", "reads")
        if any(
            (not sets or each in sets) and (moved.get(each) or relevance.concerns(part, read))
            for each in bound[namespace]
        )
    }
    workqueue.put(work, clock.now())
    workqueue.poke()


def _memberships_moved(part: str) -> dict[str, bool]:
    """Sets that select by labels, and whether their members may be others because the part has moved."""
    return {
        row.name: relevance.concerns_members(part, spec_of(row.doc).get("clusterSelector") or {})
        for row in ManagedClusterSet.objects.all()
        if not membership.membership_of(row.doc).is_exclusive
    }


def _came_or_went(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:
    return (key,) if old is None or new is None else ()


@reconciler(MANAGED_CLUSTER_SET_BINDING, keys=_came_or_went, is_wanted=any_placement)
def reconcile_binding_placements(key: Key) -> None:
    """P1: placements of the namespace that may use the set of a binding are scheduled again.

    1. The namespace's placements are read now, after the commit: one that is created beside the binding is not missed.
    2. Those are queued that may use the set, which is the name of the binding (A8).
    """
    rows = Placement.objects.filter(namespace=key.namespace, deleted_at=None).values_list("name", "cluster_sets")
    work = {("placement", Key(key.namespace, name)) for name, sets in rows if not sets or key.name in sets}
    workqueue.put(work, clock.now())
    workqueue.poke()


def _placement_of_decision(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:
    """P26: what people change of a PlacementDecision is mended, also its label."""
    names = {_labels(doc).get(PLACEMENT_LABEL) for doc in (old, new)}
    return [Key(key.namespace, name) for name in names if name]


# ---------------------------------------------------------------- one placement


@reconciler(
    PLACEMENT,
    keys=changed(spec_of, is_disabled, _status, lambda doc: doc["metadata"].get("deletionTimestamp")),
    also={PLACEMENT_DECISION: _placement_of_decision},
    together=runs.run_together,
)
def reconcile_placement(key: Key) -> timedelta | None:
    """P2, P13, P16, P24 to P30, D14, K16, K18: a Placement's decisions and conditions are what the pipeline says now.

    1. One that is being deleted, or that another scheduler decides, is left alone (P2).
    2. All that differs is written in one transaction: clusters come before they go (K16), the status, Events.
    3. A misconfigured one keeps its PlacementDecisions, without clusters that its namespace may no longer use (D14).
    4. Of a restored hub that nobody has activated all are left alone (D28); the activation asks for each of them.

    Returns when to look again: at the end of a toleration, score or hold (P13, K18, D27), at once where expressions
    take longer than a turn.
    """
    rows = runs.rows_of([key])
    if not rows:
        return None
    [row], now = rows, clock.now()
    metrics.begin(key)
    plan = PlacementSpec.of(row.doc)
    run = runs.SharedLook.at(rows, [plan], now).run(row, plan)
    try:
        result = run.schedule()
    except Unfinished:
        return timedelta()
    with metrics.binding(key), verbs.batch(runs.CONTROLLER) as batch:
        run.settle(batch, result)
    return run.end(result)
