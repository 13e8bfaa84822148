"""The scores of clusters that passed the filters, and their weights (P14-P18). Pure.

A prioritizer returns an integer from -100 to 100 for each cluster by name; clusters that it says nothing about count 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import repeat

from ocmconsole.kubeapi.errors import Doc
from placements.scheduler.fleet import Cluster, ClusterList, Fleet

MOST = 100  # the highest score, as in OCM
ADDITIVE, EXACT = "Additive", "Exact"
BALANCE, STEADY = "Balance", "Steady"
RESOURCES = {"ResourceAllocatableCPU": "cpu", "ResourceAllocatableMemory": "memory"}


@dataclass(frozen=True, slots=True)
class Prioritizer:
    """``add_on``: AddOnPlacementScore and score name; else ``name`` is a built-in one's."""

    name: str
    weight: int
    add_on: tuple[str, str] | None = None


@dataclass(frozen=True)
class Scoring:
    """What prioritizers read. ``present``: the Placement's decisions for Steady and Balance."""

    fleet: Fleet
    present: Collection[str]
    steady: Collection[str]
    now: datetime


def prioritizers_of(spec: Doc) -> list[Prioritizer]:
    """Those with a weight. Raises ValueError with upstream's words (P14). The later of two entries for one counts."""
    policy = spec.get("prioritizerPolicy") or {}
    mode = policy.get("mode") or ADDITIVE
    if mode not in {ADDITIVE, EXACT}:
        raise ValueError(f"incorrect prioritizer policy mode: {mode}")
    found: dict[tuple[object, ...], Prioritizer] = {}
    if mode == ADDITIVE:
        found = {(BALANCE,): Prioritizer(BALANCE, 1), (STEADY,): Prioritizer(STEADY, 1)}
    for index, configuration in enumerate(policy.get("configurations") or ()):
        coordinate = configuration.get("scoreCoordinate")
        if coordinate is None:
            raise ValueError("scoreCoordinate field is required")
        weight = int(configuration.get("weight", 1))
        if (coordinate.get("type") or "BuiltIn") == "BuiltIn":
            name = str(coordinate.get("builtIn") or "")
            found[name,] = Prioritizer(name, weight)
        else:
            # Each entry for an add-on's score counts, also two for the same one (observed).
            found["AddOn", index] = _of_add_on(coordinate.get("addOn"), weight)
    chosen = [each for each in found.values() if each.weight]
    for each in chosen:
        if each.add_on is None and each.name not in {BALANCE, STEADY, *RESOURCES}:
            raise ValueError(f"incorrect builtin prioritizer: {each.name}")
    return chosen


def _of_add_on(source: Doc | None, weight: int) -> Prioritizer:
    if source is None:
        if not weight:
            return Prioritizer("", 0)
        raise ValueError("addOn should not be empty")
    resource, score = str(source["resourceName"]), str(source["scoreName"])
    return Prioritizer(f"AddOn/{resource}/{score}", weight, (resource, score))


def scores_of(prioritizer: Prioritizer, clusters: Sequence[Cluster], scoring: Scoring) -> Mapping[str, int]:
    """By name, in the order of the clusters, which is that of their names."""
    listed = clusters if isinstance(clusters, ClusterList) else ClusterList(clusters)
    return by_name(listed, column_of(prioritizer, listed, scoring))


def by_name(clusters: ClusterList, column: Sequence[int | None]) -> Mapping[str, int]:
    return {name: score for name, score in zip(clusters.names, column, strict=True) if score is not None}


def column_of(prioritizer: Prioritizer, clusters: ClusterList, scoring: Scoring) -> Sequence[int | None]:
    """The score of each cluster in turn; None where it gets none."""
    if prioritizer.add_on is not None:
        return _add_on(clusters, scoring, *prioritizer.add_on)
    if resource := RESOURCES.get(prioritizer.name):
        return _allocatable(clusters.allocatable(resource))
    return _BUILT_IN[prioritizer.name](clusters, scoring)


def _balance(clusters: ClusterList, scoring: Scoring) -> Sequence[int]:
    """P15: from 100 for a cluster that no other Placement has to -100 for the busiest of the hub."""
    counts = scoring.fleet.decided
    own = {name: counts[name] - 1 for name in scoring.present if name in counts}
    most = max(counts.values(), default=0)
    busiest = sum(count == most - 1 for count in own.values())
    if busiest and busiest == list(counts.values()).count(most):  # no other one has as many
        most -= 1
    if most <= 0:
        return [MOST] * len(clusters)
    found = list(map(counts.get, clusters.names, repeat(0)))
    for name, count in own.items():
        if (place := clusters.place(name)) is not None:
            found[place] = count
    by_count = {count: 2 * int(MOST * (0.5 - count / most)) for count in {*found}}
    return list(map(by_count.__getitem__, found))


def _steady(clusters: ClusterList, scoring: Scoring) -> Sequence[int]:
    """P16: 100 for a cluster that the Placement has already, else 0."""
    found = [0] * len(clusters)
    for name in scoring.steady:
        if (place := clusters.place(name)) is not None:
            found[place] = MOST
    return found


_BUILT_IN: dict[str, Callable[[ClusterList, Scoring], Sequence[int]]] = {
    BALANCE: _balance,
    STEADY: _steady,
}


def _allocatable(amounts: Sequence[float | None]) -> Sequence[int | None]:
    """P17: from -100 for the least allocatable to 100 for the most; none for clusters that do not report it."""
    known = {amount for amount in amounts if amount is not None}
    least, most = min(known, default=0.0), max(known, default=0.0)
    scores: dict[float | None, int | None] = {None: None}
    for amount in known:
        scores[amount] = MOST if most == least else int(((amount - least) / (most - least) - 0.5) * 2 * MOST)
    return list(map(scores.__getitem__, amounts))


def _add_on(clusters: ClusterList, scoring: Scoring, resource: str, score: str) -> Sequence[int]:
    """P18: the value of the add-on score; 0 where it is missing or no longer valid."""
    scores, now = scoring.fleet.scores, scoring.now
    found = []
    for name in clusters.names:
        source = scores.get((name, resource))
        found.append(0 if source is None or source.is_expired(now) else source.values.get(score, 0))
    return found


def next_expiry(
    prioritizers: Sequence[Prioritizer], clusters: Sequence[Cluster], fleet: Fleet, now: datetime
) -> datetime | None:
    """When the first of the scores that count now ceases to be valid (K18)."""
    resources = {each.add_on[0] for each in prioritizers if each.add_on}
    if not resources:
        return None
    sources = (fleet.scores.get((cluster.name, resource)) for resource in resources for cluster in clusters)
    ends = (each.valid_until for each in sources if each is not None and each.valid_until and not each.is_expired(now))
    return min(ends, default=None)
