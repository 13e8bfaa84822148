"""Renewals of agents that have joined, each on a TLS connection of its own, as many as the hub takes."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from ocmconsole.core.protobuf_fields import LEASE
from tests.bench import machine, pooled
from tests.bench.callers import Caller, Doc, Effort
from tests.bench.pooled import Connection
from tests.bench.row import Row
from tests.hub import Hub
from tests.unit.kubeapi.protobuf_encoder import encode

PROTOBUF = "application/vnd.kubernetes.protobuf"
ORDINARY = b"X-Bench: 1\r\n"  # a header that no agent sends: the request takes the ordinary path
ORDINARY_SHARE = 0.25  # of the seconds of the others


class Joined(Protocol):
    """Name, file with certificate and key, and the lease as it was answered last."""

    name: str
    lease: Doc

    @property
    def pair(self) -> Path: ...


class _Agent:
    def __init__(self, joined: Joined, connection: Connection, lines: bytes) -> None:
        self.lease, self.path = joined.lease, pooled.LEASE.format(joined.name)
        self.connection, self.lines = connection, lines

    async def put(self, more: bytes = b"") -> None:
        """From the version that the last renewal was answered with."""
        now = pooled.micro_time().decode()
        doc = self.lease | {"spec": self.lease["spec"] | {"renewTime": now}}
        body = encode(doc, LEASE, "coordination.k8s.io/v1", "Lease")
        await self._ask(pooled.request("PUT", self.path, self.lines + more, body, PROTOBUF))

    async def renew(self) -> None:
        await self._ask(pooled.request("GET", self.path, self.lines))
        await self.put()

    async def _ask(self, request: bytes) -> None:
        self.lease = json.loads(pooled.expect(await self.connection.ask(request), self.path))


def measure(hub: Hub, joined: Sequence[Joined], seconds: float, admin: Caller) -> Iterator[Row]:
    """The fuller the batches of the lease path are, the less each renewal costs; so the detail says how full they were."""
    puts, pairs, ordinary = pooled.run(_measured(hub, joined, seconds, admin))
    about = f"{len(joined)} connections, "
    live = f"; the same by the ordinary path {ordinary.per_cpu_second:.0f} per CPU s"
    yield Row("lease_put_per_cpu_s", puts[0].per_cpu_second, f"{about}{puts[1]}: {puts[0]}{live}")
    yield Row("lease_pair_per_cpu_s", pairs[0].per_cpu_second, f"{about}{pairs[1]}: {pairs[0]}")


Told = tuple[Effort, str]


async def _measured(hub: Hub, joined: Sequence[Joined], seconds: float, admin: Caller) -> tuple[Told, Told, Effort]:
    lines = pooled.head_lines(hub.api_url.removeprefix("https://"))
    agents = [_Agent(each, await Connection.open(hub.api_url, hub.tls(each.pair)), lines) for each in joined]
    try:
        for agent in agents:
            await agent.renew()
        found: list[Told] = []
        for act in (_Agent.put, _Agent.renew):
            before = _batches(admin)
            effort = await _over_and_over([partial(act, agent) for agent in agents], seconds)
            requests, batches = (now - then for now, then in zip(_batches(admin), before, strict=True))
            found.append((effort, f"{requests / max(1, batches):.1f} requests a batch"))
        ordinary = await _over_and_over([partial(agent.put, ORDINARY) for agent in agents], ORDINARY_SHARE * seconds)
    finally:
        for agent in agents:
            agent.connection.close()
    return found[0], found[1], ordinary


async def _over_and_over(acts: Sequence[Callable[[], Awaitable[None]]], seconds: float) -> Effort:
    """Each act again as soon as it is done."""
    latencies: list[float] = []
    await asyncio.to_thread(machine.settle)

    async def work(act: Callable[[], Awaitable[None]], deadline: float) -> None:
        while (began := time.monotonic()) < deadline:
            await act()
            latencies.append(time.monotonic() - began)

    before, own, began = machine.cpu_seconds(), time.process_time(), time.monotonic()
    async with asyncio.TaskGroup() as group:
        for act in acts:
            group.create_task(work(act, began + seconds))
    taken, asking = time.monotonic() - began, time.process_time() - own
    return Effort(len(latencies), taken, machine.cpu_seconds() - before, asking, latencies)


def _batches(admin: Caller) -> tuple[float, float]:
    """How many requests the lease path has answered, and in how many batches."""
    _, text = admin.ask("GET", "/metrics")
    found = re.findall(rb'ocmconsole_lease_batch_(sum|count)\{thread="\w+"\} ([0-9.]+)', text)
    requests, batches = (
        sum(float(number) for what, number in found if what == wanted) for wanted in (b"sum", b"count")
    )
    return requests, batches
