"""What an act on a cluster would do to placements, on the page before it; and the cluster's tab of sets and placements."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clusters.kinds import CLUSTERSET_LABEL, GROUP
from clusters.models import ManagedCluster
from ocmconsole.kubeapi.access import session
from placements.controller import history
from placements.kinds import DISABLE_ANNOTATION, PLACEMENT
from placements.pages import cluster_tab
from tests import factories as make
from tests.actors import grant, person, rule, signed_in
from tests.pages.placements.scene import TEAM, fleet, matching, place

__all__ = ["fleet"]  # a fixture of every test

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(fleet: None) -> Client:
    """``all`` has three clusters, ``one`` the best of them, ``patient`` tolerates everything."""
    for row in ManagedCluster.objects.all():
        make.accept(row.name)
        make.available(row.name)
    make.settle()
    place("all")
    place("one", numberOfClusters=1)
    place("patient", tolerations=[{"operator": "Exists"}])
    return signed_in("root", is_superuser=True)


def text(response: Any) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode())).replace(" ,", ",").replace(" .", ".")


class TestBeforeAnAct:
    def test_maintenance_says_which_placements_drop_the_cluster_and_which_keep_it(self, admin: Client) -> None:
        page = text(admin.get("/clusters/web-1/maintenance/"))
        assert "2 placements would drop it with the effect NoSelect" in page
        assert "shop/all, shop/one. 1 other cluster would take its place there." in page
        assert "1 placement would keep it whatever the effect shop/patient." in page

    def test_removal_drops_it_from_all_and_disconnection_from_those_that_do_not_tolerate_silence(
        self, admin: Client
    ) -> None:
        assert "3 placements would drop it shop/all, shop/one, shop/patient." in text(
            admin.get("/clusters/web-1/remove/")
        )
        page = text(admin.get("/clusters/web-1/disconnect/"))
        assert "2 placements would drop it then" in page
        assert "1 placement would keep it" in page

    def test_decisions_of_another_scheduler_are_said_to_be_there(self, admin: Client) -> None:
        for name in ("all", "one", "patient"):
            make.edit(
                PLACEMENT,
                name,
                lambda doc: doc["metadata"].setdefault("annotations", {}).update({DISABLE_ANNOTATION: "true"}),
                namespace=TEAM,
            )
        make.settle()
        page = text(admin.get("/clusters/web-1/remove/"))
        assert "3 placements are decided by another scheduler What changes here is among their decisions" in page
        assert "None has chosen it" not in page

    def test_a_taint_can_be_tried_and_is_not_stored(self, admin: Client) -> None:
        data = {"key": "gpu", "value": "", "effect": "NoSelect"}
        page = text(admin.post("/clusters/web-1/taints/set/", {**data, "preview": "1"}))
        assert "2 placements would drop it" in page
        assert "&quot;key&quot;: &quot;gpu&quot;" in page  # the command does the same
        assert "gpu:NoSelect" not in make.taints("web-1")
        page = text(admin.post("/clusters/web-1/taints/set/", {**data, "effect": "NoSelectIfNew", "preview": "1"}))
        assert "No placement would drop it Those that have chosen it keep it." in page

    def test_a_move_says_who_drops_it_and_who_chooses_it_anew(self, admin: Client) -> None:
        make.binding("db", namespace="ops")
        place("theirs", namespace="ops")
        page = text(admin.get("/clusters/web-1/set/?to=db"))
        assert "3 placements would drop clusters" in page
        assert "1 placement would choose clusters anew ops/theirs." in page

    @pytest.mark.usefixtures("admin")
    def test_placements_that_one_may_not_see_are_counted(self) -> None:
        grant(person("li"), rule("get list update patch", "managedclusters", groups=GROUP))
        page = text(signed_in("li").get("/clusters/web-1/maintenance/"))
        assert "2 placements would drop it" in page
        assert "2 that you may not see." in page
        assert "shop/all" not in page


class TestTab:
    def test_it_says_which_placements_chose_it_which_did_not_and_the_smallest_change(self, admin: Client) -> None:
        place("prod", predicates=matching(env="prod"))
        page = text(admin.get("/clusters/web-4/sets/"))
        assert "Sets &amp; placements" in page or "Sets & placements" in page
        assert "Chosen by 2 placements" in page
        assert "label env is missing, needs env in (prod)" in page
        assert "set env=prod" in page
        assert re.search(r"rank \d with", page)

    def test_it_says_when_it_entered_and_left_and_why(self, admin: Client) -> None:
        make.label("web-1", {CLUSTERSET_LABEL: "db"})
        make.settle()
        page = text(admin.get("/clusters/web-1/sets/"))
        assert "Entered" in page
        assert "Left" in page
        assert f"label {CLUSTERSET_LABEL}: web → db" in page

    def test_the_number_of_queries_does_not_grow_with_placements(self, admin: Client) -> None:
        def queries() -> int:
            with CaptureQueriesContext(connection) as found:
                assert admin.get("/clusters/web-1/sets/").status_code == 200
            return len(found)

        queries()
        before = queries()
        for number in range(8):
            place(f"more-{number}")
        queries()
        assert queries() <= before

    @pytest.mark.usefixtures("admin")
    def test_only_placements_that_one_may_list_are_shown(self) -> None:
        grant(person("li"), rule("get list", "managedclusters", groups=GROUP))
        page = text(signed_in("li").get("/clusters/web-1/sets/"))
        assert "Chosen by 0 placements" in page
        assert TEAM + "/" not in page
        assert "The history has no Placement" in page


class TestGaps:
    def test_a_gap_says_which_placements_dropped_the_cluster_and_when_they_chose_it_again(self, admin: Client) -> None:
        begin = timezone.now()
        with time_machine.travel(begin + timedelta(minutes=10), tick=False):
            make.available("web-1", "Unknown")
            make.settle()
        with time_machine.travel(begin + timedelta(minutes=25), tick=False):
            make.available("web-1")
            make.settle()
        actor = session.actor_for(User.objects.get(username="root"))
        spans = [(begin, begin + timedelta(minutes=20)), (begin + timedelta(hours=2), begin + timedelta(hours=3))]
        first, second = cluster_tab.in_gaps(actor, "web-1", spans)
        left, back = (f"{begin + timedelta(minutes=after):%H:%M}" for after in (10, 25))
        assert f"Placement shop/all dropped it at {left}, chose it again at {back}." in first
        assert second == []
        assert cluster_tab.in_gaps(person("li"), "web-1", spans) == [[], []]
        assert admin.get("/clusters/web-1/health/").status_code == 200

    @pytest.mark.usefixtures("admin")
    def test_a_gap_names_four_placements_in_the_order_in_which_they_dropped_it_and_counts_the_rest(self) -> None:
        for name in ("p1", "p2"):
            place(name)
        begin = timezone.now()
        actor = session.actor_for(User.objects.get(username="root"))
        named = [f"Placement shop/{name} dropped it" for name in ("all", "one", "p1", "p2")]
        for more, rest in (
            ([], []),
            (["p3"], ["1 more placement dropped it."]),
            (["p4", "p5"], ["3 more placements dropped it."]),
        ):
            begin += timedelta(hours=1)
            with time_machine.travel(begin, tick=False):
                for name in more:
                    place(name)
                make.available("web-1", "Unknown")
                make.settle()
            with time_machine.travel(begin + timedelta(minutes=5), tick=False):
                make.available("web-1")
                make.settle()
            [found] = cluster_tab.in_gaps(actor, "web-1", [(begin, begin + timedelta(minutes=5))])
            assert [each.partition(" at ")[0] for each in found[:4]] == named
            assert found[4:] == rest

    @pytest.mark.usefixtures("admin")
    def test_of_an_earlier_day_a_gap_says_the_date_and_where_the_history_is_cut_no_more_than_it_knows(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with time_machine.travel(datetime(2100, 6, 5, 12, tzinfo=UTC), tick=False):
            make.available("web-1", "Unknown")
            make.settle()
        with time_machine.travel(datetime(2100, 6, 6, 12, tzinfo=UTC), tick=False):
            make.available("web-1")
            make.settle()
        actor = session.actor_for(User.objects.get(username="root"))
        spans = [(datetime(2100, 6, 5, 11, 30, tzinfo=UTC), datetime(2100, 6, 6, 12, tzinfo=UTC))]

        def said() -> list[str]:
            [found] = cluster_tab.in_gaps(actor, "web-1", spans)
            return found

        with time_machine.travel(datetime(2100, 6, 6, 13, tzinfo=UTC), tick=False):
            assert said() == [
                "Placement shop/all dropped it at 5 Jun 12:00, chose it again at 12:00.",
                "Placement shop/one dropped it at 5 Jun 12:00, has not chosen it since.",
            ]
            monkeypatch.setattr(history, "MOST_MOVES", 2)
            assert said() == [f"Placement shop/{name} dropped it at 5 Jun 12:00." for name in ("all", "one")]
