"""Reconcilers of placements: who is scheduled again because of a write, and what a schedule writes (P1 to P30).

A write to a cluster, set or score asks for one small piece of work for its exclusive set, and one for all sets that
select by labels, for each moved part, so that a storm folds into few. Nothing is read for it in the request; that piece
of work finds the placements which read the part. A placement's own piece runs the pipeline on one snapshot and commits
what differs in one transaction (K16).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.conf import settings

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER, spec_of
from clustersets import membership
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from clustersets.models import ManagedClusterSet, ManagedClusterSetBinding
from ocmconsole.kubeapi import clock, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.control.controllers import changed, reconciler
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema import conditions, times
from ocmconsole.kubeapi.schema.conditions import Condition
from ocmconsole.kubeapi.storage import plain_sql
from placements.controller import decisions, events, evidence, metrics, scheduling, snapshot
from placements.controller.decisions import WantedDecision
from placements.controller.events import DecisionChanges
from placements.kinds import (
    ADD_ON_PLACEMENT_SCORE,
    PLACEMENT,
    PLACEMENT_DECISION,
    PLACEMENT_LABEL,
    is_disabled,
)
from placements.models import HeldEvictions, Placement, PlacementDecision, SteadyReference
from placements.scheduler import brake, relevance
from placements.scheduler.pipeline import PlacementResult, Unfinished
from placements.scheduler.specification import PlacementSpec

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.verbs import Batch

CONTROLLER = Actor.controller("placements")
KEEP = "keep"  # D14: the value of OCMCONSOLE_MISCONFIGURED_PLACEMENTS that keeps decisions
# In the key of work that a write to a cluster or score causes, instead of the name of a set, which never is such.
BY_LABELS, ANY_SET = "", "*"
# A timer rings no earlier than what it waits for, although clocks and databases round.
LATER = timedelta(milliseconds=5)
# No timer is set further ahead: a year is nothing to wait for, and the end of all years cannot be added to.
LONGEST_WAIT = timedelta(days=1)
# Of CPU time for expressions in one run, in seconds: others have their turn before it goes on where it was.
SLICE = 1.0


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
)
def reconcile_placement(key: Key) -> timedelta | None:
    """P2, P13, P16, P24 to P30, D14, K16, K18: a Placement's decisions and conditions are what the pipeline says now.

    1. One that is being deleted, or that another scheduler decides, is left alone (P2).
    2. All that differs is written in one transaction: clusters come before they go (K16), the status, Events.
    3. A misconfigured one keeps its PlacementDecisions, without clusters that its namespace may no longer use (D14).

    Returns when to look again: at the end of a toleration, score or hold (P13, K18, D27), at once where expressions
    take longer than a turn.
    """
    row = Placement.objects.at(key).select_related("held").first()
    if row is None or row.deleted_at is not None or is_disabled(row.doc):
        return None
    now = clock.now()
    metrics.begin(key)
    scene = _Scene.read(row, now)
    try:
        result = scene.schedule()
    except Unfinished:
        return timedelta()
    with metrics.binding(key), verbs.batch(CONTROLLER) as batch:
        if not scene.plan.sorts_by_score:  # else the scores that are shown follow what has just been chosen (Steady)
            batch.settled.add(("placement", key))
        batch.has_read(PLACEMENT, row)
        changes = scene.write(batch, result)
        events.record(batch, scene.doc, changes, events.score_note(result) if changes.updated else "", now)
    events.record_hold(scene.doc, scene.held_before, result, CONTROLLER, now)
    evidence.has_seen(row.uid, result.scoring.fleet.revision)
    again = result.look_again
    return min(max(again - now, timedelta()) + LATER, LONGEST_WAIT) if again is not None else None


@dataclass(frozen=True)
class _Scene:
    """What one run sees of its Placement. ``stored``: PlacementDecisions that name it, by name."""

    row: Placement
    doc: Doc
    plan: PlacementSpec
    bound: snapshot.BoundSets
    stored: Mapping[str, PlacementDecision]
    now: datetime

    @classmethod
    def read(cls, row: Placement, now: datetime) -> _Scene:
        doc = row.doc
        found = PlacementDecision.objects.filter(namespace=row.namespace, placement=row.name)
        stored = {each.name: each for each in sorted(found, key=_place_in_line)}
        return cls(row, doc, PlacementSpec.of(doc), snapshot.bound_sets(row.namespace), stored, now)

    @property
    def contents(self) -> dict[str, decisions.Names]:
        return {name: decisions.names_in(each.doc) for name, each in self.stored.items()}

    def schedule(self) -> PlacementResult:
        chosen = {name for names in self.contents.values() for name in names}
        return scheduling.schedule_now(
            self.plan,
            self.row.key,
            self.bound,
            chosen,
            now=self.now,
            is_time_up=scheduling.timer(SLICE),
            observe=metrics.plugin,
        )

    def _remember_steady(self, batch: Batch) -> None:
        """P16: a negative weight is kept with the decisions that stood when it was set."""
        weight = scheduling.negative_steady(self.plan)
        known = SteadyReference.objects.filter(placement=self.row).first()
        if weight == (known.weight if known is not None else 0):
            return
        chosen = sorted({name for names in self.contents.values() for name in names})
        batch.records.append(lambda: SteadyReference(placement=self.row, weight=weight, clusters=chosen))

    # ------------------------------------------------------------------------------------ what is written

    @property
    def held_before(self) -> int:
        """Evictions that the previous run held (D27)."""
        known: HeldEvictions | None = getattr(self.row, "held", None)
        return known.count if known is not None else 0

    def _remember_held(self, batch: Batch, result: PlacementResult) -> None:
        """D27: how many clusters stay only because a brake stands; pages and metrics read it."""
        known: HeldEvictions | None = getattr(self.row, "held", None)
        count, until = len(result.held), brake.last_end(each.until for each in result.held.values())
        wanted = (count, until)
        if wanted != ((known.count, known.until) if known is not None else (0, None)):
            since = known.since if known is not None and known.count and count else self.now
            row = HeldEvictions(placement_id=self.row.pk, count=count, since=since, until=until)
            batch.records.append(lambda: row)

    def write(self, batch: Batch, result: PlacementResult) -> DecisionChanges:
        self._remember_steady(batch)
        self._remember_held(batch, result)
        if result.plan.problem and self.stored and settings.OCMCONSOLE_MISCONFIGURED_PLACEMENTS == KEEP:
            return self._write_kept(batch, result)
        name = self.row.name
        scores = result.totals if result.plan.sorts_by_score else None
        wanted = decisions.decisions_of(name, result.groups)
        changes = self._bind(batch, wanted, scores)
        self._keep_evidence(batch, result, wanted)
        self._report(batch, result, decisions.group_statuses(name, result.groups), len(result.chosen))
        return changes

    def _write_kept(self, batch: Batch, result: PlacementResult) -> DecisionChanges:
        """D14: the last good decisions stay, except for clusters that no bound set has any more."""
        members = result.scoring.fleet.members.values()
        allowed = frozenset(each.name for clusters in members for each in clusters if not each.is_being_deleted)
        documents = {name: each.doc for name, each in self.stored.items()}
        kept = decisions.kept_decisions(self.row.name, documents, allowed)
        changes = self._bind(batch, kept, decisions.scores_in(documents.values()))
        self._keep_evidence(batch, result, kept)
        counts = {each.name: len(each.clusters) for each in kept}
        groups = [
            {**group, "clusterCount": sum(counts.get(name, 0) for name in group.get("decisions") or ())}
            for group in (self.doc.get("status") or {}).get("decisionGroups") or ()
        ]
        total = sum(counts.values())
        self._report(batch, result, groups, total, keeps_satisfied=total > 0)
        return changes

    def _keep_evidence(self, batch: Batch, result: PlacementResult, wanted: list[WantedDecision]) -> None:
        """K43: who enters and leaves, and why, in the transaction that writes it."""
        before = decisions.groups_in(each.doc for each in self.stored.values())
        after = decisions.groups_of(wanted)
        if before != after:
            run = evidence.RunEvidence(self.row, result, before, after, CONTROLLER.user, self.now)
            rows = list(run.records())
            batch.records.append(lambda: rows)

    def _bind(self, batch: Batch, wanted: list[WantedDecision], scores: Mapping[str, int] | None) -> DecisionChanges:
        """P24-P26, K16: create, fill, mend and delete PlacementDecisions."""
        rows = self._adopted(wanted)
        by_name = {each.name: each for each in wanted}
        for name, row in rows.items():
            batch.has_read(PLACEMENT_DECISION, row)
            if name in by_name:
                self._mend(batch, by_name[name], row)
        present = {name: decisions.names_in(row.doc) for name, row in rows.items()}
        contents = {each.name: each.clusters for each in wanted}
        missing = [each for each in wanted if each.name not in rows]
        for each in missing:
            batch.create(PLACEMENT_DECISION, self._new(each), namespace=self.row.namespace)
        filled: dict[str, None] = {}
        for name, clusters in decisions.safe_order(present, contents):
            filled[name] = None
            self._fill(batch, name, decisions.entries(clusters, scores))
        for name, row in rows.items():  # the same clusters, but other scores or reasons
            entries = decisions.entries(contents.get(name, ()), scores)
            if name in contents and present[name] == contents[name] and decisions.entries_of(row.doc) != entries:
                filled[name] = None
                self._fill(batch, name, entries)
        gone = [row for name, row in rows.items() if name not in contents and row.deleted_at is None]
        for row in gone:
            batch.delete(PLACEMENT_DECISION, row.key)
        created = tuple(each.name for each in missing)
        return DecisionChanges(created, tuple(filled), tuple((row.name, row.uid) for row in gone))

    def _adopted(self, wanted: list[WantedDecision]) -> Mapping[str, PlacementDecision]:
        """Those that name the Placement, and those that only have a name which it needs."""
        missing = [each.name for each in wanted if each.name not in self.stored]
        others = PlacementDecision.objects.filter(namespace=self.row.namespace, name__in=missing)
        return {**self.stored, **{each.name: each for each in others}}

    def _new(self, wanted: WantedDecision) -> Doc:
        return {
            "apiVersion": PLACEMENT_DECISION.storage.api_version,
            "kind": PLACEMENT_DECISION.kind,
            "metadata": {
                "name": wanted.name,
                "labels": dict(wanted.labels),
                "ownerReferences": [decisions.owner_of(self.doc)],
            },
        }

    def _mend(self, batch: Batch, wanted: WantedDecision, row: PlacementDecision) -> None:
        owners = [decisions.owner_of(self.doc)]

        def mend(doc: Doc) -> None:
            doc["metadata"] |= {"labels": dict(wanted.labels), "ownerReferences": owners}

        metadata = row.doc["metadata"]
        if metadata.get("labels") != wanted.labels or metadata.get("ownerReferences") != owners:
            batch.edit(PLACEMENT_DECISION, row.key, mend)

    def _fill(self, batch: Batch, name: str, entries: list[Doc]) -> None:
        def fill(doc: Doc) -> None:
            doc["status"] = {"decisions": entries}

        batch.edit(PLACEMENT_DECISION, Key(self.row.namespace, name), fill, subresource="status")

    def _report(
        self, batch: Batch, result: PlacementResult, groups: list[Doc], number: int, *, keeps_satisfied: bool = False
    ) -> None:
        """P27-P30: the number is absent until it is not zero; conditions of other types stay."""
        moment = times.timestamp(self.now)
        has_satisfied = any(each.get("type") == "PlacementSatisfied" for each in _conditions(self.doc))
        found_now = [
            Condition(each.type, each.status, each.reason, each.message)
            for each in result.conditions
            if not (keeps_satisfied and has_satisfied and each.type == "PlacementSatisfied")
        ]

        def report(doc: Doc) -> None:
            found = _conditions(doc)
            for condition in found_now:
                found = conditions.set_condition(found, condition, moment)
            status = doc.setdefault("status", {})
            status |= {"conditions": found, "decisionGroups": groups}
            if number or "numberOfSelectedClusters" in status:
                status["numberOfSelectedClusters"] = number

        batch.edit(PLACEMENT, self.row.key, report, subresource="status")


def _conditions(doc: Doc) -> list[Doc]:
    return list((doc.get("status") or {}).get("conditions") or ())


def _place_in_line(decision: PlacementDecision) -> tuple[int, str]:
    """By the number at the end of their names, which begin alike."""
    return len(decision.name), decision.name
