"""A simulated fleet: joins, is accepted by an admin over the API, beats, falls out and comes back.

In: a bootstrap kubeconfig for each batch of agents, an admin's, and what is to happen. Out: a ``FleetReport``.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import cycle
from urllib.parse import quote, urlsplit

import httpx

from clusters.kinds import ACCEPTS_CLIENT
from registration.agent.bootstrapping.bootstrap import CLUSTERS
from registration.agent.bootstrapping.certificate_requests import PATH as REQUESTS
from registration.agent.client.api import Api, Doc, Heard, HubError
from registration.agent.client.clock import AgentClock
from registration.agent.client.kubeconfig import Kubeconfig
from registration.simulation.happenings import FleetOutage, FleetSkew
from registration.simulation.report import FleetReport
from registration.simulation.simulated_agent import SimulatedAgent, connect_alone

AGENTS_OF_TOKEN = 40  # agents that share a bootstrap token: each watches twice, and an identity may hold 100 watches
# Agents that share a client of a ``ProxyPool``: httpcore looks at all connections of a client for each request.
AGENTS_OF_CLIENT = 40
# Agents that call from one address, with a connection for each watch: Linux has 28,232 ports for them.
AGENTS_OF_SOURCE = 8_000
LOW_ADDRESSES = 250  # of 127.0.0.1, 127.0.0.2 and so on, before 127.0.1.1
ADMITTING = 8  # clusters that the admin lets in at one time
LOOK = 1.0  # seconds between looks at what waits for the admin, and between steps of the progress bar
PAGE = 500  # requests that the admin reads at one time
PATIENCE = 900.0  # seconds for a fleet to join or to come back, after which the report is given without the rest

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """``join_over`` and ``seconds``: joins are spread over the first, and the second begins when all have joined."""

    clusters: int
    prefix: str = "sim"
    join_over: float = 0
    seconds: float = 60
    outages: Sequence[FleetOutage] = ()
    skews: Sequence[FleetSkew] = ()
    flapping: float = 0  # share of the agents that restart all the time
    flap_seconds: float = 20
    seed: int = 1


@dataclass(slots=True)
class ProxyPool:
    """Connections that agents share, and that pass their certificates on as a trusted proxy does.

    Each client is for ``AGENTS_OF_CLIENT`` agents or so.
    """

    clients: Sequence[httpx.AsyncClient]
    secret: str
    _turns: Iterator[httpx.AsyncClient] = field(init=False)

    def __post_init__(self) -> None:
        self._turns = cycle(self.clients)

    async def close(self) -> None:
        for client in self.clients:
            await client.aclose()

    def connect(self, kubeconfig: Kubeconfig, clock: AgentClock, heard: Heard) -> Api:
        headers = {"X-Proxy-Secret": self.secret}
        if kubeconfig.login.certificate:
            leaf = kubeconfig.login.certificate.partition("-----END CERTIFICATE-----")
            headers["X-Client-Certificate"] = quote("".join(leaf[:2]) + "\n", safe="")
        return Api(kubeconfig, clock, client=next(self._turns), headers=headers, heard=heard)


def source_of(server: str, agent: int) -> str | None:
    """The address from which an agent of that number calls a hub on loopback; None elsewhere, where Linux chooses."""
    if not (urlsplit(server).hostname or "").startswith("127."):
        return None
    high, low = divmod(agent // AGENTS_OF_SOURCE, LOW_ADDRESSES)
    return f"127.0.{high}.{low + 1}"


@dataclass
class Simulation:
    """``bootstraps`` are enough for ``AGENTS_OF_TOKEN`` agents each."""

    plan: Plan
    bootstraps: Sequence[Kubeconfig]
    admin: Kubeconfig
    pool: ProxyPool | None = None
    report: FleetReport = field(default_factory=FleetReport)
    agents: list[SimulatedAgent] = field(default_factory=list)

    async def run(self, progress: Progress) -> FleetReport:
        """Until the plan is over; ``progress`` gets the number of agents that are heard, each second."""
        chance = random.Random(self.plan.seed)  # noqa: S311 - the same fleet each time
        logger = logging.getLogger("ocmconsole.simulation")
        connect = self.pool.connect if self.pool else connect_alone
        self.agents = [
            SimulatedAgent(
                f"{self.plan.prefix}-{number:05}",
                self.bootstraps[number // AGENTS_OF_TOKEN],
                connect,
                self.report,
                random.Random(chance.random()),  # noqa: S311 - jitter
                logger,
            )
            for number in range(self.plan.clusters)
        ]
        admitting = asyncio.create_task(self._admit())
        watching = asyncio.create_task(self._show(progress))
        try:
            await self._join(chance)
            await self._live(chance)
        finally:
            for task in (admitting, watching):
                task.cancel()
            await asyncio.gather(*(agent.stop() for agent in self.agents))
            progress(self._count())
        return self.report

    def _count(self) -> int:
        return sum(agent.is_heard for agent in self.agents)

    async def _show(self, progress: Progress) -> None:
        while True:
            progress(self._count())
            await asyncio.sleep(LOOK)

    # --------------------------------------------------------------------------------------------------------- joining

    async def _join(self, chance: random.Random) -> None:
        for skew in self.plan.skews:
            for agent in chance.sample(self.agents, int(skew.share * len(self.agents))):
                agent.clock.ahead = timedelta(seconds=skew.seconds)
        pause = self.plan.join_over / max(len(self.agents), 1)
        for agent in self.agents:
            agent.start()
            await asyncio.sleep(pause)
        await self._all_heard(self.agents)

    async def _all_heard(self, agents: Sequence[SimulatedAgent]) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE
        while not all(agent.is_heard for agent in agents) and loop.time() < deadline:  # noqa: ASYNC110 - of many agents
            await asyncio.sleep(LOOK / 10)

    async def _admit(self) -> None:
        """An admin who lets in whatever of this fleet asks, over the API."""
        api = Api(self.admin, AgentClock())
        turns = asyncio.Semaphore(ADMITTING)
        try:
            while True:
                await asyncio.gather(*[self._let_in(api, turns, each) for each in await self._waiting(api)])
                await asyncio.sleep(LOOK)
        finally:
            await api.close()

    async def _waiting(self, api: Api) -> list[Doc]:
        found: list[Doc] = []
        token = ""
        try:
            while True:
                page = await api.get(REQUESTS, {"limit": f"{PAGE}", **({"continue": token} if token else {})})
                found += page["items"]
                if not (token := page["metadata"].get("continue") or ""):
                    break
        except HubError as error:
            self.report.refusals[f"admin's list: {error}"] += 1
        prefix = f"{self.plan.prefix}-"
        return [
            each
            for each in found
            if not (each.get("status") or {}).get("conditions") and each["metadata"]["name"].startswith(prefix)
        ]

    async def _let_in(self, api: Api, turns: asyncio.Semaphore, request: Doc) -> None:
        """The cluster first: an approval may be stored although its answer was lost, and then nobody looks again."""
        name = request["metadata"]["name"]
        cluster = name.rpartition("-")[0]
        approved = {"type": "Approved", "status": "True", "reason": "Simulated", "message": "a simulated fleet"}
        async with turns:
            try:
                await api.patch(f"{CLUSTERS}/{cluster}", {"spec": {ACCEPTS_CLIENT: True}})
                await api.replace(f"{REQUESTS}/{name}/approval", {**request, "status": {"conditions": [approved]}})
            except HubError as error:
                self.report.refusals[f"admin: {error}"] += 1

    # ---------------------------------------------------------------------------------------------------------- living

    async def _live(self, chance: random.Random) -> None:
        flappers = chance.sample(self.agents, int(self.plan.flapping * len(self.agents)))
        steady = [agent for agent in self.agents if agent not in set(flappers)]
        tasks = [asyncio.create_task(self._flap(agent, chance)) for agent in flappers]
        tasks += [
            asyncio.create_task(self._fall_out(outage, chance.sample(steady, int(outage.share * len(steady)))))
            for outage in self.plan.outages
        ]
        await asyncio.sleep(self.plan.seconds)
        outages = tasks[len(flappers) :]
        if outages:
            await asyncio.wait(outages)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _fall_out(self, outage: FleetOutage, agents: Sequence[SimulatedAgent]) -> None:
        await asyncio.sleep(outage.begin)
        await asyncio.gather(*(agent.stop() for agent in agents))
        await asyncio.sleep(outage.seconds)
        for agent in agents:
            agent.start()
        await self._all_heard(agents)

    async def _flap(self, agent: SimulatedAgent, chance: random.Random) -> None:
        while True:
            await asyncio.sleep(chance.uniform(0.5, 1.5) * self.plan.flap_seconds)
            await agent.stop()
            agent.start()
