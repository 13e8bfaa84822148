"""The tab History draws who was chosen in the last 24 hours; each figure is computed again from the decisions of then."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from clusters.kinds import GROUP
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from placements import queries
from placements.controller import history, scheduling
from placements.kinds import DISABLE_ANNOTATION, PLACEMENT, PLACEMENT_DECISION, PLACEMENT_LABEL
from placements.models import DecisionRun
from placements.pages import chosen_timeline
from tests import factories as make
from tests.actors import grant, person, rule, signed_in
from tests.pages.placements.scene import TEAM, ago, all_silent, author, fleet, matching, place, relabel

__all__ = ["fleet"]  # a fixture of every test

pytestmark = [pytest.mark.django_db, pytest.mark.contract("K43")]

ADDRESS = f"/placements/{TEAM}/p1/history/"
HOUR = timedelta(hours=1)


@pytest.fixture
def admin() -> Client:
    return signed_in("root", is_superuser=True)


def words(part: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", part).split())


def section(client: Client, query: str = "") -> str:
    """Its markup; empty where there is none."""
    page = client.get(ADDRESS + query).content.decode()
    found = re.search(r'<section[^>]* id="timeline".*?</section>', page, re.DOTALL)
    return found[0] if found else ""


def rows(client: Client) -> dict[str, str]:
    """What stands in words beside each drawing, by its name."""
    table = section(client).partition("</tfoot>")[0]
    found = re.findall(r'<tr><th scope="row">(.*?)</th><td>.*?</td><td>(.*?)</td></tr>', table, re.DOTALL)
    return {words(name): words(text) for name, text in found}


def by_time(client: Client) -> list[list[str]]:
    """The table of the numbers, the newest first."""
    twin = section(client).partition("</tfoot>")[2]
    return [[words(cell) for cell in re.findall(r"<td>(.*?)</td>", row)] for row in twin.split("<tr>")[2:]]


def decided() -> frozenset[str]:
    return frozenset(scheduling.decided_in(queries.decisions_of(TEAM, "p1")))


def lived_through(*acts: tuple[float, Callable[[], None]]) -> list[tuple[datetime, frozenset[str]]]:
    """Does each so many hours ago; the clusters in the decisions after each."""
    found = []
    for hours, act in acts:
        with ago(hours) as time:
            act()
            found.append((time, decided()))
    return found


def chosen_at(past: list[tuple[datetime, frozenset[str]]], moment: datetime) -> frozenset[str]:
    return next(names for time, names in reversed(past) if time <= moment)


def test_numbers_and_clusters_are_those_of_the_decisions_at_each_time(admin: Client) -> None:
    past = lived_through(
        (30, lambda: place(predicates=matching(env="test"))),
        (28, lambda: relabel("web-4", "test")),
        (20.5, lambda: relabel("web-1", "test")),
        (10.5, lambda: relabel("web-4", "prod")),
        (9.5, lambda: relabel("web-1", "prod")),
        (2.5, lambda: relabel("web-1", "test")),
    )
    with ago(0) as now:
        found, text, table = rows(admin), words(section(admin)), by_time(admin)
    recent = [(before[1], after) for before, after in pairwise(past) if after[0] > now - 24 * HOUR]
    entered = sum(len(after - before) for before, (_, after) in recent)
    left = sum(len(before - after) for before, (_, after) in recent)
    sizes = [len(chosen_at(past, now - 24 * HOUR)), *(len(after) for _, (_, after) in recent)]
    assert (found.pop("Entered"), found.pop("Left")) == (str(entered), str(left))
    assert found.pop("Chosen") == f"{len(decided())} now, {min(sizes)} to {max(sizes)} in all"
    moved = {name for before, (_, after) in recent for name in before ^ after}
    stayed = decided() - moved
    assert text.startswith(f"Who was chosen, last 24 hours {entered} entered · {left} left · {len(stayed)} stayed")
    assert found.keys() == moved
    assert next(iter(found)) == "web-1"  # it moved last
    for index, (times, came, went, chosen) in enumerate(table):
        end = now - 2 * index * HOUR
        within = [(before, after) for before, (time, after) in recent if end - 2 * HOUR <= time < end]
        assert (int(came), int(went), int(chosen), times.rpartition(" ")[2]) == (
            sum(len(after - before) for before, after in within),
            sum(len(before - after) for before, after in within),
            len(chosen_at(past, end)),
            f"{end:%H:%M}",
        )
    assert len(table) == 12


def test_each_cluster_is_drawn_where_the_decisions_had_it(admin: Client) -> None:
    past = lived_through(
        (30, lambda: place(predicates=matching(env="test"))),
        (20, lambda: relabel("web-1", "test")),
        (8, lambda: relabel("web-3", "prod")),
        (4, lambda: relabel("web-1", "prod")),
        (2, lambda: relabel("web-1", "test")),
    )
    shown = admin.get(ADDRESS).context["timeline"]
    assert {each["name"] for each in shown["clusters"]} == {"web-1", "web-3"}
    for each in shown["clusters"]:
        for stretch in each["stretches"]:
            middle = stretch.start + (stretch.end - stretch.start) / 2
            assert stretch.chosen == int(each["name"] in chosen_at(past, middle))
        starts = {time for time, _ in past} | {shown["axis"][0]}
        assert all(stretch.start in starts for stretch in each["stretches"])
    assert rows(admin)["web-3"].startswith("until ")


def test_where_nothing_moved_a_sentence_says_so(admin: Client) -> None:
    with ago(30):
        place()
    text = words(section(admin))
    assert "Nobody entered or left: 3 clusters were chosen all the time." in text
    assert "svg" not in section(admin)


def test_one_that_was_made_today_has_no_time_before_it(admin: Client) -> None:
    with ago(5) as made:
        place()
    shown = admin.get(ADDRESS).context["timeline"]
    assert shown["counts"][0].start == shown["since"] == made
    assert rows(admin)["Chosen"] == "3 now"
    assert words(section(admin)).startswith("Who was chosen since ")


def test_one_that_was_made_anew_has_nothing_of_the_former(admin: Client) -> None:
    with ago(9):
        place()
    with ago(5):
        verbs.delete(make.ADMIN, PLACEMENT, Key(TEAM, "p1"))
        make.settle()
    with ago(3):
        place(predicates=matching(env="test"))
    assert {"web-1", "web-4"}.isdisjoint(rows(admin))
    assert rows(admin)["Entered"] == "1"


@pytest.mark.contract("P2")
def test_what_another_scheduler_decides_is_drawn_as_well(admin: Client) -> None:
    with ago(30):
        place(annotations={DISABLE_ANNOTATION: "true"})
        decision = make.document(PLACEMENT_DECISION, "p1-decision-1", labels={PLACEMENT_LABEL: "p1"})
        make.create(PLACEMENT_DECISION, decision, namespace=TEAM)
    past = lived_through((26, lambda: _decide("web-1")), (6, lambda: _decide("web-3", "web-4")))
    shown = admin.get(ADDRESS).context["timeline"]
    begin = shown["axis"][0]
    assert [(each.start, each.chosen) for each in shown["counts"]] == [(begin, 1), (past[-1][0], 2)]
    assert rows(admin)["Chosen"] == "2 now, 1 to 2 in all"
    assert {name for name in rows(admin) if name.startswith("web-")} == {"web-1", "web-3", "web-4"}
    assert "its PlacementDecision was changed" in words(admin.get(ADDRESS).content.decode())


def test_numbers_that_contradict_each_other_are_shown_as_not_known(admin: Client) -> None:
    """As where rows of the history were lost."""
    with ago(20):
        place()
    with ago(6):
        make.edit(PLACEMENT, "p1", lambda doc: doc["spec"].update(numberOfClusters=2), namespace=TEAM)
        make.settle()
    with ago(3):
        make.edit(PLACEMENT, "p1", lambda doc: doc["spec"].update(numberOfClusters=1), namespace=TEAM)
        make.settle()
    DecisionRun.objects.order_by("id")[1].delete()
    assert rows(admin)["Chosen"] == "1 now, in part not known"
    assert "not known" in [row[-1] for row in by_time(admin)]
    assert "stayed" not in words(section(admin))


def _decide(*names: str) -> None:
    decisions = [{"clusterName": name, "reason": ""} for name in names]
    status = {"decisions": decisions}
    make.edit(
        PLACEMENT_DECISION, "p1-decision-1", lambda doc: doc.update(status=status), namespace=TEAM, subresource="status"
    )


def test_of_many_that_moved_the_last_have_a_row_and_the_others_a_count(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chosen_timeline, "MOST_CLUSTERS", 2)
    with ago(20):
        place()
    with ago(3):
        make.edit(PLACEMENT, "p1", lambda doc: doc["spec"].update(predicates=matching(env="test")), namespace=TEAM)
        make.settle()
    found = rows(admin)
    assert [name for name in found if name.startswith("web-")] == ["web-1", "web-4"]
    assert "1 more cluster entered or left." in words(section(admin))


@pytest.mark.parametrize(("bound", "most"), [("MOST_RUNS", 2), ("MOST_NAMES", 3)])
def test_more_than_is_read_begins_later_and_says_so(
    admin: Client, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(history, bound, most)
    with ago(20):
        place(predicates=matching(env="test"))
    times = []
    for hours, env in ((9, "test"), (6, "prod"), (3, "test")):
        with ago(hours) as time:
            relabel("web-1", env)
            times.append(time)
    shown = admin.get(ADDRESS).context["timeline"]
    begin = times[-most]
    assert (shown["is_cut"], shown["since"], shown["counts"][0].start) == (True, begin, begin)
    assert [each.chosen for each in shown["counts"]] == [2, 1, 2][-most:]
    assert "What came before is too much to draw." in words(section(admin))


def test_it_takes_as_many_queries_for_many_changes_as_for_one(admin: Client) -> None:
    with ago(20):
        place(predicates=matching(env="test"))
    few = _queries(admin)
    for hours in range(19, 3, -1):
        with ago(hours):
            relabel("web-1", "test" if hours % 2 else "prod")
    assert _queries(admin) <= few


def _queries(client: Client) -> int:
    client.get(ADDRESS)
    with CaptureQueriesContext(
        connection,
    ) as queries_of_page:
        client.get(ADDRESS)
    return len(queries_of_page)


def test_evictions_that_wait_have_a_row_while_they_do(admin: Client) -> None:
    with all_silent():
        held = decided()
        assert rows(admin)["Held"].startswith(f"{len(held)} evictions wait now, since ")
        assert "svg" in section(admin)


def test_who_may_not_list_decisions_sees_none_of_it() -> None:
    grant(person("li"), rule("get list", "placements", groups=GROUP), namespace=TEAM)
    place()
    assert section(signed_in("li")) == ""


def test_who_does_not_see_a_cluster_gets_no_link_to_it(admin: Client) -> None:
    author()
    place()
    assert "web-1" in rows(signed_in("li"))
    assert "/clusters/web-1/" not in section(signed_in("li"))
    assert "/clusters/web-1/" in section(admin)


def test_older_pages_of_the_history_begin_with_the_history(admin: Client) -> None:
    place()
    assert section(admin)
    assert not section(admin, "?after=999999")
