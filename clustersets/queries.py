"""Reads for pages and rules: the sets a person may see, and, through them, clusters (D16)."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from clusters.kinds import GROUP, MANAGED_CLUSTER
from clusters.models import ManagedCluster
from clusters.queries import names_sets, sight
from clustersets import membership
from clustersets.grants import SETS
from clustersets.kinds import MANAGED_CLUSTER_SET
from clustersets.models import ManagedClusterSet, SetPermission
from ocmconsole.access import who_can
from ocmconsole.core.rbac import known_rights
from ocmconsole.kubeapi import request_cache
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.storage import plain_sql, selector_sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from django.db.models import Q, QuerySet

    from clustersets.membership import Membership
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.models import Resource


@known_rights.sees("set", MANAGED_CLUSTER_SET.resource)
def sets_for(actor: Actor) -> QuerySet[Any]:
    """Sets the actor may see, in the order of their names."""
    return ManagedClusterSet.objects.filter(SETS.visible(actor)).order_by("name")


@names_sets
def memberships_for(actor: Actor) -> list[Membership]:
    """Sets the actor may see; those that are being deleted have no members."""
    visible = SETS.visible(actor)
    if visible == selector_sql.EVERYTHING:
        return all_memberships()
    return [membership.membership_of(row.doc) for row in _seen(actor) if row.deleted_at is None]


def granted_sets(actor: Actor, codename: str) -> set[str]:
    """Names of the sets on which the actor holds the Django permission."""
    return {row.name for row in _seen(actor) if getattr(row, codename)}


def _seen(actor: Actor) -> list[Any]:
    """As ``sets_for``, with a column for each Django permission; one query a page. Who holds any sees the set."""

    def read() -> list[Any]:
        return list(sets_for(actor).annotate(**{codename: SETS.column(actor, codename) for codename in SETS.verbs}))

    return request_cache.cached(("sets seen", actor.user, actor.groups), read)


def all_memberships() -> list[Membership]:
    """Every set that is not being deleted, in the order of their names."""

    def read() -> list[Membership]:
        rows = plain_sql.rows_where(ManagedClusterSet.objects, "deleted_at IS NULL ORDER BY name")
        return [membership.membership_of(row.doc) for row in rows]

    return list(request_cache.cached("every set", read))


def sets_of(present: Mapping[str, str]) -> list[str]:
    """Names of the sets that a cluster with these labels belongs to."""
    return membership.sets_of(present, all_memberships())


@sight
def by_set(actor: Actor) -> Q:
    """D16: clusters that the actor sees as members of sets, by the Django permission to see these sets.

    Not through a label selector that the actor may write, who could choose any cluster by it.
    """
    shown = (membership.membership_of(row.doc) for row in _seen(actor) if getattr(row, SetPermission.VIEW.codename))
    return reduce(or_, (each.condition() for each in shown if not _chooses(actor, each)), selector_sql.NOTHING)


@who_can.reaches("see", MANAGED_CLUSTER.resource)
def through_sets(name: str) -> Iterator[tuple[str, Resource, str]]:
    """D16: (permission, set, words) of each set that contains a cluster; who may write its selector is not checked."""
    cluster = ManagedCluster.objects.filter(name=name).first()
    names = sets_of(cluster.labels) if cluster else ()
    for row in ManagedClusterSet.objects.filter(name__in=names).order_by("name"):
        yield SetPermission.VIEW, row, f"as a member of set {row.name}"


def _chooses(actor: Actor, shown: Membership) -> bool:
    """Joining an exclusive set takes a right on it; a label selector takes in whatever its writer likes."""
    if shown.is_exclusive:
        return False
    asked = (Attributes(verb, GROUP, MANAGED_CLUSTER_SET.plural, name=shown.name) for verb in ("update", "patch"))
    return any(authorization.authorize(actor, each).allowed for each in asked)
