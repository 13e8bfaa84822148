"""Whom a set reaches: who may join, bind and see it, and who gains or loses sight when clusters change sets (D2, D16).

Computed from Django permissions, guardian's grants and RBAC as they are now. Called by pages; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import Group, Permission, User
from django.db.models import Count, Q

from clustersets.admission import BIND, JOIN
from clustersets.models import ManagedClusterSetGroupPermission, ManagedClusterSetUserPermission
from ocmconsole.corekinds import rbac
from ocmconsole.kubeapi import authz

if TYPE_CHECKING:
    from django.db.models import QuerySet

VIEW = "clustersets.view_managedclusterset"
RIGHTS = (
    ("join", JOIN, "Add clusters to the set and take them out"),
    ("bind", BIND, "Bind the set into namespaces, where placements then choose from it"),
    ("view", VIEW, "See the set and, through it, its clusters"),
)


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    """Somebody with a right and where he has it from. ``size`` is the number of people of a group of this hub."""

    kind: str
    name: str
    source: str
    size: int = 0


def holders(permission: str, name: str) -> list[Holder]:
    """Whoever holds a right on the set by Django permissions: on this set, on all sets, or as a superuser."""
    codename = permission.partition(".")[2]
    mine = {"permission__codename": codename, "content_object__name": name}
    users = ManagedClusterSetUserPermission.objects.filter(user__is_active=True, **mine)
    groups = ManagedClusterSetGroupPermission.objects.filter(**mine)
    found = [Holder("user", each, "granted on this set") for each in users.values_list("user__username", flat=True)]
    found += [
        Holder("group", each, "granted on this set", size)
        for each, size in groups.annotate(size=Count("group__user")).values_list("group__name", "size")
    ]
    return sorted({*found, *_everywhere(permission)})


def _everywhere(permission: str) -> list[Holder]:
    app, _, codename = permission.partition(".")
    right = Permission.objects.filter(content_type__app_label=app, codename=codename)
    people = User.objects.filter(is_active=True)
    found = [
        Holder("user", each, "granted on all sets")
        for each in people.filter(user_permissions__in=right, is_superuser=False).values_list("username", flat=True)
    ]
    found += [
        Holder("group", each, "granted on all sets", size)
        for each, size in Group.objects.filter(permissions__in=right)
        .annotate(size=Count("user"))
        .values_list("name", "size")
    ]
    superusers = people.filter(is_superuser=True).values_list("username", flat=True)
    return found + [Holder("user", each, "superuser, may do everything") for each in superusers]


def holders_by_rules(permission: str, name: str) -> list[Holder]:
    """Whoever RBAC allows the same (D2); for eyes that may list the bindings of RBAC."""
    found = {
        Holder(subject.kind.lower(), subject.name, f"{binding.role_kind} {(binding.role or ('', ''))[1]}")
        for asked in authz.spellings(permission, name)
        for subject, binding in rbac.index.holders(asked)
    }
    return sorted(found)


def owners(names: Iterable[str]) -> dict[str, list[Holder]]:
    """By set, whoever was given join on exactly it: the people to ask. Two queries."""
    found: dict[str, list[Holder]] = {name: [] for name in names}
    mine = {"permission__codename": JOIN.partition(".")[2], "content_object__name__in": list(found)}
    users = ManagedClusterSetUserPermission.objects.filter(user__is_active=True, **mine)
    for name, user in users.values_list("content_object__name", "user__username"):
        found[name].append(Holder("user", user, "granted on this set"))
    groups = ManagedClusterSetGroupPermission.objects.filter(**mine).annotate(size=Count("group__user"))
    for name, group, size in groups.values_list("content_object__name", "group__name", "size"):
        found[name].append(Holder("group", group, "granted on this set", size))
    return {name: sorted(each) for name, each in found.items()}


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


def _viewers(names: set[str]) -> QuerySet[Any, str]:
    """D16: whoever was given the right to see one of these sets, himself or through a group."""
    mine = {"permission__codename": VIEW.partition(".")[2], "content_object__name__in": names}
    direct = ManagedClusterSetUserPermission.objects.filter(**mine).values("user")
    grouped = ManagedClusterSetGroupPermission.objects.filter(**mine).values("group")
    seeing = User.objects.filter(Q(pk__in=direct) | Q(groups__in=grouped), is_active=True, is_superuser=False)
    return seeing.exclude(_sees_everything()).values_list("username", flat=True).distinct()


def _sees_everything() -> Q:
    wide = Permission.objects.filter(
        Q(content_type__app_label="clusters", codename="view_managedcluster")
        | Q(content_type__app_label="clustersets", codename="view_managedclusterset")
    )
    return Q(pk__in=User.objects.filter(Q(user_permissions__in=wide) | Q(groups__permissions__in=wide)).values("pk"))
