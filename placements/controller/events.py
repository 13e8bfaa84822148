"""Events about a Placement and its PlacementDecisions, as upstream's controller records them (P32, P33).

In the transaction of the decisions, after them; an Event that cannot be is logged only, as no state depends on it. What
a run records does not grow with the fleet: of at most ``MOST_DECISIONS`` PlacementDecisions; ``evidence`` has all that
changed. What repeats within ``SERIES`` is counted on one Event.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from ocmconsole.core.event_documents import event_document, object_reference
from ocmconsole.core.kinds import EVENT
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema import times
from placements.kinds import PLACEMENT, PLACEMENT_DECISION
from placements.scheduler import brake, prioritizers
from placements.scheduler.prioritizers import RESOURCES

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.verbs import Batch
    from ocmconsole.kubeapi.writes.amendments import Alike
    from placements.scheduler.fleet import Cluster
    from placements.scheduler.pipeline import PlacementResult

log = logging.getLogger(__name__)

REPORTER = "placement-controller"
MOST_DECISIONS = 5  # of each reason in one run: they name 500 clusters
MOST_NOTE = 1_000  # characters of scores, as upstream
SHORTEST_SCORE = 5  # characters that one takes at least: ``a:0 `` and more
MORE = "......"
SERIES = timedelta(minutes=6)  # as upstream's recorder: equal Events within it are one


@dataclass(frozen=True)
class DecisionChanges:
    """What one run has done to PlacementDecisions, by their names in order. ``deleted``: with their uids.

    ``had`` and ``has``: clusters that they named before and name now, each as often as it stands there.
    """

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    deleted: tuple[tuple[str, str], ...] = ()
    had: tuple[str, ...] = ()
    has: tuple[str, ...] = ()


def record(
    batch: Batch, placement: Doc, changes: DecisionChanges, scores: str, now: datetime, alike: Alike | None = None
) -> None:
    """P32, P33: Events regarding the Placement, related to each PlacementDecision. ``scores``: see ``score_note``.

    ``alike``: those of other Placements at the same moment.
    """
    for reason, name, uid, note in _wanted(batch, placement, changes, scores):
        try:
            _write(batch, placement, reason, (name, uid), note, now, alike)
        except errors.ApiError as error:
            log.warning("no event about placement %s: %s", placement["metadata"]["name"], error.message)


def _wanted(batch: Batch, placement: Doc, changes: DecisionChanges, scores: str) -> Iterator[tuple[str, str, str, str]]:
    """Reason, name and uid of a PlacementDecision, and note."""
    metadata = placement["metadata"]

    def uid_of(name: str) -> str:
        decision = batch.find(PLACEMENT_DECISION, Key(metadata["namespace"], name))
        return str(decision["metadata"]["uid"]) if decision is not None else ""

    for reason, decisions in (
        ("Create", [(name, uid_of(name)) for name in changes.created[:MOST_DECISIONS]]),
        ("Update", [(name, uid_of(name)) for name in changes.updated[:MOST_DECISIONS]]),
        ("Delete", changes.deleted[:MOST_DECISIONS]),
    ):
        done = f"is {reason.lower()}d with placement {metadata['name']} in namespace {metadata['namespace']}"
        for name, uid in decisions:
            yield f"Decision{reason}", name, uid, f"Decision {name} {done}"
            if reason == "Update" and scores:
                yield "ScoreUpdate", name, uid, scores


def record_hold(placement: Doc, before: int, result: PlacementResult, actor: Actor, now: datetime) -> None:
    """D27: that evictions begin to wait, and that none waits any more. The number is one, whatever the fleet is."""
    count = len(result.held)
    if bool(before) == bool(count):
        return
    if count:
        until = brake.last_end(each.until for each in result.held.values())
        reason, type_ = "EvictionsHeld", "Warning"
        wait = f"until {until:%H:%M:%S} UTC" if until is not None else "until a person releases them"
        note = f"{count} clusters fell silent with most others at once and stay chosen {wait}"
    else:
        reason, type_, note = "EvictionsNoLongerHeld", "Normal", "No cluster is kept by the brake on evictions any more"
    metadata = placement["metadata"]
    digest = hashlib.sha256(f"{metadata['uid']} {reason} {now}".encode()).hexdigest()[:16]
    event = event_document(
        f"{metadata['name']}.{digest}",
        object_reference(PLACEMENT, metadata["name"], metadata["namespace"], metadata["uid"]),
        type_=type_,
        reason=reason,
        action=reason,
        message=note,
        reporter=REPORTER,
        now=now,
    )
    try:
        verbs.create(actor, EVENT, event, namespace=metadata["namespace"])
    except errors.ApiError as error:
        log.warning("no event about placement %s: %s", metadata["name"], error.message)


def score_note(result: PlacementResult, decided: Mapping[str, int]) -> str:
    """P33: ``c1:0 c2:100 `` for the clusters that passed the filters, by name.

    ``decided``: in how many PlacementDecisions a cluster stands (P15), before this run's are written.
    """
    shown = result.feasible[: MOST_NOTE // SHORTEST_SCORE]
    totals = result.totals if result.plan.needs_scores else _totals(result, shown, decided)
    note = ""
    for each in shown:
        part = f"{each.name}:{totals[each.name]} "
        if len(note) + len(part) > MOST_NOTE:
            return note + MORE
        note += part
    return note if len(shown) == len(result.feasible) else note + MORE


def _totals(result: PlacementResult, shown: Sequence[Cluster], decided: Mapping[str, int]) -> Mapping[str, int]:
    """Of these clusters, where nobody has scored any, as all are chosen."""
    totals = {each.name: 0 for each in shown}
    scoring = replace(result.scoring, fleet=replace(result.scoring.fleet, decided=decided))
    for prioritizer in result.plan.prioritizers:
        clusters = result.feasible if prioritizer.name in RESOURCES else shown
        scores = prioritizers.scores_of(prioritizer, clusters, scoring)
        for name in totals:
            totals[name] += prioritizer.weight * scores.get(name, 0)
    return totals


def usual(placement: Doc, stored: Iterable[str], now: datetime) -> Iterator[Key]:
    """Those that a run often records if these PlacementDecisions are stored: ``record`` asks whether they are there."""
    updated = list(islice(stored, MOST_DECISIONS))
    for name in updated:
        yield _key(placement, "DecisionUpdate", name, now)
        yield _key(placement, "ScoreUpdate", name, now)
    if not updated:
        first = f"{placement['metadata']['name']}-decision-1"
        yield from (_key(placement, reason, first, now) for reason in ("DecisionCreate", "DecisionUpdate"))


def _key(placement: Doc, reason: str, decision: str, now: datetime) -> Key:
    metadata, turn = placement["metadata"], int(now.timestamp() // SERIES.total_seconds())
    digest = hashlib.sha256(f"{metadata['uid']} {reason} {decision} {turn}".encode()).hexdigest()[:16]
    return Key(metadata["namespace"], f"{metadata['name']}.{digest}")


def _write(
    batch: Batch,
    placement: Doc,
    reason: str,
    decision: tuple[str, str],
    note: str,
    now: datetime,
    alike: Alike | None,
) -> None:
    metadata, (name, uid) = placement["metadata"], decision
    key = _key(placement, reason, name, now)

    def repeat(doc: Doc) -> None:
        count = (doc.get("series") or {}).get("count", 1) + 1
        doc |= {"series": {"count": count, "lastObservedTime": times.micro_timestamp(now)}, "message": note}
        doc["lastTimestamp"] = times.timestamp(now)

    if batch.find(EVENT, key) is not None:
        batch.edit(EVENT, key, repeat)
        return
    event = event_document(
        key.name,
        object_reference(PLACEMENT, metadata["name"], key.namespace, metadata["uid"]),
        type_="Normal",
        reason=reason,
        action=f"{reason}d",
        message=note,
        reporter=REPORTER,
        now=now,
    )
    event["related"] = object_reference(PLACEMENT_DECISION, name, key.namespace, uid)
    batch.create(EVENT, event, namespace=key.namespace, alike=alike)
