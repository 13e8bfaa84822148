"""D27 on pages: what is kept, why, and the choices; the list, the bell, the debugger and the audit say the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext

from clusters.kinds import GROUP, MANAGED_CLUSTER
from clusters.models import ManagedCluster
from ocmconsole.kubeapi.health import metrics
from ocmconsole.kubeapi.models import AuditEvent
from placements import queries
from placements.controller import brakes
from placements.controller.scheduling import decided_in
from placements.kinds import BRAKE_ENDED, BRAKE_KEPT
from placements.models import EvictionBrake, HeldEvictions, Placement, PlacementDecision
from placements.scheduler.brake import WAIT
from tests import factories as make
from tests.actors import grant, person, rule, signed_in
from tests.api import entry
from tests.pages.placements.scene import TEAM, all_silent, author, fleet, place

__all__ = ["fleet"]  # a fixture of every test

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D27")]

KEPT = {"web-1", "web-3", "web-4"}


@pytest.fixture(autouse=True)
def silence(fleet: None) -> Iterator[None]:
    """All five clusters fall silent at once, and p1 keeps the three that it has chosen."""
    with all_silent():
        yield


@pytest.fixture
def admin() -> Client:
    return signed_in("root", is_superuser=True)


def text(response: Any) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


def chosen() -> set[str]:
    return set(decided_in(PlacementDecision.objects.filter(namespace=TEAM, placement="p1")))


def brake() -> EvictionBrake:
    return EvictionBrake.objects.get()


def same_as(row: EvictionBrake, scope: str) -> dict[str, Any]:
    """Columns of a brake that began with this one, about a set."""
    columns = ("since", "begun", "until", "silent", "late", "members")
    return {"scope": scope} | {name: getattr(row, name) for name in columns}


def until() -> str:
    end = brake().until
    assert end is not None
    return f"{end:%H:%M}"


def test_the_page_of_a_placement_leads_with_what_is_kept_why_and_until_when(admin: Client) -> None:
    page = text(admin.get(f"/placements/{TEAM}/p1/"))
    assert "Evictions held" in page
    assert "3 evictions are held" in page
    assert "3 stay chosen" in page
    assert f"They wait for a person until {until()} UTC. Then those that are still silent leave." in page
    assert "3 evictions wait" in page
    assert "5 of 5 accepted clusters fell silent or late at once" in page
    assert f"held: would leave at {until()} UTC" in page
    assert "Hold until I release it" in page
    assert "Evict now" in page


def test_list_overview_and_bell_say_that_evictions_are_held(admin: Client) -> None:
    page = text(admin.get("/placements/?word=held"))
    assert "Evictions held" in page
    assert "3 of 3 chosen clusters fell silent with most others at once" in page
    for path in ("/", "/attention/"):
        found = text(admin.get(path))
        assert "Evictions held" in found, path
        said = f"Most clusters of the whole hub fell silent at once: 3 evictions of 1 placement wait. They wait until {until()}."
        assert said in found, path


def test_overview_names_the_set_of_the_brake_to_who_sees_it_and_counts_evictions(admin: Client) -> None:
    EvictionBrake.objects.update(scope="web")
    row = HeldEvictions.objects.get()
    place("p2")
    other = Placement.objects.get(name="p2")
    HeldEvictions.objects.update_or_create(placement=other, defaults={"count": 3, "since": row.since, "until": None})
    said = f"fell silent at once: 6 evictions of 2 placements wait. The first wait until {until()}."
    assert f"Most clusters of set web {said}" in text(admin.get("/"))
    author()
    assert f"Most clusters of a set {said}" in text(signed_in("li").get("/"))
    EvictionBrake.objects.create(**same_as(brake(), scope="db"))
    assert "Most clusters of each of 2 sets fell silent at once" in text(admin.get("/"))


def test_who_releases_one_of_two_brakes_reads_what_the_other_still_holds(admin: Client) -> None:
    """The set's four clusters are among the hub's five."""
    hub = brake()
    EvictionBrake.objects.create(**same_as(hub, scope="web"))
    page = text(admin.get("/placements/held/"))
    assert "1 silent cluster leaves every Placement" in page
    assert "4 stay, held by the brake of set web too." in page
    assert "0 silent clusters leave every Placement" in page
    assert "4 stay, held by the brake of the whole hub too." in page
    assert "4 of the 5 that are silent stay as long as the brake of set web stands." in text(
        admin.get(f"/placements/held/?release={hub.pk}")
    )
    done = text(admin.post("/placements/held/", {"brake": str(hub.pk), "act": "release"}, follow=True))
    said = "1 silent cluster leaves within moments: 4 that are silent stay, held by the brake of set web."
    assert f"The brake is released. {said}" in done
    make.settle()
    assert chosen() == KEPT
    last = EvictionBrake.objects.get(ended=None)
    done = text(admin.post("/placements/held/", {"brake": str(last.pk), "act": "release"}, follow=True))
    assert "The evictions are released. Clusters that are silent leave within moments." in done
    make.settle()
    assert chosen() == set()


def test_who_releases_a_brake_whose_clusters_another_holds_all_reads_that_none_leaves(admin: Client) -> None:
    of_set = EvictionBrake.objects.create(**same_as(brake(), scope="web"))
    done = text(admin.post("/placements/held/", {"brake": str(of_set.pk), "act": "release"}, follow=True))
    assert "No cluster leaves yet: 4 that are silent stay, held by the brake of the whole hub." in done


def test_a_brake_that_holds_no_cluster_alone_is_not_said_to_evict_any(admin: Client) -> None:
    of_set = EvictionBrake.objects.create(**same_as(brake(), scope="web"))
    page = text(admin.get(f"/placements/held/?release={of_set.pk}"))
    assert "End this brake now? No cluster leaves by it" in page


def test_one_eviction_waits_in_the_singular(admin: Client) -> None:
    HeldEvictions.objects.update(count=1)
    assert f"1 eviction of 1 placement waits. It waits until {until()}." in text(admin.get("/"))


def test_many_brakes_are_compared_in_one_look_at_the_silent_clusters(admin: Client) -> None:
    """Of the hub, of two exclusive sets, one without members, of a set that selects, of one that is gone."""
    make.clusterset("empty")
    make.clusterset(
        "named", selector={"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"kept": "no"}}}
    )
    for name in ("web-1", "web-2"):
        make.edit(MANAGED_CLUSTER, name, lambda doc: doc["metadata"]["labels"].update(kept="no"))
    rows = [brake(), *(EvictionBrake(**same_as(brake(), scope)) for scope in ("web", "empty", "named", "gone"))]
    with CaptureQueriesContext(connection) as asked:
        found = brakes.reach_of(rows)
    assert len(asked) == 2
    assert [each.silent for each in found] == [brakes.silent_now(row) for row in rows] == [5, 4, 0, 2, 0]
    assert [each.kept for each in found] == [4, 4, 0, 2, 0]
    assert [each.others for each in found] == [{1, 3}, {0, 3}, set(), {0, 1}, set()]
    assert queries.scopes_of_brakes(rows[1:3], set()) == ["2 sets"]
    assert queries.scopes_of_brakes(rows[:2], set()) == ["the whole hub", "another set"]
    assert queries.scopes_of_brakes(rows[:4], {"web"}) == ["the whole hub", "set web", "2 other sets"]


def test_why_not_the_playground_and_the_debugger_hold_them_too(admin: Client) -> None:
    for path in (f"/placements/{TEAM}/p1/why/?show=chosen", f"/placements/playground/?from={TEAM}/p1"):
        assert f"held: would leave at {until()} UTC" in text(admin.get(path)), path
    gates = {**settings.OCMCONSOLE_FEATURE_GATES, "PlacementDebugServer": True}
    with override_settings(OCMCONSOLE_FEATURE_GATES=gates):
        found = entry.root().get(f"/debug/placements/{TEAM}/p1").doc
    assert set(found["decisions"]) == KEPT
    end = brake().until
    assert end is not None
    assert found["heldClusters"] == [
        {"clusterName": name, "until": f"{end:%Y-%m-%dT%H:%M:%SZ}"} for name in sorted(KEPT)
    ]
    assert found["reasons"][0]["clusterName"] == "web-2"


def test_the_playground_tells_of_the_time_after_the_brake(admin: Client) -> None:
    path = f"/placements/playground/?from={TEAM}/p1"
    address = admin.post(path, {"pretend": "1", "x-what": "time", "x-value": "20m"}, follow=True)
    assert address.context["chosen_count"] == 0


def test_numbers_of_the_page_of_held_evictions_are_those_of_the_rows(admin: Client) -> None:
    place("first", numberOfClusters=1)  # after the silence: nothing to keep
    page = text(admin.get("/placements/held/"))
    silent = {
        row.name
        for row in ManagedCluster.objects.all()
        if any(each["key"].endswith("/unreachable") for each in row.doc["spec"].get("taints") or ())
    }
    rows = PlacementDecision.objects.all()
    held = sum(
        each["clusterName"] in silent for row in rows for each in (row.doc.get("status") or {}).get("decisions") or ()
    )
    assert (len(silent), held) == (5, 3)
    assert f"{held} evictions of placements that you may see wait" in page
    assert re.search(rf"p1 shop {held} ", page)
    assert "first" not in page
    assert f"Evict {len(silent)} silent clusters now?" in text(admin.get(f"/placements/held/?release={brake().pk}"))
    for odd in ("?release=%F0%9F%92%A5", "?release=1&release=2", "?after=x", f"?release={'9' * 5000}"):
        assert admin.get(f"/placements/held/{odd}").status_code == 200, odd


def test_a_person_holds_them_and_releases_them_with_a_page_in_between(admin: Client) -> None:
    pk = str(brake().pk)
    admin.post("/placements/held/", {"brake": pk, "act": "hold"})
    make.settle()
    assert (brake().until, brake().held_by) == (None, "root")
    assert "until a person releases their evictions" in text(admin.get(f"/placements/{TEAM}/p1/"))
    asked = text(admin.get(f"/placements/held/?release={pk}"))
    assert "Evict 5 silent clusters now?" in asked
    assert chosen() == KEPT
    admin.post("/placements/held/", {"brake": pk, "act": "release"})
    make.settle()
    assert chosen() == set()
    assert (brake().ended_why, brake().ended_by) == ("released", "root")
    acts = AuditEvent.objects.filter(act__in=[BRAKE_KEPT, BRAKE_ENDED], user="root")
    assert list(acts.order_by("pk").values_list("act", flat=True)) == [BRAKE_KEPT, BRAKE_ENDED]
    again = admin.post("/placements/held/", {"brake": pk, "act": "release"}, follow=True)
    assert "the brake has ended" in text(again)
    assert "No eviction is held" in text(again)
    assert "Evictions held" not in text(admin.get(f"/placements/{TEAM}/p1/"))


def test_who_may_not_change_clusters_reads_of_it_and_decides_nothing() -> None:
    author()
    li = signed_in("li")
    page = text(li.get(f"/placements/{TEAM}/p1/"))
    assert "3 evictions wait" in page
    assert "Holding and releasing takes the right to update every cluster" in page
    assert "Evict now" not in page
    answer = li.post("/placements/held/", {"brake": str(brake().pk), "act": "release"}, follow=True)
    assert "cannot update resource" in text(answer)
    assert brake().ended is None
    assert AuditEvent.objects.filter(user="li", outcome=AuditEvent.Outcome.DENIED).exists()
    assert "Evictions held" in text(li.get("/"))
    mallory = signed_in("mallory")
    found = text(mallory.get("/placements/held/"))
    assert "0 evictions of placements that you may see" in found
    assert "p1" not in found


def test_the_owner_of_a_set_decides_about_the_brake_of_the_set() -> None:
    EvictionBrake.objects.update(scope="web")
    grant(person("raj"), rule("get list update", "managedclustersets", groups=GROUP))
    raj = signed_in("raj")
    raj.post("/placements/held/", {"brake": str(brake().pk), "act": "release"})
    assert brake().ended_by == "raj"


@pytest.mark.parametrize("sent", ["", "x", "0", "9999999999", "-1"])
def test_a_brake_that_is_none_is_a_message(admin: Client, sent: str) -> None:
    for act in ("hold", "release", ""):
        assert admin.post("/placements/held/", {"brake": sent, "act": act}, follow=True).status_code == 200
    assert admin.get(f"/placements/held/?release={sent}").status_code == 200
    assert brake().ended is None


def test_prometheus_reads_how_many_evictions_wait() -> None:
    found = metrics.exposition().decode()
    assert "ocmconsole_eviction_brakes 1.0" in found
    assert "ocmconsole_evictions_held 3.0" in found


def test_a_brake_lasts_a_quarter_of_an_hour() -> None:
    end = brake().until
    assert end is not None
    assert end - brake().begun == WAIT
