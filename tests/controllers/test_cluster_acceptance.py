"""What a cluster gets when it is let in, and loses when it is sent away (H4 to H14)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from clusters.acceptance import agent_roles, reconcilers
from clusters.kinds import LEASE, LEASE_NAME, MANAGED_CLUSTER
from clusters.models import ClusterFacts, Lease
from ocmconsole.core import kinds
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent, WorkItem
from tests import factories as make
from tests.actors import grant, person, rule
from tests.kept import kept

pytestmark = pytest.mark.django_db

CLUSTERS = "cluster.open-cluster-management.io"
REGISTER = "register.open-cluster-management.io"
ACCEPTED = "HubAcceptedManagedCluster"
ROLE = "open-cluster-management:managedcluster:c1"


def may(verb: str, resource: str, *, group: str = CLUSTERS, name: str = "", namespace: str = "") -> bool:
    """Whether the agent of c1 may."""
    resource, _, subresource = resource.partition("/")
    asked = Attributes(verb, group, resource, subresource, namespace, name)
    return authorization.authorize(make.agent("c1"), asked).allowed


def role_of(name: str = ROLE) -> dict[str, Any] | None:
    return verbs.find(kinds.CLUSTER_ROLE, Key("", name))


def binding_names(cluster: str = "c1") -> list[str]:
    rows = kinds.ROLE_BINDING.model.objects.filter(namespace=cluster).order_by("name")
    return [name.rpartition(":")[2] for name in rows.values_list("name", flat=True)]


@pytest.fixture
@kept
def c1() -> str:
    make.cluster("c1", accepted=True)
    make.settle()
    return "c1"


@pytest.mark.contract("H6", "H21", "H27", "K41")
def test_a_cluster_that_only_asks_gets_a_taint_and_a_finalizer_and_nothing_else() -> None:
    make.cluster("c1")
    make.settle()
    doc = make.stored("c1").doc
    assert doc["metadata"]["finalizers"] == ["cluster.open-cluster-management.io/resource-cleanup"]
    assert make.taints("c1") == ["unreachable:NoSelect"]
    assert "status" not in doc
    assert not kinds.NAMESPACE.model.objects.filter(name="c1").exists()
    assert role_of() is None
    assert not Lease.objects.exists()


@pytest.mark.contract("H4", "H5", "H15")
def test_an_accepted_cluster_gets_namespace_rights_lease_and_condition(c1: str) -> None:
    doc = make.stored(c1).doc
    assert make.condition(doc, ACCEPTED) == ("True", "HubClusterAdminAccepted", "Accepted by hub cluster admin")
    assert doc["metadata"]["finalizers"] == [
        "cluster.open-cluster-management.io/resource-cleanup",
        "cluster.open-cluster-management.io/api-resource-cleanup",
    ]
    namespace = verbs.find(kinds.NAMESPACE, Key("", c1))
    assert namespace is not None
    assert namespace["metadata"]["labels"]["open-cluster-management.io/cluster-name"] == c1
    lease = verbs.find(LEASE, Key(c1, LEASE_NAME))
    assert lease is not None
    assert lease["metadata"]["labels"] == {"open-cluster-management.io/cluster-name": c1}
    assert set(lease["spec"]) == {"holderIdentity", "renewTime"}
    assert binding_names() == ["registration", "work"]


@pytest.mark.contract("H4")
def test_rights_are_the_exact_objects_of_the_contract(c1: str) -> None:
    role = role_of()
    assert role is not None
    assert role["rules"] == [
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["certificatesigningrequests"],
            "verbs": ["create", "get", "list", "watch"],
        },
        {"apiGroups": [REGISTER], "resources": ["managedclusters/clientcertificates"], "verbs": ["renew"]},
        {
            "apiGroups": [CLUSTERS],
            "resources": ["managedclusters"],
            "resourceNames": ["c1"],
            "verbs": ["get", "list", "update", "watch"],
        },
        {
            "apiGroups": [CLUSTERS],
            "resources": ["managedclusters/status"],
            "resourceNames": ["c1"],
            "verbs": ["patch", "update"],
        },
    ]
    work = verbs.find(kinds.ROLE_BINDING, Key(c1, f"{ROLE}:work"))
    assert work is not None
    assert work["metadata"]["finalizers"] == ["cluster.open-cluster-management.io/manifest-work-cleanup"]
    assert work["roleRef"]["name"] == "open-cluster-management:managedcluster:work"
    assert [subject["name"] for subject in work["subjects"]] == [
        "system:open-cluster-management:c1",
        "open-cluster-management:c1",
    ]
    assert work["metadata"]["labels"] == {"open-cluster-management.io/cluster-name": "c1"}


@pytest.mark.contract("H13", "H14")
def test_an_agent_may_do_what_it_needs_in_its_own_place_and_nothing_elsewhere(c1: str) -> None:
    leases = "coordination.k8s.io"
    for verb in ("get", "list", "watch", "update"):
        assert may(verb, "managedclusters", name=c1)
        assert may(verb, "leases", group=leases, namespace=c1)
        assert not may(verb, "managedclusters", name="c2")
        assert not may(verb, "leases", group=leases, namespace="c2")
    assert may("patch", "managedclusters/status", name=c1)
    assert may("list", "certificatesigningrequests", group="certificates.k8s.io")
    assert may("renew", "managedclusters/clientcertificates", group=REGISTER)
    assert may("create", "events", group="events.k8s.io", namespace=c1)
    assert not may("create", "leases", group=leases, namespace=c1)
    assert not may("get", "secrets", group="", namespace=c1)
    assert not may("list", "managedclusters")
    assert not may("list", "managedclustersets")


@pytest.mark.contract("H4", "H13")
@pytest.mark.parametrize(
    ("kind", "namespace", "name"),
    [
        (kinds.CLUSTER_ROLE, "", ROLE),
        (kinds.CLUSTER_ROLE_BINDING, "", ROLE),
        (kinds.ROLE_BINDING, "c1", f"{ROLE}:registration"),
        (kinds.ROLE_BINDING, "c1", f"{ROLE}:work"),
        (kinds.CLUSTER_ROLE, "", agent_roles.REGISTRATION_ROLE),
        (kinds.CLUSTER_ROLE, "", agent_roles.WORK_ROLE),
    ],
)
def test_what_somebody_edits_or_deletes_is_repaired(c1: str, kind: Any, namespace: str, name: str) -> None:
    before = verbs.find(kind, Key(namespace, name))
    assert before is not None
    part = "rules" if kind is kinds.CLUSTER_ROLE else "subjects"
    make.edit(kind, name, lambda doc: doc[part].pop(0), namespace=namespace)
    make.settle()
    after = verbs.find(kind, Key(namespace, name))
    assert after is not None
    assert after[part] == before[part]
    verbs.delete(make.ADMIN, kind, Key(namespace, name))
    make.settle()
    again = verbs.find(kind, Key(namespace, name))
    assert again is not None
    assert again[part] == before[part]
    assert "deletionTimestamp" not in again["metadata"]


@pytest.mark.contract("H4")
def test_a_binding_that_points_elsewhere_is_made_anew(c1: str) -> None:
    verbs.delete(make.ADMIN, kinds.CLUSTER_ROLE_BINDING, Key("", ROLE))
    wrong = {
        **make.document(kinds.CLUSTER_ROLE_BINDING, ROLE),
        "roleRef": {"apiGroup": agent_roles.RBAC, "kind": "ClusterRole", "name": "other"},
    }
    make.create(kinds.CLUSTER_ROLE_BINDING, wrong)
    make.settle()
    present = verbs.find(kinds.CLUSTER_ROLE_BINDING, Key("", ROLE))
    assert present is not None
    assert present["roleRef"]["name"] == ROLE


@pytest.mark.contract("H8")
def test_looking_again_writes_nothing(c1: str) -> None:
    def look() -> None:
        workqueue.put(
            {(name, Key("", c1)) for name in ("acceptance", "shared_roles", "lease_health", "taints")}, timezone.now()
        )
        workqueue.put({(name, Key("", c1)) for name in ("clock", "resource_cleanup")}, timezone.now())
        make.settle()

    assert make.writes_of(look) == []


@pytest.mark.contract("H7", "K8", "K44")
def test_a_cluster_that_is_sent_away_keeps_the_right_to_learn_it(c1: str) -> None:
    make.available(c1)
    make.accept(c1, accepts=False)
    make.settle()
    doc = make.stored(c1).doc
    assert make.condition(doc, ACCEPTED) == ("False", "HubClusterAdminDenied", "Denied by hub cluster admin")
    assert make.condition(doc, "ManagedClusterJoined")[0] == "True"
    assert role_of()["rules"] == [  # type: ignore[index] # a missing role fails just as well
        {
            "apiGroups": [CLUSTERS],
            "resources": ["managedclusters"],
            "resourceNames": ["c1"],
            "verbs": ["get", "list", "watch"],
        }
    ]
    assert binding_names() == []
    assert may("get", "managedclusters", name=c1)
    assert not may("update", "managedclusters", name=c1)
    assert not may("renew", "managedclusters/clientcertificates", group=REGISTER)
    assert not may("update", "leases", group="coordination.k8s.io", namespace=c1)
    assert verbs.find(kinds.NAMESPACE, Key("", c1)) is not None
    assert Lease.objects.filter(namespace=c1).exists()


def removed(name: str) -> None:
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", name))


def removed_by_force(name: str) -> None:
    make.edit(MANAGED_CLUSTER, name, lambda doc: doc["metadata"].pop("finalizers"))
    removed(name)


def sent_away(name: str) -> None:
    make.accept(name, accepts=False)


@pytest.mark.contract("H7", "H10", "K8", "D20")
@pytest.mark.parametrize("end", [sent_away, removed, removed_by_force])
def test_rights_end_with_the_write_that_ends_them(c1: str, end: Callable[[str], None]) -> None:
    """Before any reconciler has run."""
    assert may("update", "leases", group="coordination.k8s.io", namespace=c1)
    end(c1)
    for verb in ("get", "update"):
        assert not may(verb, "leases", group="coordination.k8s.io", namespace=c1)
    assert not may("renew", "managedclusters/clientcertificates", group=REGISTER)
    assert not may("patch", "managedclusters/status", name=c1)
    assert not may("list", "manifestworks", group="work.open-cluster-management.io", namespace=c1)
    assert may("get", "managedclusters", name=c1) == (end is sent_away)
    entries = AuditEvent.objects.filter(resource=kinds.ROLE_BINDING.resource, namespace=c1, verb="delete")
    assert {entry.user for entry in entries} == {"system:ocmconsole:registration"}


@pytest.mark.contract("H4", "H7")
def test_a_repair_that_was_decided_before_gives_no_rights_after(c1: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reconciler has read an accepted cluster; it is sent away before the repair is committed."""
    verbs.delete(make.ADMIN, kinds.ROLE_BINDING, Key(c1, f"{ROLE}:registration"))
    attempt = reconcilers._attempt

    def meanwhile(name: str, steps: Any) -> list[str]:
        problems = [*attempt(name, steps)]
        if make.stored(c1).hub_accepts_client:
            sent_away(c1)
        return problems

    monkeypatch.setattr(reconcilers, "_attempt", meanwhile)
    reconcilers.reconcile_acceptance(Key("", c1))
    assert not may("update", "leases", group="coordination.k8s.io", namespace=c1)
    assert "registration" not in binding_names()


@pytest.mark.contract("H8", "S91")
def test_accepting_again_restores_everything(c1: str) -> None:
    make.accept(c1, accepts=False)
    make.settle()
    make.accept(c1)
    make.settle()
    assert make.stored(c1).accepted == "True"
    assert binding_names() == ["registration", "work"]
    assert may("renew", "managedclusters/clientcertificates", group=REGISTER)


@pytest.mark.contract("K8b")
def test_rights_are_revoked_though_the_condition_never_became_true() -> None:
    make.cluster("c1", accepted=True)
    make.namespace("c1")
    make.create(kinds.CLUSTER_ROLE, make.document(kinds.CLUSTER_ROLE, "x"))
    role = agent_roles.cluster_role("c1", agent_roles.accepted_rules("c1"), {})
    make.create(kinds.CLUSTER_ROLE, {**make.document(kinds.CLUSTER_ROLE, ROLE), **role})
    binding = agent_roles.registration_binding("c1", {})
    make.create(kinds.ROLE_BINDING, {**make.document(kinds.ROLE_BINDING, "x"), **binding}, namespace="c1")
    make.accept("c1", accepts=False)
    assert make.stored("c1").accepted == ""
    make.settle()
    assert make.stored("c1").accepted == "False"
    assert len(role_of()["rules"]) == 1  # type: ignore[index] # a missing role fails just as well
    assert binding_names() == []


@pytest.mark.contract("H5", "D12")
def test_what_cannot_be_given_is_said_and_tried_again_and_stops_no_other() -> None:
    """The namespace of one of two clusters is on its way out when its acceptance is worked off."""
    make.cluster("bad", accepted=True)
    make.cluster("good", accepted=True)
    make.namespace("bad", finalizers=["example.com/hold"])
    verbs.delete(make.ADMIN, kinds.NAMESPACE, Key("", "bad"))
    make.settle()
    status, reason, message = make.condition(make.stored("bad").doc, ACCEPTED)
    assert (status, reason) == ("False", "Error")
    assert len(message.splitlines()) == 2
    assert "because it is being terminated" in message
    assert make.stored("good").accepted == "True"
    assert WorkItem.objects.filter(reconciler="acceptance", name="bad").exists()


@pytest.mark.contract("K40")
def test_a_passing_failure_takes_nothing_back(c1: str) -> None:
    make.edit(kinds.NAMESPACE, c1, lambda doc: doc["metadata"].update(finalizers=["example.com/hold"]))
    verbs.delete(make.ADMIN, kinds.NAMESPACE, Key("", c1))
    make.settle()
    assert make.stored(c1).accepted == "True"


@pytest.mark.contract("K15")
def test_a_lease_from_an_earlier_life_does_not_make_a_new_cluster_silent() -> None:
    make.serve_since(timedelta(hours=2))
    make.namespace("c1")
    lease = make.document(LEASE, LEASE_NAME, spec={"renewTime": "2026-01-02T03:04:05.000000Z"})
    make.create(LEASE, lease, namespace="c1")
    make.cluster("c1", accepted=True)
    make.settle()
    make.sweep()
    assert make.stored("c1").available == ""
    renewed = Lease.objects.get(namespace="c1").renew_time
    assert renewed is not None
    assert abs(renewed - timezone.now().timestamp() * 1_000_000) < 60_000_000


@pytest.mark.contract("D5", "K10", "S93", "H12")
def test_taking_the_renew_rule_away_sticks_until_somebody_puts_it_back(c1: str) -> None:
    raj = person("raj")
    grant(raj, rule("get patch escalate", "clusterroles", groups=agent_roles.RBAC))
    make.edit(kinds.CLUSTER_ROLE, ROLE, lambda doc: doc["rules"].pop(1), by=raj)
    for accepts in (False, True):
        make.accept(c1, accepts=accepts)
        make.settle()
    assert not may("renew", "managedclusters/clientcertificates", group=REGISTER)
    assert may("update", "managedclusters", name=c1)
    renew = agent_roles.accepted_rules(c1)[1]
    make.edit(kinds.CLUSTER_ROLE, ROLE, lambda doc: doc["rules"].append(renew), by=raj)
    make.settle()
    assert may("renew", "managedclusters/clientcertificates", group=REGISTER)
    assert not ClusterFacts.objects.get(cluster=c1).renewal_withheld


@pytest.mark.contract("D5", "H12")
def test_deleting_the_whole_role_withholds_nothing(c1: str) -> None:
    verbs.delete(make.ADMIN, kinds.CLUSTER_ROLE, Key("", ROLE))
    make.settle()
    assert may("renew", "managedclusters/clientcertificates", group=REGISTER)


@pytest.mark.contract("H13", "K25")
def test_configured_labels_go_to_every_object_and_names_do_not_leak(settings: Any) -> None:
    settings.OCMCONSOLE_RESOURCE_LABELS = {"team": "edge"}
    make.cluster("c1", accepted=True)
    make.cluster("c2", accepted=True)
    make.settle()
    for name in ("c1", "c2"):
        role = role_of(f"open-cluster-management:managedcluster:{name}")
        assert role is not None
        assert role["metadata"]["labels"] == {"team": "edge", "open-cluster-management.io/cluster-name": name}
    for name in ("registration", "work"):
        role = role_of(f"open-cluster-management:managedcluster:{name}")
        assert role is not None
        assert role["metadata"]["labels"] == {"team": "edge", "open-cluster-management.io/cluster-name": ""}
    assert settings.OCMCONSOLE_RESOURCE_LABELS == {"team": "edge"}


@pytest.mark.contract("H10", "H11", "H31")
def test_a_deleted_cluster_loses_its_rights_and_leaves_namespace_and_lease(c1: str) -> None:
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", c1))
    assert make.stored(c1).deleted_at is not None
    make.settle()
    assert verbs.find(MANAGED_CLUSTER, Key("", c1)) is None
    assert role_of() is None
    assert verbs.find(kinds.CLUSTER_ROLE_BINDING, Key("", ROLE)) is None
    assert binding_names() == []
    assert verbs.find(kinds.NAMESPACE, Key("", c1)) is not None
    assert Lease.objects.filter(namespace=c1).exists()


@pytest.mark.contract("H10")
def test_rights_of_a_cluster_that_vanished_by_force_are_cleaned_up(c1: str) -> None:
    make.edit(MANAGED_CLUSTER, c1, lambda doc: doc["metadata"].pop("finalizers"))
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", c1))
    assert verbs.find(MANAGED_CLUSTER, Key("", c1)) is None
    make.settle()
    assert role_of() is None
    assert binding_names() == []


@pytest.mark.contract("H13")
def test_shared_roles_come_with_the_first_cluster_and_go_with_the_last() -> None:
    assert role_of(agent_roles.WORK_ROLE) is None
    make.cluster("c1")
    make.settle()
    assert role_of(agent_roles.WORK_ROLE) is not None
    assert role_of(agent_roles.REGISTRATION_ROLE)["metadata"]["labels"] == {  # type: ignore[index] # as above
        "open-cluster-management.io/cluster-name": ""
    }
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()
    assert role_of(agent_roles.WORK_ROLE) is None
    assert role_of(agent_roles.REGISTRATION_ROLE) is None


@pytest.mark.contract("D18")
@pytest.mark.parametrize("name", ["registration", "work"])
def test_deleting_a_cluster_called_like_a_shared_role_leaves_the_role(name: str) -> None:
    make.cluster("c1", accepted=True)
    make.cluster(name)
    make.settle()
    before = role_of(agent_roles.role_name(name))
    assert before is not None
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", name))
    make.settle()
    after = role_of(agent_roles.role_name(name))
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
