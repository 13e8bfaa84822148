"""The page of a Placement says since when each cluster is chosen: never another time than that of its last entry."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from clusters.kinds import GROUP
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from placements import tasks
from placements.controller import history
from placements.controller.history import ChosenSince
from placements.kinds import PLACEMENT, PLACEMENT_DECISION
from placements.models import DecisionRun, Placement
from tests import factories as make
from tests.actors import grant, person, rule, signed_in
from tests.pages.placements.scene import TEAM, ago, fleet, matching, place, relabel

__all__ = ["fleet"]  # a fixture of every test

pytestmark = [pytest.mark.django_db, pytest.mark.contract("K43")]


@pytest.fixture
def admin() -> Client:
    return signed_in("root", is_superuser=True)


def since(client: Client, name: str = "p1", query: str = "") -> dict[str, ChosenSince | None]:
    groups = client.get(f"/placements/{TEAM}/{name}/{query}").context["groups"]["shown"]
    return {row["name"]: row["since"] for each in groups for row in each["rows"]}


def test_it_is_the_last_time_that_the_cluster_entered(admin: Client) -> None:
    with ago(9) as first:
        place(predicates=matching(env="test"))
    with ago(7):
        relabel("web-1", "test")
    with ago(5):
        relabel("web-1", "prod")
    with ago(3) as again:
        relabel("web-1", "test")
    assert since(admin) == {"web-1": ChosenSince(again), "web-3": ChosenSince(first)}


def test_what_the_history_no_longer_holds_was_before_its_oldest_entry(admin: Client) -> None:
    with ago(31 * 24):
        place(predicates=matching(env="test"))
    with ago(3) as kept:
        relabel("web-1", "test")
    tasks.expire_decision_history()
    assert since(admin) == {"web-1": ChosenSince(kept), "web-3": ChosenSince(kept, is_before=True)}
    assert f'before <time datetime="{kept:%Y-%m-%dT%H:%M:%SZ}"' in admin.get(f"/placements/{TEAM}/p1/").content.decode()


def test_an_empty_history_says_nothing(admin: Client) -> None:
    place()
    DecisionRun.objects.all().delete()
    assert set(since(admin).values()) == {None}


def test_a_placement_that_was_made_anew_has_not_the_time_of_the_former(admin: Client) -> None:
    with ago(9):
        place()
    with ago(5):
        verbs.delete(make.ADMIN, PLACEMENT, Key(TEAM, "p1"))
        make.settle()
    with ago(3) as anew:
        place()
    assert set(since(admin).values()) == {ChosenSince(anew)}


def test_what_somebody_else_took_out_entered_when_it_came_back(admin: Client) -> None:
    """The scheduler puts it back; others keep their time."""

    def without(cluster: str) -> Any:
        def change(doc: dict[str, Any]) -> None:
            doc["status"]["decisions"] = [each for each in doc["status"]["decisions"] if each["clusterName"] != cluster]

        return change

    with ago(9) as first:
        place()
    with ago(4):
        make.edit(PLACEMENT_DECISION, "p1-decision-1", without("web-1"), namespace=TEAM, subresource="status")
    with ago(3) as mended:
        make.settle()
    assert since(admin) == {"web-1": ChosenSince(mended), "web-3": ChosenSince(first), "web-4": ChosenSince(first)}


def test_what_is_read_of_a_page_does_not_grow_with_history_and_audit(admin: Client) -> None:
    """Nor does a query read the audit of decisions, which grows with each."""
    with ago(30):
        place(predicates=matching(env="test"))
    for hours in range(20, 10, -1):
        with ago(hours):
            relabel("web-1", "test" if hours % 2 else "prod")
    row = Placement.objects.get(name="p1")
    with CaptureQueriesContext(connection) as found:
        history.chosen_since(row.uid, ["web-1", "web-3"])
    assert len(found) <= 4
    assert not [query for query in found.captured_queries if "auditevent" in query["sql"]]


def test_a_long_history_is_searched_in_parts(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "SEARCHED", (0, 1, 2))
    with ago(9):
        place(predicates=matching(env="test"))
    with ago(7) as second:
        relabel("web-1", "test")
    with ago(5) as third:
        relabel("web-4", "test")
    assert since(admin) == {
        "web-1": ChosenSince(second),
        "web-3": ChosenSince(second, is_before=True),
        "web-4": ChosenSince(third),
    }


def test_a_group_of_its_own_page_says_it_for_those_that_it_lists(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placements.pages.placement_pages.PAGE", 2)
    with ago(3) as entered:
        place()
    assert since(admin, query="?group=0") == dict.fromkeys(("web-1", "web-3"), ChosenSince(entered))
    assert since(admin, query="?group=0&after=2") == {"web-4": ChosenSince(entered)}


def test_who_may_not_list_decisions_reads_no_time_of_a_cluster() -> None:
    place()
    grant(person("li"), rule("get list", "placements", groups=GROUP), namespace=TEAM)
    assert since(signed_in("li")) == {}
