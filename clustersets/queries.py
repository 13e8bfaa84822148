"""Reads for pages and rules: the sets a person may see, and, through them, clusters (D16)."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from clusters.queries import sight
from clustersets import membership
from clustersets.grants import SETS
from clustersets.models import ManagedClusterSet
from ocmconsole.kubeapi import labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.db.models import Q, QuerySet

    from clustersets.membership import Membership
    from ocmconsole.kubeapi.actor import Actor


def sets_for(actor: Actor) -> QuerySet[Any]:
    """Sets the actor may see, in the order of their names."""
    return ManagedClusterSet.objects.filter(SETS.visible(actor)).order_by("name")


def memberships() -> list[Membership]:
    """Every set that is not being deleted, in the order of their names."""
    rows = ManagedClusterSet.objects.filter(deleted_at=None).order_by("name")
    return [membership.of(row.doc) for row in rows]


def sets_of(present: Mapping[str, str]) -> list[str]:
    """Names of the sets that a cluster with these labels belongs to."""
    return membership.sets_of(present, memberships())


@sight
def by_set(actor: Actor) -> Q:
    """Whoever holds the Django permission to see a set sees its members."""
    granted = ManagedClusterSet.objects.filter(SETS.holding(actor, "view_managedclusterset"))
    return reduce(or_, (membership.of(row.doc).condition() for row in granted), labels.NOTHING)
