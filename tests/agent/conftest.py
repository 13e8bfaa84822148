"""Agents that run beside a hub and a managed cluster."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.agent.process import PATIENCE, AgentProcess
from tests.agent.spoke import Spoke, managed_cluster
from tests.hub import Hub

CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
MERGE = {"Content-Type": "application/merge-patch+json"}
Doc = dict[str, Any]
StartAgent = Callable[..., AgentProcess]
numbers = itertools.count(1)


@pytest.fixture
def spoke(tmp_path: Path) -> Iterator[Spoke]:
    with managed_cluster(tmp_path) as found:
        yield found


@pytest.fixture
def start_agent(tmp_path: Path, spoke: Spoke) -> Iterator[StartAgent]:
    """``start_agent("name", hub)`` runs one with a bootstrap kubeconfig of each hub; it is stopped at the end."""
    agents = []

    def start(cluster: str, *hubs: Hub, options: Sequence[str] = (), **more: Any) -> AgentProcess:
        agent = AgentProcess(
            tmp_path / cluster, [bootstrap(hub) for hub in hubs], spoke.kubeconfig, cluster, options, **more
        )
        agents.append(agent)
        agent.start()
        return agent

    yield start
    for agent in agents:
        agent.stop()


def bootstrap(hub: Hub) -> Path:
    """A bootstrap kubeconfig of the hub for any cluster, which a test may change. Minted once: that takes a process."""
    minted = hub.home / "bootstrap.kubeconfig"
    if not minted.exists():
        hub.manage("bootstrap_token", "create", "--uses", "any", "--kubeconfig", str(minted))
    return Path(shutil.copy(minted, hub.home / f"bootstrap-{next(numbers)}.kubeconfig"))


def accept(hub: Hub, name: str) -> None:
    """Approve its waiting request and accept it, as an admin does by the API."""
    approve(hub, name)
    change_cluster(hub, name, {"spec": {"hubAcceptsClient": True}})


def approve(hub: Hub, name: str) -> None:
    with hub.admin() as admin:
        query = {"labelSelector": f"open-cluster-management.io/cluster-name={name}"}
        requests = admin.get(REQUESTS, params=query).raise_for_status().json()["items"]
        request = next(each for each in requests if not each["status"].get("conditions"))
        approved = {"type": "Approved", "status": "True", "reason": "Test", "message": "in a test"}
        request["status"] = {"conditions": [approved]}
        path = f"{REQUESTS}/{request['metadata']['name']}/approval"
        admin.put(path, json=request).raise_for_status()


def cluster_on(hub: Hub, name: str) -> Doc:
    with hub.admin() as admin:
        doc: Doc = admin.get(f"{CLUSTERS}/{name}").raise_for_status().json()
    return doc


def change_cluster(hub: Hub, name: str, change: Doc) -> None:
    with hub.admin() as admin:
        admin.patch(f"{CLUSTERS}/{name}", content=json.dumps(change), headers=MERGE).raise_for_status()


def condition(doc: Doc, type_: str) -> Doc:
    """The condition of that type, empty without one."""
    found = [each for each in (doc.get("status") or {}).get("conditions") or () if each["type"] == type_]
    return found[0] if found else {}


def eventually(hub: Hub, name: str, holds: Callable[[Doc], object]) -> Doc:
    """The cluster, once it is as asked."""
    deadline = time.monotonic() + PATIENCE
    while not holds(doc := cluster_on(hub, name)):
        assert time.monotonic() < deadline, doc
        time.sleep(0.1)
    return doc
