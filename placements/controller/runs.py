"""Runs of the scheduler: what several Placements see at one moment, and what each of them writes (P2 to P30).

A ``SharedLook`` reads with a bounded number of queries, however many Placements it is for. All writes of a ``Run`` are
in one transaction (K16), which may hold those of others too (``run_together``); none of them is held up by another.
Called by ``placements.reconcilers``.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING

from django.conf import settings
from django.db.models import Q

from clusters.kinds import label_of
from ocmconsole.core.kinds import EVENT, NAMESPACE
from ocmconsole.kubeapi import clock, many_writes
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema import conditions, times
from ocmconsole.kubeapi.schema.conditions import Condition
from ocmconsole.kubeapi.storage import incarnations
from ocmconsole.kubeapi.writes.amendments import Alike
from placements.controller import brakes, decisions, events, evidence, metrics, scheduling, snapshot, together
from placements.controller.decisions import WantedDecision
from placements.controller.events import DecisionChanges
from placements.kinds import PLACEMENT, PLACEMENT_DECISION, PLACEMENT_LABEL, is_disabled
from placements.models import HeldEvictions, Placement, PlacementDecision, SteadyReference
from placements.scheduler import brake
from placements.scheduler.pipeline import PlacementResult, Unfinished, schedule
from placements.scheduler.specification import PlacementSpec

if TYPE_CHECKING:
    from clustersets.membership import Membership
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind
    from ocmconsole.kubeapi.verbs import Batch
    from ocmconsole.kubeapi.writes.proposals import Edit
    from placements.scheduler.fleet import Fleet

CONTROLLER = Actor.controller("placements")
KEEP = "keep"  # D14: the value of OCMCONSOLE_MISCONFIGURED_PLACEMENTS that keeps decisions
# A timer rings no earlier than what it waits for, although clocks and databases round.
LATER = timedelta(milliseconds=5)
# No timer is set further ahead: a year is nothing to wait for, and the end of all years cannot be added to.
LONGEST_WAIT = timedelta(days=1)
# Of CPU time for expressions in one run, in seconds, and after which of several runs none is begun: others have their
# turn before it goes on where it was.
SLICE = 1.0

Stored = Mapping[str, PlacementDecision]

MOST_NAMESPACES = 10_000  # of which this process remembers when it last began a run, some hundred bytes each
_begun: dict[str, float] = {}  # by namespace, in seconds of ``monotonic``


@dataclass
class SharedLook:
    """What runs of one moment share. ``bound``: sets by namespace (P3). ``stored``: PlacementDecisions by Placement.

    ``decided``: in how many PlacementDecisions of the hub a cluster stands (P15), with what the runs so far have made.
    ``alike``: the Events of the runs, which differ in texts alone.
    """

    now: datetime
    bound: Mapping[str, Sequence[Membership]]
    stored: Mapping[Key, Stored]
    steady: Mapping[str, SteadyReference]
    fleet: Fleet
    decided: Counter[str]
    alike: Alike = field(default_factory=Alike)

    @classmethod
    def at(cls, rows: Sequence[Placement], plans: Collection[PlacementSpec], now: datetime) -> SharedLook:
        """Decisions, sets and references are read before the fleet, which is no older."""
        bound = together.bound_sets({row.namespace for row in rows})
        stored: defaultdict[Key, dict[str, PlacementDecision]] = defaultdict(dict)
        places = _of_placements({row.key for row in rows}, "placement")
        for each in sorted(PlacementDecision.objects.filter(places), key=_place_in_line):
            stored[Key(each.namespace, each.placement)][each.name] = each
        steady = {each.placement_id: each for each in SteadyReference.objects.filter(placement__in=rows)}
        sets = {each.name: each for found in bound.values() for each in found}
        fleet = snapshot.present.fleet(
            tuple(sets.values()),
            with_scores=any(map(scheduling.reads_scores, plans)),
            with_decided=True,
        )
        fleet = replace(fleet, brakes=brakes.standing())
        return cls(now, bound, stored, steady, fleet, Counter(fleet.decided))

    def run(self, row: Placement, plan: PlacementSpec) -> Run:
        return Run(row, row.doc, plan, self, self.stored.get(row.key, {}), self.steady.get(row.pk), self.now)

    def fleet_of(self, row: Placement, plan: PlacementSpec) -> Fleet:
        """As the Placement sees it, the sets of its namespace alone; for a run that ends before the next counts."""
        members = {each.name: self.fleet.members[each.name] for each in self.bound.get(row.namespace, ())}
        decided = self.decided if plan.needs_scores or plan.constraints else {}
        return replace(self.fleet, members=members, decided=decided)

    def count(self, before: Iterable[str], after: Iterable[str]) -> None:
        """P15: what a run has decided, the next one sees."""
        self.decided.update(after)
        for name in before:
            self.decided[name] -= 1
            if self.decided[name] <= 0:
                del self.decided[name]


@dataclass(frozen=True)
class Run:
    """One run of the scheduler for its Placement. ``stored``: PlacementDecisions that name it, by name.

    ``steady``: what a negative weight of Steady compares with, if it was ever negative (P16).
    """

    row: Placement
    doc: Doc
    plan: PlacementSpec
    look: SharedLook = field(repr=False)
    stored: Stored
    steady: SteadyReference | None
    now: datetime

    @property
    def contents(self) -> dict[str, decisions.Names]:
        return {name: decisions.names_in(each.doc) for name, each in self.stored.items()}

    def schedule(self) -> PlacementResult:
        """Raises Unfinished."""
        chosen = {name for names in self.contents.values() for name in names}
        return schedule(
            self.plan,
            self.look.fleet_of(self.row, self.plan),
            bound=[each.name for each in self.look.bound.get(self.row.namespace, ())],
            present=chosen,
            steady=scheduling.steady_of(self.plan, self.steady, chosen),
            now=self.now,
            is_time_up=scheduling.timer(SLICE),
            observe=metrics.plugin,
        )

    def settle(self, batch: Batch, result: PlacementResult) -> None:
        """P2, P24 to P33: write all that differs from the result."""
        if not self.plan.sorts_by_score:  # else the scores that are shown follow what has just been chosen (Steady)
            batch.settled.add(("placement", self.row.key))
        batch.has_read(PLACEMENT, self.row)
        changes = self.write(batch, result)
        scores = events.score_note(result, self.look.decided) if changes.updated else ""
        events.record(batch, self.doc, changes, scores, self.now, self.look.alike)
        if changes.had != changes.has:
            self.look.count(changes.had, changes.has)

    def end(self, result: PlacementResult) -> timedelta | None:
        """After the commit; returns in how long to look again."""
        events.record_hold(self.doc, self.held_before, result, CONTROLLER, self.now)
        evidence.has_seen(self.row.uid, result.scoring.fleet.revision)
        again = result.look_again
        return min(max(again - self.now, timedelta()) + LATER, LONGEST_WAIT) if again is not None else None

    def _remember_steady(self, batch: Batch) -> None:
        """P16: a negative weight is kept with the decisions that stood when it was set."""
        weight = scheduling.negative_steady(self.plan)
        if weight == (self.steady.weight if self.steady is not None else 0):
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
        left = [row for name, row in rows.items() if name not in contents and row.deleted_at is None]
        gone = [row for row in left if self._is_ours(batch, row)]
        for row in gone:
            batch.delete(PLACEMENT_DECISION, row.key)
        created = tuple(each.name for each in missing)
        had, has = (tuple(chain.from_iterable(each.values())) for each in (present, contents))
        return DecisionChanges(created, tuple(filled), tuple((row.name, row.uid) for row in gone), had, has)

    def _adopted(self, wanted: list[WantedDecision]) -> Mapping[str, PlacementDecision]:
        """Those that name the Placement, and those that only have a name which it needs."""
        missing = [each.name for each in wanted if each.name not in self.stored]
        if not missing:
            return self.stored
        others = PlacementDecision.objects.filter(namespace=self.row.namespace, name__in=missing)
        return {**self.stored, **{each.name: each for each in others}}

    def _is_ours(self, batch: Batch, row: PlacementDecision) -> bool:
        """P26: not one that somebody gave our label and that its own Placement takes back in this transaction."""
        doc = batch.find(PLACEMENT_DECISION, row.key)
        return doc is not None and label_of(doc, PLACEMENT_LABEL) == self.row.name

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

        _write_status(batch, PLACEMENT_DECISION, Key(self.row.namespace, name), fill, ("decisions",))

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

        before = self.doc.get("status") or {}
        found = _conditions(self.doc)
        for condition in found_now:
            found = conditions.set_condition(found, condition, moment)
        wanted: Doc = {"conditions": found, "decisionGroups": groups}
        if number or "numberOfSelectedClusters" in before:
            wanted["numberOfSelectedClusters"] = number
        if {**before, **wanted} == before:
            return

        def report(doc: Doc) -> None:
            doc["status"] = {**(doc.get("status") or {}), **wanted}

        _write_status(batch, PLACEMENT, self.row.key, report, tuple(wanted))


def _write_status(batch: Batch, kind: Kind, key: Key, change: Edit, fields: tuple[str, ...]) -> None:
    """``change`` changes these fields of the status alone: by an amendment, or else as anybody's write."""
    if not batch.amend(kind, key, change, [("status", field) for field in fields]):
        batch.edit(kind, key, change, subresource="status")


def _conditions(doc: Doc) -> list[Doc]:
    return list((doc.get("status") or {}).get("conditions") or ())


def _place_in_line(decision: PlacementDecision) -> tuple[int, str]:
    """By the number at the end of their names, which begin alike."""
    return len(decision.name), decision.name


def _of_placements(keys: Collection[Key], column: str) -> Q:
    """Rows whose namespace and column are those of a key."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for key in keys:
        names[key.namespace].append(key.name)
    found = Q(pk__in=[])
    for namespace, some in names.items():
        found |= Q(namespace=namespace, **{f"{column}__in": some})
    return found


# ---------------------------------------------------------------- several at once


def rows_of(keys: Collection[Key]) -> list[Placement]:
    """Placements that this scheduler decides: others are being deleted, gone, or left to another one (P2).

    A restored hub that nobody has activated decides none (D28).
    """
    if incarnations.is_quiet():
        return []
    rows = Placement.objects.filter(_of_placements(keys, "name")).select_related("held")
    return [row for row in rows if row.deleted_at is None and not is_disabled(row.doc)]


def run_together(keys: Sequence[Key]) -> dict[Key, timedelta | None]:
    """Run several Placements and commit what they write in one transaction: by key, in how long to look again.

    A Placement that could not be written with the others is missing: it needs a run of its own. D12: the namespace for
    which a run was begun longest ago comes first, as after ``SLICE`` none is begun: one with costly Placements alone
    would be before all others each time.
    """
    runs = _Together(clock.now())
    in_turn = sorted(keys, key=lambda key: _begun.get(key.namespace, 0.0))
    with ExitStack() as stack:
        runs.binding = stack
        left = many_writes.write_each(CONTROLLER, in_turn, runs.read, runs.compose)
    return {key: runs.end(key) for key in keys if key not in left}


def _note_begun(namespace: str) -> None:
    if len(_begun) >= MOST_NAMESPACES:
        _begun.clear()
    _begun[namespace] = time.monotonic()


@dataclass
class _Together:
    """``until``: in seconds of CPU time, after which none is begun; but one always is."""

    now: datetime
    binding: ExitStack = field(default_factory=ExitStack)
    runs: dict[Key, Run] = field(default_factory=dict)
    results: dict[Key, PlacementResult] = field(default_factory=dict)
    unfinished: set[Key] = field(default_factory=set)
    until: float = 0.0
    has_begun: bool = False

    def read(self, batch: Batch, keys: Collection[Key]) -> None:
        """Compiling expressions takes time too: those of some Placements may be left for the next turn."""
        self.until = time.thread_time() + SLICE
        rows = {row.key: row for row in rows_of(keys)}
        plans: dict[Key, PlacementSpec] = {}
        for key in keys:
            if key in rows:
                if plans and self.is_time_up():
                    self.unfinished.add(key)
                else:
                    plans[key] = PlacementSpec.of(rows[key].doc)
        look = SharedLook.at([rows[key] for key in plans], plans.values(), self.now)
        self.runs = {key: look.run(rows[key], plan) for key, plan in plans.items()}
        batch.read(NAMESPACE, {Key("", key.namespace) for key in plans})  # of what is created
        batch.look_up(EVENT, {key for run in self.runs.values() for key in events.usual(run.doc, run.stored, self.now)})

    def is_time_up(self) -> bool:
        return time.thread_time() > self.until

    def compose(self, batch: Batch, key: Key) -> None:
        run = self.runs.get(key)
        if run is None:
            return
        if self.has_begun and self.is_time_up():
            self.unfinished.add(key)
            return
        self.has_begun = True
        _note_begun(key.namespace)
        metrics.begin(key)
        try:
            result = run.schedule()
        except Unfinished:
            self.unfinished.add(key)
            return
        self.binding.enter_context(metrics.binding(key))
        run.settle(batch, result)
        self.results[key] = result

    def end(self, key: Key) -> timedelta | None:
        if key in self.unfinished:
            return timedelta()
        return self.runs[key].end(self.results[key]) if key in self.results else None
