"""A Placement's specification as the scheduler reads it: once, and checked (P14, P21, P29). Pure.

Nothing that fits the schema raises: what makes no sense, or takes longer than others can wait for, is a ``problem``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import orjson

from clusters.kinds import spec_of
from ocmconsole.kubeapi.errors import Doc
from placements.scheduler import prioritizers, spread
from placements.scheduler.groups import GroupStrategy
from placements.scheduler.predicates import Predicate
from placements.scheduler.prioritizers import Prioritizer
from placements.scheduler.tolerations import Toleration

BY_SCORE = "Score"
MOST_CLAUSES = 50  # predicates and their requirements that are looked at in one go: some 100 ms for 10,000 clusters
# Clusters times tolerations or prioritizers, and times clauses of decision groups, of one run: a second or two of CPU
# time in which others wait, and 100 MB of scores.
MOST_STEPS, MOST_GROUP_STEPS = 2_000_000, 10_000_000
NEGATIVE = "numberOfClusters must not be negative"  # K17: counts as 0 and is Misconfigured


@dataclass(frozen=True)
class PlacementSpec:
    """A Placement's spec, read once. ``problem``: why it is misconfigured, in upstream's words; empty if it is not.

    ``question``: digest of predicates that take so long that each cluster keeps their answer: those with expressions,
    and with more than ``MOST_CLAUSES``; else empty.
    """

    sets: tuple[str, ...]
    number: int | None
    predicates: tuple[Predicate, ...] = ()
    question: str = ""
    tolerations: tuple[Toleration, ...] = ()
    prioritizers: tuple[Prioritizer, ...] = ()
    constraints: tuple[spread.Constraint, ...] = ()
    groups: GroupStrategy = field(default_factory=GroupStrategy)
    sorts_by_score: bool = False
    problem: str = ""

    @classmethod
    def of(cls, placement: Doc) -> PlacementSpec:
        """Never raises for a document that fits its schema: what makes no sense is ``problem`` (P29, D14)."""
        spec = spec_of(placement)
        parts: dict[str, Any] = {
            "sets": tuple(map(str, spec.get("clusterSets") or ())),
            "number": spec.get("numberOfClusters"),
            "constraints": tuple(spread.constraints_of(spec)),
            "sorts_by_score": spec.get("sortBy") == BY_SCORE,
        }
        problem = ""
        for plugin, read in _PARTS.items():
            try:
                parts |= read(spec)
            except ValueError as error:
                problem = problem or f"{plugin}:{error}"
        return cls(**parts, problem=problem)

    @property
    def needs_scores(self) -> bool:
        return self.number is not None or self.sorts_by_score

    def bounded(self, clusters: int) -> PlacementSpec:
        """D12: for so many clusters, without what takes longer than others can wait for; that is a problem then."""
        given, scored, groups = len(self.tolerations), len(self.prioritizers), self.groups.clauses
        kept, problems = self, []
        if given * clusters > MOST_STEPS:
            kept = replace(kept, tolerations=())
            problems.append(f"TaintToleration:too many tolerations: {given:,} for {clusters:,} clusters")
        if scored * clusters > MOST_STEPS:
            kept = replace(kept, prioritizers=())
            problems.append(f":prioritizerPolicy has too many entries: {scored:,} for {clusters:,} clusters")
        if groups * clusters > MOST_GROUP_STEPS:
            kept = replace(kept, groups=GroupStrategy())
            problems.append(f":decisionGroups have too many conditions: {groups:,} for {clusters:,} clusters")
        return replace(kept, problem=self.problem or problems[0]) if problems else self


def _predicates(spec: Doc) -> dict[str, Any]:
    selectors = [each.get("requiredClusterSelector") or {} for each in spec.get("predicates") or ()]
    predicates = tuple(map(Predicate.of, selectors))
    is_long = sum(each.clauses for each in predicates) > MOST_CLAUSES or any(each.expressions for each in predicates)
    # One text in memory for the answers of all clusters.
    question = sys.intern(sha256(orjson.dumps(selectors)).hexdigest()) if is_long else ""
    return {"predicates": predicates, "question": question}


def _tolerations(spec: Doc) -> dict[str, Any]:
    return {"tolerations": tuple(map(Toleration.checked, spec.get("tolerations") or ()))}


def _rest(spec: Doc) -> dict[str, Any]:
    if (spec.get("numberOfClusters") or 0) < 0:
        raise ValueError(NEGATIVE)
    return {"prioritizers": tuple(prioritizers.prioritizers_of(spec)), "groups": GroupStrategy.of(spec)}


# By the name that upstream puts before the text, in the order in which it looks.
_PARTS = {"Predicate": _predicates, "TaintToleration": _tolerations, "": _rest}
