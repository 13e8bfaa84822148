"""A whole fleet: memory, rest, and the largest number of clusters whose heartbeats and watches a hub sustains.

Agents are those of the seed, over pooled connections, their certificates passed on. A number of clusters is a rate: each
renews once a minute and opens its three watches again every seven and a half minutes. Watches are held shorter than
agents do, so that fewer are open at one time than the fleet would hold: what they cost in memory is another row.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import cycle

from tests.bench import database, machine, pooled, reading, seeds
from tests.bench.callers import Caller, UnexpectedError
from tests.bench.pooled import Agent, Connection, Pool
from tests.bench.row import Row
from tests.bench.rows import CLUSTERS, Scale
from tests.bench.seeds import Seeds
from tests.hub import Hub

PERIOD = 60.0  # seconds between two renewals of a cluster
LIFETIME = 450.0  # seconds of a watch: agents choose 5 to 10 minutes
WATCHES = 3  # of an agent
HELD = 4  # seconds of a watch here
BOUND = 1.0  # seconds, of the 99th percentile of each sort of request
SHARE = 0.97  # of what a step asks for, that must have been answered in its time
WARMING = 0.2  # of a step, whose requests are not judged
RENEWING = 256  # connections for leases, as many as docs/nginx.conf keeps: a renewal that finds none free waits, and that counts
FIRST_AT_ONCE = 16  # first renewals of agents
TICK = 0.005  # seconds between two looks at what is due
PAGES = ("/", "/clusters/")
MINUTE = 65.0  # seconds in which each task of the clock comes at least once
AT_ONCE = 8  # lists of all clusters, for the peak
PATHS = (
    "/apis/cluster.open-cluster-management.io/v1/managedclusters?fieldSelector=metadata.name%3D{0}",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests?labelSelector=open-cluster-management.io%2Fcluster-name%3D{0}",
    "/apis/addon.open-cluster-management.io/v1beta1/namespaces/{0}/managedclusteraddons?",
)


def measure(made: Seeds, scale: Scale) -> Iterator[Row]:
    with made.hub(scale.small, first=_heard_now, **pooled.AS_PROXY) as hub:
        yield _memory(hub, scale.small, "rss_1000_mb", 1_000)
    with made.hub(scale.fleet, first=_heard_now, **pooled.AS_PROXY) as hub:
        yield _memory(hub, scale.fleet, "rss_10000_mb", 10_000)
        yield _idle(scale, hub)
        yield _peak(hub, scale)
        yield pooled.run(_sustained(hub, scale))


def _heard_now(hub: Hub) -> None:
    """A lease that lies ahead cannot be renewed on the lease path."""
    database.beat(hub, None, timedelta())


def agents_of(hub: Hub) -> list[Agent]:
    host = hub.api_url.removeprefix("https://")
    return [Agent(each["name"], pooled.head_lines(host, each["certificate"])) for each in seeds.agents(hub)]


# ------------------------------------------------------------------------------------------------------------- memory


def _memory(hub: Hub, clusters: int, name: str, of: int) -> Row:
    """After the first renewal of each agent, and what an admin reads."""
    began = machine.memory_mb()
    agents = agents_of(hub)
    before, at = machine.cpu_seconds(), time.monotonic()
    pooled.run(_first_renewals(hub, agents))
    cost = (machine.cpu_seconds() - before) / len(agents)
    renewed = machine.memory_mb()
    admin = Caller.of(hub, pair=hub.admin_pair())
    reading.read(admin, CLUSTERS)
    machine.settle()
    found = machine.memory_mb()
    about = "" if clusters == of else f"with {clusters} clusters; "
    first = f"first renewals {cost * 1000:.2f} CPU ms each, {len(agents) / (time.monotonic() - at):.0f}/s"
    return Row(
        name, found, f"{about}{began:.0f} MB at the start, {renewed:.0f} when {len(agents)} agents were heard; {first}"
    )


async def _first_renewals(hub: Hub, agents: list[Agent]) -> None:
    async with pooled.pool_of(hub, FIRST_AT_ONCE) as pool:

        async def first(agent: Agent) -> None:
            async with lent(pool) as connection:
                await agent.renew(connection)

        await pooled.gathered((partial(first, agent) for agent in agents), at_once=FIRST_AT_ONCE)


@asynccontextmanager
async def lent(pool: Pool) -> AsyncIterator[Connection]:
    connection = await pool.take()
    try:
        yield connection
    finally:
        pool.give_back(connection)


def _idle(scale: Scale, hub: Hub) -> Row:
    machine.settle()
    before, began = machine.cpu_seconds(), time.monotonic()
    time.sleep(scale.idle_seconds)
    cpu, seconds = machine.cpu_seconds() - before, time.monotonic() - began
    about = "" if scale.fleet == 10_000 else f"with {scale.fleet} clusters; "
    return Row(
        "idle_cpu_percent",
        100 * cpu / seconds,
        f"{about}{cpu:.2f} CPU s in {seconds:.0f} s, {len(hub.processes)} processes of the hub",
    )


def _peak(hub: Hub, scale: Scale) -> Row:
    server = hub.processes["server"].pid
    callers = [Caller.of(hub, pair=hub.admin_pair()) for _ in range(AT_ONCE)]
    machine.forget_peak(server)
    before = machine.resident_kb(server)
    reading.at_once(callers, CLUSTERS)
    lifted = (machine.peak_kb(server) - before) / 1024
    about = "" if scale.fleet == 10_000 else f"scaled from lists of {scale.fleet}; "
    return Row("rss_peak_mb", lifted * 10_000 / scale.fleet, f"{about}server {before / 1024:.0f} + {lifted:.0f} MB")


# -------------------------------------------------------------------------------------------------------------- steps


@dataclass
class Step:
    """What one rate brought. ``taken``: seconds by sort of request, of those that were due after the warming."""

    clusters: int
    seconds: float
    due: int = 0
    done: int = 0
    cpu: float = 0.0
    asking: float = 0.0
    taken: dict[str, list[float]] = field(default_factory=lambda: {"renewal": [], "watch": []})
    failures: list[str] = field(default_factory=list)

    @property
    def late(self) -> dict[str, float]:
        return {sort: _p99(found) for sort, found in self.taken.items()}

    @property
    def why_not(self) -> str:
        """Empty when the hub sustained it."""
        if self.failures:
            return f"{len(self.failures)} failed: {self.failures[0]}"
        if self.done < SHARE * self.due:
            return f"{self.done} of {self.due} were answered in time"
        slow = {sort: found for sort, found in self.late.items() if found > BOUND}
        return ", ".join(f"p99 of a {sort} {found:.1f} s" for sort, found in slow.items())

    def __str__(self) -> str:
        spread = ", ".join(f"{sort} p99 {found * 1000:.0f} ms" for sort, found in self.late.items())
        cores = f"{self.cpu / self.seconds:.2f} cores, asking {self.asking / self.seconds:.2f}"
        return f"{self.clusters}: {spread}, {cores}{f' - not: {self.why_not}' if self.why_not else ''}"


def _p99(found: list[float]) -> float:
    return sorted(found)[int(0.99 * (len(found) - 1))] if found else float("inf")


async def _sustained(hub: Hub, scale: Scale) -> Row:
    """Twice as many with each step; then two steps between the last that passed and the first that did not.

    All agents were heard when it begins: from then on a cluster that becomes Unknown is one too many, and nothing passed.
    """
    agents = agents_of(hub)
    await asyncio.to_thread(_heard_now, hub)
    await asyncio.to_thread(machine.settle)
    random.Random(1).shuffle(agents)  # noqa: S311 - the same each time
    unknown = _unknown(hub)
    fleet = _Fleet(hub, cycle(agents))
    steps: list[Step] = []
    try:
        good, bad = 0, 0
        while clusters := next_clusters(good, bad, scale.first_step, len(steps), scale.steps):
            steps.append(await fleet.step(clusters, scale.step_seconds))
            good, bad = (good, clusters) if steps[-1].why_not else (clusters, bad)
    finally:
        await fleet.close()
    silent = _unknown(hub) - unknown
    seeded = (
        f"{len(agents)} agents, certificates passed on; steps of {scale.step_seconds:.0f} s, p99 at most {BOUND:.0f} s"
    )
    told = f"{seeded}, {silent or 'no'} clusters became Unknown: {'; '.join(map(str, steps))}"
    return Row("fleet_sustained", 0 if silent else good, told)


def next_clusters(good: int, bad: int, first: int, taken: int, most: int) -> int:
    """Of the next step; 0 when enough is known."""
    if taken >= most:
        return 0
    if not bad:
        return 2 * good or first
    between = (good + bad) // 2
    return between if between - good > max(first // 4, good // 8) else 0


def _unknown(hub: Hub) -> int:
    with hub.reading() as ask:
        return int(ask("SELECT count(*) FROM clusters_managedcluster WHERE available = 'Unknown'")[0][0])


class _Fleet:
    def __init__(self, hub: Hub, agents: Iterator[Agent]) -> None:
        self._hub, self._agents = hub, agents
        self._leases, self._watches = Pool(hub, hub.tls()), Pool(hub, hub.tls())
        self._revision = b"0"

    async def close(self) -> None:
        self._leases.close()
        self._watches.close()

    async def step(self, clusters: int, seconds: float) -> Step:
        renewals, opens = clusters / PERIOD, WATCHES * clusters / LIFETIME
        await self._leases.grow(RENEWING)
        slots = max(1, round(opens * HELD))
        await self._watches.grow(max(slots, len(self._watches.all)))
        self._revision = await self._newest()
        step = Step(clusters, seconds)
        began = asyncio.get_running_loop().time()
        warm, end = began + WARMING * seconds, began + seconds
        before, own = machine.cpu_seconds(), time.process_time()
        async with asyncio.TaskGroup() as group:
            for number in range(slots):
                begin = began + number * HELD / slots
                group.create_task(self._hold(step, begin, warm, end, PATHS[number % len(PATHS)]))
            await self._renew_all(group, step, renewals, warm, end)
            step.cpu, step.asking = machine.cpu_seconds() - before, time.process_time() - own
        return step

    async def _newest(self) -> bytes:
        async with lent(self._leases) as connection:
            lease = await next(self._agents).renew(connection)
        return _revision_of(lease)

    async def _renew_all(self, group: asyncio.TaskGroup, step: Step, rate: float, warm: float, end: float) -> None:
        """Each at its time, whether those before are answered or not."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while (now := loop.time()) < end:
            while due <= now:
                group.create_task(self._renew(step, due, warm, end))
                due += 1 / rate
            await asyncio.sleep(TICK)

    async def _renew(self, step: Step, due: float, warm: float, end: float) -> None:
        agent = next(self._agents)

        async def renew() -> None:
            async with lent(self._leases) as connection:
                self._revision = _revision_of(await agent.renew(connection))

        await self._judged(step, "renewal", due, warm, end, renew)

    async def _hold(self, step: Step, due: float, warm: float, end: float, path: str) -> None:
        """One watch after the other, each of another agent, until the step ends."""
        loop = asyncio.get_running_loop()
        async with lent(self._watches) as connection:
            while due < end:
                await asyncio.sleep(max(0.0, due - loop.time()))
                stream = await self._open(step, connection, due, warm, end, path)
                if stream is None:
                    return
                with suppress(pooled.LostError):
                    await stream
                due = max(due + HELD, loop.time())

    async def _open(
        self, step: Step, connection: Connection, due: float, warm: float, end: float, path: str
    ) -> asyncio.Future[None] | None:
        agent = next(self._agents)
        query = f"&watch=true&allowWatchBookmarks=true&timeoutSeconds={HELD}&resourceVersion={self._revision.decode()}"
        ended: list[asyncio.Future[None]] = []

        async def open_() -> None:
            opened, stream = connection.watch(pooled.request("GET", path.format(agent.name) + query, agent.lines))
            if (status := await opened) != pooled.OK:
                raise UnexpectedError(f"{path}: {status}")
            ended.append(stream)

        await self._judged(step, "watch", due, warm, end, open_)
        return ended[0] if ended else None

    @staticmethod
    async def _judged(step: Step, sort: str, due: float, warm: float, end: float, act: Callable[[], object]) -> None:
        loop = asyncio.get_running_loop()
        is_counted = warm <= due < end - BOUND
        step.due += is_counted
        try:
            await act()  # type: ignore[misc] # a coroutine
        except (OSError, UnexpectedError) as error:
            step.failures.append(str(error))
            return
        now = loop.time()
        if is_counted:
            step.done += now <= end
            step.taken[sort].append(now - due)


def _revision_of(lease: bytes) -> bytes:
    begin = lease.index(b'"resourceVersion":"') + 19
    return lease[begin : lease.index(b'"', begin)]
