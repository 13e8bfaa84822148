"""The scheduler's steps as a funnel, and what became of each cluster; reasons are those of ``reasons``. Pure.

Reads a ``PlacementResult`` of ``pipeline.schedule`` and nothing else, so that it cannot say something else than what
is done. Called by pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from clusters.health.status import clock_time
from clusters.kinds import CLUSTERSET_LABEL
from ocmconsole.components.labelled_enum import LabelledEnum
from placements.explaining import reasons
from placements.explaining.reasons import Why
from placements.scheduler import tolerations
from placements.scheduler.brake import Hold
from placements.scheduler.fleet import Cluster, Taint
from placements.scheduler.pipeline import PlacementResult


class Step(LabelledEnum):
    """In the order of the scheduler; a cluster is counted at the first that it does not pass."""

    ALL = "all", "All clusters"
    BOUND = "bound", "Visible through bindings"
    SETS = "sets", "In the chosen sets"
    STAYING = "staying", "Not being removed"
    PREDICATES = "predicates", "Predicates"
    TAINTS = "taints", "Taints and tolerations"
    SCORED = "scored", "Scored"
    CHOSEN = "chosen", "Chosen"


@dataclass(frozen=True, slots=True)
class Stage:
    """``fallen``: clusters that entered this step and did not pass it, in the order of names."""

    step: Step
    entered: int
    left: int
    fallen: Sequence[Cluster]

    @property
    def number(self) -> int:
        return list(Step).index(self.step) + 1

    @property
    def out(self) -> int:
        return self.entered - self.left


class PlacementExplanation:
    """``everyone``: all clusters of the hub, in the order of names. ``namespace``: that of the Placement."""

    def __init__(self, result: PlacementResult, everyone: Sequence[Cluster], namespace: str) -> None:
        self.result = result
        self.everyone = everyone
        self.namespace = namespace

    # ------------------------------------------------------------------------------------------ the funnel

    @cached_property
    def stages(self) -> list[Stage]:
        found, left = [], self.everyone
        for step in Step:
            passed = self._passing[step]
            through = [each for each in left if each.name in passed]
            fallen = [each for each in left if each.name not in passed]
            found.append(Stage(step, len(left), len(through), fallen))
            left = through
        return found

    @cached_property
    def _passing(self) -> Mapping[Step, frozenset[str]]:
        result = self.result
        feasible = _names(result.feasible)
        return {
            Step.ALL: _names(self.everyone),
            Step.BOUND: self._members(result.bound),
            Step.SETS: self._members(result.eligible),
            Step.STAYING: _names(result.available),
            Step.PREDICATES: _names(result.matching),
            Step.TAINTS: feasible,
            Step.SCORED: feasible,
            Step.CHOSEN: _names(result.chosen),
        }

    def _members(self, sets: Sequence[str]) -> frozenset[str]:
        members = self.result.scoring.fleet.members
        return frozenset(each.name for name in sets for each in members.get(name, ()))

    @cached_property
    def _bound_sets(self) -> Mapping[str, list[str]]:
        """By cluster the bound sets that it is in."""
        found: dict[str, list[str]] = {}
        for name in self.result.bound:
            for each in self.result.scoring.fleet.members.get(name, ()):
                found.setdefault(each.name, []).append(name)
        return found

    @cached_property
    def outcomes(self) -> Mapping[str, Step]:
        """By cluster, the step that it does not pass; ``CHOSEN`` for those that are chosen or fall out last."""
        found = dict.fromkeys((each.name for each in self.result.chosen), Step.CHOSEN)
        found.update({each.name: stage.step for stage in self.stages for each in stage.fallen})
        return found

    def is_chosen(self, name: str) -> bool:
        return name in self._passing[Step.CHOSEN]

    @cached_property
    def ranks(self) -> Mapping[str, int]:
        """Of the feasible clusters, from 1 for the best."""
        return self.result.ranks

    def scored(self, name: str) -> str:
        """``300 = Balance 100 + 2 * Steady 100``, with a sign of multiplication; empty where nothing is scored."""
        if not self.result.plan.needs_scores or name not in self.result.totals:
            return ""
        parts = [f"{weighted(each.weight, each.name)} {scores.get(name, 0)}" for each, scores in self.result.scores]
        return f"{self.result.totals[name]}{' = ' if parts else ''}{' + '.join(parts)}"

    # ------------------------------------------------------------------------------------------ why not

    def why(self, cluster: Cluster) -> Why | None:
        """None for a cluster that is chosen."""
        step = self.outcomes[cluster.name]
        if step in {Step.BOUND, Step.SETS}:
            return self._not_bound(cluster) if step is Step.BOUND else self._not_in_sets(cluster)
        reason = self.result.reason(cluster)
        return reasons.why(reason) if reason is not None else None

    def why_unseen(self, cluster: Cluster) -> Why | None:
        """For a cluster that the user may not see: nothing that it has, only what of the Placement it fails."""
        step = self.outcomes[cluster.name]
        if step is Step.BOUND:
            return Why(f"in no set that is bound into {self.namespace}")
        if step is Step.SETS:
            return Why("in no set that the Placement names")
        reason = self.result.reason(cluster)
        return reasons.unseen(reason) if reason is not None else None

    def _not_bound(self, cluster: Cluster) -> Why:
        name = cluster.labels.get(CLUSTERSET_LABEL, "")
        if not name:
            return Why(f"in no set that is bound into {self.namespace}", "put it into a set that is bound")
        return Why(
            f"set {name} is not bound into {self.namespace}",
            f"bind {name} into {self.namespace}",
            trial=("binding", name),
        )

    def _not_in_sets(self, cluster: Cluster) -> Why:
        within = self._bound_sets[cluster.name]
        return Why(
            f"in {', '.join(within)}, which is not among the sets of the Placement",
            f"add {within[0]} to its sets",
            trial=("set", within[0]),
        )

    # ------------------------------------------------------------------------------------------ what lies ahead

    def ahead(self, cluster: Cluster) -> tuple[datetime, Taint] | None:
        """P13: when the first toleration of a chosen cluster ends, and of which taint; None: none does."""
        scoring = self.result.scoring
        found = [
            (verdict.until, taint)
            for taint in cluster.taints
            if (
                verdict := tolerations.judge(
                    taint,
                    self.result.plan.tolerations,
                    is_decided=cluster.name in scoring.present,
                    now=scoring.now,
                )
            ).until
        ]
        return min(found, default=None)


def weighted(weight: int, name: str) -> str:
    """A prioritizer with its weight; without it where it is 1."""
    return name if weight == 1 else f"{weight} \N{MULTIPLICATION SIGN} {name}"


def _names(clusters: Sequence[Cluster]) -> frozenset[str]:
    return frozenset(each.name for each in clusters)


def leaves(end: datetime, taint: Taint, now: datetime) -> str:
    """What lies ahead of a chosen cluster."""
    return f"leaves at {clock_time(end, now)} UTC: taint {taint} is tolerated until then"


def is_held(held: Hold, now: datetime) -> str:
    """D27: of a chosen cluster whose eviction waits."""
    if held.until is None:
        return "held: would leave if somebody released it"
    return f"held: would leave at {clock_time(held.until, now)} UTC"
