"""Whom a set reaches: who may join, bind and see it, and who gains or loses sight when clusters change sets (D2, D16).

Computed from Django permissions, guardian's grants and RBAC as they are now. Called by pages; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import Group, Permission, User
from django.db.models import Count, Q, Value

from clusters.models import ClusterPermission
from clustersets.kinds import MANAGED_CLUSTER_SET
from clustersets.models import ManagedClusterSetGroupPermission, ManagedClusterSetUserPermission, SetPermission
from ocmconsole.access import who_can
from ocmconsole.access.who_can import GrantSource, Source

if TYPE_CHECKING:
    from django.db.models import QuerySet

RIGHTS = (
    ("join", "Add clusters to the set and take them out"),
    ("move", "Change the set label of its clusters; the set that they enter must allow it too"),
    ("bind", "Bind the set into namespaces, where placements then choose from it"),
    ("see", "See the set and, through it, its clusters"),
)


@dataclass(frozen=True, slots=True)
class RightHolder:
    """Somebody with a right. ``size`` is the number of people of a group of this hub; ``sources`` are where from."""

    kind: str
    name: str
    size: int = 0
    sources: tuple[Source, ...] = ()


def set_holders(word: str, name: str, *, with_rules: bool) -> list[RightHolder]:
    """Holders of a right on the set; those who have it by RBAC only if the actor may list RBAC's bindings."""
    found = who_can.who_can(word, MANAGED_CLUSTER_SET.resource, name)
    shown = [source for source in found if with_rules or source.given_by is not GrantSource.BINDING]
    groups = {source.subject.name for source in shown if source.subject.kind == "Group"}
    sizes = dict(Group.objects.filter(name__in=groups).annotate(size=Count("user")).values_list("name", "size"))
    return [
        RightHolder(subject.kind.lower(), subject.name, sizes.get(subject.name, 0), tuple(sources))
        for subject, sources in groupby(shown, key=lambda source: source.subject)
    ]


def set_owners(names: Iterable[str]) -> dict[str, list[RightHolder]]:
    """By set, users and groups with the object permission to join it: the people to ask. Two queries."""
    found: dict[str, list[RightHolder]] = {name: [] for name in names}
    mine = {"permission__codename": SetPermission.JOIN.codename, "content_object__name__in": list(found)}
    users = ManagedClusterSetUserPermission.objects.filter(user__is_active=True, **mine)
    for name, user in users.values_list("content_object__name", "user__username"):
        found[name].append(RightHolder("user", user))
    groups = ManagedClusterSetGroupPermission.objects.filter(**mine).annotate(size=Count("group__user"))
    for name, group, size in groups.values_list("content_object__name", "group__name", "size"):
        found[name].append(RightHolder("group", group, size))
    return {name: sorted(each, key=lambda holder: (holder.kind, holder.name)) for name, each in found.items()}


# ---------------------------------------------------------------- when clusters change sets


@dataclass(frozen=True, slots=True)
class Shift:
    """People who see the clusters through a set after and did not before, and the other way round."""

    gain: tuple[str, ...]
    lose: tuple[str, ...]


def shift(before: Iterable[str], after: Iterable[str]) -> Shift:
    """When clusters leave the sets ``before`` and come into those ``after``. Who sees all clusters is not concerned."""
    earlier, later = set(_viewers(set(before))), set(_viewers(set(after)))
    return Shift(tuple(sorted(later - earlier)), tuple(sorted(earlier - later)))


def viewers(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """User names of the people who see clusters through these sets, and the groups that may see the sets. One query."""
    wanted = set(names)
    people = _viewers(wanted).annotate(kind=Value("person")).values_list("username", "kind")
    granted = ManagedClusterSetGroupPermission.objects.filter(
        permission__codename=SetPermission.VIEW.codename, content_object__name__in=wanted
    )
    teams = granted.annotate(kind=Value("team")).values_list("group__name", "kind")
    found = sorted(people.union(teams)) if wanted else []
    return [name for name, kind in found if kind == "person"], [name for name, kind in found if kind == "team"]


def _viewers(names: set[str]) -> QuerySet[Any, str]:
    """D16: users with the permission to see one of these sets, their own or through a group."""
    mine = {"permission__codename": SetPermission.VIEW.codename, "content_object__name__in": names}
    direct = ManagedClusterSetUserPermission.objects.filter(**mine).values("user")
    grouped = ManagedClusterSetGroupPermission.objects.filter(**mine).values("group")
    seeing = User.objects.filter(Q(pk__in=direct) | Q(groups__in=grouped), is_active=True, is_superuser=False)
    return seeing.exclude(_sees_everything()).values_list("username", flat=True).distinct()


def _sees_everything() -> Q:
    wide = Permission.objects.filter(
        Q(content_type__app_label="clusters", codename=ClusterPermission.VIEW.codename)
        | Q(content_type__app_label="clustersets", codename=SetPermission.VIEW.codename)
    )
    return Q(pk__in=User.objects.filter(Q(user_permissions__in=wide) | Q(groups__permissions__in=wide)).values("pk"))
