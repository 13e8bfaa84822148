"""Which clusters belong to a set: the single definition (T6), on labels and as a condition for the database. Pure.

A set that cannot be read has no members and disturbs no other one (K24); ``problem`` says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Q

from clusters.kinds import CLUSTERSET_LABEL, spec_of
from clustersets.wire import BY_LABELS, EXCLUSIVE
from ocmconsole.kubeapi.storage import selector_sql
from ocmconsole.kubeapi.storage.selectors import NOTHING, LabelSelector, Operator, Requirement

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

# A database refuses a condition that is too deep, and pages ask for several sets at once.
MOST_REQUIREMENTS = 50


@dataclass(frozen=True, slots=True)
class Membership:
    """``selector`` decides about a cluster's labels. An exclusive set is named by a label of its members."""

    name: str
    selector: LabelSelector
    problem: str = ""
    is_exclusive: bool = False

    @property
    def takes_everything(self) -> bool:
        return not self.problem and self.selector.is_empty

    def includes(self, present: Mapping[str, str]) -> bool:
        return not self.problem and self.selector.matches(present)

    def condition(self) -> Q:
        """The same for rows of clusters, which have the label of exclusive sets as a column with an index."""
        if self.is_exclusive:
            return Q(clusterset=self.name)
        return selector_sql.NOTHING if self.problem else selector_sql.selector_condition(self.selector)


def membership_of(set_: Doc) -> Membership:
    """Read a set's document."""
    name = str(set_["metadata"]["name"])
    selector = spec_of(set_).get("clusterSelector") or {}
    selector_type = selector.get("selectorType") or EXCLUSIVE
    if selector_type == EXCLUSIVE:
        naming = Requirement(CLUSTERSET_LABEL, Operator.IN, (name,))
        return Membership(name, LabelSelector((naming,)), is_exclusive=True)
    if selector_type != BY_LABELS:
        return Membership(name, NOTHING, f"selectorType is not right: {selector_type}")
    try:
        found = LabelSelector.from_wire(selector.get("labelSelector"))
    except ValueError as error:
        return Membership(name, NOTHING, f"failed to build ClusterSelector with clusterSet: {name}, {error}")
    if len(found.requirements) > MOST_REQUIREMENTS:
        text = f"the label selector has more than {MOST_REQUIREMENTS} requirements"
        return Membership(name, NOTHING, f"failed to build ClusterSelector with clusterSet: {name}, {text}")
    return Membership(name, found)


def sets_of(present: Mapping[str, str], sets: Iterable[Membership]) -> list[str]:
    """Names of the sets that a cluster with these labels belongs to."""
    return [each.name for each in sets if each.includes(present)]
