"""Nobody gives more than they hold, and roles and bindings are well-formed."""

from __future__ import annotations

from typing import Any

import pytest

from ocmconsole.core import kinds
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.kubeapi.models import AuditEvent
from tests.actors import RBAC, ROOT, grant, namespace, person, refused_at_worst, rule

pytestmark = pytest.mark.django_db
WRITER = rule("*", "clusterroles clusterrolebindings roles rolebindings", groups=RBAC)
CAREFUL = rule("create get update patch", "clusterroles clusterrolebindings roles rolebindings", groups=RBAC)


def role(actor: Actor, name: str, *rules: dict[str, Any], kind: Kind = kinds.CLUSTER_ROLE, inside: str = "") -> None:
    verbs.create(actor, kind, {"metadata": {"name": name}, "rules": list(rules)}, namespace=inside)


def binding(role: str, *, kind: str = "ClusterRole", name: str = "bound", user: str = "mallory") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "roleRef": {"kind": kind, "name": role},
        "subjects": [{"kind": "User", "name": user}],
    }


@pytest.mark.contract("W22")
def test_a_role_with_more_than_its_writer_holds_is_refused_in_kubernetes_words() -> None:
    alice = person("alice", "devs")
    grant(alice, CAREFUL, rule("list", "secrets"))
    with pytest.raises(errors.Forbidden) as refused:
        role(alice, "esc", rule("get list delete", "secrets"))
    assert refused.value.message == (
        'clusterroles.rbac.authorization.k8s.io "esc" is forbidden: user "alice" (groups=["devs" "system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}'
    )
    assert AuditEvent.objects.filter(outcome="denied", user="alice", name="esc").exists()
    role(alice, "fine", rule("list", "secrets"))


@pytest.mark.contract("W22")
def test_the_verb_escalate_lifts_the_check() -> None:
    alice = person("alice")
    grant(alice, WRITER)
    role(alice, "all", rule("*", "secrets"))


@pytest.mark.contract("W22")
def test_an_update_that_changes_no_rule_is_not_checked() -> None:
    role(ROOT, "big", rule("*", "secrets"))
    alice = person("alice")
    grant(alice, CAREFUL)
    verbs.edit(alice, kinds.CLUSTER_ROLE, Key("", "big"), lambda doc: doc["metadata"].update(annotations={"a": "b"}))
    with pytest.raises(errors.Forbidden):
        verbs.edit(alice, kinds.CLUSTER_ROLE, Key("", "big"), lambda doc: doc["rules"].append(rule("get", "events")))


@pytest.mark.contract("W22")
def test_rights_in_one_namespace_do_not_reach_another() -> None:
    namespace("mine"), namespace("yours")
    alice = person("alice")
    grant(alice, CAREFUL)
    grant(alice, rule("get", "secrets"), namespace="mine")
    role(alice, "reader", rule("get", "secrets"), kind=kinds.ROLE, inside="mine")
    with pytest.raises(errors.Forbidden):
        role(alice, "reader", rule("get", "secrets"), kind=kinds.ROLE, inside="yours")
    with pytest.raises(errors.Forbidden):
        role(alice, "reader", rule("get", "secrets"))


@pytest.mark.contract("W22")
def test_a_binding_needs_the_rights_of_its_role_or_the_verb_bind_on_it() -> None:
    role(ROOT, "big", rule("*", "secrets"))
    alice = person("alice")
    grant(alice, CAREFUL)
    with pytest.raises(errors.Forbidden, match="not currently held"):
        verbs.create(alice, kinds.CLUSTER_ROLE_BINDING, binding("big"))
    with pytest.raises(errors.NotFound, match=r'clusterroles.rbac.authorization.k8s.io "none" not found'):
        verbs.create(alice, kinds.CLUSTER_ROLE_BINDING, binding("none"))
    grant(alice, rule("bind", "clusterroles", groups=RBAC, names="big"))
    verbs.create(alice, kinds.CLUSTER_ROLE_BINDING, binding("big"))


@pytest.mark.contract("W22")
def test_a_binding_that_gains_a_subject_is_checked_again() -> None:
    role(ROOT, "big", rule("*", "secrets"))
    verbs.create(ROOT, kinds.CLUSTER_ROLE_BINDING, binding("big"))
    alice = person("alice")
    grant(alice, CAREFUL)
    key = Key("", "bound")
    verbs.edit(alice, kinds.CLUSTER_ROLE_BINDING, key, lambda doc: doc["metadata"].update(labels={"a": "b"}))
    with pytest.raises(errors.Forbidden):
        verbs.edit(
            alice,
            kinds.CLUSTER_ROLE_BINDING,
            key,
            lambda doc: doc["subjects"].append({"kind": "User", "name": "alice"}),
        )


@pytest.mark.contract("W22")
def test_only_a_cluster_admin_may_aggregate() -> None:
    alice = person("alice")
    grant(alice, CAREFUL)
    doc = {
        "metadata": {"name": "sum"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
    }
    with pytest.raises(errors.Forbidden, match="must have cluster-admin privileges to use an aggregationRule"):
        verbs.create(alice, kinds.CLUSTER_ROLE, doc)


@pytest.mark.contract("K6")
def test_the_hubs_own_hand_is_not_checked() -> None:
    role(Actor.controller("registration"), "any", rule("*", "*"))


@pytest.mark.contract("W22")
def test_a_role_reference_cannot_be_changed() -> None:
    verbs.create(ROOT, kinds.CLUSTER_ROLE_BINDING, binding("one"))
    with pytest.raises(errors.Invalid, match="cannot change roleRef"):
        verbs.edit(ROOT, kinds.CLUSTER_ROLE_BINDING, Key("", "bound"), lambda doc: doc["roleRef"].update(name="two"))


@pytest.mark.contract("W22")
def test_groups_of_references_are_filled_in() -> None:
    doc = binding("one")
    doc["subjects"].append({"kind": "ServiceAccount", "name": "bot", "namespace": "a"})
    stored = verbs.create(ROOT, kinds.CLUSTER_ROLE_BINDING, doc).doc
    assert stored is not None
    assert stored["roleRef"] == {"apiGroup": RBAC, "kind": "ClusterRole", "name": "one"}
    assert stored["subjects"] == [
        {"kind": "User", "name": "mallory", "apiGroup": RBAC},
        {"kind": "ServiceAccount", "name": "bot", "namespace": "a"},
    ]


@pytest.mark.contract("W22")
@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (
            {"apiGroups": [""], "resources": ["a"]},
            "rules[0].verbs: Required value: verbs must contain at least one value",
        ),
        (
            {"verbs": ["get"], "resources": ["a"]},
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        ),
        (
            {"verbs": ["get"], "apiGroups": [""]},
            "rules[0].resources: Required value: resource rules must supply at least one resource",
        ),
        (
            {"verbs": ["get"], "apiGroups": [""], "resources": ["a"], "nonResourceURLs": ["/a"]},
            'rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply to both regular resources and non-resource URLs',
        ),
    ],
)
def test_a_rule_says_what_it_lacks(bad: dict[str, Any], text: str) -> None:
    with pytest.raises(errors.Invalid) as refused:
        role(ROOT, "bad", bad)
    assert refused.value.message == f'ClusterRole.{RBAC} "bad" is invalid: {text}'


@pytest.mark.contract("W22")
@pytest.mark.parametrize(
    ("subject", "field"),
    [
        ({"kind": "Robot", "name": "a"}, "subjects[0].kind"),
        ({"kind": "User", "name": ""}, "subjects[0].name"),
        ({"kind": "User", "name": "a", "apiGroup": "b"}, "subjects[0].apiGroup"),
        ({"kind": "ServiceAccount", "name": "a"}, "subjects[0].namespace"),
        ({"kind": "ServiceAccount", "name": "a", "namespace": "b", "apiGroup": RBAC}, "subjects[0].apiGroup"),
    ],
)
def test_a_subject_says_what_is_wrong_with_it(subject: dict[str, str], field: str) -> None:
    with pytest.raises(errors.Invalid) as refused:
        verbs.create(ROOT, kinds.CLUSTER_ROLE_BINDING, {**binding("one"), "subjects": [subject]})
    assert [cause.field for cause in refused.value.causes] == [field]


@pytest.mark.parametrize("odd", [7, "x", [7], [None], {"a": 1}, [[]], [{"kind": 1}], None])
@pytest.mark.parametrize("field", ["subjects", "roleRef", "rules", "aggregationRule"])
def test_odd_documents_are_refused_and_nothing_worse(field: str, odd: object) -> None:
    kind = kinds.CLUSTER_ROLE if field in {"rules", "aggregationRule"} else kinds.CLUSTER_ROLE_BINDING
    base = binding("one") if kind is kinds.CLUSTER_ROLE_BINDING else {"metadata": {"name": "bound"}, "rules": []}
    with refused_at_worst():
        verbs.create(ROOT, kind, {**base, field: odd})
