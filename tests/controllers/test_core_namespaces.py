"""The life of a namespace as its reconciler leads it, and the roles that gather rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ocmconsole.core import defaults, kinds
from ocmconsole.core.models import ClusterRole, ConfigMap
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.control import controllers, workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.watch import change_log
from tests.actors import RBAC, ROOT, namespace, person, rule

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _certificate(settings: Any, tmp_path: Path) -> None:
    settings.OCMCONSOLE_HOME = tmp_path
    (tmp_path / "ca.crt").write_text("a certificate\n")


def settle() -> None:
    """Work everything off; then a second look at everything must write nothing."""
    workqueue.drain()
    before = change_log.newest_revision()
    for name in controllers.names():
        found = controllers.find_reconciler(name)
        assert found is not None
        for space in kinds.NAMESPACE.model.objects.all():
            if name == "namespace":
                found.reconcile(Key("", space.name))
        for role in ClusterRole.objects.all():
            if name == "aggregation":
                found.reconcile(role.key)
    assert change_log.newest_revision() == before


@pytest.mark.contract("W27")
def test_an_active_namespace_gets_the_ca_and_a_default_account() -> None:
    namespace("c1")
    settle()
    ca = verbs.find(kinds.CONFIG_MAP, Key("c1", "kube-root-ca.crt"))
    assert ca is not None
    assert ca["data"] == {"ca.crt": "a certificate\n"}
    assert verbs.find(kinds.SERVICE_ACCOUNT, Key("c1", "default")) is not None


@pytest.mark.contract("W27")
def test_what_is_taken_away_or_edited_comes_back() -> None:
    namespace("c1")
    settle()
    verbs.delete(ROOT, kinds.SERVICE_ACCOUNT, Key("c1", "default"))
    verbs.edit(ROOT, kinds.CONFIG_MAP, Key("c1", "kube-root-ca.crt"), lambda doc: doc.update(data={"ca.crt": "mine"}))
    settle()
    assert verbs.find(kinds.SERVICE_ACCOUNT, Key("c1", "default")) is not None
    assert verbs.find(kinds.CONFIG_MAP, Key("c1", "kube-root-ca.crt"))["data"] == {"ca.crt": "a certificate\n"}  # type: ignore[index]


@pytest.mark.contract("W27", "W18")
def test_a_deleted_namespace_loses_everything_and_goes() -> None:
    namespace("c1"), namespace("c2")
    for space in ("c1", "c2"):
        verbs.create(ROOT, kinds.CONFIG_MAP, {"metadata": {"name": "x"}}, namespace=space)
        verbs.create(ROOT, kinds.ROLE, {"metadata": {"name": "x"}, "rules": []}, namespace=space)
    settle()
    verbs.delete(ROOT, kinds.NAMESPACE, Key("", "c1"))
    settle()
    assert verbs.find(kinds.NAMESPACE, Key("", "c1")) is None
    assert {row.namespace for row in ConfigMap.objects.all()} == {"c2"}


@pytest.mark.contract("W27", "W18")
def test_a_namespace_waits_for_an_object_that_is_held() -> None:
    namespace("c1")
    verbs.create(ROOT, kinds.CONFIG_MAP, {"metadata": {"name": "x", "finalizers": ["a.b/c"]}}, namespace="c1")
    verbs.delete(ROOT, kinds.NAMESPACE, Key("", "c1"))
    settle()
    held = verbs.find(kinds.CONFIG_MAP, Key("c1", "x"))
    assert held is not None
    assert held["metadata"]["deletionTimestamp"]
    assert verbs.find(kinds.NAMESPACE, Key("", "c1")) is not None
    verbs.edit(ROOT, kinds.CONFIG_MAP, Key("c1", "x"), lambda doc: doc["metadata"].update(finalizers=[]))
    settle()
    assert verbs.find(kinds.NAMESPACE, Key("", "c1")) is None


def role(name: str, to: str, *rules: dict[str, object]) -> None:
    doc = {"metadata": {"name": name, "labels": {"sum/to": to}}, "rules": list(rules)}
    verbs.create(ROOT, kinds.CLUSTER_ROLE, doc)


def rules_of(name: str) -> object:
    found = verbs.find(kinds.CLUSTER_ROLE, Key("", name))
    assert found is not None
    return found.get("rules")


@pytest.mark.contract("W22")
def test_an_aggregated_role_has_the_rules_of_those_it_selects_by_name() -> None:
    selectors = [{"matchLabels": {"sum/to": "one"}}, {"matchExpressions": [{"key": "odd", "operator": "Exists"}]}]
    verbs.create(
        ROOT, kinds.CLUSTER_ROLE, {"metadata": {"name": "sum"}, "aggregationRule": {"clusterRoleSelectors": selectors}}
    )
    role("b", "one", rule("get", "secrets"), rule("get", "events"))
    role("a", "one", rule("list", "secrets"), rule("get", "events"))
    role("c", "two", rule("delete", "secrets"))
    settle()
    assert rules_of("sum") == [rule("list", "secrets"), rule("get", "events"), rule("get", "secrets")]
    verbs.edit(ROOT, kinds.CLUSTER_ROLE, Key("", "a"), lambda doc: doc["metadata"].update(labels={"sum/to": "two"}))
    settle()
    assert rules_of("sum") == [rule("get", "secrets"), rule("get", "events")]
    verbs.delete(ROOT, kinds.CLUSTER_ROLE, Key("", "b"))
    verbs.edit(ROOT, kinds.CLUSTER_ROLE, Key("", "c"), lambda doc: doc["metadata"].update(labels={"odd": "x"}))
    settle()
    assert rules_of("sum") == [rule("delete", "secrets")]


@pytest.mark.contract("H1", "W22")
def test_the_first_start_makes_namespaces_and_roles_and_the_second_writes_nothing() -> None:
    actor = Actor.controller("foundation")
    defaults.ensure_defaults(actor)
    settle()
    before = change_log.newest_revision()
    defaults.ensure_defaults(actor)
    settle()
    assert change_log.newest_revision() == before
    for name in ("default", "kube-system", "kube-public", "open-cluster-management", "open-cluster-management-hub"):
        assert verbs.find(kinds.CONFIG_MAP, Key(name, "kube-root-ca.crt")) is not None
    rules = rules_of("admin")
    assert isinstance(rules, list)
    for name in ("system:aggregate-to-edit", "system:aggregate-to-view"):
        assert all(found in rules for found in defaults.RULES[name])


def test_a_default_role_gets_back_what_it_lost_unless_it_is_annotated_not_to() -> None:
    actor = Actor.controller("foundation")
    defaults.ensure_defaults(actor)
    verbs.edit(
        ROOT, kinds.CLUSTER_ROLE, Key("", "system:basic-user"), lambda doc: doc.update(rules=[rule("get", "own")])
    )
    defaults.ensure_defaults(actor)
    assert rules_of("system:basic-user") == [rule("get", "own"), *defaults.RULES["system:basic-user"]]

    def alone(doc: dict[str, object]) -> None:
        doc.update(rules=[])
        doc["metadata"]["annotations"][defaults.AUTOUPDATE] = "false"  # type: ignore[index]

    verbs.edit(ROOT, kinds.CLUSTER_ROLE, Key("", "system:basic-user"), alone)
    defaults.ensure_defaults(actor)
    assert rules_of("system:basic-user") == []


def test_who_is_who_on_a_fresh_hub() -> None:
    defaults.ensure_defaults(Actor.controller("foundation"))
    settle()
    namespace("a")
    anybody = person("li")
    nobody = Actor.anonymous()
    assert authorization.authorize(anybody, Attributes("get", path="/apis/x")).allowed
    assert authorization.authorize(nobody, Attributes("get", path="/version")).allowed
    assert not authorization.authorize(nobody, Attributes("get", path="/api")).allowed
    assert not authorization.authorize(anybody, Attributes("list", resource="secrets", namespace="a")).allowed
    review = Attributes("create", "authorization.k8s.io", "selfsubjectaccessreviews")
    assert authorization.authorize(anybody, review).allowed
    editor = person("ed")
    bound = {
        "metadata": {"name": "edit"},
        "roleRef": {"kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "name": "ed"}],
    }
    verbs.create(ROOT, kinds.ROLE_BINDING, bound, namespace="a")
    assert authorization.authorize(editor, Attributes("update", resource="secrets", namespace="a")).allowed
    assert not authorization.authorize(editor, Attributes("update", resource="secrets", namespace="b")).allowed
    assert not authorization.authorize(editor, Attributes("get", resource="roles", group=RBAC, namespace="a")).allowed
