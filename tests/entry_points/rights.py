"""The ways in which a person may hold the right to accept one cluster, and what comes close to it."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from guardian.shortcuts import assign_perm

from clusters.models import ManagedCluster
from tests.actors import grant, person, rule
from tests.entry_points.scene import Waiting

CLUSTERS = "cluster.open-cluster-management.io"
REGISTER = "register.open-cluster-management.io"


def by_guardian(user: Any, *clusters: Waiting) -> None:
    """Nothing but the permission on each of these clusters."""
    allow(user, "accept", *clusters)


def by_group(user: Any, *clusters: Waiting) -> None:
    """The same, given to a Django group."""
    group = Group.objects.create(name="approvers")
    user.groups.add(group)
    allow(group, "accept", *clusters)


def by_rules(user: Any, *clusters: Waiting) -> None:
    """A7b and what it takes to reach the object; D15 does without a right on signers."""
    grant(
        person(user.username),
        rule("get list patch", "managedclusters", groups=CLUSTERS),
        rule("update", "managedclusters/accept", groups=REGISTER),
    )


def by_mastery(user: Any, *clusters: Waiting) -> None:
    """A superuser, who carries system:masters in the certificate and as soon as they have signed in."""
    user.is_superuser = True
    user.save()


def but_accept(user: Any, *clusters: Waiting) -> None:
    """May see the clusters and change everything about them but this."""
    allow(user, "view", *clusters)
    allow(user, "change", *clusters)


def allow(holder: Any, act: str, *clusters: Waiting) -> None:
    for waiting in clusters:
        assign_perm(f"clusters.{act}_managedcluster", holder, ManagedCluster.objects.get(name=waiting.name))
