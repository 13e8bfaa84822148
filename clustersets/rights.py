"""What a person may do about sets, asked for many at once: a bounded number of queries, however many names there are.

For pages, which say before what a write would be refused for; the write itself is decided by ``authz`` and the rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from clusters.grants import Grants
from clustersets.admission import BIND, JOIN
from clustersets.grants import SETS
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from clustersets.models import ManagedClusterSet
from ocmconsole.corekinds import rbac
from ocmconsole.kubeapi import authz
from ocmconsole.kubeapi.authz import Attributes

if TYPE_CHECKING:
    from ocmconsole.corekinds.policyrules import PolicyRule
    from ocmconsole.kubeapi.actor import Actor
    from ocmconsole.kubeapi.kinds import Kind

JOIN_RESOURCE = f"{MANAGED_CLUSTER_SET.plural}/join.{MANAGED_CLUSTER_SET.group}"
BIND_RESOURCE = f"{MANAGED_CLUSTER_SET.plural}/bind.{MANAGED_CLUSTER_SET.group}"


def joinable(actor: Actor, names: Iterable[str]) -> set[str]:
    """Sets that the actor may add clusters to and take them out of (A6)."""
    return _of_domain(actor, JOIN, set(names))


def bindable(actor: Actor, names: Iterable[str]) -> set[str]:
    """Sets that the actor may bind into namespaces (A9)."""
    return _of_domain(actor, BIND, set(names))


def may(actor: Actor, verb: str, kind: Kind, *, name: str = "", namespace: str = "") -> bool:
    asked = Attributes(verb, kind.group, kind.plural, name=name, namespace=namespace)
    return authz.authorize(actor, asked).allowed


def may_bind_into(actor: Actor, namespace: str) -> bool:
    return may(actor, "create", MANAGED_CLUSTER_SET_BINDING, namespace=namespace)


def _of_domain(actor: Actor, permission: str, names: set[str]) -> set[str]:
    if authz.permitted(actor, permission).allowed:
        return names
    codename = permission.partition(".")[2]
    granted = _granted(actor, SETS, ManagedClusterSet, codename, names)
    rules = rbac.index.rules_for(actor)
    return granted | {name for name in names if _allow(rules, authz.spellings(permission, name))}


def _granted(actor: Actor, grants: Grants, model: Any, codename: str, names: set[str]) -> set[str]:
    return set(model.objects.filter(grants.holding(actor, codename), name__in=names).values_list("name", flat=True))


def _allow(rules: Iterable[PolicyRule], asked: Iterable[Attributes]) -> bool:
    return any(rule.allows(each) for each in asked for rule in rules)
