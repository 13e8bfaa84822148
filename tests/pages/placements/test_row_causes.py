"""The list of placements says in each row that needs it why the Placement is as it is, to each what they may read."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from clustersets.kinds import MANAGED_CLUSTER_SET_BINDING
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from placements.kinds import PLACEMENT
from placements.models import DecisionRun
from tests import factories as make
from tests.actors import signed_in
from tests.pages.placements.scene import TEAM, all_silent, author, fleet, matching, place

__all__ = ["fleet"]  # a fixture of every test

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> Client:
    return signed_in("root", is_superuser=True)


def causes(client: Client) -> dict[str, str]:
    return {row["name"]: row["cause"] for row in client.get("/placements/").context["placements"]}


@pytest.mark.contract("K43")
def test_what_lacks_clusters_says_its_last_change_in_the_words_of_the_history(admin: Client) -> None:
    place("all")
    place("prods", numberOfClusters=2, predicates=matching(env="prod"))
    place("tests", predicates=matching(env="test"))
    make.label("web-3", env="prod")
    make.settle()
    make.label("web-1", env="test")
    make.settle()
    assert causes(admin) == {
        "all": "",
        "prods": "Last change: 1 left: label env: prod → test",
        "tests": "",
    }
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET_BINDING, Key(TEAM, "web"))
    make.settle()
    said = "Last change: {} left: ManagedClusterSetBinding shop/web: deleted"
    assert causes(admin) == {"all": said.format(3), "prods": said.format(1), "tests": said.format(1)}
    DecisionRun.objects.all().delete()
    assert set(causes(admin).values()) == {""}


@pytest.mark.contract("D14")
def test_a_misconfigured_one_says_which_change_broke_it_and_by_whom(admin: Client) -> None:
    place("edited")
    place("born", numberOfClusters=-1)
    make.edit(PLACEMENT, "edited", lambda doc: doc["spec"].update(numberOfClusters=-2), namespace=TEAM)
    make.settle()
    user = make.ADMIN.user
    assert causes(admin) == {
        "edited": f"Broken: Placement shop/edited: spec.numberOfClusters set, by {user}",
        "born": f"Never right: Placement shop/born: created, by {user}",
    }
    author()
    assert causes(signed_in("li"))["edited"] == "Broken: Placement shop/edited: spec.numberOfClusters set"


@pytest.mark.contract("D27")
def test_one_that_a_brake_holds_says_how_many_fell_silent(admin: Client) -> None:
    with all_silent():
        assert causes(admin) == {"p1": "5 of 5 accepted clusters fell silent or late at once"}


@pytest.mark.contract("D16")
def test_who_does_not_see_the_clusters_reads_nothing_of_their_labels() -> None:
    author()
    place("prods", numberOfClusters=4, predicates=matching(env="prod"))
    client = signed_in("li")
    assert causes(client)["prods"] == "Last change: 1 entered: Placement shop/prods: created"
    make.label("web-1", env="test")
    make.settle()
    assert causes(client)["prods"] == ""


def test_more_rows_cost_no_more_queries(admin: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as found:
            causes(admin)
        return len(found)

    def more(number: int) -> None:
        place(f"short-{number}", numberOfClusters=9)
        place(f"broken-{number}", numberOfClusters=-1)

    more(1)
    queries()
    few = queries()
    for number in range(2, 5):
        more(number)
    assert queries() <= few
