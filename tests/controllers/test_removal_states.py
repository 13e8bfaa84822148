"""A cluster is removed in every state of table 3.1b, and leaves what H11 names and nothing else.

What is left is read from the tables of all kinds, so what nobody thought of is seen too.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone
from guardian.shortcuts import assign_perm

from clusters.acceptance import agent_roles
from clusters.addons.addon_kinds import MANAGED_CLUSTER_ADDON, MANIFEST_WORK
from clusters.kinds import GROUP, MANAGED_CLUSTER, REGISTER
from clusters.models import ManagedClusterUserPermission, ReportedClaim, Silence
from ocmconsole.core.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG_MAP, NAMESPACE, ROLE_BINDING
from ocmconsole.kubeapi import kinds, verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import Owner, WorkItem
from tests import factories as make
from tests.fuzz import world

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.contract("H10", "H11", "H27", "H28", "H31", "K29"),
]

HOLD = ["example.com/hold"]
WORKS = agent_roles.work_binding_name("c1")
# What namespaces have, once somebody wanted the namespace.
NAMESPACE_LEFT = {"namespaces c1", "serviceaccounts c1/default"}
LEASE_LEFT = {"leases.coordination.k8s.io c1/managed-cluster-lease"}
EVENT_LEFT = {"events c1/c1.*"}
REQUEST_LEFT = {"certificatesigningrequests.certificates.k8s.io c1-request"}


def everything() -> set[str]:
    """All that the hub serves. Names of events are made up."""
    return {
        f"{kind.resource} {row.key}"
        if kind.kind != "Event"
        else f"events {row.namespace}/{row.name.partition('.')[0]}.*"
        for kind in kinds.all_kinds()
        for row in kind.model.objects.only("namespace", "name")
        if row.name != "kube-root-ca.crt"
    }


def status_of(type_: str) -> str:
    return make.condition(make.stored("c1").doc, type_)[0]


def accepted() -> tuple[bool, str]:
    cluster = make.stored("c1")
    return cluster.hub_accepts_client, cluster.accepted


def remove() -> None:
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()


def remove_by_force() -> None:
    """H30: somebody takes the finalizers off before the hub could act."""
    make.let_go(MANAGED_CLUSTER, "c1")
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    assert verbs.find(MANAGED_CLUSTER, Key("", "c1")) is None
    make.settle()


def agents_finish() -> None:
    """Whatever holds an add-on or a work lets go, as often as the hub asks for another one."""
    for kind in (MANAGED_CLUSTER_ADDON, MANIFEST_WORK):
        for row in kind.model.objects.filter(namespace="c1"):
            if row.doc["metadata"].get("finalizers"):
                make.let_go(kind, row.name, namespace="c1")
        make.settle()


def assert_nothing_else_is_left(before: set[str], *expected: set[str]) -> None:
    assert verbs.find(MANAGED_CLUSTER, Key("", "c1")) is None
    assert everything() - before == set().union(*expected)
    assert before <= everything()
    assert not WorkItem.objects.filter(name="c1").exists()
    assert not Silence.objects.filter(cluster="c1").exists()
    assert not ReportedClaim.objects.exists()
    assert not ManagedClusterUserPermission.objects.exists()
    assert not Owner.objects.exists()
    assert not any(agent_may())


def agent_may() -> list[bool]:
    asked = [
        Attributes("get", GROUP, "managedclusters", name="c1"),
        Attributes("update", GROUP, "managedclusters", name="c1"),
        Attributes("patch", GROUP, "managedclusters", "status", name="c1"),
        Attributes("renew", REGISTER, "managedclusters", "clientcertificates"),
        Attributes("create", "certificates.k8s.io", "certificatesigningrequests"),
        Attributes("update", "coordination.k8s.io", "leases", namespace="c1"),
        Attributes("list", "addon.open-cluster-management.io", "managedclusteraddons", namespace="c1"),
        Attributes("list", "work.open-cluster-management.io", "manifestworks", namespace="c1"),
        Attributes("create", "events.k8s.io", "events", namespace="c1"),
    ]
    return [authorization.authorize(make.agent("c1"), each).allowed for each in asked]


@pytest.fixture
def before() -> set[str]:
    """What was there before the cluster: another one with all that is its own."""
    make.serve_since(timedelta(days=1))
    make.cluster("other", accepted=True)
    make.settle()
    make.addon("other", finalizers=HOLD)
    make.work("other")
    make.settle()
    return everything()


# ---------------------------------------------------------------- never accepted


def test_never_accepted(before: set[str]) -> None:
    make.cluster("c1")
    make.settle()
    assert accepted() == (False, "")
    remove()
    assert_nothing_else_is_left(before)


def test_never_accepted_and_not_even_looked_at(before: set[str]) -> None:
    make.cluster("c1")
    remove()
    assert_nothing_else_is_left(before)


@pytest.mark.contract("H30")
def test_never_accepted_and_removed_by_force(before: set[str]) -> None:
    make.cluster("c1")
    make.settle()
    remove_by_force()
    assert_nothing_else_is_left(before)


def test_never_accepted_with_a_namespace_and_works_made_in_advance(before: set[str]) -> None:
    make.namespace("c1")
    make.work("c1")
    make.cluster("c1")
    make.settle()
    remove()
    assert_nothing_else_is_left(before, NAMESPACE_LEFT)


# ---------------------------------------------------------------- accepted, being created


def test_accepted_and_deleted_before_anything_was_created(before: set[str]) -> None:
    make.cluster("c1", accepted=True)
    assert accepted() == (True, "")
    remove()
    assert_nothing_else_is_left(before)


def half_created() -> None:
    """As a process leaves it that stops between two steps of H4."""
    make.namespace("c1", labels={"open-cluster-management.io/cluster-name": "c1"})
    make.cluster("c1", accepted=True, finalizers=[f"{GROUP}/resource-cleanup", f"{GROUP}/api-resource-cleanup"])
    role = agent_roles.cluster_role("c1", agent_roles.accepted_rules("c1"), {})
    make.create(CLUSTER_ROLE, {**make.document(CLUSTER_ROLE, ""), **role})
    work = agent_roles.work_binding("c1", {})
    make.create(ROLE_BINDING, {**make.document(ROLE_BINDING, ""), **work}, namespace="c1")
    assert accepted() == (True, "")


@pytest.mark.parametrize("way", [remove, remove_by_force])
def test_accepted_and_half_created(before: set[str], way: Callable[[], None]) -> None:
    half_created()
    way()
    assert_nothing_else_is_left(before, NAMESPACE_LEFT)


@pytest.mark.contract("K8b")
def test_accepted_half_created_and_sent_away_before_the_condition_was_true(before: set[str]) -> None:
    half_created()
    make.accept("c1", accepts=False)
    make.settle()
    remove()
    assert_nothing_else_is_left(before, NAMESPACE_LEFT, LEASE_LEFT)


@pytest.mark.contract("H5")
@pytest.mark.parametrize("way", [remove, remove_by_force])
def test_accepted_with_an_error(before: set[str], way: Callable[[], None]) -> None:
    make.namespace("c1", finalizers=HOLD)
    make.cluster("c1", accepted=True)
    verbs.delete(make.ADMIN, NAMESPACE, Key("", "c1"))
    make.settle()
    assert accepted() == (True, "False")
    assert role_names() == {"open-cluster-management:managedcluster:c1"}
    way()
    assert_nothing_else_is_left(before, {"namespaces c1"})


def role_names() -> set[str]:
    named = "open-cluster-management:managedcluster:c1"
    return {row.name for row in CLUSTER_ROLE.model.objects.filter(name=named)}


# ---------------------------------------------------------------- accepted, denied; each with all that an agent said


def joined(available: str) -> set[str]:
    """Accepted, and what its agent has said since; returns what that leaves behind."""
    make.cluster("c1", accepted=True)
    make.settle()
    if not available:
        return NAMESPACE_LEFT | LEASE_LEFT
    make.available("c1", "True" if available == "Unknown" else available)
    make.renew("c1")
    make.edit(
        MANAGED_CLUSTER,
        "c1",
        lambda doc: doc["status"].update(clusterClaims=[{"name": "id.k8s.io", "value": "x"}]),
        subresource="status",
    )
    make.settle()
    make.sweep()
    if available != "Unknown":
        return NAMESPACE_LEFT | LEASE_LEFT
    make.renew("c1", timezone.now() - timedelta(seconds=301))
    make.sweep()
    assert Silence.objects.filter(cluster="c1").exists()
    return NAMESPACE_LEFT | LEASE_LEFT | EVENT_LEFT


every_availability = pytest.mark.parametrize("available", ["", "True", "False", "Unknown"])


@every_availability
@pytest.mark.parametrize("way", [remove, remove_by_force])
def test_accepted(before: set[str], available: str, way: Callable[[], None]) -> None:
    left = joined(available)
    assert accepted() == (True, "True")
    assert status_of("ManagedClusterConditionAvailable") == available
    way()
    assert_nothing_else_is_left(before, left)


@every_availability
@pytest.mark.contract("H7")
@pytest.mark.parametrize("way", [remove, remove_by_force])
def test_denied(before: set[str], available: str, way: Callable[[], None]) -> None:
    left = joined(available)
    make.accept("c1", accepts=False)
    make.settle()
    assert accepted() == (False, "False")
    way()
    assert_nothing_else_is_left(before, left)


@pytest.mark.contract("H8")
def test_denied_and_accepted_again(before: set[str]) -> None:
    left = joined("True")
    for accepts in (False, True):
        make.accept("c1", accepts=accepts)
        make.settle()
    assert accepted() == (True, "True")
    remove()
    assert_nothing_else_is_left(before, left)


def burden() -> None:
    """Add-ons and works, with and without an agent that has to finish first."""
    for name, finalizers in {"free": [], "held": HOLD}.items():
        make.addon("c1", name, finalizers=finalizers)
        make.work("c1", name, finalizers=finalizers)
    make.settle()


@every_availability
@pytest.mark.contract("H29", "H41", "H40", "D20")
def test_accepted_with_works_and_addons_that_must_finish(before: set[str], available: str) -> None:
    left = joined(available)
    burden()
    remove()
    assert status_of("Deleting") == "False"
    assert not any(agent_may())  # no work is being deleted yet, and nothing else is left to the agent
    held = {f"{kind.resource} c1/{name}" for kind, names in _waiting() for name in names}
    role_binding = {f"rolebindings.{agent_roles.RBAC} c1/{WORKS}"}
    cluster = {f"managedclusters.{GROUP} c1"}
    assert everything() - before - left - cluster == held | role_binding
    agents_finish()
    assert_nothing_else_is_left(before, left)


def _waiting() -> list[tuple[kinds.Kind, list[str]]]:
    """Works are not touched before the last add-on is gone."""
    return [(MANAGED_CLUSTER_ADDON, ["held"]), (MANIFEST_WORK, ["free", "held"])]


@pytest.mark.contract("H13")
def test_the_last_cluster_takes_the_shared_roles_along() -> None:
    before = everything()
    left = joined("True")
    remove()
    assert_nothing_else_is_left(before, left)


@pytest.mark.contract("H30")
def test_accepted_with_works_and_addons_and_removed_by_force(before: set[str]) -> None:
    left = joined("True")
    burden()
    remove_by_force()
    agents_finish()
    assert_nothing_else_is_left(before, left)


@pytest.mark.contract("H7", "K8")
@pytest.mark.parametrize("way", [remove, remove_by_force])
def test_denied_while_works_linger(before: set[str], way: Callable[[], None]) -> None:
    left = joined("True")
    burden()
    make.accept("c1", accepts=False)
    make.settle()
    assert accepted() == (False, "False")
    assert verbs.find(ROLE_BINDING, Key("c1", WORKS)) is not None
    assert verbs.find(CLUSTER_ROLE_BINDING, Key("", "open-cluster-management:managedcluster:c1")) is not None
    way()
    agents_finish()
    assert_nothing_else_is_left(before, left)


# ---------------------------------------------------------------- what is the user's stays


@pytest.mark.contract("H11")
def test_requests_of_the_agent_and_things_of_people_stay_and_rights_on_the_object_go(before: set[str]) -> None:
    from django.contrib.auth.models import User

    left = joined("True")
    request = {**world.REQUESTS.document("c1-request"), "metadata": {"name": "c1-request"}}
    verbs.create(make.ADMIN, world.REQUESTS.served.kind, request)
    make.create(CONFIG_MAP, make.document(CONFIG_MAP, "mine"), namespace="c1")
    assign_perm("clusters.view_managedcluster", User.objects.create_user("li"), make.stored("c1"))
    make.settle()
    remove()
    assert_nothing_else_is_left(before, left, REQUEST_LEFT, {"configmaps c1/mine"})


@pytest.mark.contract("K15", "H11")
def test_the_name_can_be_used_again_and_finds_its_namespace(before: set[str]) -> None:
    left = joined("Unknown")
    remove()
    make.cluster("c1", accepted=True)
    make.settle()
    make.sweep()
    assert accepted() == (True, "True")
    assert status_of("ManagedClusterConditionAvailable") == ""
    remove()
    assert_nothing_else_is_left(before, left)
