"""Decision groups, and what each PlacementDecision names (P21-P23). Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ocmconsole.kubeapi.errors import Doc
from placements.scheduler.fleet import Cluster
from placements.scheduler.predicates import Predicate

MOST_OF_A_DECISION = 100  # clusters that one PlacementDecision names
EVERY_CLUSTER = Predicate()
PERCENTAGE = re.compile(r"([0-9]+)%", re.ASCII)


@dataclass(frozen=True, slots=True)
class DecisionGroup:
    """``decisions``: the clusters of each of its PlacementDecisions, which are numbered on across all groups."""

    name: str
    index: int
    decisions: tuple[tuple[str, ...], ...]

    @property
    def count(self) -> int:
        return sum(map(len, self.decisions))


@dataclass(frozen=True, slots=True)
class GroupStrategy:
    """``size``: clusters of a group, or None for all; ``percentage`` of the chosen ones instead of it."""

    wanted: tuple[tuple[str, Predicate], ...] = ()
    size: int | None = None
    percentage: int | None = None

    @classmethod
    def of(cls, spec: Doc) -> GroupStrategy:
        """P21: a group length. Raises ValueError with upstream's words, as observed."""
        strategy = (spec.get("decisionStrategy") or {}).get("groupStrategy") or {}
        size, percentage = _size(strategy.get("clustersPerDecisionGroup"))
        wanted = tuple(
            (str(each["groupName"]), Predicate.of({**each["groupClusterSelector"], "celSelector": None}))
            for each in strategy.get("decisionGroups") or ()
        )
        return cls(wanted, size, percentage)

    @property
    def clauses(self) -> int:
        """How much there is to look at for each cluster."""
        return sum(selector.clauses for _, selector in self.wanted)

    def length(self, total: int) -> int:
        """P21: clusters a group: a number, a percentage of those chosen, or all of them."""
        size = self.size if self.percentage is None else math.ceil(self.percentage / 100 * total)
        return size if size is not None and 0 < size <= total else total

    def divide(self, chosen: Sequence[Cluster], scores: Mapping[str, int] | None) -> list[DecisionGroup]:
        """P22, P23: decision groups, at least one, in chunks; by name, or by ``scores``, highest first (sortBy)."""
        length = max(self.length(len(chosen)), 1)
        rest = list(chosen)
        groups: list[DecisionGroup] = []
        for name, selector in (*self.wanted, ("", EVERY_CLUSTER)):
            taken = selector.select(rest, _no_scores)
            if selector is not EVERY_CLUSTER:
                left_out = {each.name for each in taken}
                rest = [each for each in rest if each.name not in left_out]
            ordered = sorted(each.name for each in taken)
            if scores is not None:
                ordered.sort(key=lambda one: -scores[one])
            for start in range(0, len(ordered), length):
                groups.append(_group(name, len(groups), ordered[start : start + length]))
        return groups or [DecisionGroup("", 0, ((),))]


def _group(name: str, index: int, clusters: list[str]) -> DecisionGroup:
    chunks = range(0, len(clusters), MOST_OF_A_DECISION)
    return DecisionGroup(name, index, tuple(tuple(clusters[start : start + MOST_OF_A_DECISION]) for start in chunks))


def _size(wish: Any) -> tuple[int | None, int | None]:
    if wish is None or isinstance(wish, int):
        return wish, None
    found = PERCENTAGE.fullmatch(wish)
    if found is None:
        raise ValueError(f"{wish} invalid type: string is not a percentage")
    return None, int(found[1])


def _no_scores(_cluster: str) -> dict[str, Any]:
    return {}
