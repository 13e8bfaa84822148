"""What a page asks the database about who looks at it: once, however often the page asks; and anew with each request."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from guardian.shortcuts import assign_perm, remove_perm

from clusters.kinds import CLUSTERSET_LABEL
from clusters.models import ManagedCluster
from clustersets.models import ManagedClusterSet
from ocmconsole.kubeapi import request_cache
from ocmconsole.server.middleware import RequestMiddleware
from tests import factories as make
from tests.actors import signed_in
from tests.kept import kept

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D16")]

RIGHTS = ("view", "join", "bind", "change")
PAGES = ("/", "/clusters/", "/clusters/web-1/", "/approvals/", "/sets/", "/search/?q=web", "/access/", "/activity/")
MOST = 50


@kept
def a_set() -> None:
    make.clusterset("web")
    for name in ("web-1", "web-2"):
        make.cluster(name, accepted=True, labels={CLUSTERSET_LABEL: "web"})
    make.cluster("web-3", labels={CLUSTERSET_LABEL: "web"})
    make.settle()


@pytest.fixture
def raj() -> Client:
    """An owner of set web, in part through a group."""
    a_set()
    client = signed_in("raj")
    group = Group.objects.create(name="web-team")
    group.user_set.add(user())
    for right in RIGHTS[:2]:
        assign_perm(f"clustersets.{right}_managedclusterset", user(), web())
    for right in RIGHTS[2:]:
        assign_perm(f"clustersets.{right}_managedclusterset", group, web())
    return client


def user() -> User:
    return User.objects.get(username="raj")


def web() -> Any:
    return ManagedClusterSet.objects.get(name="web")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_asks_hardly_anything_twice(raj: Client, path: str) -> None:
    raj.get(path)
    with CaptureQueriesContext(connection) as queries:
        assert raj.get(path).status_code == 200
    asked = Counter(query["sql"] for query in queries)
    assert [sql for sql, times in asked.items() if times > 2] == []
    assert sum(times > 1 for times in asked.values()) <= 3, asked
    assert len(queries) <= MOST


def test_what_was_taken_back_is_gone_at_the_next_request(raj: Client) -> None:
    assert "web-1" in raj.get("/clusters/").content.decode()
    remove_perm("clustersets.view_managedclusterset", user(), web())
    assert "web-1" not in raj.get("/clusters/").content.decode()
    assign_perm("clustersets.view_managedclusterset", user(), web())
    assert "web-1" in raj.get("/clusters/").content.decode()


def test_an_act_asks_anew(raj: Client) -> None:
    cluster = ManagedCluster.objects.get(name="web-1")
    label = {"key": "env", "value": "prod"}
    assign_perm("clusters.change_managedcluster", user(), cluster)
    assert raj.get("/clusters/web-1/claims/").status_code == 200
    assert raj.post("/clusters/web-1/labels/set/", label).status_code == 302
    remove_perm("clusters.change_managedcluster", user(), cluster)
    assert raj.post("/clusters/web-1/labels/set/", label | {"value": "test"}).status_code == 403
    cluster.refresh_from_db()
    assert cluster.labels["env"] == "prod"


@pytest.mark.usefixtures("raj")
def test_a_right_on_an_object_is_one_of_its_own_app() -> None:
    cluster = ManagedCluster.objects.get(name="web-1")
    assign_perm("clusters.view_managedcluster", user(), cluster)
    assert user().has_perm("clusters.view_managedcluster", cluster)
    for other in ("auth.view_managedcluster", "clusters.x.view_managedcluster", "clusters.change_managedcluster"):
        assert not user().has_perm(other, cluster)


@pytest.mark.usefixtures("raj")
@pytest.mark.parametrize(
    ("method", "path", "remembers"),
    [("GET", "/clusters/", True), ("HEAD", "/clusters/", True), ("POST", "/clusters/", False), ("GET", "/login/sso/x/back/", False)],
)  # fmt: skip
def test_only_a_request_that_reads_remembers(method: str, path: str, remembers: bool) -> None:
    answers: list[int] = []

    def view(_: HttpRequest) -> HttpResponse:
        answers.extend(request_cache.cached("a", lambda: len(answers)) for _ in range(2))
        return HttpResponse()

    RequestMiddleware(view)(RequestFactory().generic(method, path))
    assert answers == [0, 0] if remembers else [0, 1]
