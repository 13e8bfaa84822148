"""What acceptance gave is put back when somebody edits or deletes it; what was taken away stays away (H4 to H12)."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.acceptance import agent_roles
from clusters.addons.addon_kinds import MANIFEST_WORK
from clusters.kinds import CLUSTER_LABEL, GROUP, LEASE, LEASE_NAME, MANAGED_CLUSTER, REGISTER
from ocmconsole.core import kinds
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.kinds import Key, Kind
from tests import factories as make
from tests.kept import kept

pytestmark = pytest.mark.django_db

ROLE = "open-cluster-management:managedcluster:c1"
REGISTRATION, WORK = f"{ROLE}:registration", f"{ROLE}:work"
OBJECTS = [
    (kinds.NAMESPACE, "", "c1"),
    (kinds.CLUSTER_ROLE, "", ROLE),
    (kinds.CLUSTER_ROLE_BINDING, "", ROLE),
    (kinds.ROLE_BINDING, "c1", REGISTRATION),
    (kinds.ROLE_BINDING, "c1", WORK),
]
RIGHTS = OBJECTS[1:]
every_object = pytest.mark.parametrize(("kind", "namespace", "name"), OBJECTS)
every_binding = pytest.mark.parametrize(("kind", "namespace", "name"), RIGHTS[1:])


@pytest.fixture
@kept
def c1() -> str:
    make.cluster("c1", accepted=True)
    make.settle()
    return "c1"


def found(kind: Kind, namespace: str, name: str) -> dict[str, Any]:
    doc = verbs.find(kind, Key(namespace, name))
    assert doc is not None
    return doc


def content(doc: dict[str, Any]) -> dict[str, Any]:
    """Without what the server counts."""
    metadata = {name: doc["metadata"].get(name) for name in ("name", "namespace", "labels", "finalizers")}
    return {**{name: part for name, part in doc.items() if name != "metadata"}, **metadata}


def may(verb: str, resource: str, group: str, namespace: str = "") -> bool:
    resource, _, subresource = resource.partition("/")
    name = "c1" if resource == "managedclusters" and group == GROUP else ""
    asked = Attributes(verb, group, resource, subresource, namespace, name)
    return authorization.authorize(make.agent("c1"), asked).allowed


def may_work() -> bool:
    return may("list", "manifestworks", "work.open-cluster-management.io", "c1")


def may_beat() -> bool:
    return may("update", "leases", "coordination.k8s.io", "c1")


# ---------------------------------------------------------------- while it is accepted


@pytest.mark.contract("H4")
@every_object
def test_the_label_that_finds_an_object_comes_back_and_others_stay(
    c1: str, kind: Kind, namespace: str, name: str
) -> None:
    make.edit(kind, name, lambda doc: doc["metadata"].update(labels={"team": "edge"}), namespace=namespace)
    make.settle()
    labels = found(kind, namespace, name)["metadata"]["labels"]
    assert labels[CLUSTER_LABEL] == c1
    assert labels["team"] == "edge"


@pytest.mark.contract("H4")
@every_object
def test_what_somebody_deletes_is_made_again(c1: str, kind: Kind, namespace: str, name: str) -> None:
    before = found(kind, namespace, name)
    verbs.delete(make.ADMIN, kind, Key(namespace, name))
    make.settle()
    after = found(kind, namespace, name)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert content(after) == content(before)
    assert make.stored(c1).accepted == "True"
    assert may_work()
    assert may_beat()


@pytest.mark.contract("H4", "H15")
def test_a_namespace_that_somebody_deletes_comes_back_with_everything_in_it(c1: str) -> None:
    before = {(kind, name): content(found(kind, space, name)) for kind, space, name in OBJECTS}
    verbs.delete(make.ADMIN, kinds.NAMESPACE, Key("", c1))
    make.settle()
    assert {(kind, name): content(found(kind, space, name)) for kind, space, name in OBJECTS} == before
    assert "deletionTimestamp" not in found(kinds.NAMESPACE, "", c1)["metadata"]
    assert found(LEASE, c1, LEASE_NAME)["metadata"]["labels"] == {CLUSTER_LABEL: c1}


@pytest.mark.contract("H4")
def test_annotations_and_labels_of_a_namespace_that_was_there_are_kept() -> None:
    make.namespace("c1", labels={"team": "edge", CLUSTER_LABEL: "other"}, annotations={"note": "mine"})
    make.cluster("c1", accepted=True)
    make.settle()
    metadata = found(kinds.NAMESPACE, "", "c1")["metadata"]
    assert metadata["labels"] == {"team": "edge", CLUSTER_LABEL: "c1", "kubernetes.io/metadata.name": "c1"}
    assert metadata["annotations"] == {"note": "mine"}


@pytest.mark.contract("H4")
@every_binding
def test_a_binding_to_another_role_is_made_anew(c1: str, kind: Kind, namespace: str, name: str) -> None:
    before = found(kind, namespace, name)
    if before["metadata"].get("finalizers"):
        make.let_go(kind, name, namespace=namespace)
    verbs.delete(make.ADMIN, kind, Key(namespace, name))
    elsewhere = {"apiGroup": agent_roles.RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    wrong = make.document(kind, name, finalizers=before["metadata"].get("finalizers") or [])
    make.create(kind, {**wrong, "roleRef": elsewhere, "subjects": before["subjects"]}, namespace=namespace)
    make.settle()
    assert content(found(kind, namespace, name)) == content(before)


@pytest.mark.contract("H4", "H7")
def test_the_finalizer_of_the_binding_for_works_comes_back(c1: str) -> None:
    make.let_go(kinds.ROLE_BINDING, WORK, namespace=c1)
    make.settle()
    assert found(kinds.ROLE_BINDING, c1, WORK)["metadata"]["finalizers"] == [agent_roles.WORK_FINALIZER]


@pytest.mark.contract("H4")
def test_a_right_that_somebody_slips_in_is_taken_out(c1: str) -> None:
    more = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    make.edit(kinds.CLUSTER_ROLE, ROLE, lambda doc: doc["rules"].append(more))
    stranger = {"kind": "User", "apiGroup": agent_roles.RBAC, "name": "mallory"}
    make.edit(kinds.CLUSTER_ROLE_BINDING, ROLE, lambda doc: doc["subjects"].append(stranger))
    make.settle()
    assert found(kinds.CLUSTER_ROLE, "", ROLE)["rules"] == agent_roles.accepted_rules(c1)
    assert len(found(kinds.CLUSTER_ROLE_BINDING, "", ROLE)["subjects"]) == 2


@pytest.mark.contract("H4")
def test_the_hubs_finalizer_comes_back(c1: str) -> None:
    make.let_go(MANAGED_CLUSTER, c1)
    make.settle()
    assert f"{GROUP}/api-resource-cleanup" in make.stored(c1).doc["metadata"]["finalizers"]


@pytest.mark.contract("H5", "H4")
def test_a_condition_that_somebody_rewrites_is_put_right(c1: str) -> None:
    make.said(c1, "HubAcceptedManagedCluster", "False", reason="Mine")
    make.settle()
    said = make.condition(make.stored(c1).doc, "HubAcceptedManagedCluster")
    assert said == ("True", "HubClusterAdminAccepted", "Accepted by hub cluster admin")


# ---------------------------------------------------------------- sent away


@pytest.mark.contract("H7", "K8", "D20")
def test_works_that_linger_keep_their_right_and_nothing_else(c1: str) -> None:
    make.work(c1, finalizers=["example.com/hold"])
    make.accept(c1, accepts=False)
    make.settle()
    said = make.condition(make.stored(c1).doc, "HubAcceptedManagedCluster")
    assert said == ("False", "HubClusterAdminDenied", "Denied by hub cluster admin")
    assert found(kinds.ROLE_BINDING, c1, WORK)["metadata"]["deletionTimestamp"]
    assert not may_work()
    assert not may_beat()
    assert not may("update", "managedclusters", GROUP)
    assert not may("patch", "managedclusters/status", GROUP)
    assert not may("renew", "managedclusters/clientcertificates", REGISTER)
    assert may("get", "managedclusters", GROUP)
    assert found(MANIFEST_WORK, c1, "work")
    verbs.delete(make.ADMIN, MANIFEST_WORK, Key(c1, "work"))
    assert may_work()
    make.let_go(MANIFEST_WORK, "work", namespace=c1)
    make.settle()
    assert verbs.find(kinds.ROLE_BINDING, Key(c1, WORK)) is None
    assert not may_work()


@pytest.mark.contract("H8", "K8")
def test_accepting_again_while_works_linger_restores_all_rights(c1: str) -> None:
    make.work(c1)
    make.accept(c1, accepts=False)
    make.settle()
    make.accept(c1)
    make.settle()
    assert "deletionTimestamp" not in found(kinds.ROLE_BINDING, c1, WORK)["metadata"]
    assert may_work()
    assert may_beat()
    assert make.stored(c1).accepted == "True"
    assert found(MANIFEST_WORK, c1, "work")


@pytest.mark.contract("H7", "K8b")
def test_rights_that_somebody_gives_back_are_taken_again(c1: str) -> None:
    make.accept(c1, accepts=False)
    make.settle()
    make.edit(kinds.CLUSTER_ROLE, ROLE, lambda doc: doc.update(rules=agent_roles.accepted_rules(c1)))
    for binding in (agent_roles.registration_binding(c1, {}), agent_roles.work_binding(c1, {})):
        make.create(kinds.ROLE_BINDING, {**make.document(kinds.ROLE_BINDING, ""), **binding}, namespace=c1)
    assert may_beat()
    make.settle()
    assert not may_beat()
    assert not may_work()
    assert found(kinds.CLUSTER_ROLE, "", ROLE)["rules"] == agent_roles.denied_rules(c1)


@pytest.mark.contract("H7", "H15")
def test_a_lease_of_a_cluster_that_was_sent_away_is_made_again_too(c1: str) -> None:
    make.accept(c1, accepts=False)
    make.settle()
    verbs.delete(make.ADMIN, LEASE, Key(c1, LEASE_NAME))
    make.settle()
    assert found(LEASE, c1, LEASE_NAME)
