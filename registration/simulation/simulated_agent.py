"""One simulated cluster: a registration agent of its own, and the little that it speaks for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable
from datetime import timedelta

from registration.agent.agent import RegistrationAgent
from registration.agent.bootstrapping.hub_files import Files
from registration.agent.client.api import Api, Heard
from registration.agent.client.attempts import Log
from registration.agent.client.clock import AgentClock
from registration.agent.client.kubeconfig import Kubeconfig
from registration.agent.equipment import Equipment
from registration.agent.options import AgentOptions
from registration.agent.steady_state.managed_cluster import Health, ManagedClusterFacts
from registration.simulation.key_tool import CryptographyTool
from registration.simulation.report import LEASE, FleetReport

OK = 200  # status of a heartbeat that was taken
Connect = Callable[[Kubeconfig, AgentClock, Heard], Api]


def connect_alone(kubeconfig: Kubeconfig, clock: AgentClock, heard: Heard) -> Api:
    """Connections and TLS of its own."""
    return Api(kubeconfig, clock, heard=heard)


class OneHub:
    """A bootstrap kubeconfig that nobody changes."""

    def __init__(self, kubeconfig: Kubeconfig) -> None:
        self._kubeconfig = kubeconfig

    def present(self) -> list[Kubeconfig]:
        return [self._kubeconfig]

    async def changed(self) -> None:
        await asyncio.Event().wait()


class FilesInMemory:
    """What an agent keeps; it outlives the agent's outages. An agent that joined before begins with what it has."""

    def __init__(self, files: Files | None = None) -> None:
        self._files: dict[str, str] = dict(files or {})

    async def load(self) -> dict[str, str]:
        return dict(self._files)

    async def save(self, files: Files) -> None:
        self._files = dict(files)


class SimulatedCluster:
    """Always well, with a size of its own."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.changed = asyncio.Event()
        cores = chance.choice((4, 8, 16, 32, 64))
        capacity = {"cpu": f"{cores}", "memory": f"{4 * cores}Gi", "pods": "110"}
        claims = {"id.k8s.io": name, "platform.open-cluster-management.io": "Other"}
        self._facts = ManagedClusterFacts("v1.34.2", capacity, capacity, claims)

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def health(self) -> Health:
        return Health()

    async def facts(self) -> ManagedClusterFacts:
        return self._facts


class SimulatedAgent:
    """May be stopped and started again, with its files. It notes when its first heartbeat was taken."""

    def __init__(
        self,
        name: str,
        hub: Kubeconfig,
        connect: Connect,
        report: FleetReport,
        chance: random.Random,
        log: logging.Logger,
        files: FilesInMemory | None = None,
    ) -> None:
        self.name = name
        self.clock = AgentClock(timedelta())
        self._report = report
        self._hub, self._connect, self._chance, self._log = OneHub(hub), connect, chance, log
        self._files, self._cluster = files or FilesInMemory(), SimulatedCluster(name, chance)
        self._task: asyncio.Task[None] | None = None
        self._started, self._has_joined, self._is_heard = 0.0, False, False

    @property
    def is_heard(self) -> bool:
        """A heartbeat was taken since it was started last."""
        return self._is_heard

    def start(self) -> None:
        self._started, self._is_heard = time.monotonic(), False
        agent = RegistrationAgent(
            self._hub,
            self._files,
            self._cluster,
            AgentOptions(cluster_name=self.name, external_urls=(f"https://{self.name}.example:6443",)),
            Equipment(CryptographyTool(), self.clock, Log(self._log), self._chance),
            lambda kubeconfig: self._connect(kubeconfig, self.clock, self._heard),
        )
        self._task = asyncio.create_task(agent.run())

    async def stop(self) -> None:
        """As when its machine is cut off: nothing is said to the hub."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _heard(self, method: str, path: str, outcome: int | str, seconds: float) -> None:
        self._report.heard(method, path, outcome, seconds)
        if method == "PUT" and outcome == OK and not self._is_heard and path.endswith(LEASE):
            self._is_heard = True
            took = time.monotonic() - self._started
            (self._report.returned if self._has_joined else self._report.joined).append(took)
            self._has_joined = True
