"""Who may do what: decisions of the rule index and how current they are."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, User

from ocmconsole.core import kinds
from ocmconsole.core.models import ClusterRole
from ocmconsole.core.rbac import rule_index
from ocmconsole.core.rbac.policy_rules import PolicyRule
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import Change, writing
from tests.actors import RBAC, ROOT, grant, namespace, person, rule

pytestmark = pytest.mark.django_db
LEASES = "coordination.k8s.io"


def bind(kind: str, subject: dict[str, str], role: str, *, inside: str = "") -> None:
    binding = kinds.ROLE_BINDING if inside else kinds.CLUSTER_ROLE_BINDING
    doc = {"metadata": {"name": "bound"}, "roleRef": {"kind": kind, "name": role}, "subjects": [subject]}
    verbs.create(ROOT, binding, doc, namespace=inside)


def role(name: str, *rules: dict[str, object]) -> None:
    verbs.create(ROOT, kinds.CLUSTER_ROLE, {"metadata": {"name": name}, "rules": list(rules)})


@pytest.mark.contract("W22")
def test_a_decision_says_which_binding_of_which_role_allowed_it() -> None:
    role("reader", rule("get", "secrets"))
    bind("ClusterRole", {"kind": "Group", "name": "devs"}, "reader")
    decision = authorization.authorize(person("ana", "devs"), Attributes("get", resource="secrets"))
    assert decision.reason == 'RBAC: allowed by ClusterRoleBinding "bound" of ClusterRole "reader" to Group "devs"'
    assert not authorization.authorize(person("li"), Attributes("get", resource="secrets")).allowed


@pytest.mark.contract("W22")
def test_a_role_binding_counts_in_its_namespace_only() -> None:
    namespace("inside")
    role("reader", rule("get", "secrets"), {"verbs": ["get"], "nonResourceURLs": ["/metrics"]})
    bind("ClusterRole", {"kind": "ServiceAccount", "name": "bot"}, "reader", inside="inside")
    bot = person("system:serviceaccount:inside:bot")
    decision = authorization.authorize(bot, Attributes("get", resource="secrets", namespace="inside"))
    assert decision.reason == (
        'RBAC: allowed by RoleBinding "bound/inside" of ClusterRole "reader" to ServiceAccount "bot/inside"'
    )
    assert not authorization.authorize(bot, Attributes("get", resource="secrets", namespace="outside")).allowed
    assert not authorization.authorize(bot, Attributes("get", resource="secrets")).allowed
    assert not authorization.authorize(bot, Attributes("get", path="/metrics")).allowed


@pytest.mark.contract("W22")
def test_a_binding_to_a_missing_role_grants_nothing_until_the_role_comes() -> None:
    bind("ClusterRole", {"kind": "User", "name": "ana"}, "later")
    assert not authorization.authorize(person("ana"), Attributes("get", resource="secrets")).allowed
    role("later", rule("get", "secrets"))
    assert authorization.authorize(person("ana"), Attributes("get", resource="secrets")).allowed


@pytest.mark.contract("W22")
@pytest.mark.parametrize("where", ["", "inside", "outside"])
def test_those_who_are_given_a_right_are_those_to_whom_the_rules_allow_it(where: str) -> None:
    people = {name: person(name) for name in ("ana", "raj", "li", "mallory")}
    for space in ("inside", "outside"):
        namespace(space)
    grant(people["ana"], rule("get", "secrets"), rule("*", "*"))
    grant(people["raj"], rule("get", "secrets"), namespace="inside")
    grant(people["li"], rule("get", "secrets", names="one"), namespace="outside")
    for name in ("", "one"):
        asked = Attributes("get", resource="secrets", namespace=where, name=name)
        given = {grant.subject.name for grant in rule_index.index.granting([asked])} & set(people)
        assert given == {name for name, actor in people.items() if authorization.authorize(actor, asked).allowed}


def test_who_is_given_a_right_is_found_without_the_rules_of_other_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Attributes] = []
    allows = PolicyRule.allows

    def counted(policy: PolicyRule, asked: Attributes) -> bool:
        looked.append(asked)
        return allows(policy, asked)

    monkeypatch.setattr(PolicyRule, "allows", counted)

    def looks() -> int:
        looked.clear()
        assert {each.subject.name for each in rule_index.index.granting([secrets])} >= {"ana"}
        return len(looked)

    secrets = Attributes("get", resource="secrets")
    grant(person("ana"), rule("get", "secrets"))
    few = looks()
    for number in range(5):
        grant(person("raj"), rule("get", "secrets"), namespace=namespace(f"c{number}"))
    assert looks() == few


@pytest.mark.contract("W13", "W22")
def test_an_agent_reads_its_own_cluster_and_no_other() -> None:
    agent = person("system:open-cluster-management:c1:a1", "system:open-cluster-management:c1")
    group = "cluster.open-cluster-management.io"
    grant(agent, rule("get list watch update", "managedclusters", groups=group, names="c1"))
    watch = Attributes("watch", group, "managedclusters", name="c1")
    assert authorization.authorize(agent, watch).allowed
    assert not authorization.authorize(agent, Attributes("watch", group, "managedclusters")).allowed
    assert not authorization.authorize(agent, Attributes("watch", group, "managedclusters", name="c2")).allowed


def test_taking_a_right_away_is_seen_at_the_next_question() -> None:
    ana = person("ana")
    name = grant(ana, rule("get", "secrets"))
    assert authorization.authorize(ana, Attributes("get", resource="secrets")).allowed
    verbs.delete(ROOT, kinds.CLUSTER_ROLE_BINDING, Key("", name))
    assert not authorization.authorize(ana, Attributes("get", resource="secrets")).allowed


def test_a_role_that_changes_changes_what_its_subjects_may() -> None:
    ana = person("ana")
    name = grant(ana, rule("get", "secrets"))
    verbs.edit(ROOT, kinds.CLUSTER_ROLE, Key("", name), lambda doc: doc.update(rules=[rule("list", "secrets")]))
    assert not authorization.authorize(ana, Attributes("get", resource="secrets")).allowed
    assert authorization.authorize(ana, Attributes("list", resource="secrets")).allowed


@pytest.mark.django_db(transaction=True)
def test_a_commit_of_this_process_is_seen_without_waiting() -> None:
    ana = person("ana")
    name = grant(ana, rule("get", "secrets"))
    assert authorization.authorize(ana, Attributes("get", resource="secrets")).allowed
    verbs.delete(ROOT, kinds.CLUSTER_ROLE_BINDING, Key("", name))
    assert not authorization.authorize(ana, Attributes("get", resource="secrets")).allowed


@pytest.mark.django_db(transaction=True)
def test_a_process_that_nobody_wakes_knows_what_was_committed_before_it_is_asked() -> None:
    ana = person("ana")
    asked = Attributes("get", resource="secrets")
    name = grant(ana, rule("get", "secrets"))
    other = rule_index.RuleIndex()
    assert other.decide(ana, asked) is not None
    verbs.delete(ROOT, kinds.CLUSTER_ROLE_BINDING, Key("", name))
    assert other.decide(ana, asked) is None
    grant(ana, rule("get", "secrets"))
    assert other.decide(ana, asked) is not None


def test_the_index_starts_over_when_the_log_was_cut_or_turned_back() -> None:
    ana = person("ana")
    grant(ana, rule("get", "secrets"))
    rule_index.index.catch_up()
    with writing():
        ClusterRole.objects.all().delete()
    Change.objects.all().delete()
    rule_index.index._rights += 1_000
    assert not authorization.authorize(ana, Attributes("get", resource="secrets")).allowed


@pytest.mark.contract("D12")
@pytest.mark.parametrize(
    "rules", [7, [7], [{"verbs": [1]}], [{"verbs": "get"}], [None], [{"verbs": ["get"], "resources": {"a": 1}}]]
)
def test_a_row_that_cannot_be_read_stops_nobody_else(rules: object) -> None:
    tables = rule_index.Tables()
    tables.put(f"clusterroles.{RBAC}", ("", "bad"), {"rules": rules})
    tables.put(f"clusterrolebindings.{RBAC}", ("", "bad"), {"roleRef": rules, "subjects": rules})
    tables.put(f"clusterrolebindings.{RBAC}", ("", "worse"), {"roleRef": {"kind": [], "name": {}}})
    tables.put(f"clusterroles.{RBAC}", ("", "good"), {"rules": [rule("get", "secrets")]})
    subjects = [{"kind": "User", "name": "ana"}]
    bound = {"roleRef": {"kind": "ClusterRole", "name": "good"}, "subjects": subjects}
    tables.put(f"clusterrolebindings.{RBAC}", ("", "good"), bound)
    tables.put(
        f"clusterrolebindings.{RBAC}",
        ("", "other"),
        {"roleRef": {"kind": "ClusterRole", "name": "bad"}, "subjects": subjects},
    )
    assert tables.decide(person("ana"), Attributes("get", resource="secrets")) is not None


def test_a_cluster_role_binding_cannot_name_a_role_of_a_namespace() -> None:
    tables = rule_index.Tables()
    tables.put(f"clusterroles.{RBAC}", ("", "reader"), {"rules": [rule("get", "secrets")]})
    bound = {"roleRef": {"kind": "Role", "name": "reader"}, "subjects": [{"kind": "User", "name": "ana"}]}
    tables.put(f"clusterrolebindings.{RBAC}", ("", "bound"), bound)
    assert tables.decide(person("ana"), Attributes("get", resource="secrets")) is None


def test_a_subject_named_twice_is_bound_once_and_unbound_whole() -> None:
    tables = rule_index.Tables()
    tables.put(f"clusterroles.{RBAC}", ("", "reader"), {"rules": [rule("get", "secrets")]})
    subjects = [{"kind": "User", "name": "ana"}, {"kind": "User", "name": "ana"}]
    bound = {"roleRef": {"kind": "ClusterRole", "name": "reader"}, "subjects": subjects}
    tables.put(f"clusterrolebindings.{RBAC}", ("", "bound"), bound)
    tables.drop(f"clusterrolebindings.{RBAC}", ("", "bound"))
    assert tables.decide(person("ana"), Attributes("get", resource="secrets")) is None
    assert not tables._bound


@pytest.mark.contract("W13")
def test_an_agent_among_ten_thousand_is_decided_by_its_own_bindings() -> None:
    tables = rule_index.Tables()
    for number in range(10_000):
        _add_cluster(tables, f"c{number}")
    tables.put(
        f"clusterroles.{RBAC}",
        ("", "registration"),
        {"rules": [rule("get list watch update", "leases", groups=LEASES)]},
    )
    agent = Actor(
        user="system:open-cluster-management:c7777:a1",
        groups=(
            "system:open-cluster-management:c7777",
            "system:open-cluster-management:managed-clusters",
            "system:authenticated",
        ),
    )
    asked = Attributes("update", LEASES, "leases", namespace="c7777", name="managed-cluster-lease")
    assert tables.decide(agent, asked) is not None
    assert (
        tables.decide(agent, Attributes("update", LEASES, "leases", namespace="c1", name="managed-cluster-lease"))
        is None
    )


def _add_cluster(tables: rule_index.Tables, cluster: str) -> None:
    group = "cluster.open-cluster-management.io"
    rules = [
        rule("create get list watch", "certificatesigningrequests", groups="certificates.k8s.io"),
        rule("renew", "managedclusters/clientcertificates", groups="register.open-cluster-management.io"),
        rule("get list update watch", "managedclusters", groups=group, names=cluster),
        rule("patch update", "managedclusters/status", groups=group, names=cluster),
    ]
    subjects = [
        {"kind": "Group", "name": f"system:open-cluster-management:{cluster}"},
        {"kind": "Group", "name": f"open-cluster-management:{cluster}"},
    ]
    tables.put(f"clusterroles.{RBAC}", ("", cluster), {"rules": rules})
    bindings = f"clusterrolebindings.{RBAC}"
    tables.put(bindings, ("", cluster), {"roleRef": {"kind": "ClusterRole", "name": cluster}, "subjects": subjects})
    for shared in ("registration", "work"):
        bound = {"roleRef": {"kind": "ClusterRole", "name": shared}, "subjects": subjects}
        tables.put(f"rolebindings.{RBAC}", (cluster, shared), bound)


@pytest.mark.contract("D2")
def test_a_django_permission_is_answered_by_the_rules_that_spell_it() -> None:
    authorization.spell(
        "corekinds.paint_thing", lambda name: [Attributes("create", "example.io", "things", "paint", name=name)]
    )
    user = User.objects.create_user("ana")
    user.groups.add(Group.objects.create(name="painters"), Group.objects.create(name="system:masters"))
    role("painter", rule("create", "things/paint", groups="example.io"))
    assert not user.has_perm("corekinds.paint_thing")
    bind("ClusterRole", {"kind": "Group", "name": "painters"}, "painter")
    assert user.has_perm("corekinds.paint_thing")
    user.is_active = False
    assert not user.has_perm("corekinds.paint_thing")
