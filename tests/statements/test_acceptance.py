"""What accepting a cluster does, who may, and what its agent may then (S4, S6 to S14)."""

from __future__ import annotations

import httpx
import pytest

from tests.conformance.commands import eventually
from tests.fleet import CLUSTERS, Agent
from tests.statements import blocks
from tests.statements.conftest import Desk
from tests.statements.test_registration import REVIEW, WHO_AM_I

ACCEPT = '{"spec":{"hubAcceptsClient":true}}'


def may(agent: Agent, path: str) -> bool:
    code = agent.client.get(path).status_code
    assert code in {httpx.codes.OK, httpx.codes.FORBIDDEN}, code
    return code == httpx.codes.OK


def has_lease(agent: Agent) -> bool:
    """The last thing that acceptance brings."""
    return agent.client.get(lease_of(agent.name)).is_success


def lease_of(name: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{name}/leases/managed-cluster-lease"


@pytest.mark.contract("S6", "S31")
def test_the_documents_cluster_is_applied_and_read_back(desk: Desk) -> None:
    said = desk.kubectl("apply", "-f", str(blocks.path("managedcluster")))
    assert said == "managedcluster.cluster.open-cluster-management.io/cluster1 created\n"
    assert blocks.missing(desk.kubectl.read("managedcluster", "cluster1"), blocks.block("managedcluster")) == []


@pytest.mark.contract("S4", "S29")
def test_an_admin_lets_a_cluster_in_by_accepting_it(desk: Desk, name: str) -> None:
    desk.fleet.ask(name)
    assert "status" not in desk.kubectl.read("managedcluster", name)
    desk.kubectl("patch", "managedcluster", name, "--type=merge", "-p", ACCEPT)
    desk.kubectl("wait", f"managedcluster/{name}", "--for=condition=HubAcceptedManagedCluster", "--timeout=120s")


@pytest.mark.contract("S7", "S32")
def test_the_agent_is_authenticated_once_its_request_is_approved(desk: Desk, name: str) -> None:
    agent = desk.fleet.ask(name)
    desk.kubectl("certificate", "approve", agent.request)
    said = agent.client.post(WHO_AM_I, json=REVIEW).json()["status"]["userInfo"]
    assert said["username"] == f"system:open-cluster-management:{name}:{agent.request[-5:]}"
    assert f"system:open-cluster-management:{name}" in said["groups"]


@pytest.mark.contract("S8", "S33")
def test_the_agent_is_authorised_once_its_cluster_is_accepted(desk: Desk, name: str) -> None:
    agent = desk.fleet.ask(name)
    desk.kubectl("certificate", "approve", agent.request)
    assert not may(agent, lease_of(name))
    misspelled = {**blocks.block("managedcluster"), "spec": {"hubAccpetClient": True}}  # as the documents' prose has it
    assert 'unknown field "spec.hubAccpetClient"' in desk.kubectl.refuses("create", "-f", "-", stdin=misspelled)
    desk.kubectl("patch", "managedcluster", name, "--type=merge", "-p", ACCEPT)
    eventually(lambda: has_lease(agent))


@pytest.mark.contract("S9", "S34")
def test_accepting_needs_create_on_managedcluster_accept(desk: Desk, name: str) -> None:
    desk.fleet.ask(name)
    user = desk.allow(f"{name}-ana", ("get,patch", "managedclusters"))
    patch = ("patch", "managedcluster", name, "--type=merge", "-p", ACCEPT, f"--as={user}")
    assert f'user "{user}" cannot update the HubAcceptsClient field' in desk.kubectl.refuses(*patch)
    desk.kubectl("apply", "-f", str(blocks.path("clusterrole-accept")))
    desk.grant("documented-accept", user)
    desk.kubectl(*patch)
    assert desk.kubectl.read("managedcluster", name)["spec"]["hubAcceptsClient"] is True


# --------------------------------------------------------------------------------------------------- what follows from it


@pytest.fixture(scope="module")
def accepted(desk: Desk) -> Agent:
    agent = desk.fleet.ask("accepted")
    desk.fleet.accept(agent)
    eventually(lambda: has_lease(agent))
    return agent


@pytest.mark.contract("S10", "S35")
def test_a_namespace_with_the_clusters_name_is_made_after_approval(desk: Desk, name: str) -> None:
    desk.fleet.ask(name)
    assert "not found" in desk.kubectl.refuses("get", "namespace", name)
    desk.kubectl("patch", "managedcluster", name, "--type=merge", "-p", ACCEPT)
    eventually(lambda: desk.kubectl.attempt("get", "namespace", name).returncode == 0)
    assert desk.kubectl.read("namespace", name)["metadata"]["labels"]["open-cluster-management.io/cluster-name"] == name


@pytest.mark.contract("S11", "S36")
def test_the_namespace_is_all_of_the_hub_that_agents_of_the_cluster_may_enter(accepted: Agent) -> None:
    assert may(accepted, lease_of("accepted"))
    assert not may(accepted, lease_of("default"))
    assert not may(accepted, "/apis/coordination.k8s.io/v1/leases")
    assert not may(accepted, CLUSTERS)


@pytest.mark.contract("S12", "S37")
@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/apis/coordination.k8s.io/v1/namespaces/accepted/leases", True),
        ("/apis/addon.open-cluster-management.io/v1beta1/namespaces/accepted/managedclusteraddons", True),
        ("/apis/work.open-cluster-management.io/v1/namespaces/accepted/manifestworks", True),
        ("/api/v1/namespaces/accepted/secrets", False),
        ("/api/v1/namespaces/accepted/configmaps", False),
        ("/api/v1/namespaces/accepted/serviceaccounts", False),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/accepted/rolebindings", False),
        ("/apis/cluster.open-cluster-management.io/v1beta2/namespaces/accepted/managedclustersetbindings", False),
    ],
)
def test_the_agent_may_reach_certain_kinds_in_its_namespace_only(accepted: Agent, path: str, allowed: bool) -> None:
    assert may(accepted, path) is allowed


@pytest.mark.contract("S13", "S38")
def test_the_agent_says_that_it_joined(desk: Desk, accepted: Agent) -> None:
    accepted.report()
    desk.kubectl("wait", "managedcluster/accepted", "--for=condition=ManagedClusterJoined", "--timeout=120s")


@pytest.mark.contract("S14", "S39")
def test_the_agent_starts_to_say_that_the_cluster_lives(desk: Desk, accepted: Agent) -> None:
    path = ("lease", "managed-cluster-lease", "-n", "accepted", "-o", "jsonpath={.spec.renewTime}")
    before = desk.kubectl("get", *path)
    accepted.beat()
    assert desk.kubectl("get", *path) > before
