"""Evidence of decisions: what a run of the scheduler changed, stage by stage, and which change caused it.

Rows are written in the transaction of the decisions, also when somebody else writes these, or they go with their
Placement. Clusters that moved for the same reason share a row of bounded size, so that a storm is few rows for each
placement; names are all kept, and reasons in full up to a bound.

A cause is found, not carried: the queue folds work. A cluster's own latest change is in the snapshot of this process;
changes of the placement, its bindings and sets are in the audit. Only what came after the previous run of the placement
counts, and what is older than ``LATEST`` does not: then no cause is recorded rather than a wrong one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from clusters.kinds import MANAGED_CLUSTER
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from clustersets.models import ManagedClusterSetBinding
from ocmconsole.kubeapi import admission, clock
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.models import AuditEvent
from placements.controller import decisions, snapshot
from placements.controller.shared_changes import LATEST, SCHEDULER
from placements.explaining import causes, reasons
from placements.explaining.causes import DecisionCause
from placements.kinds import ADD_ON_PLACEMENT_SCORE, PLACEMENT, PLACEMENT_DECISION, PLACEMENT_LABEL
from placements.models import DecisionMove, DecisionRun, Placement, PlacementDecision

if TYPE_CHECKING:
    from django.db import models

    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind
    from placements.controller.decisions import Group
    from placements.scheduler.fleet import Cluster, Taint
    from placements.scheduler.pipeline import PlacementResult

MOST_REASONS = 200  # clusters of a run whose reasons are worked out; of the others the stage is recorded
MOST_EXPRESSIONS = 20  # where that evaluates expressions
MOST_ROWS = 60  # reasons of one run that have rows of their own
MOST_ASKED = 20  # clusters of a run that are looked up in the audit
MOST_ENTRIES = 20  # of the audit that are read for one kind
MOST_OTHERS = 200  # newest changes of clusters and scores that are looked through for who displaced another
MOST_DECISIONS = 1_000  # that one write of somebody else looks through, while others wait: 40 ms
LONGEST_NAME = 253  # characters of a cluster's name, as of a DNS subdomain
LONGEST_UID = 36  # characters: this hub makes UUIDs
MOST_SEEN = 20_000  # placements whose last run this process remembers

_seen: OrderedDict[str, int] = OrderedDict()


def has_seen(uid: str, revision: int) -> None:
    """A run of the placement has ended, which had seen changes up to this revision of the hub."""
    _seen[uid] = revision
    _seen.move_to_end(uid)
    while len(_seen) > MOST_SEEN:
        _seen.popitem(last=False)


def forget() -> None:
    """As after a start; for tests."""
    _seen.clear()


@dataclass(frozen=True)
class RunEvidence:
    """One that is about to be committed. ``before`` and ``after``: clusters with the groups in which they stand."""

    row: Placement
    result: PlacementResult
    before: Mapping[str, Group]
    after: Mapping[str, Group]
    own_user: str
    now: datetime

    def records(self) -> Iterator[models.Model]:
        """The rows, in the order in which they are saved; none where nothing has changed."""
        entered = _recorded(self.after.keys() - self.before.keys())
        left = _recorded(self.before.keys() - self.after.keys())
        regrouped = sum(self.before[name] != self.after[name] for name in self.before.keys() & self.after.keys())
        if not (entered or left or regrouped):
            return
        moves = self._moves(entered, left)
        run = DecisionRun(
            uid=self.row.uid,
            namespace=self.row.namespace,
            name=self.row.name,
            time=self.now,
            revision=self.result.scoring.fleet.revision,
            entered=len(entered),
            left=len(left),
            regrouped=regrouped,
            chosen=len(self.after),
            cause=self._cause(moves),
        )
        yield run
        for (is_entered, stage, reason, _), (cause, names) in moves.items():
            said = {"stage": stage, "reason": reason, "cause": cause.to_row() if cause is not None else {}}
            yield from _move_rows(run, names, is_entered=is_entered, **said)

    # ------------------------------------------------------------------------------------ who moved, and why

    def _moves(self, entered: Sequence[str], left: Sequence[str]) -> dict[Any, tuple[DecisionCause | None, list[str]]]:
        """By direction, stage, reason and cause; in the order of names within."""
        found: dict[Any, tuple[DecisionCause | None, list[str]]] = {}
        for is_entered, names in ((True, entered), (False, left)):
            for number, name in enumerate(names):
                stage, reason = ("", "") if is_entered else self._fell_out(name, number)
                cause = self._of_cluster(name, stage)
                shared = cause and (cause.kind, cause.namespace, cause.name, cause.what)
                key = (is_entered, stage, reason, shared)
                if key not in found and len(found) >= MOST_ROWS:
                    key, cause = (is_entered, stage, "", None), None
                known, listed = found.setdefault(key, (cause, []))
                listed.append(name)
                if cause is not None and known is not None and cause.revision > known.revision:
                    found[key] = (cause, listed)
        return found

    def _member(self, name: str) -> Cluster | None:
        return self.result.scoring.fleet.member(name)

    def _fell_out(self, name: str, number: int) -> tuple[str, str]:
        """Stage and reason of a cluster that is not chosen any more."""
        cluster = self._member(name)
        if cluster is None:
            return reasons.STAGES["sets"], "it is in no set that is bound in the namespace"
        step = self.result.step(cluster)
        if step is None:
            return "", ""
        evaluates = step == "predicates" and bool(self.result.plan.question)
        if step in {"score", "unwanted"}:
            return reasons.STAGES[step], "others come before it"
        if number >= (MOST_EXPRESSIONS if evaluates else MOST_REASONS):
            return reasons.STAGES[step], ""
        if step == "taints":  # most fall out for the same ones
            if cluster.taints not in self._of_taints:
                self._of_taints[cluster.taints] = self._why(cluster)
            return self._of_taints[cluster.taints]
        return self._why(cluster)

    @cached_property
    def _of_taints(self) -> dict[tuple[Taint, ...], tuple[str, str]]:
        """What ``_why`` has said of clusters that were chosen before, by their taints."""
        return {}

    def _why(self, cluster: Cluster) -> tuple[str, str]:
        reason = self.result.reason(cluster)
        return (reasons.STAGES[reason.step], reasons.sentence(reason)) if reason is not None else ("", "")

    # ------------------------------------------------------------------------------------ why

    @cached_property
    def _since(self) -> int:
        """Up to which revision the previous run had seen changes; for the first run: the placement's creation."""
        if (known := _seen.get(self.row.uid)) is not None:
            return known
        last = DecisionRun.objects.filter(uid=self.row.uid).order_by("-id").values_list("revision", flat=True).first()
        if last is not None:
            return last
        made = AuditEvent.objects.filter(
            resource=PLACEMENT.resource, namespace=self.row.namespace, name=self.row.name, verb="create"
        )
        return (made.order_by("-time").values_list("revision", flat=True).first() or 1) - 1

    def _is_recent(self, revision: int, time: datetime) -> bool:
        return revision > self._since and self.now - time <= LATEST

    def _of_cluster(self, name: str, stage: str) -> DecisionCause | None:
        """Its own change, without a name so that clusters that changed alike share a row; else that of the run."""
        read = self.row.reads
        for change in reversed(snapshot.present.changes_of(name)):
            if not self._is_recent(change.revision, change.time):
                break
            what = change.what(read) or (change.what(change.parts) if stage in {"", reasons.STAGES["sets"]} else "")
            if what:
                return DecisionCause(MANAGED_CLUSTER.kind, "", "", causes.shortened(what), change.revision, change.time)
        return self._ended(name) or self._in_the_audit(name) or self._common

    def _in_the_audit(self, name: str) -> DecisionCause | None:
        """Its own change where this process has not followed it, as after a start; for a few clusters of a run."""
        for entry in self._audited.get(name, ()):
            texts = (causes.differences(entry.diff, part) for part in _OF_CLUSTER)
            what = _CAME_OR_WENT.get(entry.verb) or ", ".join(filter(None, texts))
            if what:
                what = causes.shortened(what)
                return DecisionCause(MANAGED_CLUSTER.kind, "", "", what, entry.revision or 0, entry.time)
        return None

    @cached_property
    def _audited(self) -> Mapping[str, list[AuditEvent]]:
        """Of the first clusters that moved and that this process has not followed, by name; one query."""
        if self._since >= snapshot.present.followed_since:
            return {}
        moved = sorted(self.after.keys() ^ self.before.keys())
        names = list(islice((name for name in moved if not snapshot.present.changes_of(name)), MOST_ASKED))
        found: dict[str, list[AuditEvent]] = {}
        for entry in self._entries(MANAGED_CLUSTER, MOST_ASKED * MOST_ENTRIES, namespace="", name__in=names):
            found.setdefault(entry.name, []).append(entry)
        return found

    def _ended(self, name: str) -> DecisionCause | None:
        """That a toleration or score ended, which no object's change says."""
        if not any(each.seconds is not None for each in self.result.plan.tolerations):
            return None
        cluster = self._member(name)
        if cluster is None or self.result.step(cluster) != "taints":
            return None
        reason = self.result.reason(cluster)
        if reason is None or not any(each.has_expired for each in reason.taints):
            return None
        return DecisionCause("", "", "", "a toleration ended", 0, self.now)

    @cached_property
    def _common(self) -> DecisionCause | None:
        """The newest change of the placement or of what it shares with others: sets, bindings, decisions, a cluster.

        Without one, that the time made room.
        """
        found = [
            *self._of_placement(),
            *self._of_bindings(),
            *self._of_sets(),
            *self._of_decisions(),
            *self._of_others(),
            *self._of_the_time(),
        ]
        return max(found, key=lambda each: each.revision, default=None)

    def _shared(self, kind: Kind, namespace: str, name: str = "") -> list[AuditEvent]:
        """What others have done to such objects since the previous run, newest first."""
        upto = self.result.scoring.fleet.revision
        known = snapshot.present.shared.since(self._since, kind, namespace, self.now, upto)
        if known is None:
            place = {"namespace": namespace} | ({"name": name} if name else {})
            return self._entries(kind, MOST_ENTRIES, **place)
        recent = [each for each in known if self.now - each.time <= LATEST and name in {"", each.name}]
        return recent[: -MOST_ENTRIES - 1 : -1]

    def _entries(self, kind: Kind, most: int, **place: Any) -> list[AuditEvent]:
        """Newest first, since the previous run."""
        allowed = AuditEvent.objects.filter(
            resource=kind.resource, outcome=AuditEvent.Outcome.ALLOWED, time__gte=self.now - LATEST, **place
        )
        return list(allowed.filter(revision__gt=self._since).order_by("-time")[:most])

    def _of_placement(self) -> Iterator[DecisionCause]:
        for entry in self._shared(PLACEMENT, self.row.namespace, self.row.name):
            what = "created" if entry.verb == "create" else causes.differences(entry.diff, "spec")
            what = what or causes.differences(entry.diff, "metadata.annotations")
            if what:
                yield _cause(PLACEMENT, entry, what)

    def _of_bindings(self) -> Iterator[DecisionCause]:
        for entry in self._shared(MANAGED_CLUSTER_SET_BINDING, self.row.namespace):
            if entry.verb in _CAME_OR_WENT:
                yield _cause(MANAGED_CLUSTER_SET_BINDING, entry, _CAME_OR_WENT[entry.verb])

    def _of_sets(self) -> Iterator[DecisionCause]:
        entries = self._shared(MANAGED_CLUSTER_SET, "")
        if not entries:
            return
        bindings = ManagedClusterSetBinding.objects.filter(namespace=self.row.namespace)
        # A set that was deleted is bound no longer, although its binding stands (P3).
        bound = set(bindings.values_list("cluster_set", flat=True))
        for entry in entries:
            what = _CAME_OR_WENT.get(entry.verb) or causes.differences(entry.diff, "spec")
            if what and entry.name in bound:
                yield _cause(MANAGED_CLUSTER_SET, entry, what)

    def _of_decisions(self) -> Iterator[DecisionCause]:
        """What people have changed is mended."""
        for entry in self._shared(PLACEMENT_DECISION, self.row.namespace):
            if entry.user != self.own_user and entry.name.startswith(f"{self.row.name}-decision-"):
                yield _cause(PLACEMENT_DECISION, entry, _CAME_OR_WENT.get(entry.verb, CHANGED))

    def _of_others(self) -> Iterator[DecisionCause]:
        """A cluster whose own change made room, or took it; a score."""
        if not self._can_displace:
            return
        read = self.row.reads
        for name, change in snapshot.present.newest_changes(MOST_OTHERS):
            if not self._is_recent(change.revision, change.time):
                break
            if (what := change.what(read)) and (name in self.before or self._member(name) is not None):
                what = causes.shortened(what)
                yield DecisionCause(MANAGED_CLUSTER.kind, "", name, what, change.revision, change.time)
                break  # the others are older
        for cluster, resource, change in snapshot.present.newest_scores(MOST_OTHERS):
            if not self._is_recent(change.revision, change.time):
                break
            if (what := change.what(read)) and self._member(cluster) is not None:
                yield DecisionCause(ADD_ON_PLACEMENT_SCORE.kind, cluster, resource, what, change.revision, change.time)
                break

    def _of_the_time(self) -> Iterator[DecisionCause]:
        """The end of a toleration made room for others."""
        left = sorted(self.before.keys() - self.after.keys())[:MOST_REASONS] if self._can_displace else ()
        yield from islice(filter(None, map(self._ended, left)), 1)

    @property
    def _can_displace(self) -> bool:
        """Whether one cluster's change moves others; without a number each stands for itself."""
        return self.result.plan.number is not None or bool(self.result.plan.constraints)

    def _cause(self, moves: Mapping[Any, tuple[DecisionCause | None, Collection[str]]]) -> dict[str, Any]:
        found = [cause for cause, _ in moves.values() if cause is not None]
        if not found and not moves and self._common is not None:
            found = [self._common]
        return max(found, key=lambda each: each.revision).to_row() if found else {}


def _recorded(names: Collection[str]) -> list[str]:
    """In order, without what no cluster is called: who writes a PlacementDecision by hand may write anything there."""
    return sorted(name for name in names if 0 < len(name) <= LONGEST_NAME and "\n" not in name)


def _move_rows(run: DecisionRun, names: Sequence[str], **said: Any) -> Iterator[DecisionMove]:
    """``names`` in order."""
    for start in range(0, len(names), DecisionMove.MOST):
        part = names[start : start + DecisionMove.MOST]
        listed = "\n" + "\n".join(part) + "\n"
        yield DecisionMove(run=run, count=len(part), first=part[0], last=part[-1], names=listed, **said)


# ---------------------------------------------------------------- decisions that somebody else writes, or that end


@admission.records(PLACEMENT_DECISION)
def writes_of_others_are_remembered(actor: Actor, old: Doc | None, new: Doc | None) -> list[models.Model]:
    """K43: the history has also what somebody else makes of decisions, as another scheduler does (P2), and their end.

    Clusters leave because the Placement, or a PlacementDecision alone, was deleted.
    """
    if actor.user == SCHEDULER:
        return []
    if new is None:
        return list(_records_of_end(old, clock.now())) if old is not None else []
    placements = sorted({_placement_of(each) for each in (old, new) if each is not None} - {""})
    return [row for name in placements for row in _records_of_write(name, old, new, clock.now())]


def _placement_of(decision: Doc) -> str:
    return (decision["metadata"].get("labels") or {}).get(PLACEMENT_LABEL) or ""


def _records_of_write(placement: str, old: Doc | None, new: Doc, now: datetime) -> Iterator[models.Model]:
    """Rows for a PlacementDecision that somebody else writes, where the clusters of the Placement change by it.

    Read under the counter's lock, three queries. Nothing where ``MOST_DECISIONS`` others belong to the Placement.
    """
    metadata = new["metadata"]
    namespace = metadata["namespace"]
    before, after = (
        set(decisions.names_in(each)) if each is not None and _placement_of(each) == placement else set()
        for each in (old, new)
    )
    if before == after:
        return
    rows = PlacementDecision.objects.filter(namespace=namespace, placement=placement).exclude(name=metadata["name"])
    found = list(rows[:MOST_DECISIONS])
    if len(found) == MOST_DECISIONS:
        return
    others = {name for row in found for name in decisions.names_in(row.doc)}
    entered, left = _recorded(after - before - others), _recorded(before - after - others)
    if not (entered or left):
        return
    row = Placement.objects.filter(namespace=namespace, name=placement, deleted_at=None).first()
    uid = row.uid if row is not None else _owner_of(new)
    seen = DecisionRun.objects.filter(uid=uid).order_by("-id").values_list("revision", flat=True).first()
    cause = DecisionCause(PLACEMENT_DECISION.kind, namespace, metadata["name"], CHANGED, 0, now)
    run = DecisionRun(
        uid=uid,
        namespace=namespace,
        name=placement,
        time=now,
        revision=seen or 0,  # up to which the scheduler had seen changes: it has not seen this one
        entered=len(entered),
        left=len(left),
        chosen=len(_recorded(after | others)),
        cause=cause.to_row(),
    )
    yield run
    said = {"reason": "its PlacementDecision was changed", "cause": cause.to_row()}
    yield from _move_rows(run, entered, is_entered=True, **said)
    yield from _move_rows(run, left, is_entered=False, **said)


def _owner_of(decision: Doc) -> str:
    """The uid of the Placement that owns it, or nothing."""
    references = decision["metadata"].get("ownerReferences") or ()
    found = [each["uid"] for each in references if each["kind"] == PLACEMENT.kind and len(each["uid"]) <= LONGEST_UID]
    return found[0] if found else ""


def _records_of_end(decision: Doc, now: datetime) -> Iterator[models.Model]:
    """Rows for a PlacementDecision that goes: its clusters leave.

    Its Placement is gone or going, or somebody deleted the PlacementDecision alone: then the scheduler makes it anew,
    and the clusters enter again. Read under the counter's lock, at most three queries.
    """
    metadata = decision["metadata"]
    namespace, name = metadata["namespace"], _placement_of(decision)
    names = _recorded(set(decisions.names_in(decision)))
    if not name or not names:
        return
    owner = _owner_of(decision)
    row = Placement.objects.filter(namespace=namespace, name=name, deleted_at=None).first()
    if row is not None and owner in {"", row.uid}:
        uid, reason = row.uid, "its PlacementDecision was deleted"
        cause = DecisionCause(PLACEMENT_DECISION.kind, namespace, metadata["name"], "deleted", 0, now)
    else:
        uid, reason = owner, "the Placement was deleted"
        cause = _deletion(namespace, name, now)
    last = DecisionRun.objects.filter(namespace=namespace, name=name).order_by("-id").first()
    before = last.chosen if last is not None else len(names)
    run = DecisionRun(
        uid=uid,
        namespace=namespace,
        name=name,
        time=now,
        revision=int(metadata["resourceVersion"]),
        left=len(names),
        chosen=max(before - len(names), 0),
        cause=cause.to_row(),
    )
    yield run
    yield from _move_rows(run, names, is_entered=False, reason=reason, cause=cause.to_row())


def _deletion(namespace: str, name: str, now: datetime) -> DecisionCause:
    entries = AuditEvent.objects.filter(
        resource=PLACEMENT.resource, namespace=namespace, name=name, outcome=AuditEvent.Outcome.ALLOWED
    )
    entry = entries.filter(verb__startswith="delete").order_by("-time").first()
    if entry is None:
        return DecisionCause(PLACEMENT.kind, namespace, name, "deleted", 0, now)
    return _cause(PLACEMENT, entry, "deleted")


_OF_CLUSTER = ("metadata.labels", "metadata.deletionTimestamp", "spec.taints", "status.clusterClaims")
CHANGED = "changed by somebody else"
_CAME_OR_WENT = {"create": "created", "delete": "deleted"}


def _cause(kind: Kind, entry: AuditEvent, what: str) -> DecisionCause:
    return DecisionCause(kind.kind, entry.namespace, entry.name, what, entry.revision or 0, entry.time)
