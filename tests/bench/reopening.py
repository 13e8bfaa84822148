"""What it costs to open a connection, and a watch on one that is open: first, and again as agents do all the time."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.bench import machine, pooled
from tests.bench.callers import Caller, UnexpectedError
from tests.bench.pooled import Connection
from tests.bench.row import Row
from tests.hub import Hub

WATCH = "/apis/cluster.open-cluster-management.io/v1/managedclusters?watch=true&allowWatchBookmarks=true"
PRESENT = "&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=1"
AT_ONCE = 8  # connections or watches that are opened at one time
ROUNDS = 3  # of watches opened again


def measure(hub: Hub, agents: Sequence[tuple[str, Path]], wanted: int, admin: Caller) -> Iterator[Row]:
    handshake, first, again, asking = pooled.run(_measured(hub, agents, wanted, admin))
    about = f"{wanted} of {len(agents)} agents"
    yield Row("handshake_cpu_ms", handshake, about)
    yield Row(
        "watch_open_cpu_ms", again, f"{about}, {ROUNDS} times each; the first time {first:.2f}; asking {asking:.2f}"
    )


async def _measured(
    hub: Hub, agents: Sequence[tuple[str, Path]], wanted: int, admin: Caller
) -> tuple[float, float, float, float]:
    """CPU milliseconds of the hub for a handshake, a first watch and one that is opened again; of this process for that."""
    lines = pooled.head_lines(hub.api_url.removeprefix("https://"))
    contexts = [(name, hub.tls(pair)) for name, pair in agents]
    chosen = [contexts[number % len(contexts)] for number in range(wanted)]
    connections: list[tuple[str, Connection]] = []

    async def connect(name: str, tls: ssl.SSLContext) -> None:
        made = await Connection.open(hub.api_url, tls)
        connections.append((name, made))
        pooled.expect(await made.ask(pooled.request("GET", "/livez", lines)), "/livez")

    streams: list[asyncio.Future[None]] = []

    async def watch(name: str, connection: Connection, query: str) -> None:
        path = f"{WATCH}&fieldSelector=metadata.name%3D{name}{query}"
        opened, stream = connection.watch(pooled.request("GET", path, lines))
        if (status := await opened) != pooled.OK:
            raise UnexpectedError(f"{path}: {status}")
        streams.append(stream)

    async def all_watch(query: str) -> tuple[float, float]:
        """Until the streams have ended too."""
        found = await _cost([partial(watch, name, connection, query) for name, connection in connections])
        await asyncio.gather(*streams)
        streams.clear()
        return found

    try:
        handshake, _ = await _cost([partial(connect, *each) for each in chosen])
        first, _ = await all_watch(PRESENT)
        again: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            found = await asyncio.to_thread(
                admin.must, "GET", "/apis/cluster.open-cluster-management.io/v1/managedclusters?limit=1"
            )
            revision = found["metadata"]["resourceVersion"]
            again.append(await all_watch(f"&timeoutSeconds=1&resourceVersion={revision}"))
    finally:
        for _, connection in connections:
            connection.close()
    cpu, asking = (sum(each) / ROUNDS for each in zip(*again, strict=True))
    return handshake, first, cpu, asking


async def _cost(acts: Sequence[Callable[[], Awaitable[None]]]) -> tuple[float, float]:
    """CPU milliseconds of each act: of the hub, until it rests, and of this process."""
    await asyncio.to_thread(machine.settle)
    before, own = machine.cpu_seconds(), time.process_time()
    await pooled.gathered(acts, at_once=AT_ONCE)
    asking = time.process_time() - own
    await asyncio.to_thread(machine.settle)
    return 1000 * (machine.cpu_seconds() - before) / len(acts), 1000 * asking / len(acts)
