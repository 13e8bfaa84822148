"""What a person may do about sets, asked for many at once: a bounded number of queries, however many names there are.

For pages, which say before what a write would be refused for; the write itself is decided by ``authorization`` and the
rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from clusters.cluster_rights import changeable
from clustersets import membership, queries
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from clustersets.models import ManagedClusterSet, SetPermission
from ocmconsole.core.rbac import rule_index
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import Attributes

if TYPE_CHECKING:
    from clusters.models import ManagedCluster
    from clustersets.membership import Membership
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.kinds import Kind

JOIN_RESOURCE = f"{MANAGED_CLUSTER_SET.plural}/join.{MANAGED_CLUSTER_SET.group}"
BIND_RESOURCE = f"{MANAGED_CLUSTER_SET.plural}/bind.{MANAGED_CLUSTER_SET.group}"

BINDING_RESOURCE = MANAGED_CLUSTER_SET_BINDING.resource


def joinable(actor: Actor, names: Iterable[str]) -> set[str]:
    """Sets that the actor may add clusters to and take them out of (A6)."""
    return _of_domain(actor, SetPermission.JOIN, set(names))


def to_join(actor: Actor) -> list[Membership]:
    """Sets among which are all that the actor may add clusters to, in the order of their names."""
    rules, asked = rule_index.index.rules_for(actor), authorization.spellings(SetPermission.JOIN, "")
    is_wide = authorization.permitted(actor, SetPermission.JOIN).allowed or any(
        rule.speaks_of(each) for rule in rules for each in asked
    )
    return queries.all_memberships() if is_wide else queries.memberships_for(actor)


def bindable(actor: Actor, names: Iterable[str]) -> set[str]:
    """Sets that the actor may bind into namespaces (A9)."""
    return _of_domain(actor, SetPermission.BIND, set(names))


def movable(actor: Actor, clusters: Iterable[ManagedCluster]) -> set[str]:
    """Names of those whose set label the actor may change, by a right to the cluster or through its present set."""
    rows = list(clusters)
    able = changeable(actor, {row.name for row in rows})
    held = _of_domain(
        actor, SetPermission.MOVE, {row.clusterset for row in rows if row.clusterset and row.name not in able}
    )
    seen = {each.name: each for each in queries.memberships_for(actor)} if held else {}
    unseen = ManagedClusterSet.objects.filter(name__in=held - seen.keys(), deleted_at=None)
    chosen = [seen[name] for name in held & seen.keys()] + [membership.membership_of(row.doc) for row in unseen]
    exclusive = {each.name for each in chosen if each.is_exclusive}
    return able | {row.name for row in rows if row.clusterset in exclusive}


def removable(actor: Actor, clusters: Iterable[ManagedCluster]) -> set[str]:
    """Names of those that the actor may take out of their present set (A6)."""
    rows = list(clusters)
    able, left = movable(actor, rows), joinable(actor, {row.clusterset for row in rows if row.clusterset})
    return {row.name for row in rows if row.name in able and (not row.clusterset or row.clusterset in left)}


def may_access(actor: Actor, verb: str, kind: Kind, *, name: str = "", namespace: str = "") -> bool:
    asked = Attributes(verb, kind.group, kind.plural, name=name, namespace=namespace)
    return authorization.authorize(actor, asked).allowed


def binds_somewhere(actor: Actor) -> bool:
    """Whether there is a namespace in which the actor may create bindings."""
    places = ("", *rule_index.index.namespaces_of(actor))
    return any(may_bind_into(actor, namespace) for namespace in places)


def may_bind_into(actor: Actor, namespace: str) -> bool:
    return may_access(actor, "create", MANAGED_CLUSTER_SET_BINDING, namespace=namespace)


def _of_domain(actor: Actor, permission: str, names: set[str]) -> set[str]:
    if authorization.permitted(actor, permission).allowed:
        return names
    codename = permission.partition(".")[2]
    named = rule_index.names_allowed(actor, partial(authorization.spellings, permission))
    return names & (queries.granted_sets(actor, codename) | named)
