"""The cluster list: every filter, order and page against the pure word for a state; what one may see; what one keeps."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from guardian.shortcuts import assign_perm

from clusters import queries, services
from clusters.fleet import bulk_acts, facets, listing
from clusters.fleet.filters import ATTENTION, Filters
from clusters.health import status_sql
from clusters.health.certificate_expiry import ExpiryBucket
from clusters.health.status import Word
from clusters.kinds import MANAGED_CLUSTER, order_of
from clusters.models import ManagedCluster, SavedView
from clusters.queries import Observed
from clusters.taints import maintenance
from clustersets.models import ManagedClusterSet
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.control import bulk_jobs
from ocmconsole.kubeapi.models import BulkItem, BulkSelection, writing
from registration.models import IssuedCertificate
from tests import factories as make
from tests.actors import signed_in
from tests.bench import crowd

pytestmark = pytest.mark.django_db

COUNT = 130


@pytest.fixture
def fleet() -> None:
    crowd.fill(COUNT, troubled=20)
    make.clusterset(
        "french", selector={"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"region": "paris"}}}
    )


@pytest.fixture
def admin() -> Client:
    return signed_in("root", is_superuser=True)


@pytest.fixture
def owner() -> Client:
    """Sees one set."""
    client = signed_in("raj")
    user = User.objects.get(username="raj")
    assign_perm("clustersets.view_managedclusterset", user, ManagedClusterSet.objects.get(name="web"))
    return client


def test_one_that_matches_is_announced_as_one(fleet: None, admin: Client) -> None:
    name = ManagedCluster.objects.order_by("name").values_list("name", flat=True)[0]
    assert 'data-live-say="1 cluster matches"' in admin.get("/clusters/", {"q": name}).content.decode()
    assert f'data-live-say="{COUNT} clusters match"' in admin.get("/clusters/").content.decode()


def listed(response: Any) -> list[str]:
    assert response.status_code == 200
    return [row["name"] for row in response.context["clusters"]]


def sent(response: Any) -> bytes:
    return b"".join(response.streaming_content)


def asked(query: str) -> tuple[listing.Listing, listing.Order]:
    parameters = QueryDict(query)
    return listing.Listing(crowd.ROOT, Filters.read(parameters), timezone.now()), listing.order_of(
        parameters.get("sort", "")
    )[1]


def walk(query: str) -> list[list[str]]:
    """Page after page, each from the place that the last one names in the URL; then back again, which must be the same."""
    found, order = asked(query)
    page, pages = found.page(order), []
    while True:
        pages.append(names_of(page))
        if page.next is None:
            break
        page = found.page(order, listing.PageCursor.read(str(page.next), order, back=False))
    for expected in reversed(pages[:-1]):
        assert page.previous is not None
        page = found.page(order, listing.PageCursor.read(str(page.previous), order, back=True))
        assert names_of(page) == expected
    assert page.previous is None
    return pages


def names_of(page: listing.ClusterPage) -> list[str]:
    return [each.row.name for each in page.rows]


def every(test: Callable[[Observed], bool] = lambda _: True) -> list[Observed]:
    """By the pure function, over all rows."""
    rows = ManagedCluster.objects.order_by("name").prefetch_related("claims", "taints")
    return [each for each in queries.observe_clusters(rows, timezone.now()) if test(each)]


def names(test: Callable[[Observed], bool]) -> list[str]:
    return [each.row.name for each in every(test)]


def ends(found: Observed) -> datetime:
    assert found.row.facts is not None
    assert found.row.facts.certificate_not_after is not None
    return found.row.facts.certificate_not_after


def ends_within(found: Observed, low: int, high: int) -> bool:
    left = (ends(found) - timezone.now()).total_seconds() / 86_400
    return low < left <= high


FILTERS: list[tuple[str, Callable[[Observed], bool]]] = [
    ("q=web", lambda each: each.row.name.startswith("web")),
    ("q=WEB-0", lambda each: each.row.name.startswith("web-0")),
    ("status=silent", lambda each: each.status.word is Word.SILENT),
    ("status=healthy&status=late", lambda each: each.status.word in {Word.HEALTHY, Word.LATE}),
    (f"status={ATTENTION}", lambda each: each.status.word in status_sql.TROUBLED),
    ("set=web&set=erp", lambda each: each.row.clusterset in {"web", "erp"}),
    ("set=french", lambda each: each.row.labels["region"] == "paris"),
    ("version=v1.34.2", lambda each: each.row.kubernetes_version == "v1.34.2"),
    ("certificate=expired", lambda each: ends_within(each, -9999, 0)),
    ("certificate=week", lambda each: ends_within(each, 0, 7)),
    ("certificate=soon", lambda each: ends_within(each, 7, 30)),
    ("certificate=soon&certificate=week&certificate=expired", lambda each: ends_within(each, -9999, 30)),
    ("certificate=later", lambda each: ends_within(each, 30, 9999)),
    ("certificate=none", lambda _: False),
    ("claim=region%3Dlyon", lambda each: ("region", "lyon") in {(c.name, c.value) for c in each.row.claims.all()}),
    ("claim=region&claim=id.k8s.io", lambda _: True),
    ("label=env%3Dprod&label=region", lambda each: each.row.labels["env"] == "prod"),
    ("taint=dedicated", lambda each: "dedicated" in {taint.key for taint in each.row.taints.all()}),
    ("accepted=no", lambda each: not each.row.hub_accepts_client),
    ("accepted=yes&q=lab", lambda each: each.row.hub_accepts_client and each.row.name.startswith("lab")),
    ("status=healthy&set=web&version=v1.33.5", lambda each: each.status.word is Word.HEALTHY
     and each.row.clusterset == "web" and each.row.kubernetes_version == "v1.33.5"),
    ("status=nonsense", lambda _: False),
    ("set=nonsense", lambda _: False),
    ("certificate=nonsense", lambda _: False),
    ("accepted=nonsense", lambda _: False),
    ("q=%00", lambda _: False),
    ("label=%00&claim=%00", lambda _: False),
    ("taint=%00", lambda _: False),
]  # fmt: skip


@pytest.mark.usefixtures("fleet")
class TestFilters:
    @pytest.mark.contract("S24")
    def test_each_finds_what_the_facts_say(self) -> None:
        for query, test in FILTERS:
            expected = names(test)
            pages = walk(query)
            assert [name for page in pages for name in page] == expected, query

    def test_counts_agree_with_what_a_click_shows(self) -> None:
        """Each facet is counted with its own filter lifted, as choosing another value would."""
        for query in ("", "set=web", "status=healthy&certificate=later", "label=env%3Dprod&version=v1.34.2"):
            found, _ = asked(query)
            counts = facets.census(found)
            told: dict[str, Sequence[tuple[str, int]]] = {
                "status": counts.words(),
                "set": counts.clustersets(),
                "certificate": counts.buckets(),
                "version": counts.versions(),
            }
            for name, options in told.items():
                assert options
                for value, count in options[:4]:
                    alone = Filters({**found.filters.without(name).values, name: (str(value),)})
                    clicked = listing.Listing(crowd.ROOT, alone, found.now)
                    assert facets.census(clicked).matching == count == len(list(clicked.everything())), (
                        query,
                        name,
                        value,
                    )

    def test_nothing_found_says_which_filter_keeps_out_the_most(self, admin: Client) -> None:
        response = admin.get("/clusters/?set=web&version=v9.9.9&q=w")
        assert response.context["relaxed"][0]["label"] == "version"
        assert response.context["relaxed"][0]["count"] == len(names(lambda each: each.row.clusterset == "web"))
        assert admin.get(f"/clusters/{response.context['relaxed'][0]['url']}").context["counts"].matching
        assert "keeps out the most" in response.content.decode()

    def test_one_click_takes_one_value_off(self, admin: Client) -> None:
        chips = admin.get("/clusters/?status=silent&status=late&q=w&sort=-since").context["chips"]
        assert [(chip["text"], chip["clear_url"]) for chip in chips] == [
            ("Name: w", "?status=silent&status=late&sort=-since"),
            ("Status: Silent", "?q=w&status=late&sort=-since"),
            ("Status: Late", "?q=w&status=silent&sort=-since"),
        ]

    def test_whatever_stands_in_the_url_gives_a_page(self, admin: Client) -> None:
        odd = ("after=x", "after=~", "after=9999999999999999999999~a&sort=since", "before=~a", "sort=--name",
               "after=1~web-00001&sort=version", "after=%ff~%fe", "q=" + "a" * 5000, "claim==", "label==x", "taint==",
               "after=4611686018427387904~a&sort=age", "after=-1~a&sort=age&before=2~b", "&".join(["status=late"] * 400))  # fmt: skip
        for query in odd:
            assert admin.get(f"/clusters/?{query}").status_code == 200, query


KEYS: dict[str, Callable[[Observed], Any]] = {
    "name": lambda each: each.row.name,
    "status": lambda each: status_sql.RANKS[each.status.word],
    "since": lambda each: -each.status.since.timestamp() if each.status.since else None,
    "heard": lambda each: -each.last_heard.timestamp() if each.last_heard else None,
    "certificate": lambda each: ends(each).timestamp(),
    "version": lambda each: order_of(each.row.kubernetes_version) or None,
    "age": lambda each: -each.row.created.timestamp(),
}


@pytest.mark.usefixtures("fleet")
class TestOrder:
    @pytest.mark.parametrize("sort", list(KEYS))
    def test_pages_are_the_whole_list_in_order_there_and_back(self, sort: str) -> None:
        found = {each.row.name: KEYS[sort](each) for each in every()}
        for query, sign in ((f"sort={sort}", 1), (f"sort=-{sort}", -1)):
            pages = walk(query)
            assert [len(page) for page in pages] == [50, 50, 30]
            flat = [name for page in pages for name in page]
            if sort == "name":
                assert flat == sorted(found, reverse=sign < 0)
            else:
                known = sorted(
                    (name for name in found if found[name] is not None), key=lambda name: (sign * found[name], name)
                )
                assert flat == known + sorted(set(found) - set(known))

    @pytest.mark.parametrize("query", ["sort=heard", "sort=-heard", "sort=heard&status=healthy"])
    def test_heartbeats_near_the_place_of_a_page_give_the_same_pages(
        self, monkeypatch: pytest.MonkeyPatch, query: str
    ) -> None:
        whole = walk(query)
        monkeypatch.setattr(listing, "NEAR", 60)
        assert walk(query) == whole

    def test_a_page_goes_on_where_it_was_whatever_came_and_went(self, admin: Client) -> None:
        first = admin.get("/clusters/?sort=-age")
        seen, following = listed(first), first.context["next_url"]
        expected = listed(admin.get(f"/clusters/{following}"))
        with writing():
            ManagedCluster.objects.filter(name__in=[seen[0], seen[-1]]).delete()
        make.cluster("brand-new")
        assert listed(admin.get(f"/clusters/{following}")) == expected

    def test_a_place_beyond_the_end_shows_the_start(self, admin: Client) -> None:
        assert listed(admin.get("/clusters/?after=~zzz")) == listed(admin.get("/clusters/"))


class TestSight:
    """D16: names, counts, facets and files tell nothing of what one may not see."""

    @pytest.mark.contract("D16")
    @pytest.mark.usefixtures("fleet")
    def test_one_who_sees_one_set_reads_of_no_other(self, owner: Client) -> None:
        own = names(lambda each: each.row.clusterset == "web")
        hidden = names(lambda each: each.row.clusterset != "web")
        for path in ("", "?sort=since", "?set=erp", "?q=erp", "?status=healthy&sort=status", "?set=french"):
            response = owner.get(f"/clusters/{path}")
            page = response.content.decode()
            assert response.context["counts"].total == len(own)
            assert not [name for name in hidden if name in page]
            assert set(listed(response)) <= set(own)
            assert (
                "french" not in page.replace("Set: french", "").replace('value="french"', "").replace("set=french", "")
                or "?set=french" in path
            )
        for form in ("csv", "json"):
            told = sent(owner.get(f"/clusters/_export/{form}/")).decode()
            assert not [name for name in hidden if name in told]
            assert own[0] in told

    @pytest.mark.contract("D16")
    @pytest.mark.usefixtures("fleet")
    def test_one_who_sees_none_hears_whom_to_ask(self) -> None:
        signed_in("bench", is_superuser=True)
        page = signed_in("mallory").get("/clusters/")
        text = page.content.decode()
        assert "You can see 0 of the hub" in text
        assert "bench" in text, "an admin is named"
        assert page.context["sight"].explain_url.startswith("/access/explain/?")
        assert page.context["counts"].groups == []

    def test_an_empty_hub_shows_the_way_in(self, admin: Client) -> None:
        assert "No cluster has joined yet" in admin.get("/clusters/").content.decode()

    def test_who_is_not_signed_in_is_sent_to_the_sign_in_page(self) -> None:
        for path in ("", "_export/csv/"):
            assert Client().get(f"/clusters/{path}").status_code == 302
        for path in ("_views/", "_columns/", "_views/1/forget/"):
            assert Client().post(f"/clusters/{path}").status_code == 302


class TestCost:
    def queries_of(self, client: Client, path: str) -> int:
        client.get(path)  # what is read once is read
        with CaptureQueriesContext(connection) as captured:
            assert client.get(path).status_code == 200
        return len(captured)

    def test_queries_do_not_grow_with_the_clusters(self, admin: Client) -> None:
        paths = (
            "/clusters/",
            "/clusters/?sort=since&set=web&q=w",
            "/clusters/?status=attention&claim=region",
            "/clusters/?version=none",
        )
        crowd.fill(60, troubled=20)  # what needs a person is read only where something does
        few = [self.queries_of(admin, path) for path in paths]
        crowd.fill(COUNT, troubled=20, more=True)
        assert [self.queries_of(admin, path) for path in paths] == few
        assert max(few) <= 27  # with how many clusters there are without a filter, and whether this is a demonstration

    @pytest.mark.usefixtures("fleet")
    def test_no_document_is_read_for_a_page(self) -> None:
        found, order = asked("sort=since&set=web&q=w")
        with CaptureQueriesContext(connection) as captured:
            assert found.page(order).rows
            assert facets.census(found).total
        reading = [query["sql"] for query in captured if '"clusters_managedcluster"."wire"' in query["sql"]]
        assert len(reading) <= 1, "those in maintenance, whose notes the sentence tells"

    def test_a_page_shows_maintenance_at_no_further_cost(self) -> None:
        for number in range(3):
            make.cluster(f"c{number}")
        with CaptureQueriesContext(connection) as captured:
            queries.observe_clusters(ManagedCluster.objects.defer("wire"), timezone.now())
        assert len(captured) == 2
        for number in range(3):
            services.start_maintenance(crowd.ROOT, f"c{number}", reason="kernel")
        with CaptureQueriesContext(connection) as captured:
            queries.observe_clusters(ManagedCluster.objects.defer("wire"), timezone.now())
        assert len(captured) == 3


class TestExport:
    @pytest.mark.usefixtures("fleet")
    def test_a_file_has_what_the_filter_finds(self, admin: Client) -> None:
        admin.post("/clusters/_columns/", {"columns": "1", "column": ["status"], "claims": "region"})
        found = every(lambda each: each.row.clusterset == "web")
        answer = admin.get("/clusters/_export/csv/?set=web")
        assert re.fullmatch(r'attachment; filename="clusters-[\d-]+\.csv"', answer["Content-Disposition"])
        rows = list(csv.DictReader(io.StringIO(sent(answer).decode())))
        assert [(row["name"], row["status"], row["region"]) for row in rows] == [
            (each.row.name, each.status.word.value, each.row.labels["region"]) for each in found
        ]
        told = json.loads(sent(admin.get("/clusters/_export/json/?set=web")))
        assert [(each["name"], each["claims"]["region"], each["sets"][0]) for each in told] == [
            (each.row.name, each.row.labels["region"], "web") for each in found
        ]
        assert json.loads(sent(admin.get("/clusters/_export/json/?q=nobody"))) == []

    @pytest.mark.usefixtures("fleet")
    def test_it_comes_in_chunks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(listing, "CHUNK", 7)
        found = listing.Listing(crowd.ROOT, Filters(), timezone.now()).everything()
        assert [each.row.name for each in found] == names(lambda _: True)

    @pytest.mark.parametrize("evil", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1"])
    def test_no_cell_becomes_a_formula(self, admin: Client, evil: str) -> None:
        make.cluster("c1")
        status = {"clusterClaims": [{"name": "evil", "value": evil}]}
        make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc.update(status=status), subresource="status")
        admin.post("/clusters/_columns/", {"columns": "1", "claims": "evil"})
        answer = sent(admin.get("/clusters/_export/csv/")).decode()
        cell = next(csv.DictReader(io.StringIO(answer, newline="")))["evil"]
        assert cell == "'" + evil.replace("\r", " ")

    def test_other_forms_are_not_there(self, admin: Client) -> None:
        assert admin.get("/clusters/_export/xml/").status_code == 404


class TestKept:
    """Views and columns belong to a person."""

    @pytest.mark.usefixtures("fleet")
    def test_a_view_is_saved_shown_and_forgotten(self, admin: Client) -> None:
        saved = {"name": "French and late", "query": "status=late&set=web&sort=since&after=1~x&page=3&evil=1"}
        assert admin.post("/clusters/_views/", saved)["Location"] == "/clusters/?status=late&set=web&sort=since"
        response = admin.get("/clusters/?status=late&set=web&sort=since")
        tab = response.context["tabs"][-1]
        assert (tab["label"], tab["current"]) == ("French and late", True)
        other = signed_in("eve", is_superuser=True)
        assert "French and late" not in other.get("/clusters/").content.decode()
        other.post(f"/clusters/_views/{tab['id']}/forget/")
        assert SavedView.objects.count() == 1
        admin.post(f"/clusters/_views/{tab['id']}/forget/")
        assert SavedView.objects.count() == 0

    def test_a_view_needs_a_name_and_there_are_not_too_many(self, admin: Client) -> None:
        assert "Give the view a name." in admin.post("/clusters/_views/", {"name": " "}, follow=True).content.decode()
        for number in range(22):
            admin.post("/clusters/_views/", {"name": f"view {number}", "query": "q=a"})
        assert "as many as fit" in admin.get("/clusters/").content.decode()
        assert SavedView.objects.count() == 20

    @pytest.mark.usefixtures("fleet")
    def test_columns_are_chosen_and_kept(self, admin: Client) -> None:
        chosen = {
            "columns": "1",
            "column": ["age", "status", "nonsense"],
            "claims": "region\nid.k8s.io",
            "query": "set=web",
        }
        assert admin.post("/clusters/_columns/", chosen)["Location"] == "/clusters/?set=web"
        response = admin.get("/clusters/?set=web")
        ids = ["name", "status", "claim:region", "claim:id.k8s.io", "age"]
        assert [heading["column"].id for heading in response.context["columns"]] == ids
        row = response.context["clusters"][0]
        assert f">{row['name']}</td>" in response.content.decode(), "its claim id.k8s.io is its name"
        admin.post("/clusters/_columns/", {"density": "comfortable"})
        assert [heading["column"].id for heading in admin.get("/clusters/").context["columns"]] == ids
        assert "is-dense" not in admin.get("/clusters/").content.decode()

    @pytest.mark.usefixtures("fleet")
    def test_tabs_count_what_they_show(self, admin: Client) -> None:
        for tab in admin.get("/clusters/").context["tabs"]:
            if tab["count"]:
                shown = admin.get(f"/clusters/{tab['url']}").context
                assert f"{shown['counts'].matching}" == tab["count"]
                assert next(each for each in shown["tabs"] if each["current"])["label"] == tab["label"]


class TestMany:
    """One act on the clusters that were selected: ticked, or all that the filter lets through."""

    def select(self, client: Client, *names: str, act: str, **more: Any) -> str:
        """The address of the page of the act."""
        answer = client.post("/clusters/_select/", {"cluster": list(names), "act": act, **more})
        assert answer.status_code == 302
        assert not any(f"/{name}/" in answer["Location"] or f"={name}" in answer["Location"] for name in names)
        return str(answer["Location"])

    @pytest.mark.usefixtures("fleet")
    def test_the_page_says_what_can_be_done_before_it_is(self, admin: Client) -> None:
        web = names(lambda each: each.row.clusterset == "web")[:3]
        for act in ("maintenance", "end", "label", "taint", "disconnect", "revoke", "remove"):
            response = admin.get(self.select(admin, *web, "nobody", act=act))
            assert {step.name for step in response.context["steps"]} == set(web)
        assert admin.post("/clusters/_select/", {"cluster": web, "act": "explode"}).status_code == 404
        assert "No cluster is chosen" in admin.get(self.select(admin, act="end")).content.decode()

    @pytest.mark.usefixtures("fleet")
    def test_all_that_match_are_selected_on_every_page(self, admin: Client) -> None:
        matching = names(lambda each: each.row.labels["env"] == "prod")
        assert len(matching) > listing.PAGE
        page = admin.get(self.select(admin, act="label", all="1", query="label=env%3Dprod"))
        assert set(page.context["plan"].possible) | {
            step.name for step in page.context["plan"].steps if step.obstacle
        } == set(matching)
        assert f"{len(matching)} cluster" in page.content.decode()

    @pytest.mark.contract("D16")
    @pytest.mark.usefixtures("fleet")
    def test_all_that_match_are_those_that_one_sees(self, owner: Client) -> None:
        page = owner.get(self.select(owner, act="label", all="1", query=""))
        assert [step.name for step in page.context["plan"].steps] == names(lambda each: each.row.clusterset == "web")

    def test_a_selection_is_its_persons_and_lasts_a_day(self, admin: Client) -> None:
        make.cluster("c1")
        chosen = self.select(admin, "c1", act="end")
        assert signed_in("eve", is_superuser=True).get(chosen).status_code == 404
        BulkSelection.objects.update(created=timezone.now() - timedelta(days=2))
        bulk_jobs.delete_old_jobs()
        assert admin.get(chosen).status_code == 404

    @pytest.mark.usefixtures("fleet")
    def test_each_is_decided_for_itself(self, owner: Client) -> None:
        mine, others, hidden = (
            *names(lambda each: each.row.clusterset == "web")[:2],
            names(lambda each: each.row.clusterset == "erp")[0],
        )
        assign_perm("clusters.change_managedcluster", User.objects.get(username="raj"), make.stored(mine))
        chosen = self.select(owner, mine, others, hidden, act="label")
        page = owner.get(chosen)
        assert {step.name: bool(step.obstacle) for step in page.context["steps"]} == {mine: False, others: True}
        done = owner.post(chosen, {"key": "team", "value": "shop"}, follow=True)
        assert [(row["name"], row["state"]) for row in done.context["rows"]] == [(mine, "done")]
        assert [make.stored(name).labels.get("team") for name in (mine, others, hidden)] == ["shop", None, None]

    @pytest.mark.usefixtures("fleet")
    def test_a_refusal_stops_no_other(self, admin: Client) -> None:
        first, second, third = names(lambda each: each.row.clusterset == "web")[:3]
        make.edit(MANAGED_CLUSTER, second, lambda doc: doc["metadata"]["labels"].update(team="pay"))
        chosen = self.select(admin, first, second, third, act="label")
        done = admin.post(chosen, {"key": "team", "value": "shop"}, follow=True)
        assert [row["state"] for row in done.context["rows"]] == ["failed", "done", "done"]
        assert [make.stored(name).labels["team"] for name in (first, second, third)] == ["shop", "pay", "shop"]
        assert "2 of 3 clusters labelled" in done.content.decode()

    def test_maintenance_begins_and_ends(self, admin: Client) -> None:
        for name in ("c1", "c2"):
            make.cluster(name, accepted=True)
        wanted = {"reason": "kernel", "lasts": "4", "effect": "NoSelectIfNew"}
        admin.post(self.select(admin, "c1", "c2", act="maintenance"), wanted)
        assert all(make.stored(name).in_maintenance for name in ("c1", "c2"))
        admin.post(self.select(admin, "c1", act="end"))
        assert [make.stored(name).in_maintenance for name in ("c1", "c2")] == [False, True]
        assert admin.post(self.select(admin, "c1", act="end")).status_code == 400

    def test_maintenance_keeps_anothers_reason_and_skips_who_was_never_accepted(self, admin: Client) -> None:
        for name in ("kept", "free"):
            make.cluster(name, accepted=True)
        make.cluster("asks")
        services.start_maintenance(crowd.ROOT, "kept", reason="disk swap")
        chosen = self.select(admin, "kept", "free", "asks", act="maintenance")
        page = admin.get(chosen)
        assert dict(page.context["plan"].left_out) == {
            "it is in maintenance already, and keeps its reason and end": 1,
            "it was never accepted": 1,
        }
        services.start_maintenance(crowd.ROOT, "free", reason="meanwhile")
        raced = bulk_acts.start_act(
            actor_for(User.objects.get(username="root")), bulk_acts.MAINTENANCE, ["free"],
            {"reason": "kernel", "until": "", "effect": "NoSelect"},
        )  # fmt: skip
        assert [item.state for item in raced.items.all()] == ["failed"]
        reasons = [maintenance.notes_of(make.stored(name).doc) for name in ("kept", "free")]
        assert [notes.reason for notes in reasons if notes] == ["disk swap", "meanwhile"]

    def test_a_form_that_is_wrong_is_shown_again(self, admin: Client) -> None:
        make.cluster("c1", accepted=True)
        answer = admin.post(self.select(admin, "c1", act="maintenance"), {"reason": " ", "effect": "NoSelect"})
        assert answer.status_code == 400
        assert "Say what it is for" in answer.content.decode()

    def test_taints_are_added_to_many(self, admin: Client) -> None:
        for name in ("c1", "c2"):
            make.cluster(name)
        admin.post(self.select(admin, "c1", "c2", act="taint"), {"key": "gpu", "effect": "NoSelect"})
        assert all(
            "gpu" in [taint["key"] for taint in make.stored(name).doc["spec"]["taints"]] for name in ("c1", "c2")
        )

    def test_removing_is_counted_by_hand_however_few(self, admin: Client) -> None:
        now = timezone.now()
        for number, name in enumerate(("left-1", "left-2", "stays")):
            make.cluster(name, accepted=True)
            make.certificate(name, f"{number}" * 64, begins=now, ends=now + timedelta(days=9))
        make.settle()
        chosen = self.select(admin, "left-1", "left-2", act="remove")
        assert "Also revoke their certificates now" in admin.get(chosen).content.decode()
        assert admin.post(chosen, {"revoke": "on"}).status_code == 400
        assert admin.post(chosen, {"typed": "2", "revoke": "on"}).status_code == 302
        make.settle()
        assert set(ManagedCluster.objects.filter(deleted_at=None).values_list("name", flat=True)) == {"stays"}
        revoked = IssuedCertificate.objects.exclude(revoked_at=None).values_list("cluster", flat=True)
        assert set(revoked) == {"left-1", "left-2"}

    def test_many_are_disconnected_and_their_certificates_revoked(self, admin: Client) -> None:
        now = timezone.now()
        for number, name in enumerate(("c1", "c2")):
            make.cluster(name, accepted=True)
            make.certificate(name, f"{number}" * 64, begins=now, ends=now + timedelta(days=9))
        make.settle()
        admin.post(self.select(admin, "c1", act="disconnect"), {})
        assert [make.stored(name).hub_accepts_client for name in ("c1", "c2")] == [False, True]
        assert not IssuedCertificate.objects.exclude(revoked_at=None).exists()
        admin.post(self.select(admin, "c2", act="revoke"), {"typed": "1"})
        assert [row.cluster for row in IssuedCertificate.objects.exclude(revoked_at=None)] == ["c2"]

    def test_many_are_counted_by_hand(self, admin: Client) -> None:
        crowd.fill(1_200)
        chosen = self.select(admin, act="label", all="1", query="")
        sent = {"key": "team", "value": "shop"}
        refused = admin.post(chosen, sent | {"typed": "1199"})
        assert refused.status_code == 400
        assert "It concerns 1200 clusters. Type that number." in refused.content.decode()
        job = admin.post(chosen, sent | {"typed": "1200"})
        assert job.status_code == 302
        assert BulkItem.objects.count() == 1_200
        assert admin.get(job["Location"]).context["more"] == 1_000


def test_facets_lift_only_their_own_filter() -> None:
    """The arithmetic by itself: what is narrowed is lifted by none."""
    group = facets.FacetGroup(
        Word.LATE, "web", "v1", ExpiryBucket.SOON, is_in_sets=True, is_narrowed=False, size=3, chosen=()
    )
    counts = facets.Census(Filters({"status": ("silent",)}), [group, group._replace(is_narrowed=True, size=2)], ())
    assert counts.words() == [(Word.SILENT, 0), (Word.LATE, 2)]
    assert (counts.total, counts.matching, counts.buckets()) == (5, 0, [])


def test_above_ten_thousand_the_total_is_rounded(admin: Client) -> None:
    from clusters.fleet.list_pages import _about

    assert [_about(count) for count in (9_999, 10_000, 10_038, 12_345)] == [
        "9,999",
        "10,000",
        "about 10,000",
        "about 12,300",
    ]
