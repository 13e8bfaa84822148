"""A fleet that is there already: its clusters are seeded, its agents begin with the certificates that they have.

    python -m tests.crash.settled_agents LISTED KUBECONFIG

runs them in one process. ``LISTED`` is what ``seed`` wrote; the kubeconfig says where the hub is. They have no bootstrap token: one that lost its
certificate, or doubted it, would not come back. Until the process is killed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import resource
import sys
from pathlib import Path
from typing import Any

from registration.agent.bootstrapping.hub_files import AGENT_NAME, CERTIFICATE, CLUSTER_NAME, KEY, KUBECONFIG
from registration.agent.client.kubeconfig import ApiEndpoint, Kubeconfig, Login, hub_kubeconfig, read_kubeconfig
from registration.simulation.report import FleetReport
from registration.simulation.simulated_agent import FilesInMemory, SimulatedAgent, SimulatedCluster, connect_alone

Doc = dict[str, Any]
AGENT = "bench"  # the name that ``tests.bench.companions`` gives every cluster's agent
SAID = {
    "ManagedClusterJoined": {"reason": "ManagedClusterJoined", "message": "Managed cluster joined"},
    "ManagedClusterConditionAvailable": {
        "reason": "ManagedClusterAvailable",
        "message": "Managed cluster is available",
    },
}
PAUSE = 0.005  # seconds between two starts


def seed(count: int, listed: str, beat_seconds: int) -> None:
    """Inside of the hub's own Django, before it serves."""
    from tests.bench import crowd  # the agents do without Django

    def reported(doc: Doc) -> None:
        """As the agent last said it: it has nothing to report when it begins."""
        name = doc["metadata"]["name"]
        facts = asyncio.run(SimulatedCluster(name, random.Random(name)).facts())  # noqa: S311 - as ``live``
        doc["spec"]["leaseDurationSeconds"] = beat_seconds
        for condition in doc["status"]["conditions"]:
            condition.update(SAID.get(condition["type"], {}))
        claims = [{"name": each, "value": value} for each, value in sorted((facts.claims or {}).items())]
        doc["status"] |= {
            "version": {"kubernetes": facts.version},
            "capacity": facts.capacity,
            "allocatable": facts.allocatable,
            "clusterClaims": claims,
        }

    crowd.seed(count, listed, troubled=0, alter=reported)


def kept(line: str, kubeconfig: str) -> dict[str, str]:
    """What the agent of a line has kept since it joined."""
    known = json.loads(line)
    return {
        CLUSTER_NAME: known["name"],
        AGENT_NAME: AGENT,
        CERTIFICATE: known["certificate"],
        KEY: known["key"],
        KUBECONFIG: kubeconfig,
    }


async def live(lines: list[str], endpoint: ApiEndpoint) -> None:
    hub, report, log = Kubeconfig(endpoint, Login(token="none")), FleetReport(), logging.getLogger("agents")
    kubeconfig = hub_kubeconfig(endpoint)
    for line in lines:
        files = kept(line, kubeconfig)
        chance = random.Random(files[CLUSTER_NAME])  # noqa: S311 - jitter, and the size of the cluster
        agent = SimulatedAgent(files[CLUSTER_NAME], hub, connect_alone, report, chance, log, FilesInMemory(files))
        agent.start()
        await asyncio.sleep(PAUSE)
    await asyncio.Event().wait()


if __name__ == "__main__":
    sys.modules["sniffio"] = None  # type: ignore[assignment] # httpcore looks in vain for it at each request
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # three watches and a connection for each agent
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    logging.basicConfig(level=logging.CRITICAL)
    listed, kubeconfig = map(Path, sys.argv[1:])
    asyncio.run(live(listed.read_text().splitlines(), read_kubeconfig(kubeconfig).endpoint))
