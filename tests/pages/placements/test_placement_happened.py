"""A Placement's page shows who entered and left last, why, and because of which change; to each what they may read."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from clusters.kinds import CLUSTERSET_LABEL, GROUP, MANAGED_CLUSTER
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from placements.controller import history
from placements.kinds import PLACEMENT
from tests import factories as make
from tests.actors import grant, person, rule, signed_in
from tests.pages.placements.scene import TEAM, author, fleet, matching, place

__all__ = ["fleet"]  # a fixture of every test

pytestmark = [pytest.mark.django_db, pytest.mark.contract("K43")]


def shown(client: Client, name: str = "p1") -> str:
    """The section in words; empty where there is none."""
    page = client.get(f"/placements/{TEAM}/{name}/").content.decode()
    section = re.search(r'<section[^>]* id="happened".*?</section>', page, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", section[0]).split()) if section else ""


def change() -> None:
    place(predicates=matching(env="prod"))
    make.label("web-1", env="test")
    make.settle()


def test_the_newest_change_comes_first_with_stage_reason_and_cause() -> None:
    change()
    text = shown(signed_in("root", is_superuser=True))
    left = (
        "0 entered, 1 left Left: web-1 : label env is test, needs env in (prod) Cause: label env: prod → test, by root"
    )
    entered = "1 entered, 0 left Entered: web-1 Cause: Placement shop/p1: created, by root"
    assert left in text
    assert entered in text
    assert text.index(left) < text.index(entered)


def test_the_creation_of_a_cluster_is_named_as_the_cause() -> None:
    place()
    make.cluster("web-5", labels={CLUSTERSET_LABEL: "web"})
    make.said("web-5", "ManagedClusterConditionAvailable", "True")
    make.settle()
    text = shown(signed_in("root", is_superuser=True))
    assert "Entered: web-5 Cause: ManagedCluster created, by root" in text


def test_who_may_not_read_the_audit_does_not_read_who_made_a_change() -> None:
    li = person("li")
    grant(li, rule("get list patch", "placements placementdecisions managedclusters", groups=GROUP))
    place()
    make.edit(PLACEMENT, "p1", lambda doc: doc["spec"].update(numberOfClusters=1), namespace=TEAM, by=li)
    make.settle()
    text = shown(signed_in("li"))
    assert "Cause: Placement shop/p1: spec.numberOfClusters set, by li" in text, "one's own name is no secret"
    assert "Cause: Placement shop/p1: created" in text
    assert "by root" not in text
    assert "created, by root" in shown(signed_in("boss", is_superuser=True))


def test_of_clusters_that_changed_alike_nobody_is_named_for_all() -> None:
    place(predicates=matching(env="prod"), tolerations=[{"operator": "Exists"}])
    for name in ("web-1", "web-2"):
        make.label(name, env="test")
    make.settle()
    [move] = signed_in("root", is_superuser=True).get(f"/placements/{TEAM}/p1/").context["happened"][0]["moves"]
    assert (move["count"], move["cause"]) == (2, "label env: prod → test")


def test_a_cluster_that_is_there_and_seen_has_a_link() -> None:
    change()
    root = signed_in("root", is_superuser=True)
    for page in ("", "history/"):
        answer = root.get(f"/placements/{TEAM}/p1/{page}")
        assert 'href="/clusters/web-1/">web-1</a>' in answer.content.decode()
    author()
    assert 'href="/clusters/web-1/"' not in signed_in("li").get(f"/placements/{TEAM}/p1/").content.decode()
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "web-1"))
    make.settle()
    moves = [move for run in root.get(f"/placements/{TEAM}/p1/").context["happened"] for move in run["moves"]]
    assert {each["url"] for move in moves for each in move["names"] if each["name"] == "web-1"} == {""}


def whole(client: Client, query: str = "") -> str:
    """The tab of the whole history, in words."""
    page = client.get(f"/placements/{TEAM}/p1/history/{query}").content.decode()
    section = re.search(r'<section[^>]* id="history".*?</section>', page, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", section[0]).split()) if section else ""


def test_the_whole_history_has_each_change_with_the_number_before_and_after() -> None:
    change()
    text = whole(signed_in("root", is_superuser=True))
    assert "1 left web-1 label env is test, needs env in (prod) label env: prod → test, by root 1 → 0" in text
    assert "1 entered web-1 passes every step Placement shop/p1: created, by root 0 → 1" in text


def test_older_changes_are_on_the_next_page_and_a_number_that_is_none_is_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history, "PAGE", 1)
    change()
    root = signed_in("root", is_superuser=True)
    first = root.get(f"/placements/{TEAM}/p1/history/")
    assert [each["run"].left for each in first.context["runs"]] == [1]
    second = root.get(f"/placements/{TEAM}/p1/history/?after={first.context['next_after']}")
    assert [each["run"].entered for each in second.context["runs"]] == [1]
    assert second.context["next_after"] == ""
    for wrong in ("x", "-1", "9" * 30):
        assert "1 left web-1" in whole(root, f"?after={wrong}")


def test_what_leaves_by_the_time_alone_stands_on_top() -> None:
    place(tolerations=[{"operator": "Exists", "tolerationSeconds": 600}])
    text = whole(signed_in("root", is_superuser=True))
    assert re.search(r"ahead would leave web-2 leaves at \d\d:\d\d UTC: taint ocmconsole.io/maintenance:NoSelect", text)
    assert text.index("would leave") < text.index("4 entered")


def test_who_does_not_see_a_cluster_reads_its_name_and_the_step_and_nothing_of_its_labels() -> None:
    author()
    change()
    text = shown(signed_in("li"))
    assert "Left: web-1 at the step Predicate" in text
    assert "Entered: web-1 Cause: Placement shop/p1: created" in text, "that says nothing of a cluster"
    assert "has test" not in text
    assert "label env" not in text
    text = whole(signed_in("li"))
    assert "1 left web-1 fell out at the step Predicate" in text
    assert "label env" not in text


def test_who_may_not_list_decisions_reads_no_name_in_the_history() -> None:
    grant(person("li"), rule("get list", "placements", groups=GROUP), namespace=TEAM)
    change()
    text = whole(signed_in("li"))
    assert "which you may not list in this namespace" in text
    assert "web-1" not in text


def test_a_placement_that_has_chosen_nobody_says_so() -> None:
    place(predicates=matching(env="nowhere"))
    assert "The history has no cluster that entered or left." in shown(signed_in("root", is_superuser=True))
