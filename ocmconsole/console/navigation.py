"""The console's pages as its navigation shows them: groups, and who sees which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from clusters import queries as clusters
from clustersets import queries as clustersets
from ocmconsole.core.rbac import rule_index
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import request_cache
from ocmconsole.kubeapi.access.actor import AUTHENTICATED, Actor
from ocmconsole.second_approval import acts
from registration.policies import policy_services

if TYPE_CHECKING:
    from django.http import HttpRequest


May = Callable[[Any, "Actor"], bool]


def everybody(user: Any, actor: Actor) -> bool:  # noqa: ARG001 - one signature for all
    return True


def admins(user: Any, actor: Actor) -> bool:  # noqa: ARG001 - one signature for all
    return bool(user.is_superuser)


def operators(user: Any, actor: Actor) -> bool:  # noqa: ARG001 - one signature for all
    return bool(user.is_staff)


def minters(user: Any, actor: Actor) -> bool:  # noqa: ARG001 - one signature for all
    return tokens.may_mint(actor).allowed


def keepers_of_policies(user: Any, actor: Actor) -> bool:  # noqa: ARG001 - one signature for all
    return policy_services.may_use_policies(actor, "view")


def where_acts_take_two(user: Any, actor: Actor) -> bool:  # noqa: ARG001 - one signature for all
    return acts.is_on()


def viewers_of_the_fleet(user: Any, actor: Actor) -> bool:
    """Not for users with rights in namespaces alone: to them pages of clusters, sets and requests are empty."""
    return request_cache.cached(("fleet", actor.user), lambda: not _is_namespace_user(user, actor))


def _is_namespace_user(user: Any, actor: Actor) -> bool:
    """A role in a namespace, no right on the hub beyond everybody's, no cluster and no set in sight."""
    if user.is_superuser or not rule_index.index.namespaces_of(actor):
        return False
    everybody_s = rule_index.index.rules_for(Actor(user="", groups=(AUTHENTICATED,)))
    if set(rule_index.index.rules_for(actor)) - set(everybody_s) or user.get_all_permissions():
        return False
    return not clusters.clusters_for(actor).exists() and not clustersets.sets_for(actor).exists()


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """A page of the navigation. ``count`` names what the shell counts for it."""

    label: str
    icon: str
    route: str
    may: May = everybody
    count: str = ""


GROUPS: tuple[tuple[str, tuple[NavigationEntry, ...]], ...] = (
    ("Home", (NavigationEntry("Overview", "layout-dashboard", "home"),)),
    (
        "Fleet",
        (
            NavigationEntry("Approvals", "inbox", "registration:approvals", viewers_of_the_fleet, count="waiting"),
            NavigationEntry("Clusters", "server", "clusters:list", viewers_of_the_fleet),
            NavigationEntry("Add cluster", "plus", "registration:add", minters),
            NavigationEntry("Certificates", "file-key", "registration:certificates", viewers_of_the_fleet),
        ),
    ),
    (
        "Organize",
        (
            NavigationEntry("Sets", "boxes", "clustersets:list", viewers_of_the_fleet),
            NavigationEntry("Namespaces & bindings", "link-2", "clustersets:namespaces"),
            NavigationEntry("Placements", "crosshair", "placements:list"),
            NavigationEntry("Playground", "flask-conical", "placements:playground"),
            NavigationEntry("Claims & labels", "tags", "clusters:claims", viewers_of_the_fleet),
        ),
    ),
    (
        "Trust",
        (
            NavigationEntry(
                "Second approvals", "user-check", "second-approval:list", where_acts_take_two, count="second"
            ),
            NavigationEntry("Access", "users", "access:list"),
            NavigationEntry("Bootstrap tokens", "ticket", "registration:tokens", minters),
            NavigationEntry("Approval policies", "scroll-text", "registration:policies", keepers_of_policies),
            NavigationEntry("Hub CA", "stamp", "registration:ca", admins),
        ),
    ),
    (
        "Operate",
        (
            NavigationEntry("Activity", "activity", "activity"),
            NavigationEntry("Notifications", "bell", "notifications:list", admins),
            NavigationEntry("Hub health", "heart-pulse", "hub", admins),
            NavigationEntry("Django admin", "settings", "admin:index", operators),
        ),
    ),
)
THUMBS = ("home", "registration:approvals", "clusters:list", "clustersets:list")
# Instead of those that the person does not have.
MORE_THUMBS = ("placements:list", "placements:playground", "clustersets:namespaces")


@dataclass(slots=True)
class NavigationPage:
    """An entry as the person finds it."""

    label: str
    icon: str
    route: str
    url: str
    count: int
    current: bool = False


@dataclass(frozen=True, slots=True)
class NavigationGroup:
    label: str
    pages: list[NavigationPage]


@dataclass(frozen=True, slots=True)
class Menu:
    """``thumbs`` are the pages at the foot of a small screen."""

    groups: list[NavigationGroup]
    thumbs: list[NavigationPage]


def menu(request: HttpRequest, actor: Actor, counts: dict[str, int]) -> Menu:
    """Groups of links for the person; the current page is the one whose address begins that of the request longest."""
    groups = [
        NavigationGroup(label, [_page(entry, counts) for entry in entries if entry.may(request.user, actor)])
        for label, entries in GROUPS
    ]
    pages = [page for group in groups for page in group.pages]
    fitting = [page for page in pages if _leads_to(page.url, request.path)]
    if fitting:
        max(fitting, key=lambda page: len(page.url)).current = True
    thumbs = [page for page in pages if page.route in THUMBS]
    spare = [page for page in pages if page.route in MORE_THUMBS]
    return Menu([group for group in groups if group.pages], [*thumbs, *spare][: len(THUMBS)])


def _page(entry: NavigationEntry, counts: dict[str, int]) -> NavigationPage:
    return NavigationPage(entry.label, entry.icon, entry.route, reverse(entry.route), counts.get(entry.count, 0))


def _leads_to(url: str, path: str) -> bool:
    return path == url or (url != "/" and path.startswith(url))
