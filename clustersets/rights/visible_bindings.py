"""Where sets are bound, and which namespaces a person may see: by RBAC, in the namespace or on the whole hub (D16).

A binding reveals a set to a namespace and a namespace to a set, so each is shown only to users who may see it: the
user must be allowed to list the namespace's bindings, and names of sets come from ``queries.sets_for``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import BooleanField, F, Func, Q

from clusters.kinds import CLUSTER_LABEL, conditions_of
from clustersets.kinds import MANAGED_CLUSTER_SET_BINDING
from clustersets.models import ManagedClusterSetBinding
from clustersets.rights import set_rights
from ocmconsole.core.kinds import NAMESPACE
from ocmconsole.core.models import Namespace
from ocmconsole.core.rbac import rule_index
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.schema import conditions
from ocmconsole.kubeapi.storage.selector_sql import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Collection

    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models import QuerySet
    from django.db.models.sql.compiler import SQLCompiler

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc


def bindings_for(actor: Actor) -> QuerySet[Any]:
    """Bindings that the actor may list where they are, by namespace and name."""
    return ManagedClusterSetBinding.objects.filter(_listable(actor)).order_by("namespace", "name")


def _listable(actor: Actor) -> Q:
    if set_rights.may_access(actor, "list", MANAGED_CLUSTER_SET_BINDING):
        return EVERYTHING
    return Q(namespace__in=_where_listable(actor))


def listable_among(actor: Actor, namespaces: Collection[str]) -> set[str]:
    """Those of the namespaces in which the actor may list bindings."""
    if set_rights.may_access(actor, "list", MANAGED_CLUSTER_SET_BINDING):
        return set(namespaces)
    return _where_listable(actor) & set(namespaces)


def _where_listable(actor: Actor) -> set[str]:
    return {
        namespace
        for namespace in rule_index.index.namespaces_of(actor)
        if set_rights.may_access(actor, "list", MANAGED_CLUSTER_SET_BINDING, namespace=namespace)
    }


def namespaces_for(actor: Actor) -> QuerySet[Any]:
    """Namespaces that the actor may get, or whose bindings the actor may list."""
    if set_rights.may_access(actor, "get", NAMESPACE):
        return Namespace.objects.order_by("name")
    mine = rule_index.index.namespaces_of(actor)
    names = {name for name in mine if set_rights.may_access(actor, "get", NAMESPACE, name=name, namespace=name)}
    rules = rule_index.index.rules_for(actor)
    asked = Attributes("get", NAMESPACE.group, NAMESPACE.plural)
    for name in {name for rule in rules for name in rule.names}:
        if any(rule.allows(Attributes("get", asked.group, asked.resource, name=name)) for rule in rules):
            names.add(name)
    bound = bindings_for(actor).values("namespace")
    return Namespace.objects.filter(Q(name__in=names | _where_listable(actor)) | Q(name__in=bound)).order_by("name")


def of_clusters() -> Q:
    """Namespaces that belong to the agents of a cluster: no set can be bound there (D4)."""
    return Q(HasClusterLabel(F("labels")))


class HasClusterLabel(Func):
    """``labels__has_key`` with the label in the statement: SQLite takes the index of the rest for no parameter."""

    output_field = BooleanField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> Any:  # noqa: ARG002 - Django's signature
        sql, parameters = compiler.compile(self.get_source_expressions()[0])
        return f"(JSON_TYPE({sql}, '$.\"{CLUSTER_LABEL}\"') IS NOT NULL)", parameters

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> Any:  # noqa: ARG002 - Django's signature
        sql, parameters = compiler.compile(self.get_source_expressions()[0])
        return f"({sql} ? '{CLUSTER_LABEL}')", parameters


def bound_condition(doc: Doc) -> Doc:
    """The condition Bound of a binding; empty while the hub has not looked at it."""
    return conditions.find_condition(conditions_of(doc), "Bound") or {}
