"""What the page of a request reads: a bound for each kind of person, on a hub with few requests and sets.

The second request of a page is counted: the first reads content types and the rules of RBAC, which the process keeps.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from guardian.shortcuts import assign_perm

from clusters.models import ManagedCluster
from clustersets.models import ManagedClusterSet
from ocmconsole.signin import lifetime
from tests import factories as make
from tests.actors import signed_in
from tests.pages.registration.test_approvals import _hub, asks, bearer

__all__ = ["_hub"]  # a fixture of every test

pytestmark = pytest.mark.django_db

SETS = ("view_managedclusterset", "join_managedclusterset", "move_managedclusterset")


def on_all(user: User) -> None:
    user.user_permissions.set(Permission.objects.filter(codename__in=["accept_managedcluster"]))


def on_this(holder: User | Group) -> None:
    assign_perm("accept_managedcluster", holder, ManagedCluster.objects.get(name="web-2"))


def on_this_through_a_group(user: User) -> None:
    team = Group.objects.create(name="approvers")
    user.groups.add(team)
    on_this(team)


def in_its_set(user: User) -> None:
    on_this(user)
    for each in SETS:
        assign_perm(each, user, ManagedClusterSet.objects.get(name="default"))


@pytest.mark.parametrize(
    ("rights", "most"), [(None, 20), (on_all, 20), (on_this, 20), (on_this_through_a_group, 20), (in_its_set, 20)]
)
def test_the_page_of_a_request_asks_at_most_twenty_queries(rights: Any, most: int) -> None:
    token = bearer()
    for name in ("default", "eu"):
        make.clusterset(name)
    for name in ("web-1", "web-2", "web-3"):
        asks(name, token)
    browser = signed_in("li", is_superuser=rights is None)
    if rights is not None:
        rights(User.objects.get(username="li"))
    page = "/approvals/web-2/"
    assert "Accept" in browser.get(page).content.decode()
    session = browser.session
    session[lifetime.ACTIVE] = time.time()  # else a request a minute later would note it
    session.save()
    with CaptureQueriesContext(connection) as found:
        assert browser.get(page).status_code == 200
    assert len(found) <= most, [each["sql"] for each in found]
