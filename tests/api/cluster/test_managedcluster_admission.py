"""The rules of ManagedCluster: taints, shape, letting in and moving between sets (ocm.md 2.1, 2.2)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from guardian.shortcuts import assign_perm

from clusters.kinds import CLUSTERSET_LABEL, GROUP, MANAGED_CLUSTER, REGISTER
from clusters.models import ManagedCluster
from clustersets.models import ManagedClusterSet
from ocmconsole.corekinds.kinds import NAMESPACE
from ocmconsole.kubeapi import admission, errors, verbs
from ocmconsole.kubeapi.actor import AUTHENTICATED, Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from tests import factories as make
from tests.actors import grant, person, rule

pytestmark = pytest.mark.django_db

Doc = dict[str, Any]

WEBHOOK = f'admission webhook "managedclustervalidators.admission.{GROUP}" denied the request: '
MUTATING = f'admission webhook "managedclustermutators.admission.{GROUP}" denied the request: '
THEN = "2026-01-02T03:04:05Z"
JOIN_ANY = rule("create", "managedclustersets/join", groups=GROUP)
WRITE = rule("create get update patch", "managedclusters", groups=GROUP)
ACCEPT = rule("update", "managedclusters/accept", groups=REGISTER)


def writer(name: str = "raj", *more: Doc) -> Actor:
    """May write clusters of any set."""
    actor = person(name)
    grant(actor, WRITE, JOIN_ANY, *more)
    return actor


# ---------------------------------------------------------------- defaults


@pytest.mark.contract("W5", "A2", "S137")
def test_what_the_client_leaves_out_is_filled_in() -> None:
    doc = make.create(MANAGED_CLUSTER, make.document(MANAGED_CLUSTER, "c1"))
    assert doc["spec"] == {"hubAcceptsClient": False, "leaseDurationSeconds": 60}
    assert doc["metadata"]["labels"] == {CLUSTERSET_LABEL: "default"}


@pytest.mark.contract("A2")
@pytest.mark.parametrize("value", ["", None])
def test_a_cluster_without_a_set_moves_to_default(value: str | None) -> None:
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    doc = make.label("c1", {CLUSTERSET_LABEL: value})
    assert doc["metadata"]["labels"][CLUSTERSET_LABEL] == "default"


OLD = "open-cluster-management.io/clusterset"


@pytest.mark.contract("D6", "K28", "S19")
def test_the_label_of_the_oldest_document_works_and_is_warned_about() -> None:
    with admission.collecting() as warnings:
        doc = make.cluster("c1", labels={OLD: "web"})
    assert doc["metadata"]["labels"] == {OLD: "web", CLUSTERSET_LABEL: "web"}
    assert CLUSTERSET_LABEL in warnings[0]
    assert make.label("c1", {OLD: "db"})["metadata"]["labels"][CLUSTERSET_LABEL] == "db"


@pytest.mark.contract("D6")
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({OLD: None}, "web"),
        ({OLD: "db", CLUSTERSET_LABEL: "own"}, "own"),
        ({CLUSTERSET_LABEL: "own"}, "own"),
        ({"team": "edge"}, "web"),
    ],
)
def test_the_old_label_steps_back_behind_the_current_one(labels: dict[str, str | None], expected: str) -> None:
    make.cluster("c1", labels={OLD: "web"})
    assert make.label("c1", labels)["metadata"]["labels"][CLUSTERSET_LABEL] == expected


@pytest.mark.contract("D6", "A6")
def test_the_old_label_needs_the_right_to_join_as_well() -> None:
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    raj = person("raj")
    grant(raj, WRITE, rule("create", "managedclustersets/join", groups=GROUP, names="web"))
    with pytest.raises(errors.Forbidden, match='ManagedClusterSet "db"'):
        make.label("c1", {OLD: "db"}, by=raj)


# ---------------------------------------------------------------- taints


def taint(key: str = "k", effect: str = "NoSelect", **more: Any) -> Doc:
    return {"key": key, "effect": effect, **more}


def put_taints(*taints: Doc) -> list[Doc]:
    doc = make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["spec"].update(taints=[dict(each) for each in taints]))
    listed: list[Doc] = doc["spec"]["taints"]
    return listed


@pytest.fixture
def stored_taint() -> Doc:
    found: Doc = make.cluster("c1", spec={"taints": [taint(value="v")]})["spec"]["taints"][0]
    return found


@pytest.mark.contract("A1")
@pytest.mark.parametrize("sent", [THEN, None, "0001-01-01T00:00:00Z"])
def test_a_new_cluster_has_its_taints_from_now_on(sent: str | None) -> None:
    doc = make.cluster("c1", spec={"taints": [taint(timeAdded=sent)]})
    assert doc["spec"]["taints"][0]["timeAdded"] == doc["metadata"]["creationTimestamp"]


@pytest.mark.contract("A1", "K3")
@pytest.mark.parametrize(
    ("change", "accepted"),
    [
        ({"key": "other"}, True),
        ({"key": "other", "timeAdded": "0001-01-01T00:00:00Z"}, True),
        ({"key": "other", "timeAdded": THEN}, False),
        ({"timeAdded": "stored"}, True),
        ({"timeAdded": THEN}, False),
        ({}, False),
        ({"value": "w"}, True),
        ({"value": "w", "timeAdded": THEN}, False),
        ({"value": "w", "timeAdded": "stored"}, False),
        ({"effect": "PreferNoSelect"}, True),
        ({"effect": "PreferNoSelect", "timeAdded": THEN}, False),
    ],
)
def test_who_may_say_when_a_taint_was_added(stored_taint: Doc, change: Doc, *, accepted: bool) -> None:
    sent = {**taint(value="v"), **change}
    if sent.get("timeAdded") == "stored":
        sent["timeAdded"] = stored_taint["timeAdded"]
    if accepted:
        assert put_taints(sent)[0]["timeAdded"] >= stored_taint["timeAdded"]
        return
    with pytest.raises(errors.BadRequest) as refused:
        put_taints(sent)
    expected = f'{MUTATING}It is not allowed to set TimeAdded of Taint "{sent["key"]}".'
    assert refused.value.message == expected


@pytest.mark.contract("A1")
def test_all_offending_keys_are_named_together(stored_taint: Doc) -> None:
    with pytest.raises(errors.BadRequest) as refused:
        put_taints(taint("a", timeAdded=THEN), stored_taint, taint("b", timeAdded=THEN))
    assert refused.value.message.endswith('It is not allowed to set TimeAdded of Taint "a,b".')


@pytest.mark.contract("K3")
def test_two_taints_of_one_key_can_still_be_edited(stored_taint: Doc) -> None:
    both = put_taints(stored_taint, taint(effect="NoSelectIfNew"))
    assert put_taints(*both, taint("more"))[:2] == both


@pytest.mark.contract("A1")
def test_a_time_in_another_spelling_is_the_same_time(stored_taint: Doc) -> None:
    spelled = {**stored_taint, "timeAdded": stored_taint["timeAdded"].replace("Z", "+00:00")}
    assert put_taints(spelled) == [stored_taint]


@pytest.mark.contract("A11")
@pytest.mark.parametrize("sent", [5, "yesterday", {}, "2026-01-02", "2026-13-45T00:00:00Z"])
def test_a_time_that_is_none_is_for_the_schema_to_refuse(sent: Any) -> None:
    with pytest.raises(errors.Invalid, match=r"spec\.taints\[0\]\.timeAdded"):
        make.cluster("c1", spec={"taints": [taint(timeAdded=sent)]})


@pytest.mark.contract("A11")
@pytest.mark.parametrize("spec", [{"taints": "x"}, {"taints": [5]}, {"taints": [{"key": 5}]}, {"taints": [{}]}])
def test_taints_of_another_shape_are_for_the_schema_to_refuse(spec: Doc) -> None:
    with pytest.raises(errors.Invalid, match=r"spec\.taints"):
        make.cluster("c1", spec=spec)


# ---------------------------------------------------------------- shape


@pytest.mark.contract("A3", "A7d", "K1")
@pytest.mark.parametrize(
    ("name", "flaws"),
    [
        ("a.b", "must not contain dots"),
        ("a" * 64, "must be no more than 63 characters"),
        ("a." + "b" * 70, "must be no more than 63 characters,must not contain dots"),
    ],
)
def test_a_cluster_has_the_name_of_a_namespace(name: str, flaws: str) -> None:
    with pytest.raises(errors.BadRequest) as refused:
        make.cluster(name)
    assert refused.value.message == f"{WEBHOOK}metadata.name format is not correct: {flaws}"


@pytest.mark.contract("A7d", "A11")
@pytest.mark.parametrize("name", ["Upper", "a_b", "a:b", "-a", "a" * 254])
def test_a_name_that_is_none_at_all_is_refused_before(name: str) -> None:
    with pytest.raises(errors.Invalid, match=r"metadata\.name"):
        make.cluster(name)


def configs(*urls: str) -> Doc:
    return {"managedClusterClientConfigs": [{"url": url} for url in urls]}


@pytest.mark.contract("A3")
@pytest.mark.parametrize("url", ["https://a", "https://", "HTTPS://a:6443/x?y=%zz", "https://[::1]:6443", "https:"])
def test_https_urls_are_fine(url: str) -> None:
    assert make.cluster("c1", spec=configs(url))


@pytest.mark.contract("A3")
@pytest.mark.parametrize(
    "url", ["", "http://x", "x", "https://a b", "https://a:port", "https://[::1", "https://a/%zz", "ftp://a", "a\tb"]
)
def test_other_urls_are_not(url: str) -> None:
    with pytest.raises(errors.BadRequest) as refused:
        make.cluster("c1", spec=configs(url))
    shown = url.replace("\t", "\\t")
    assert refused.value.message == f'{WEBHOOK}url "{shown}" is invalid in client configs'


@pytest.mark.contract("A3", "A7c")
def test_several_messages_are_sorted_and_shape_comes_before_permission() -> None:
    with pytest.raises(errors.BadRequest) as refused:
        make.cluster("a.b", accepted=True, by=writer(), spec=configs("b", "a", "b"))
    assert refused.value.message.removeprefix(WEBHOOK).split("\n") == [
        "metadata.name format is not correct: must not contain dots",
        'url "a" is invalid in client configs',
        'url "b" is invalid in client configs',
        'url "b" is invalid in client configs',
    ]


@pytest.mark.contract("A3", "A5")
def test_a_bad_url_is_refused_in_a_change_as_well() -> None:
    make.cluster("c1")
    with pytest.raises(errors.BadRequest, match="is invalid in client configs"):
        make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["spec"].update(configs("http://x")))


# ---------------------------------------------------------------- letting in


def refusal(user: str, name: str = "c1") -> str:
    return (
        f'{WEBHOOK}managedclusters/accept.{GROUP} "{name}" is forbidden: '
        f'user "{user}" cannot update the HubAcceptsClient field'
    )


@pytest.mark.contract("A4b", "A0", "S8")
@pytest.mark.parametrize("new", [True, False], ids=["created as accepted", "turned so"])
def test_letting_in_needs_its_own_right(*, new: bool) -> None:
    raj = writer()
    if not new:
        make.cluster("c1")
    with pytest.raises(errors.Forbidden) as refused:
        make.cluster("c1", accepted=True, by=raj) if new else make.accept("c1", by=raj)
    assert refused.value.message == refusal("raj")
    assert refused.value.status()["details"] == {"name": "c1", "group": GROUP, "kind": "managedclusters/accept"}
    assert refused.value.code == 403


@pytest.mark.contract("D2", "A7b", "S9", "S20")
@pytest.mark.parametrize(
    "spelled",
    [
        ACCEPT,
        rule("update", "managedclusters/accept", groups=REGISTER, names="c1"),
        rule("create", "managedclusters/accept", groups=GROUP),
        rule("create", "managedclusters/accept", groups=REGISTER),
        rule("create", "managedcluster/accept", groups=GROUP),
        rule("create", "managedcluster/accept", groups=REGISTER, names="c1 c2"),
    ],
)
def test_every_spelling_of_the_right_counts(spelled: Doc) -> None:
    make.cluster("c1")
    make.accept("c1", by=writer("raj", spelled))
    assert make.stored("c1").hub_accepts_client


@pytest.mark.contract("D2")
@pytest.mark.parametrize(
    "spelled",
    [
        rule("update", "managedclusters/accept", groups=GROUP),
        rule("update", "managedclusters/accept", groups=REGISTER, names="c2"),
        rule("update", "managedclusters/status", groups=GROUP),
    ],
)
def test_what_only_looks_like_the_right_does_not_count(spelled: Doc) -> None:
    make.cluster("c1")
    with pytest.raises(errors.Forbidden):
        make.accept("c1", by=writer("raj", spelled))


@pytest.mark.contract("A4b")
def test_an_agent_cannot_let_itself_in() -> None:
    make.cluster("c1", accepted=True)
    make.settle()
    make.accept("c1", accepts=False)
    grant(make.agent("c1"), WRITE)
    with pytest.raises(errors.Forbidden, match="cannot update the HubAcceptsClient field"):
        make.accept("c1", by=make.agent("c1"))


@pytest.mark.contract("D3", "A5")
@pytest.mark.parametrize("guarded", [True, False])
def test_sending_away_needs_the_same_right_unless_parity_is_wanted(settings: Any, *, guarded: bool) -> None:
    settings.OCMCONSOLE_GUARD_DISCONNECT = guarded
    make.cluster("c1", accepted=True)
    if guarded:
        with pytest.raises(errors.Forbidden) as refused:
            make.accept("c1", accepts=False, by=writer())
        assert refused.value.message == refusal("raj")
        make.accept("c1", accepts=False, by=writer("ana", ACCEPT))
    else:
        make.accept("c1", accepts=False, by=writer())
    assert not make.stored("c1").hub_accepts_client


@pytest.mark.contract("A4a", "A7c")
def test_a_namespace_that_is_ending_admits_nobody() -> None:
    make.cluster("c1")
    make.namespace("c1", finalizers=["example.com/hold"])
    verbs.delete(make.ADMIN, NAMESPACE, Key("", "c1"))
    with pytest.raises(errors.Forbidden) as refused:
        make.accept("c1")
    assert refused.value.message == (
        f'{WEBHOOK}managedclusters/accept.{GROUP} "c1" is forbidden: cluster namespace "c1" is terminating'
    )


@pytest.mark.contract("D18")
@pytest.mark.parametrize(
    "name", ["default", "kube-system", "kube-x", "open-cluster-management", "open-cluster-management-hub"]
)
def test_no_agent_gets_rights_in_a_namespace_of_the_system(name: str) -> None:
    make.cluster(name)
    with pytest.raises(errors.Invalid, match="belongs to the system") as refused:
        make.accept(name)
    assert refused.value.code == 422
    assert refused.value.message.startswith(WEBHOOK)
    with pytest.raises(errors.Invalid):
        make.cluster(f"{name}x" if name == "kube-x" else "kube-other", accepted=True)


@pytest.mark.contract("D18")
@pytest.mark.parametrize("name", ["work", "registration"])
def test_no_cluster_owns_a_role_that_all_share(name: str) -> None:
    with pytest.raises(errors.Invalid, match="is shared by all clusters"):
        make.cluster(name, accepted=True)


@pytest.mark.contract("D18")
def test_no_agent_gets_rights_where_a_set_is_bound() -> None:
    make.namespace("team")
    make.binding("web", namespace="team")
    make.cluster("team")
    with pytest.raises(errors.Invalid, match="holds a ManagedClusterSetBinding"):
        make.accept("team")


@pytest.mark.contract("D11")
def test_acceptance_and_its_end_have_names_of_their_own_in_the_audit() -> None:
    make.cluster("c1")
    make.accept("c1")
    make.accept("c1", accepts=False)
    make.label("c1", {"team": "edge"})
    acts = AuditEvent.objects.filter(name="c1", resource=MANAGED_CLUSTER.resource).order_by("revision")
    assert list(acts.values_list("act", flat=True)) == [
        "managedcluster:create",
        "managedcluster:accept",
        "managedcluster:disconnect",
        "managedcluster:patch",
    ]


# ---------------------------------------------------------------- moving between sets


@pytest.mark.contract("A6", "A7", "S132")
@pytest.mark.parametrize(
    ("joinable", "missing"), [("", "web"), ("web", "db"), ("db", "web"), ("web db", "")], ids=lambda each: each or "-"
)
def test_moving_needs_join_on_both_sets_and_the_old_one_is_asked_first(joinable: str, missing: str) -> None:
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    raj = person("raj")
    joins = [rule("create", "managedclustersets/join", groups=GROUP, names=joinable)] if joinable else []
    grant(raj, WRITE, *joins)
    if not missing:
        make.label("c1", {CLUSTERSET_LABEL: "db"}, by=raj)
        assert make.stored("c1").clusterset == "db"
        return
    with pytest.raises(errors.Forbidden) as refused:
        make.label("c1", {CLUSTERSET_LABEL: "db"}, by=raj)
    assert refused.value.message == (
        f'{WEBHOOK}managedclustersets/join.{GROUP} "{missing}" is forbidden: user "raj" cannot add/remove a '
        f'ManagedCluster to/from ManagedClusterSet "{missing}"'
    )


@pytest.mark.contract("A7", "K48")
def test_whoever_creates_a_cluster_needs_join_on_default() -> None:
    raj = person("raj")
    grant(raj, WRITE)
    with pytest.raises(errors.Forbidden, match='ManagedClusterSet "default"'):
        make.cluster("c1", by=raj)
    grant(raj, rule("create", "managedclusterset/join", groups=GROUP, names="default"))
    make.cluster("c1", by=raj)


@pytest.mark.contract("K6")
def test_the_hubs_own_hand_needs_no_join() -> None:
    make.cluster("c1", by=Actor.controller("registration"), labels={CLUSTERSET_LABEL: "web"})


# ---------------------------------------------------------------- Django permissions


def user(name: str) -> Actor:
    User.objects.create_user(name)
    return Actor(user=name, groups=(AUTHENTICATED,))


def allow(name: str, codename: str, model: type[Any]) -> None:
    User.objects.get(username=name).user_permissions.add(
        Permission.objects.get(codename=codename, content_type__app_label=model._meta.app_label)
    )


@pytest.mark.contract("D2")
def test_the_permission_on_one_cluster_lets_in_that_one_and_no_other() -> None:
    make.cluster("c1")
    make.cluster("c2")
    ana = user("ana")
    assign_perm("accept_managedcluster", User.objects.get(username="ana"), make.stored("c1"))
    make.accept("c1", by=ana)
    make.accept("c1", by=ana, accepts=False)
    assert verbs.get(ana, MANAGED_CLUSTER, Key("", "c1"))
    with pytest.raises(errors.Forbidden):
        make.accept("c2", by=ana)
    with pytest.raises(errors.Forbidden):
        verbs.get(ana, MANAGED_CLUSTER, Key("", "c2"))


@pytest.mark.contract("D2")
def test_the_permission_everywhere_counts_for_new_clusters_too() -> None:
    ana = user("ana")
    allow("ana", "accept_managedcluster", ManagedCluster)
    grant(ana, rule("create", "managedclusters", groups=GROUP), JOIN_ANY)
    make.cluster("c1", accepted=True, by=ana)
    make.accept("c1", accepts=False, by=ana)


@pytest.mark.contract("D2")
def test_the_permission_may_come_from_a_group() -> None:
    make.cluster("c1")
    ana = user("ana")
    approvers = Group.objects.create(name="approvers")
    approvers.user_set.add(User.objects.get(username="ana"))
    assign_perm("accept_managedcluster", approvers, make.stored("c1"))
    make.accept("c1", by=ana)


@pytest.mark.contract("D2", "D9")
@pytest.mark.parametrize("present", [None, {}, {"other": "x"}], ids=["absent", "empty", "another"])
def test_the_permission_to_let_in_changes_nothing_else(present: dict[str, str] | None) -> None:
    metadata: Doc = {} if present is None else {"annotations": present}
    make.cluster("c1", **metadata)
    ana = user("ana")
    assign_perm("accept_managedcluster", User.objects.get(username="ana"), make.stored("c1"))

    def annotate(key: str) -> None:
        make.edit(
            MANAGED_CLUSTER, "c1", lambda doc: doc["metadata"].setdefault("annotations", {}).update({key: "x"}), by=ana
        )

    annotate("registration.ocmconsole.io/accept-key")
    with pytest.raises(errors.Forbidden, match="allows changing"):
        annotate("registration.ocmconsole.io/other")
    with pytest.raises(errors.Forbidden, match="allows changing"):
        make.label("c1", {"team": "edge"}, by=ana)
    with pytest.raises(errors.Forbidden, match="allows changing"):
        make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["spec"].update(leaseDurationSeconds=1), by=ana)
    with pytest.raises(errors.Forbidden):
        make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc.update(status={}), by=ana, subresource="status")
    with pytest.raises(errors.Forbidden):
        verbs.delete(ana, MANAGED_CLUSTER, Key("", "c1"))


@pytest.mark.contract("D2")
@pytest.mark.parametrize(
    ("codename", "allowed"),
    [
        ("view_managedcluster", {"get"}),
        ("change_managedcluster", {"get", "patch"}),
        ("delete_managedcluster", {"get", "delete"}),
    ],
)
def test_permissions_of_django_are_verbs(codename: str, allowed: set[str]) -> None:
    make.cluster("c1")
    ana = user("ana")
    assign_perm(codename, User.objects.get(username="ana"), make.stored("c1"))
    acts: dict[str, Callable[[], object]] = {
        "get": lambda: verbs.get(ana, MANAGED_CLUSTER, Key("", "c1")),
        "patch": lambda: make.label("c1", {"team": "edge"}, by=ana),
        "delete": lambda: verbs.delete(ana, MANAGED_CLUSTER, Key("", "c1")),
    }
    done = set()
    for verb, act in acts.items():
        with suppress(errors.Forbidden):
            act()
            done.add(verb)
    assert done == allowed


@pytest.mark.contract("D2")
def test_a_cluster_that_is_made_again_inherits_no_permission() -> None:
    make.cluster("c1")
    ana = user("ana")
    assign_perm("accept_managedcluster", User.objects.get(username="ana"), make.stored("c1"))
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.cluster("c1")
    with pytest.raises(errors.Forbidden):
        make.accept("c1", by=ana)


@pytest.mark.contract("D2")
def test_joining_may_be_permitted_on_a_set() -> None:
    make.clusterset("web")
    ana = user("ana")
    grant(ana, WRITE)
    with pytest.raises(errors.Forbidden):
        make.cluster("c1", by=ana, labels={CLUSTERSET_LABEL: "web"})
    assign_perm("join_managedclusterset", User.objects.get(username="ana"), ManagedClusterSet.objects.get(name="web"))
    make.cluster("c1", by=ana, labels={CLUSTERSET_LABEL: "web"})


@pytest.mark.contract("W21")
def test_a_superuser_counts_only_by_the_group_that_his_credential_carries() -> None:
    make.cluster("c1")
    User.objects.create_superuser("boss")
    with pytest.raises(errors.Forbidden):
        make.accept("c1", by=Actor(user="boss", groups=(AUTHENTICATED,)))
