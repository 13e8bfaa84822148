"""Numbers of pages about a cluster and its placements, computed again from rows: what an act does when it is done."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from clusters.kinds import CLUSTERSET_LABEL, GROUP, MANAGED_CLUSTER
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from placements import queries
from placements.controller import history
from placements.kinds import PLACEMENT
from placements.models import DecisionRun, PlacementDecision
from placements.pages import cluster_tab, impact
from tests import factories as make
from tests.actors import grant, person, rule, signed_in
from tests.pages.placements.scene import TEAM, fleet, matching, place
from tests.pages.placements.test_impact import admin, text

__all__ = ["admin", "fleet"]  # fixtures

pytestmark = pytest.mark.django_db

CLUSTER = "web-1"
Decided = dict[tuple[str, str], set[str]]


def decided() -> Decided:
    """Which clusters each Placement has, from the stored text of PlacementDecisions alone."""
    found: Decided = {}
    for row in PlacementDecision.objects.all():
        doc = json.loads(row.wire)
        names = {each["clusterName"] for each in (doc.get("status") or {}).get("decisions") or ()}
        found.setdefault((row.namespace, doc["metadata"]["labels"][f"{GROUP}/placement"]), set()).update(names)
    return found


def number(pattern: str, page: str) -> int:
    found = re.search(pattern, page)
    return int(found[1].replace(",", "")) if found else 0


def stated(page: str) -> tuple[int, int, int, int]:
    """Placements that would drop, keep and choose the cluster, and clusters that would take its place."""
    return (
        number(r"([\d,]+) placements? would drop", page),
        number(r"([\d,]+) placements? would keep", page),
        number(r"([\d,]+) placements? would choose", page),
        number(r"([\d,]+) other clusters? would take", page),
    )


def came(before: Decided, after: Decided) -> tuple[int, int, int, int]:
    """The same of what has happened."""
    dropped = {key for key, names in before.items() if CLUSTER in names - after.get(key, set())}
    kept = {key for key, names in before.items() if CLUSTER in names & after.get(key, set())}
    gained = {key for key, names in after.items() if CLUSTER in names - before.get(key, set())}
    others = {name for key in dropped for name in after.get(key, set()) - before[key]}
    return len(dropped), len(kept), len(gained), len(others - {CLUSTER})


@pytest.fixture
def scene(admin: Client) -> Client:
    """Beside those of ``admin``: one misconfigured after it had chosen, one more that would take another cluster."""
    make.binding("db", namespace="ops")
    place("theirs", namespace="ops")
    place("two", numberOfClusters=2)
    place("mistyped")
    wrong = [{"operator": "Equal", "value": "true"}]
    make.edit(PLACEMENT, "mistyped", lambda doc: doc["spec"].update(tolerations=wrong), namespace=TEAM)
    make.settle()
    return admin


def tainted(taint: dict[str, str]) -> Callable[[], object]:
    return lambda: make.edit(MANAGED_CLUSTER, CLUSTER, lambda doc: doc["spec"].update(taints=[taint]))


def ask_taint(client: Client) -> Any:
    return client.post(
        f"/clusters/{CLUSTER}/taints/set/", {"key": "gpu", "value": "", "effect": "NoSelect", "preview": "1"}
    )


ACTS: dict[str, tuple[Callable[[Client], Any], Callable[[], object]]] = {
    "maintenance": (
        lambda client: client.get(f"/clusters/{CLUSTER}/maintenance/"),
        tainted({"key": "ocmconsole.io/maintenance", "effect": "NoSelect"}),
    ),
    "taint": (ask_taint, tainted({"key": "gpu", "effect": "NoSelect"})),
    "disconnect": (
        lambda client: client.get(f"/clusters/{CLUSTER}/disconnect/"),
        lambda: make.available(CLUSTER, "Unknown"),
    ),
    "move": (
        lambda client: client.get(f"/clusters/{CLUSTER}/set/?to=db"),
        lambda: make.label(CLUSTER, {CLUSTERSET_LABEL: "db"}),
    ),
    "remove": (
        lambda client: client.get(f"/clusters/{CLUSTER}/remove/"),
        lambda: verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", CLUSTER)),
    ),
}


@pytest.mark.contract("P5", "P11", "D14")
@pytest.mark.parametrize("act", ACTS)
def test_what_a_page_says_before_an_act_is_what_the_act_does(act: str, scene: Client) -> None:
    ask, do = ACTS[act]
    page, before = text(ask(scene)), decided()
    do()
    make.settle()
    found = came(before, decided())
    assert stated(page) == found
    assert found[0] >= 1


def test_a_taint_that_becomes_weaker_says_who_would_choose_the_cluster(scene: Client) -> None:
    tainted({"key": "gpu", "effect": "NoSelect"})()
    make.settle()
    asked = {"key": "gpu", "value": "", "effect": "PreferNoSelect", "was_key": "gpu", "was_effect": "NoSelect"}
    page, before = text(scene.post(f"/clusters/{CLUSTER}/taints/set/", {**asked, "preview": "1"})), decided()
    tainted({"key": "gpu", "effect": "PreferNoSelect"})()
    make.settle()
    found = came(before, decided())
    assert stated(page) == found
    assert found[2] >= 1


@pytest.mark.contract("D16")
@pytest.mark.parametrize("act", ACTS)
def test_who_may_not_see_the_placements_reads_the_same_numbers_and_no_name(act: str, scene: Client) -> None:
    mine = person("li")
    grant(mine, rule("get list update patch delete", "managedclusters", groups=GROUP))
    grant(mine, rule("create", "managedclustersets/join", groups=GROUP))
    grant(mine, rule("update", "managedclusters/accept", groups="register.open-cluster-management.io"))
    grant(mine, rule("get list", "managedclustersets", groups=GROUP))
    ask, _ = ACTS[act]
    answer = ask(signed_in("li"))
    assert stated(text(answer)) == stated(text(ask(scene)))
    named = {name for _, name in decided()}
    assert not re.search(rf"(?:{TEAM}|ops)/(?:{'|'.join(named)})\b", answer.content.decode())


class TestMany:
    """More placements than a page works out, with small bounds instead of a thousand placements."""

    @pytest.fixture
    def many(self, admin: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
        monkeypatch.setattr(impact, "MOST", 4)
        monkeypatch.setattr(impact, "LISTED", 2)
        monkeypatch.setattr(cluster_tab, "MOST", 5)
        monkeypatch.setattr(cluster_tab, "MOST_CHOSEN", 3)
        for count in range(9):
            place(f"many-{count}", predicates=[] if count % 3 else matching(env="test"))
        return admin

    def test_those_that_are_not_worked_out_are_counted(self, many: Client) -> None:
        page = text(many.get(f"/clusters/{CLUSTER}/remove/"))
        has = sum(CLUSTER in names for names in decided().values())
        assert stated(page)[0] + number(r"(\d+) placements? were not worked out", page) == has
        assert has > impact.MOST
        assert "shop/all, shop/many-1 and 2 more." in page

    def test_no_drop_is_claimed_of_what_was_not_worked_out(self, many: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(impact, "MOST", 0)
        page = text(many.get(f"/clusters/{CLUSTER}/remove/"))
        assert "No placement that was worked out would drop it" in page
        assert "None has chosen it" not in page

    def test_the_tab_counts_all_and_lists_some(self, many: Client) -> None:
        page = text(many.get(f"/clusters/{CLUSTER}/sets/"))
        has = {key for key, names in decided().items() if CLUSTER in names}
        others = decided().keys() - has
        assert number(r"Chosen by (\d+) placements?", page) == len(has)
        assert number(r"Not chosen by (\d+)", page) == len(others)
        assert number(r"(\d+) of these placements are counted and not listed", page) == len(has) + len(others) - 5
        assert "and by" not in page

    @pytest.mark.usefixtures("many")
    def test_the_tab_counts_those_that_one_may_not_see(self) -> None:
        grant(person("li"), rule("get list", "managedclusters", groups=GROUP))
        answer = signed_in("li").get(f"/clusters/{CLUSTER}/sets/")
        page = text(answer)
        assert "Chosen by 0 placements" in page
        assert number(r"and by (\d+) others", page) == sum(CLUSTER in names for names in decided().values())
        assert "many-" not in answer.content.decode()

    def test_queries_do_not_grow_with_placements(self, many: Client) -> None:
        def count() -> list[int]:
            found = []
            for page in ("maintenance", "remove", "disconnect", "sets", "health"):
                with CaptureQueriesContext(connection) as asked:
                    assert many.get(f"/clusters/{CLUSTER}/{page}/").status_code == 200
                found.append(len(asked))
            return found

        count()
        few = count()
        for each in range(9, 20):
            place(f"many-{each}")
        count()
        assert all(now <= before for now, before in zip(count(), few, strict=True))

    @pytest.mark.usefixtures("many")
    def test_many_decisions_are_read_in_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = queries.deciding([CLUSTER])
        monkeypatch.setattr(queries, "AT_ONCE", 2)
        assert queries.deciding([CLUSTER]) == whole
        assert len(whole) == sum(CLUSTER in names for names in decided().values())


def test_a_cause_in_another_cluster_is_not_named(admin: Client) -> None:
    run = DecisionRun.objects.filter(name="all").latest("pk")
    for kind, namespace, name in (("AddOnPlacementScore", "db-1", "scores"), ("ManagedCluster", "", "db-1")):
        cause = {"kind": kind, "namespace": namespace, "name": name, "what": "scores changed"}
        run.moves.update(cause=cause)
        page = admin.get(f"/clusters/{CLUSTER}/sets/").content.decode()
        assert "another cluster changed" in page
        assert "db-1" not in page


def test_a_placement_that_is_gone_stays_in_the_history_without_a_link(admin: Client) -> None:
    verbs.delete(make.ADMIN, PLACEMENT, Key(TEAM, "all"))
    make.settle()
    answer = admin.get(f"/clusters/{CLUSTER}/sets/")
    assert "the Placement was deleted" in text(answer)
    assert f'href="/placements/{TEAM}/all/"' not in answer.content.decode()
    entered = history.of_cluster(CLUSTER).entries
    assert [each.moves[0].row.is_entered for each in entered if each.run.name == "all"] == [False, True]


@pytest.mark.parametrize("query", ["?gaps=%F0%9F%92%A5", "?gaps=", "?to=" + "x" * 5000, "?to=%00", "?after=/&q=%25"])
def test_odd_input_in_an_address_is_no_failure(query: str, admin: Client) -> None:
    for page in ("maintenance", "remove", "disconnect", "sets", "health", "set", "taints"):
        assert admin.get(f"/clusters/{CLUSTER}/{page}/{query}").status_code in {200, 400}, page
