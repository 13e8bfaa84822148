"""Selectors of sets in plain words. Pure; used by pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.kinds import CLUSTERSET_LABEL
from clustersets.kinds import DEFAULT_SET, GLOBAL_SET
from ocmconsole.kubeapi.storage.selectors import Operator, Requirement

if TYPE_CHECKING:
    from clustersets.membership import Membership

IMPLIED = {
    DEFAULT_SET: "Every cluster whose label names no set is put here by the hub.",
    GLOBAL_SET: "Every cluster of the hub is in this set, whatever other set it is in.",
}
SHORT = {True: "Exclusive label", False: "Label selector"}


def kind(membership: Membership) -> str:
    """How a set chooses, in two words."""
    return SHORT[membership.is_exclusive]


def membership_sentence(membership: Membership) -> str:
    """Who is in the set."""
    if membership.problem:
        return f"Nobody: {membership.problem}."
    if membership.is_exclusive:
        return "Clusters whose label names this set. A cluster is in one such set at a time."
    if membership.selector.is_empty:
        return "Every cluster."
    return f"Clusters where {' and '.join(membership_requirements(membership))}."


def membership_requirements(membership: Membership) -> list[str]:
    """Each requirement; all must hold."""
    if membership.is_exclusive:
        return [f"{CLUSTERSET_LABEL} is {membership.name}"]
    return [_condition(each) for each in membership.selector.requirements]


def _condition(requirement: Requirement) -> str:
    values = " or ".join(value or "empty" for value in requirement.values)
    match requirement.operator:
        case Operator.EXISTS:
            return f"{requirement.key} is set"
        case Operator.NOT_EXISTS:
            return f"{requirement.key} is not set"
        case Operator.NOT_IN | Operator.NOT_EQUALS:
            return f"{requirement.key} is not {values}"
        case _:
            return f"{requirement.key} is {values}"
