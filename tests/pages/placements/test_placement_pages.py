"""The list of placements, one Placement and why it chose what it chose: what each person reads."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from guardian.shortcuts import assign_perm

from clusters.kinds import GROUP
from clusters.models import ManagedCluster
from ocmconsole.kubeapi.watch import follower
from placements.kinds import DISABLE_ANNOTATION, PLACEMENT
from placements.pages import placement_pages
from tests import factories as make
from tests.actors import grant, person, rule, signed_in
from tests.pages.placements.scene import TEAM, author, fleet, matching, place

__all__ = ["fleet"]  # a fixture of every test

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> Client:
    return signed_in("root", is_superuser=True)


def text(response: Any) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


def words(response: Any) -> dict[str, str]:
    return {row["name"]: row["status"].label for row in response.context["placements"]}


class TestList:
    @pytest.mark.contract("P2", "P28", "P29")
    def test_each_placement_has_its_word_with_why_and_next(self, admin: Client) -> None:
        place("all")
        place("three", numberOfClusters=5)
        place("none", predicates=matching(env="nowhere"))
        place("elsewhere", namespace="ops")
        place("odd", numberOfClusters=-1)
        place("theirs", annotations={DISABLE_ANNOTATION: "true"})
        answer = admin.get("/placements/")
        assert words(answer) == {
            "all": "Satisfied",
            "three": "2 short",
            "none": "No match",
            "elsewhere": "Nothing bound",
            "odd": "Misconfigured",
            "theirs": "Paused",
        }
        shown = {row["name"]: row["status"] for row in answer.context["placements"]}
        assert (shown["three"].chosen, shown["three"].wanted) == (3, 5)
        assert all(each.why and each.next for each in shown.values())
        assert "numberOfClusters must not be negative" in shown["odd"].why
        page = text(answer)
        assert "Bind a set into the namespace" in page
        assert "3 of 5" in page
        assert "0 chosen, asks for -1" in page
        assert "of -1" not in page

    def test_it_is_filtered_by_word_set_namespace_and_name(self, admin: Client) -> None:
        place("p-all")
        place("p-web", clusterSets=["web"])
        place("p-db", clusterSets=["db"])
        place("p-ops", namespace="ops")
        assert set(words(admin.get("/placements/?word=nothing-bound"))) == {"p-db", "p-ops"}
        assert set(words(admin.get("/placements/?set=web"))) == {"p-all", "p-web"}
        assert set(words(admin.get("/placements/?namespace=ops"))) == {"p-ops"}
        assert set(words(admin.get("/placements/?q=p-w"))) == {"p-web"}
        page = admin.get("/sets/web/").content.decode()
        assert 'href="/placements/?set=web"' in page
        assert "<option selected>db</option>" in admin.get("/placements/?set=db").content.decode()
        assert "No placement matches" in text(admin.get("/placements/?q=nothing-like-it"))

    def test_the_last_change_of_its_decisions_is_shown(self, admin: Client) -> None:
        place()
        [row] = admin.get("/placements/").context["placements"]
        assert timezone.now() - row["changed"] < timedelta(minutes=1)

    @pytest.mark.contract("D16")
    def test_only_namespaces_count_in_which_the_user_may_list_placements(self) -> None:
        place()
        place("hidden-one", namespace="ops")
        client = signed_in("li")
        author("li")
        assert set(words(client.get("/placements/"))) == {"p1"}
        assert client.get("/placements/ops/hidden-one/").status_code == 404
        assert client.get("/placements/ops/hidden-one/why/").status_code == 404
        assert "hidden-one" not in text(client.get("/search/?q=hidden"))
        nobody = signed_in("mallory")
        assert "You can see none of the hub\N{RIGHT SINGLE QUOTATION MARK}s placements" in text(
            nobody.get("/placements/")
        )

    def test_search_finds_placements_by_name_and_with_their_namespace(self, admin: Client) -> None:
        place("checkout")
        for query in ("check", "shop/check", "shop/checkout"):
            assert 'href="/placements/shop/checkout/"' in admin.get(f"/search/?q={query}").content.decode()

    def test_search_finds_the_placement_of_exactly_this_name_first_among_many(self, admin: Client) -> None:
        make.namespace("zoo")
        place("web", namespace="zoo")
        for number in range(8):
            place(f"a-web-{number}")
        answer = admin.get("/search/?q=web")
        groups = {group.label: group for group in answer.context["groups"]}
        assert "zoo/web" in [hit.text for hit in groups["Exactly this name"].hits]
        assert (groups["Placements"].total, len(groups["Placements"].hits)) == (8, 5)

    def test_more_placements_cost_no_more_queries(self, admin: Client) -> None:
        def queries() -> int:
            with CaptureQueriesContext(connection) as found:
                assert admin.get("/placements/").status_code == 200
            return len(found)

        place("p1")
        queries()
        few = queries()
        for number in range(2, 8):
            place(f"p{number}", clusterSets=["web"])
        assert queries() <= few + 1  # the names of sets are read once

    def test_a_long_list_has_pages(self, admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("placements.pages.list_pages.PAGE", 2)
        for name in ("a", "b", "c"):
            place(name)
        assert list(words(admin.get("/placements/"))) == ["a", "b"]
        assert list(words(admin.get("/placements/?after=shop/b"))) == ["c"]


class TestPlacement:
    def test_it_shows_decisions_by_group_with_states_and_conditions(self, admin: Client) -> None:
        groups = [{"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"env": "test"}}}}]
        place(decisionStrategy={"groupStrategy": {"decisionGroups": groups}})
        answer = admin.get("/placements/shop/p1/")
        shown = [(each["name"], [row["name"] for row in each["rows"]]) for each in answer.context["groups"]["shown"]]
        assert shown == [("canary", ["web-3"]), ("", ["web-1", "web-4"])]
        page = text(answer)
        assert "3 clusters chosen" in page
        assert "All cluster decisions scheduled" in page
        assert "p1-decision-2" in page
        assert "numberOfClusters" not in page

    @pytest.mark.contract("P11", "P13")
    def test_a_toleration_that_ends_is_what_lies_ahead(self, admin: Client) -> None:
        place(tolerations=[{"key": "ocmconsole.io/maintenance", "operator": "Exists", "tolerationSeconds": 3600}])
        answer = admin.get("/placements/shop/p1/")
        [group] = answer.context["groups"]["shown"]
        notes = {row["name"]: row["note"] for row in group["rows"]}
        assert re.fullmatch(
            r"leaves at [\d: A-Za-z]+ UTC: taint ocmconsole.io/maintenance:NoSelect is tolerated until then",
            notes["web-2"],
        )
        assert notes["web-1"] == ""
        assert answer.context["looks_again"] is not None

    def test_a_group_of_many_leads_to_all_of_its_clusters(self, admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("placements.pages.placement_pages.SHOWN", 1)
        monkeypatch.setattr("placements.pages.placement_pages.PAGE", 2)
        place()
        [group] = admin.get("/placements/shop/p1/").context["groups"]["shown"]
        assert (len(group["rows"]), group["rest"]) == (1, 2)
        assert [row["name"] for row in admin.get(group["url"]).context["groups"]["shown"][0]["rows"]] == [
            "web-1",
            "web-3",
        ]
        assert "2 on this page" in text(admin.get(group["url"]))
        last = admin.get(f"{group['url']}&after=2")
        assert [row["name"] for row in last.context["groups"]["shown"][0]["rows"]] == ["web-4"]

    @pytest.mark.contract("D14")
    @pytest.mark.contract("P2")
    def test_one_that_another_scheduler_decides_is_not_said_to_be_looked_at_again(self, admin: Client) -> None:
        place(annotations={DISABLE_ANNOTATION: "true"}, tolerations=[{"operator": "Exists", "tolerationSeconds": 600}])
        assert "Looks again Not while paused" in text(admin.get("/placements/shop/p1/"))

    def test_decisions_that_are_kept_are_said_to_be(self, admin: Client) -> None:
        place()
        make.edit(PLACEMENT, "p1", lambda doc: doc["spec"].update(numberOfClusters=-1), namespace=TEAM)
        make.settle()
        answer = admin.get("/placements/shop/p1/")
        assert answer.context["status"].word == "misconfigured"
        assert "The last good decisions are kept: 3." in text(answer)
        assert "kept from the last good decisions" in text(answer)

    @pytest.mark.contract("D16")
    def test_a_namespace_user_reads_names_of_decisions_and_no_state_of_clusters(self) -> None:
        place()
        client = signed_in("li")
        author("li")
        answer = client.get("/placements/shop/p1/")
        [group] = answer.context["groups"]["shown"]
        assert [(row["name"], row["url"], row["word"]) for row in group["rows"]] == [
            (name, "", None) for name in ("web-1", "web-3", "web-4")
        ]
        assert "3 of them are clusters whose state you may not see" in text(answer)

    @pytest.mark.contract("D16")
    def test_without_the_right_to_decisions_clusters_are_counted(self) -> None:
        place()
        client = signed_in("raj")
        grant(person("raj"), rule("list", "placements", groups=GROUP), namespace=TEAM)
        answer = client.get("/placements/shop/p1/")
        assert "web-1" not in answer.content.decode()
        assert "3 chosen clusters, by group" in text(answer)
        assert "you may not list" in text(answer)


class TestWhyNot:
    def test_the_funnel_counts_each_cluster_at_the_first_step_that_it_does_not_pass(self, admin: Client) -> None:
        place(predicates=matching(env="prod"))
        answer = admin.get("/placements/shop/p1/why/")
        assert [(each["step"], each["out"], each["left"]) for each in answer.context["funnel"]] == [
            ("all", 0, 5),
            ("bound", 1, 4),
            ("sets", 0, 4),
            ("staying", 0, 4),
            ("predicates", 2, 2),
            ("taints", 1, 1),
            ("scored", 0, 1),
            ("chosen", 0, 1),
        ]
        assert answer.context["open"]["step"] == "predicates"
        assert {each["text"]: (each["count"], each["change"]) for each in answer.context["reasons"]} == {
            "label env is test, needs env in (prod)": (1, "set env=prod"),
            "label env is missing, needs env in (prod)": (1, "set env=prod"),
        }
        rows = {row["name"]: row for row in answer.context["rows"]}
        assert rows["db-1"]["why"].change == "bind db into shop"
        assert rows["web-2"]["why"].change == "end its maintenance"
        assert rows["web-1"]["chosen"]
        assert list(rows) == ["web-1", "web-2", "web-3", "web-4", "db-1"]  # the nearest to being chosen first

    def test_a_step_and_a_reason_narrow_the_table(self, admin: Client) -> None:
        place(predicates=matching(env="prod"))
        answer = admin.get("/placements/shop/p1/why/?stage=predicates")
        missing = next(each for each in answer.context["reasons"] if "missing" in each["text"])
        assert [row["name"] for row in admin.get(missing["url"]).context["rows"]] == ["web-4"]
        near = admin.get("/placements/shop/p1/why/?show=near").context["rows"]
        assert {row["name"] for row in near} == {"web-2", "web-3", "web-4", "db-1"}
        assert [row["name"] for row in admin.get("/placements/shop/p1/why/?q=db").context["rows"]] == ["db-1"]

    @pytest.mark.contract("P19")
    def test_scores_are_a_readable_sum_and_the_cut_is_named(self, admin: Client) -> None:
        place(numberOfClusters=1)
        rows = {row["name"]: row for row in admin.get("/placements/shop/p1/why/").context["rows"]}
        assert rows["web-1"]["score"] == "200 = Balance 100 + Steady 100"
        assert rows["web-3"]["why"].text == "rank 2 with 100; the last that is chosen has 200"
        assert rows["web-3"]["why"].change == "raise the number to 2"

    @pytest.mark.contract("D16")
    def test_clusters_that_one_may_not_see_are_counted_and_their_labels_stay_unread(self) -> None:
        place(predicates=matching(env="prod"))
        client = signed_in("li")
        author("li")
        assign_perm(
            "clusters.view_managedcluster", User.objects.get(username="li"), ManagedCluster.objects.get(name="web-4")
        )
        for address in ("/placements/shop/p1/why/", "/placements/shop/p1/why/?stage=bound"):
            answer = client.get(address)
            page = answer.content.decode()
            assert answer.context["funnel"][0]["left"] == 5
            assert not re.search(r"db-1|web-[123]|env is test", page)
        answer = client.get("/placements/shop/p1/why/?stage=predicates")
        assert [(each["text"], each["count"], each["is_hidden"]) for each in answer.context["reasons"]] == [
            ("label env is missing, needs env in (prod)", 1, False),
            ("label env in (prod) does not hold", 1, True),
        ]
        assert answer.context["hidden_reasons"] == 1
        assert [row["name"] for row in answer.context["rows"]] == ["web-4"]
        assert "4 others are counted above, not named" in text(answer)

    def test_odd_addresses_show_the_page_as_it_begins(self, admin: Client) -> None:
        place()
        for query in ("stage=x", "after=-1", "after=99999999999", "show=x", "reason=x", "after=²"):
            assert admin.get(f"/placements/shop/p1/why/?{query}").status_code == 200
            assert admin.get(f"/placements/shop/p1/?{query}&group=x").status_code == 200


def test_what_the_scheduler_decides_while_the_page_is_made_is_a_notice_for_it(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an act: the page has read the state of before, and must hear of what came of it."""
    place(predicates=matching(env="prod"))
    work_out = placement_pages.work_out

    def decide_meanwhile(*arguments: Any) -> Any:
        make.label("web-3", env="prod")
        make.settle()
        return work_out(*arguments)

    monkeypatch.setattr(placement_pages, "work_out", decide_meanwhile)
    page = admin.get(f"/placements/{TEAM}/p1/", headers={"Accept": "text/html,*/*"}).content.decode()
    seen = re.search(r'data-seen="(\d+)"', page)
    assert seen is not None
    notices = {(each.plural, each.name) for each in follower.notices_after(int(seen[1]))}
    assert {("placements", "p1"), ("placementdecisions", "p1-decision-1")} <= notices
