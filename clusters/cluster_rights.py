"""What somebody may do to a cluster, as pages ask before they offer it, with the words for why not. Reads only.

The act itself asks again, so a page may be wrong without harm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from django.contrib.auth.models import User

from clusters import queries
from clusters.grants import CLUSTERS
from clusters.kinds import MANAGED_CLUSTER, REGISTER
from clusters.models import ClusterPermission, ManagedCluster
from ocmconsole.components.links import explain_url
from ocmconsole.core.rbac import rule_index
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import Attributes

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor

RESOURCE = MANAGED_CLUSTER.resource
ADMINS = 5  # named as those whom to ask
ACCEPT_RESOURCE = f"{MANAGED_CLUSTER.plural}/accept.{REGISTER}"


@dataclass(frozen=True, slots=True)
class RightCheck:
    """``reason`` is why not, and empty when it is allowed."""

    allowed: bool
    reason: str = ""
    explain_url: str = ""


@dataclass(frozen=True)
class FleetVisibility:
    """How much of the fleet the actor may see (D16), for what pages say of counts and of nothing to show.

    Each answer is looked up when a page first uses it.
    """

    actor: Actor

    @cached_property
    def is_limited(self) -> bool:
        """Whether some cluster may exist that the actor does not see."""
        return not queries.sees_all(self.actor)

    @cached_property
    def sees_none(self) -> bool:
        """Whether clusters exist and the actor sees none of them."""
        return self.is_limited and not queries.clusters_for(self.actor).exists() and ManagedCluster.objects.exists()

    @cached_property
    def admins(self) -> list[str]:
        """User names of up to five people who can give the right."""
        found = User.objects.filter(is_superuser=True, is_active=True).order_by("username")
        return [user.get_username() for user in found[:ADMINS]]

    @property
    def explain_url(self) -> str:
        return explain_url("list", RESOURCE)


def to_change(actor: Actor, name: str) -> RightCheck:
    """A right that is limited to some fields does not reach taints and labels."""
    decision = authorization.authorize(
        actor, Attributes("patch", MANAGED_CLUSTER.group, MANAGED_CLUSTER.plural, name=name)
    )
    if decision.allowed and decision.fields is None:
        return RightCheck(allowed=True)
    text = f"You may look at {name}, but not change it: that takes {ClusterPermission.CHANGE}."
    return RightCheck(allowed=False, reason=text, explain_url=explain_url("patch", RESOURCE, name=name))


def changeable(actor: Actor, names: Iterable[str]) -> set[str]:
    """Clusters whose labels and taints the actor may change; a bounded number of queries for any number of them."""
    return _holding(actor, "patch", ClusterPermission.CHANGE, names)


def _holding(actor: Actor, verb: str, permission: ClusterPermission, names: Iterable[str]) -> set[str]:
    wanted = set(names)
    question = Attributes(verb, MANAGED_CLUSTER.group, MANAGED_CLUSTER.plural)
    decision = authorization.authorize(actor, question)
    if decision.allowed and decision.fields is None:
        return wanted
    by_rule = rule_index.names_allowed(actor, lambda name: [replace(question, name=name)])
    return (by_rule & wanted) | CLUSTERS.held_among(actor, permission.codename, wanted)


def deletable(actor: Actor, names: Iterable[str]) -> set[str]:
    """Clusters that the actor may delete; a bounded number of queries for any number of them."""
    return _holding(actor, "delete", ClusterPermission.DELETE, names)


def to_delete(actor: Actor, name: str) -> RightCheck:
    if authorization.authorize(
        actor, Attributes("delete", MANAGED_CLUSTER.group, MANAGED_CLUSTER.plural, name=name)
    ).allowed:
        return RightCheck(allowed=True)
    text = f"Removing {name} takes {ClusterPermission.DELETE}."
    return RightCheck(allowed=False, reason=text, explain_url=explain_url("delete", RESOURCE, name=name))


def to_accept(actor: Actor, row: ManagedCluster) -> RightCheck:
    """The right to accept and, by D3, to un-accept."""
    if authorization.permitted(actor, ClusterPermission.ACCEPT, obj=row, name=row.name).allowed:
        return RightCheck(allowed=True)
    text = f"Letting {row.name} in or sending it away takes {ClusterPermission.ACCEPT}."
    return RightCheck(allowed=False, reason=text, explain_url=explain_url("update", ACCEPT_RESOURCE, name=row.name))
