"""``schedule``: a Placement, a fleet and the time in; who is chosen, who is not and why, and what to write out. Pure.

The same function serves the scheduler, explanations, previews and the playground, so that none of them can say
something else than what is done. The order of the steps is upstream's (P3 to P29): sets, predicates, taints,
scores, number, groups.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from operator import add, attrgetter, neg

from ocmconsole.kubeapi.errors import Doc
from placements.scheduler import prioritizers, spread, tolerations
from placements.scheduler.brake import Hold
from placements.scheduler.expressions import ScoresOf
from placements.scheduler.fleet import AddOnScore, Cluster, ClusterList, Fleet, named
from placements.scheduler.groups import DecisionGroup
from placements.scheduler.predicates import Predicate, Unmet
from placements.scheduler.prioritizers import Prioritizer, Scoring
from placements.scheduler.selections import Selections
from placements.scheduler.specification import PlacementSpec
from placements.scheduler.tolerations import TaintFilter, TolerationResult

LONGEST_MESSAGE = 32_768  # characters of a condition, as its schema says
CUT = "......"  # upstream's mark where it cuts the text of an Event
FEW = 8  # a part of the clusters: for fewer it is quicker to look for the best than to sort all
NEVER: Callable[[], bool] = lambda: False  # noqa: E731 - a value
_selections = Selections()
# Around a step: its type (``filter``, ``prioritizer``, ``cel``) and name; for those who take the time.
Observe = Callable[[str, str], AbstractContextManager[None]]
UNOBSERVED: Observe = lambda _type, _name: nullcontext()  # noqa: E731 - a value

SATISFIED, NO_BINDINGS, NO_INTERSECTION = "AllDecisionsScheduled", "NoManagedClusterSetBindings", "NoIntersection"
ALL_EMPTY, NONE_MATCHED = "AllManagedClusterSetsEmpty", "NoManagedClusterMatched"
UNSCHEDULED = "NotAllDecisionsScheduled"


class Unfinished(Exception):
    """The time for expressions is up. Clusters remember their answers, so that another call gets further."""


@dataclass(frozen=True, slots=True)
class PlacementCondition:
    type: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a cluster is not chosen: the step that it did not pass, and what that step found."""

    step: str
    unmet: tuple[tuple[Unmet, ...], ...] = ()
    taints: tuple[TolerationResult, ...] = ()
    rank: int = 0
    score: int = 0
    needed: int = 0


@dataclass(frozen=True)
class PlacementResult:
    """``available``, ``matching``, ``feasible``: clusters left after sets, predicates and taints, in order of names.

    ``chosen``: best first. Scores are computed when they are asked for; ``look_again`` is the moment at which the
    answer may change although nothing is written, or None. ``holds``: feasible clusters by name that a taint would keep
    away if their eviction did not wait (D27).
    """

    plan: PlacementSpec
    scoring: Scoring = field(repr=False)
    bound: tuple[str, ...]
    eligible: tuple[str, ...]
    available: Sequence[Cluster] = ()
    matching: Sequence[Cluster] = ()
    feasible: Sequence[Cluster] = ()
    holds: Mapping[str, Hold] = field(default_factory=dict)
    observe: Observe = field(default=UNOBSERVED, repr=False, compare=False)

    # -------------------------------------------------------------------------------------------- scores

    @cached_property
    def scores(self) -> list[tuple[Prioritizer, Mapping[str, int]]]:
        """What each prioritizer gives the feasible clusters, by name."""
        return [(each, prioritizers.by_name(self._listed, column)) for each, column in self._columns]

    @cached_property
    def _listed(self) -> ClusterList:
        return self.feasible if isinstance(self.feasible, ClusterList) else ClusterList(self.feasible)

    @cached_property
    def _columns(self) -> list[tuple[Prioritizer, Sequence[int | None]]]:
        """What each prioritizer gives the feasible clusters, in their order."""
        return [(each, self._scored(each)) for each in self.plan.prioritizers]

    def _scored(self, prioritizer: Prioritizer) -> Sequence[int | None]:
        name = prioritizer.name if prioritizer.add_on is None else "AddOn"  # not by names that users choose
        with self.observe("prioritizer", name):
            return prioritizers.column_of(prioritizer, self._listed, self.scoring)

    @cached_property
    def totals(self) -> Mapping[str, int]:
        """P19: the total of each feasible cluster: the sum of weight times score."""
        return dict(zip(self._listed.names, self._sums, strict=True))

    @cached_property
    def _sums(self) -> Sequence[int]:
        """``totals`` in the order of the clusters."""
        sums = [0] * len(self._listed)
        for prioritizer, column in self._columns:
            weight = prioritizer.weight
            weighted = column if weight == 1 and None not in column else [weight * (score or 0) for score in column]
            sums = list(map(add, sums, weighted))
        return sums

    @cached_property
    def _unwanted(self) -> frozenset[str]:
        """D7: names of clusters with a PreferNoSelect taint that is not tolerated: chosen last."""
        taints = TaintFilter(self.plan.tolerations, self.scoring.now)
        return frozenset(each.name for each in self.feasible if each.taints and taints.is_unwanted(each))

    def _best(self, most: int | None = None) -> Sequence[Cluster]:
        """P19, D7: so many feasible clusters, or all: wanted ones first, then by total, then by name.

        They are in the order of names already, and both ways to sort keep it among equals.
        """
        feasible, places = self.feasible, list(map(neg, self._sums))
        if self._unwanted:
            behind = max(places) - min(places) + 1
            places = [
                place + behind * (each.name in self._unwanted) for place, each in zip(places, feasible, strict=True)
            ]
        numbers, place = range(len(feasible)), places.__getitem__
        if most is not None and most < len(feasible) // FEW:
            return [feasible[each] for each in heapq.nsmallest(most, numbers, key=place)]
        return [feasible[each] for each in sorted(numbers, key=place)[:most]]

    # -------------------------------------------------------------------------------------------- who is chosen

    @cached_property
    def chosen(self) -> Sequence[Cluster]:
        """P19: highest totals first, then by name; D7: PreferNoSelect last. The spread policy applies, if any."""
        if self.plan.problem:
            return ()
        if self.plan.constraints:
            wanted = len(self.feasible) if self.plan.number is None else self.plan.number
            return spread.choose_spread(self._best(), self.plan.constraints, wanted)
        if self.plan.number is None:
            return self.feasible
        return self._best(max(self.plan.number, 0))

    @cached_property
    def held(self) -> Mapping[str, Hold]:
        """D27: chosen clusters whose eviction waits, by name."""
        return {each.name: self.holds[each.name] for each in self.chosen if each.name in self.holds}

    @cached_property
    def groups(self) -> list[DecisionGroup]:
        return self.plan.groups.divide(self.chosen, self.totals if self.plan.sorts_by_score else None)

    @cached_property
    def look_again(self) -> datetime | None:
        """When to schedule again: at the end of a toleration (P13), hold (D27) or add-on score that counts (K18)."""
        given, now, present = self.plan.tolerations, self.scoring.now, self.scoring.present
        ends = [
            tolerations.next_end(each, given, is_decided=each.name in present, now=now)
            for each in self.chosen
            if each.taints
        ]
        ends += [each.until for each in self.held.values()]
        if self.plan.needs_scores:
            ends.append(prioritizers.next_expiry(self.plan.prioritizers, self.feasible, self.scoring.fleet, now))
        return min((end for end in ends if end is not None), default=None)

    # -------------------------------------------------------------------------------------------- conditions

    @property
    def conditions(self) -> tuple[PlacementCondition, PlacementCondition]:
        """P28-P30: always both."""
        reason, message = self._satisfied()
        status = "True" if reason == SATISFIED else "False"
        problem = self.plan.problem
        return (
            PlacementCondition("PlacementSatisfied", status, reason, _cut(message)),
            PlacementCondition("PlacementMisconfigured", "True", "Misconfigured", _cut(problem))
            if problem
            else PlacementCondition(
                "PlacementMisconfigured", "False", "Succeedconfigured", "Placement configurations check pass"
            ),
        )

    def _satisfied(self) -> tuple[str, str]:
        if not self.bound:
            return NO_BINDINGS, "No valid ManagedClusterSetBindings found in placement namespace"
        if not self.eligible:
            named = ",".join(self.plan.sets)
            return NO_INTERSECTION, f"None of ManagedClusterSets [{named}] is bound to placement namespace"
        if not self.available:
            return ALL_EMPTY, f"All ManagedClusterSets [{','.join(self.eligible)}] have no member ManagedCluster"
        if not self.chosen:
            return NONE_MATCHED, "No ManagedCluster matches any of the cluster predicate"
        missing = (self.plan.number or 0) - len(self.chosen)
        if missing > 0:
            return UNSCHEDULED, f"{missing} cluster decisions unscheduled"
        return SATISFIED, "All cluster decisions scheduled"

    # -------------------------------------------------------------------------------------------- why not

    @cached_property
    def _chosen_names(self) -> frozenset[str]:
        return frozenset(map(attrgetter("name"), self.chosen))

    @cached_property
    def _scores_of(self) -> ScoresOf:
        return _scores_in(self.scoring.fleet, self.plan.predicates)

    @cached_property
    def ranks(self) -> Mapping[str, int]:
        """Of the feasible clusters by name, from 1 for the best."""
        return {each.name: rank for rank, each in enumerate(self._best(), start=1)}

    def step(self, cluster: Cluster) -> str | None:
        """K19: the step that the cluster did not pass, as in ``Reason``; None when it is chosen."""
        if cluster.name in self._chosen_names:
            return None
        if named(self.available, cluster.name) is None:
            return "being deleted" if cluster.is_being_deleted else "sets"
        if named(self.matching, cluster.name) is None:
            return "predicates"
        if named(self.feasible, cluster.name) is None:
            return "taints"
        if self.plan.problem:
            return "configuration"
        return "spread" if self.plan.constraints else "unwanted" if cluster.name in self._unwanted else "score"

    def reason(self, cluster: Cluster) -> Reason | None:
        """K19: why the cluster is not chosen; None when it is."""
        step = self.step(cluster)
        if step == "predicates":
            return Reason(step, tuple(tuple(each.unmet(cluster, self._scores_of)) for each in self.plan.predicates))
        if step == "taints":
            is_decided = cluster.name in self.scoring.present
            found = tolerations.keeps_away(cluster, self.plan.tolerations, is_decided=is_decided, now=self.scoring.now)
            return Reason(step, taints=tuple(found))
        if step in {"spread", "unwanted", "score"}:
            needed = self.totals[self.chosen[-1].name] if self.chosen else 0
            return Reason(step, rank=self.ranks[cluster.name], score=self.totals[cluster.name], needed=needed)
        return Reason(step) if step is not None else None


def schedule(
    placement: Doc | PlacementSpec,
    fleet: Fleet,
    *,
    bound: Collection[str],
    present: Collection[str] = (),
    steady: Collection[str] | None = None,
    now: datetime,
    is_time_up: Callable[[], bool] = NEVER,
    observe: Observe = UNOBSERVED,
) -> PlacementResult:
    """``bound``: sets that exist and are bound in the Placement's namespace (P3). ``present``: its decisions.

    ``steady``: the decisions that Steady looks at, where they are others: with a negative weight the decision would
    flip for ever, so that the scheduler keeps those that stood when the weight was last changed (P16).

    Raises Unfinished when ``is_time_up`` says so before an evaluation of expressions.
    """
    plan = placement if isinstance(placement, PlacementSpec) else PlacementSpec.of(placement)
    present = frozenset(present)
    scoring = Scoring(fleet, present, present if steady is None else frozenset(steady), now)
    names = tuple(sorted(bound))
    eligible = tuple(name for name in names if not plan.sets or name in plan.sets)
    available = _available(fleet, eligible)
    with observe("filter", "Predicate"):
        matching = _matching(plan, fleet, eligible, available, is_time_up, observe)
    plan = plan.bounded(len(matching))
    with observe("filter", "TaintToleration"):
        feasible, holds = _feasible(plan, fleet, eligible, matching, present, now)
    if plan.constraints and not plan.problem:
        wanted = len(feasible) if plan.number is None else plan.number
        plan = replace(plan, problem=spread.problem(feasible, plan.constraints, wanted))
    return PlacementResult(plan, scoring, names, eligible, available, matching, feasible, holds, observe)


def _cut(message: str) -> str:
    """P29: what a selector, an expression or the names of sets fill may be longer than a condition."""
    return message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - len(CUT)]}{CUT}"


def _available(fleet: Fleet, sets: Sequence[str]) -> Sequence[Cluster]:
    """P5: available clusters: members of any of the sets, each once, without those that are being deleted."""
    if len(sets) != 1:
        union = {cluster.name: cluster for name in sets for cluster in fleet.members.get(name, ())}
        return _staying([union[name] for name in sorted(union)])
    return _selections.passing(sets[0], fleet.members.get(sets[0], ()), _staying)


def _staying(clusters: Sequence[Cluster]) -> Sequence[Cluster]:
    return [cluster for cluster in clusters if not cluster.is_being_deleted]


def _matching(
    plan: PlacementSpec,
    fleet: Fleet,
    sets: Sequence[str],
    clusters: Sequence[Cluster],
    is_time_up: Callable[[], bool],
    observe: Observe,
) -> Sequence[Cluster]:
    """P6: clusters that match any predicate; all when there is none."""
    if not plan.predicates:
        return clusters
    scores = _scores_in(fleet, plan.predicates)
    if plan.question:
        has_expressions = any(each.expressions for each in plan.predicates)
        with observe("cel", "Predicate") if has_expressions else nullcontext():
            return _matching_in_turns(plan, clusters, scores, is_time_up)
    return _selections.passing((sets, plan.predicates), clusters, partial(_fulfilling, plan.predicates, scores))


def _feasible(
    plan: PlacementSpec,
    fleet: Fleet,
    sets: Sequence[str],
    clusters: Sequence[Cluster],
    present: Collection[str],
    now: datetime,
) -> tuple[Sequence[Cluster], Mapping[str, Hold]]:
    """P8, P9, D27. Whom taints keep away follows from a cluster alone, but for those that are chosen, and for time."""
    given = plan.tolerations
    if plan.question or any(each.seconds is not None for each in given):
        return tolerations.feasible(clusters, given, present, fleet.brakes, now)
    question = "taints", sets, plan.predicates, given
    new = _selections.passing(question, clusters, partial(tolerations.tolerated, given, now))
    return tolerations.with_decided(new, clusters, given, present, fleet.brakes, now)


def _fulfilling(predicates: Sequence[Predicate], scores: ScoresOf, clusters: Sequence[Cluster]) -> Sequence[Cluster]:
    """Those that match any of the predicates."""
    if len(predicates) == 1:
        return predicates[0].select(clusters, scores)
    matching: set[str] = set()
    rest = clusters
    for predicate in dict.fromkeys(predicates):
        matching.update(map(attrgetter("name"), predicate.select(rest, scores)))
        rest = [cluster for cluster in clusters if cluster.name not in matching]
    return [cluster for cluster in clusters if cluster.name in matching]


def _matching_in_turns(
    plan: PlacementSpec, clusters: Sequence[Cluster], scores: ScoresOf, is_time_up: Callable[[], bool]
) -> Sequence[Cluster]:
    """P7: an evaluation takes a tenth of a millisecond at best, so that each is done once for each document.

    D12: where time is up, others have their turn before it goes on.
    """
    reads_scores = any(expression.reads_scores for each in plan.predicates for expression in each.expressions)

    def evaluated(cluster: Cluster) -> bool:
        if is_time_up():
            raise Unfinished
        return any(each.matches(cluster, scores) for each in plan.predicates)

    return [
        cluster
        for cluster in clusters
        if cluster.answer(plan.question, scores(cluster.name) if reads_scores else None, partial(evaluated, cluster))
    ]


def _scores_in(fleet: Fleet, predicates: Sequence[Predicate]) -> ScoresOf:
    """By cluster name its AddOnPlacementScores; only expressions read them."""
    by_cluster: dict[str, dict[str, AddOnScore]] = {}
    if any(each.expressions for each in predicates):
        for (cluster, name), score in fleet.scores.items():
            by_cluster.setdefault(cluster, {})[name] = score
    return lambda cluster: by_cluster.get(cluster, {})
