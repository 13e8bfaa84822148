"""The predicate step: clusters by labels, claims and CEL expressions (P6, P7). Pure.

Predicates are alternatives; within one all must hold. A selector or expression that cannot be read raises
``Misconfigured`` when the Placement is read, so that matching cannot fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.storage.selectors import EVERYTHING, LabelSelector, Operator, Requirement
from placements.scheduler.expressions import Expression, ScoresOf
from placements.scheduler.fleet import Cluster


@dataclass(frozen=True, slots=True)
class Unmet:
    """A condition that a cluster does not fulfil. ``value``: what it has, None for nothing (or an expression).

    ``requirement``: of a label or claim, what the condition says; None for an expression.
    """

    part: str
    condition: str
    value: str | None = None
    requirement: Requirement | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Predicate:
    labels: LabelSelector = EVERYTHING
    claims: LabelSelector = EVERYTHING
    expressions: tuple[Expression, ...] = ()

    @classmethod
    def of(cls, selector: Doc) -> Predicate:
        """A ClusterSelector. Raises ValueError with upstream's words for what it cannot read (P29)."""
        expressions = (selector.get("celSelector") or {}).get("celExpressions") or ()
        return cls(
            LabelSelector.from_wire(selector.get("labelSelector") or {}),
            LabelSelector.from_wire(selector.get("claimSelector") or {}),
            tuple(Expression.compiled(text) for text in expressions),
        )

    @property
    def clauses(self) -> int:
        """How much there is to look at for each cluster, without expressions: at least one."""
        return max(len(self.labels.requirements) + len(self.claims.requirements), 1)

    def matches(self, cluster: Cluster, scores: ScoresOf) -> bool:
        """P6: labels, claims and expressions must all match."""
        return (
            (self.labels.is_empty or self.labels.matches(cluster.labels))
            and (self.claims.is_empty or self.claims.matches(cluster.claims))
            and all(expression.holds(cluster, scores) for expression in self.expressions)
        )

    def select(self, clusters: Sequence[Cluster], scores: ScoresOf) -> list[Cluster]:
        """P6: those that match, in their order: one requirement after the other, so that each loop is a short one."""
        found = clusters
        for part, selector in (("labels", self.labels), ("claims", self.claims)):
            for requirement in selector.requirements:
                found = _fulfilling(requirement, part, found)
        if self.expressions:
            return [each for each in found if all(expression.holds(each, scores) for expression in self.expressions)]
        return list(found)

    def unmet(self, cluster: Cluster, scores: ScoresOf) -> list[Unmet]:
        """P6: every condition that the cluster does not fulfil."""
        found = [
            Unmet(part, str(each), values.get(each.key), each)
            for part, selector, values in (
                ("label", self.labels, cluster.labels),
                ("claim", self.claims, cluster.claims),
            )
            for each in _failing(selector, values)
        ]
        failing = (each for each in self.expressions if not each.holds(cluster, scores))
        return found + [Unmet("expression", each.text, each.error(cluster, scores)) for each in failing]


def _fulfilling(requirement: Requirement, part: str, clusters: Sequence[Cluster]) -> list[Cluster]:
    """``part``: attribute of a cluster that holds what the requirement is about."""
    # Without a call for each of 10,000 clusters; there may be thousands of values.
    pairs = zip(clusters, map(attrgetter(part), clusters), strict=True)
    key, values = requirement.key, frozenset(requirement.values)
    match requirement.operator:
        case Operator.EQUALS | Operator.IN:
            return [each for each, present in pairs if present.get(key) in values]
        case Operator.NOT_EQUALS | Operator.NOT_IN:
            return [each for each, present in pairs if present.get(key) not in values]
        case Operator.EXISTS:
            return [each for each, present in pairs if key in present]
        case Operator.NOT_EXISTS:
            return [each for each, present in pairs if key not in present]
        case _:
            return [each for each, present in pairs if requirement.matches(present)]


def _failing(selector: LabelSelector, values: object) -> Sequence[Requirement]:
    return [each for each in selector.requirements if not each.matches(values)]  # type: ignore[arg-type]
