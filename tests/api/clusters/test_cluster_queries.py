"""Who sees which clusters and sets in the console (D16)."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from guardian.shortcuts import assign_perm

from clusters import queries
from clusters.health.status import Word
from clusters.kinds import CLUSTERSET_LABEL, GROUP
from clustersets.models import ManagedClusterSet
from clustersets.queries import sets_for, sets_of
from ocmconsole.kubeapi.access.actor import AUTHENTICATED, Actor
from tests import factories as make
from tests.actors import grant, rule

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D16")]


@pytest.fixture
def fleet() -> None:
    make.clusterset("web")
    make.clusterset(
        "prod", selector={"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"env": "prod"}}}
    )
    make.clusterset("all", selector={"selectorType": "LabelSelector", "labelSelector": {}})
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    make.cluster("c2", labels={"env": "prod"})
    make.cluster("c3")


@pytest.fixture
def li(fleet: None) -> Actor:
    User.objects.create_user("li")
    return Actor(user="li", groups=(AUTHENTICATED,))


def seen(actor: Actor) -> list[str]:
    return list(queries.clusters_for(actor).values_list("name", flat=True))


def permit(codename: str, on: Any = None) -> None:
    user = User.objects.get(username="li")
    if on is None:
        user.user_permissions.add(Permission.objects.get(codename=codename))
    else:
        assign_perm(codename, user, on)


def test_a_stranger_sees_nothing_and_an_admin_everything(li: Actor) -> None:
    assert seen(li) == seen(Actor.anonymous()) == []
    assert seen(make.ADMIN) == ["c1", "c2", "c3"]


def test_rbac_shows_what_it_lets_be_read_by_name(li: Actor) -> None:
    grant(li, rule("get", "managedclusters", groups=GROUP, names="c2 c9"))
    grant(li, rule("list", "managedclusters", groups=GROUP, names="c3"))
    assert seen(li) == ["c2"]
    grant(li, rule("get", "*", groups="*"))
    assert seen(li) == ["c1", "c2", "c3"]


def test_a_rule_inside_a_namespace_shows_no_cluster(li: Actor) -> None:
    make.namespace("ns")
    grant(li, rule("get", "managedclusters", groups=GROUP), namespace="ns")
    assert seen(li) == []


@pytest.mark.parametrize("codename", ["view_managedcluster", "accept_managedcluster", "change_managedcluster"])
def test_a_permission_on_a_cluster_shows_it(li: Actor, codename: str) -> None:
    permit(codename, make.stored("c1"))
    assert seen(li) == ["c1"]
    permit(codename)
    assert seen(li) == ["c1", "c2", "c3"]


def test_a_permission_of_a_group_shows_its_cluster(li: Actor) -> None:
    group = Group.objects.create(name="viewers")
    group.user_set.add(User.objects.get(username="li"))
    assign_perm("view_managedcluster", group, make.stored("c3"))
    assert seen(li) == ["c3"]


@pytest.mark.parametrize(("name", "expected"), [("web", ["c1"]), ("prod", ["c2"]), ("all", ["c1", "c2", "c3"])])
def test_a_permission_to_see_a_set_shows_its_members(li: Actor, name: str, expected: list[str]) -> None:
    permit("view_managedclusterset", ManagedClusterSet.objects.get(name=name))
    assert seen(li) == expected
    assert [row.name for row in sets_for(li)] == [name]


@pytest.mark.contract("D16")
@pytest.mark.parametrize(("name", "expected"), [("web", ["c1"]), ("prod", []), ("all", [])])
def test_one_who_writes_a_label_selector_sees_nobody_through_it(li: Actor, name: str, expected: list[str]) -> None:
    permit("view_managedclusterset", ManagedClusterSet.objects.get(name=name))
    permit("change_managedclusterset", ManagedClusterSet.objects.get(name=name))
    assert seen(li) == expected


def test_a_right_to_join_a_set_shows_the_set_and_not_its_members(li: Actor) -> None:
    permit("join_managedclusterset", ManagedClusterSet.objects.get(name="web"))
    assert [row.name for row in sets_for(li)] == ["web"]
    assert seen(li) == []


def test_an_inactive_person_sees_nothing(li: Actor) -> None:
    permit("view_managedcluster")
    User.objects.update(is_active=False)
    assert seen(li) == []


@pytest.mark.contract("T6")
def test_sets_of_labels_are_named_in_order(fleet: None) -> None:
    assert sets_of({CLUSTERSET_LABEL: "web", "env": "prod"}) == ["all", "prod", "web"]
    assert sets_of({}) == ["all"]


def test_states_cost_two_queries_however_many_clusters_there_are(fleet: None) -> None:
    with CaptureQueriesContext(connection) as captured:
        found = queries.observe_clusters(queries.clusters_for(make.ADMIN), timezone.now())
    assert {each.row.name: each.status.word for each in found} == dict.fromkeys(("c1", "c2", "c3"), Word.NEEDS_REVIEW)
    assert len(captured) == 2


def test_a_cluster_is_healthy_from_its_first_heartbeat_on() -> None:
    make.cluster("c1", accepted=True)
    make.settle()
    words = []
    for act in (lambda: None, lambda: make.available("c1"), lambda: make.renew("c1")):
        act()
        found = queries.observe_clusters(queries.clusters_for(make.ADMIN), timezone.now())[0]
        words.append((found.status.word, found.last_heard is not None))
    assert words == [(Word.WAITING, False), (Word.HEALTHY, False), (Word.HEALTHY, True)]
