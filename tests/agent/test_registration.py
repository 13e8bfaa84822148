"""The agent registers a cluster at a served hub, in the order in which upstream's agent was recorded to do it."""

from __future__ import annotations

import signal
import ssl
from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
import yaml

from tests.agent.conftest import (
    CLUSTERS,
    REQUESTS,
    StartAgent,
    accept,
    approve,
    bootstrap,
    change_cluster,
    cluster_on,
    condition,
    eventually,
)
from tests.agent.process import AgentProcess, Request
from tests.agent.spoke import CLAIMS, NODES, Spoke, claim, node
from tests.conformance.replay.recording import Exchange, recorded
from tests.hub import Hub
from tests.requests import USAGES

JOINED, AVAILABLE = "ManagedClusterJoined", "ManagedClusterConditionAvailable"
ID = "11111111-2222-3333-4444-555555555555"


@cache
def recorded_requests() -> dict[str, Exchange]:
    """What upstream's agent of cluster1 was recorded to send, by number."""
    lines = recorded("traffic.jsonl")
    return {each.id: each for each in lines if isinstance(each, Exchange) and each.id.startswith("agent-")}


def as_recorded(*numbers: int, cluster: str) -> list[Request]:
    """Those requests, as an agent of another cluster would send them."""
    return [_as_sent(recorded_requests()[f"agent-{number}"], cluster) for number in numbers]


def _as_sent(exchange: Exchange, cluster: str) -> Request:
    query = [
        (name, value.replace("cluster1", cluster)) for name, value in parse_qsl(exchange.query) if "imeout" not in name
    ]
    path = "/".join(cluster if part == "cluster1" else part for part in exchange.path.split("/"))
    return Request(exchange.method, path, frozenset(query), exchange.status)


@pytest.fixture
def furnished(spoke: Spoke) -> Spoke:
    """The managed cluster of the recording."""
    spoke.put(NODES, node("one", "3800m", "15Gi"))
    spoke.collections[NODES]["one"]["status"]["capacity"] = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    spoke.put(CLAIMS, claim("id.k8s.io", ID))
    spoke.put(CLAIMS, claim("product.open-cluster-management.io", "Other"))
    return spoke


@pytest.fixture
def joined(hub: Hub, furnished: Spoke, start_agent: StartAgent, request: pytest.FixtureRequest) -> AgentProcess:
    """An agent of a cluster that was accepted, after its first heartbeat and status."""
    name = f"agent-{request.node.name.removeprefix('test_').replace('_', '-')[:40].strip('-')}"
    agent = start_agent(name, hub, options=["--spoke-external-server-urls", f"https://{name}.example.com:6443"])
    agent.wait_for("waits for approval")
    accept(hub, name)
    agent.wait_for("status reported")
    agent.wait_for("events ")
    return agent


def without_watches(requests: list[Request]) -> list[Request]:
    return [each for each in requests if not each.is_watch]


@pytest.mark.contract("G3", "G6", "G7", "G8", "G9", "G10", "G14", "G30", "G31", "G37", "G38", "G39a")
def test_it_sends_what_upstreams_agent_was_recorded_to_send_in_the_same_order(hub: Hub, joined: AgentProcess) -> None:
    """What is sent at the same moment may come in any order, watches beside what waits for no watch.

    Bodies are compared where they are stored.
    """
    name = joined.cluster
    # Upstream's agent was seen to meet conflicts too, when the hub wrote in between: both send the status again.
    conflict = Request("GET", f"{CLUSTERS}/{name}", frozenset(), 200)
    sent = [each for each in joined.requests(hub) if each.status != 409 and each != conflict]
    bootstrap = as_recorded(1, 2, 3, 4, 5, cluster=name)
    assert sorted(sent[:5], key=str) == sorted(bootstrap, key=str)
    assert without_watches(sent[:5]) == without_watches(bootstrap)
    watches = as_recorded(6, 7, 8, cluster=name)
    heartbeat, status = as_recorded(9, 11, cluster=name), as_recorded(10, 12, cluster=name)
    assert sorted(sent[5:12], key=str) == sorted([*watches, *heartbeat, *status], key=str)
    assert [each for each in sent[5:12] if each in heartbeat] == heartbeat
    assert [each for each in sent[5:12] if each in status] == status
    assert sent[12:] == []


@pytest.mark.contract("G31", "G33", "G34", "G38")
def test_the_hub_stores_what_it_stored_of_upstreams_agent(hub: Hub, joined: AgentProcess) -> None:
    stored, status = cluster_on(hub, joined.cluster), recorded_requests()["agent-10"].body
    assert status is not None
    for part in ("allocatable", "capacity", "clusterClaims"):
        assert stored["status"][part] == status["status"][part]
    for wanted in status["status"]["conditions"]:
        found = condition(stored, wanted["type"])
        assert {**found, "lastTransitionTime": ""} == {**wanted, "lastTransitionTime": ""}
    assert stored["spec"]["managedClusterClientConfigs"] == [{"url": f"https://{joined.cluster}.example.com:6443"}]
    event = recorded_requests()["agent-12"].body
    assert event is not None
    with hub.admin() as admin:
        items = admin.get(f"/apis/events.k8s.io/v1/namespaces/{joined.cluster}/events").json()["items"]
    (found,) = [item for item in items if item["reportingController"] == "klusterlet-agent"]
    assert found["note"] == event["note"].replace("cluster1", joined.cluster)
    assert (found["action"], found["reason"], found["type"]) == (event["action"], event["reason"], event["type"])
    assert found["regarding"]["uid"] == stored["metadata"]["uid"]


@pytest.mark.contract("G20")
def test_its_certificate_request_is_upstreams(hub: Hub, joined: AgentProcess) -> None:
    with hub.admin() as admin:
        query = {"labelSelector": f"open-cluster-management.io/cluster-name={joined.cluster}"}
        (stored,) = admin.get(REQUESTS, params=query).json()["items"]
    wanted = recorded_requests()["agent-5"].body
    assert wanted is not None
    assert stored["metadata"]["generateName"] == f"{joined.cluster}-"
    assert stored["spec"]["signerName"] == wanted["spec"]["signerName"]
    assert stored["spec"]["usages"] == wanted["spec"]["usages"] == USAGES
    assert "expirationSeconds" not in stored["spec"]


@pytest.mark.contract("G24", "S67")
def test_its_files_are_a_kubeconfig_with_which_others_on_the_cluster_enter_the_hub(
    hub: Hub, joined: AgentProcess, tmp_path: Path
) -> None:
    config = yaml.safe_load((joined.files / "kubeconfig").read_text())
    assert config["clusters"][0]["cluster"]["server"] == hub.api_url
    assert config["users"] == [
        {"name": "default-auth", "user": {"client-certificate": "tls.crt", "client-key": "tls.key"}}
    ]
    assert (joined.files / "cluster-name").read_text() == joined.cluster
    assert ((joined.files / "tls.key").stat().st_mode & 0o077) == 0
    pair = tmp_path / "pair.pem"
    pair.write_text((joined.files / "tls.crt").read_text() + (joined.files / "tls.key").read_text())
    with hub.client(pair=pair) as client:
        said = client.get(f"/apis/cluster.open-cluster-management.io/v1/managedclusters/{joined.cluster}")
    assert said.json()["status"]["clusterClaims"][0]["value"] == ID


@pytest.mark.contract("G5", "G36c")
def test_one_that_is_started_again_goes_on_with_its_certificate_and_asks_for_none(
    hub: Hub, joined: AgentProcess
) -> None:
    assert joined.stop() == 0
    assert joined.log().rstrip().endswith("agent stopped")
    before = len(joined.requests(hub))
    joined.start()
    joined.wait_for("heartbeats every", times=2)
    joined.wait_for("managed-cluster-lease", times=4)
    after = joined.requests(hub)[before:]
    assert set(after[:3]) == set(as_recorded(6, 7, 8, cluster=joined.cluster))
    assert "POST" not in {each.method for each in after}


@pytest.mark.contract("S24", "S49", "G34")
def test_claims_of_the_managed_cluster_are_reported_as_they_change(
    hub: Hub, joined: AgentProcess, spoke: Spoke
) -> None:
    spoke.put(CLAIMS, claim("region.example.com", "eu-west-3"))
    spoke.put(CLAIMS, claim("secret.example.com", "x", **{"open-cluster-management.io/spoke-only": ""}))
    doc = eventually(hub, joined.cluster, lambda doc: len(doc["status"]["clusterClaims"]) == 3)
    assert [each["name"] for each in doc["status"]["clusterClaims"]] == [
        "id.k8s.io",
        "product.open-cluster-management.io",
        "region.example.com",
    ]


@pytest.mark.contract("G33")
def test_resources_are_the_sum_of_nodes_as_they_come(hub: Hub, joined: AgentProcess, spoke: Spoke) -> None:
    """Capacity of all nodes; what may be allocated on those that take work."""
    spoke.put(NODES, node("two", "2", "4Gi", unschedulable=True))
    doc = eventually(hub, joined.cluster, lambda doc: doc["status"]["capacity"]["cpu"] == "6")
    assert doc["status"]["capacity"] == {"cpu": "6", "memory": "20Gi", "pods": "220"}
    assert doc["status"]["allocatable"] == {"cpu": "3800m", "memory": "15Gi", "pods": "110"}


@pytest.mark.contract("G37", "H7")
def test_heartbeats_stop_while_the_hub_does_not_accept_the_cluster_and_come_back(
    hub: Hub, joined: AgentProcess
) -> None:
    change_cluster(hub, joined.cluster, {"spec": {"hubAcceptsClient": False}})
    joined.wait_for("heartbeats stopped: Denied by hub cluster admin")
    change_cluster(hub, joined.cluster, {"spec": {"hubAcceptsClient": True}})
    joined.wait_for("heartbeats every", times=2)


@pytest.mark.contract("G37")
def test_another_lease_duration_counts_at_once(hub: Hub, joined: AgentProcess) -> None:
    change_cluster(hub, joined.cluster, {"spec": {"leaseDurationSeconds": 1}})
    joined.wait_for("heartbeats every 1 to 1 s")
    joined.wait_for("PUT", times=4)


@pytest.mark.contract("G45")
def test_a_deleted_cluster_is_not_created_again(hub: Hub, joined: AgentProcess) -> None:
    with hub.admin() as admin:
        admin.delete(f"{CLUSTERS}/{joined.cluster}").raise_for_status()
    # Its rights may end before its watch has said anything about the deletion.
    joined.wait_for("heartbeats stopped: the hub lets it see no cluster", "watch of managedclusters: 403 Forbidden")
    assert [each.path.rpartition("/")[2] for each in joined.requests(hub) if each.method == "POST"] == [
        "managedclusters",
        "certificatesigningrequests",
        "events",
    ]


@pytest.mark.contract("G32")
def test_a_managed_cluster_that_is_not_well_for_20_seconds_is_reported_and_so_is_its_recovery(
    hub: Hub, joined: AgentProcess, spoke: Spoke
) -> None:
    spoke.livez = 500
    change_cluster(hub, joined.cluster, {"metadata": {"labels": {"look": "now"}}})
    joined.wait_for("the managed cluster is not well: The kube-apiserver is not ok, status code: 500")
    doc = eventually(hub, joined.cluster, lambda doc: condition(doc, AVAILABLE)["status"] == "False")
    assert condition(doc, AVAILABLE)["reason"] == "ManagedClusterKubeAPIServerUnavailable"
    spoke.livez = 200
    eventually(hub, joined.cluster, lambda doc: condition(doc, AVAILABLE)["status"] == "True")


@pytest.mark.contract("S65", "S66", "S67")
def test_in_a_cluster_its_files_are_a_secret_that_other_components_can_mount(
    hub: Hub, spoke: Spoke, start_agent: StartAgent
) -> None:
    agent = start_agent("agent-secret", hub, options=["--hub-kubeconfig-secret", "hub-kubeconfig-secret"])
    agent.wait_for("waits for approval")
    assert set(spoke.secrets["hub-kubeconfig-secret"]["data"]) == {"cluster-name", "agent-name"}
    accept(hub, "agent-secret")
    agent.wait_for("status reported")
    secret = spoke.secrets["hub-kubeconfig-secret"]
    assert secret["metadata"]["namespace"] == "open-cluster-management-agent"
    assert set(secret["data"]) == {"cluster-name", "agent-name", "kubeconfig", "tls.crt", "tls.key"}
    agent.stop()
    agent.start()
    agent.wait_for("heartbeats every", times=2)
    assert agent.log().count("bootstrapping") == 1


@pytest.mark.contract("G14")
def test_a_certificate_that_comes_before_acceptance_waits_for_its_rights(hub: Hub, start_agent: StartAgent) -> None:
    agent = start_agent("agent-early", hub)
    agent.wait_for("waits for approval")
    approve(hub, "agent-early")
    agent.wait_for("watch of managedclusters: 403 Forbidden")
    change_cluster(hub, "agent-early", {"spec": {"hubAcceptsClient": True}})
    agent.wait_for("status reported")


@pytest.mark.contract("G23", "D10")
def test_a_denied_request_is_said_and_waited_for(hub: Hub, start_agent: StartAgent) -> None:
    agent = start_agent("agent-denied", hub)
    agent.wait_for("waits for approval")
    hub.manage("decline", "agent-denied", "--reason", "nobody knows it")
    agent.wait_for("was denied")
    assert "nobody knows it" in agent.log()


def test_a_key_that_came_from_elsewhere_opens_nothing_and_the_agent_asks_for_its_own(
    hub: Hub, joined: AgentProcess
) -> None:
    joined.stop(signal.SIGKILL)
    key = joined.files / "tls.key"
    other = ssl.PEM_cert_to_DER_cert((joined.files / "tls.crt").read_text())
    assert other
    text = key.read_text()
    key.write_text(text.replace(text.splitlines()[1][:8], "AAAAAAAA"))
    joined.start()
    joined.wait_for("bootstrapping at", times=2)
    joined.wait_for("waits for approval", times=2)


def test_a_bootstrap_kubeconfig_that_is_replaced_is_used_at_once(
    hub: Hub, spoke: Spoke, tmp_path: Path, start_agent: StartAgent
) -> None:
    """G4: an agent whose token ended goes on with the next."""
    agent = start_agent("agent-token", hub)
    agent.wait_for("waits for approval")
    assert agent.process is not None
    (path,) = agent.bootstrap
    agent.stop()
    good = path.read_text()
    path.write_text(good.replace("token: ", "token: zzzzzz."))
    agent.start()
    agent.wait_for("cluster not registered: 401 Unauthorized")
    path.write_text(bootstrap(hub).read_text())
    agent.wait_for("the bootstrap kubeconfig changed")
    agent.wait_for("waits for approval", times=2)
