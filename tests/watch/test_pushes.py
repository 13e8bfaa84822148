"""Events that the follower writes straight to a stream that waits: same lines, same order, same bounds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.kubeapi import clock, kinds
from ocmconsole.kubeapi.http.request_info import ListOptions
from ocmconsole.kubeapi.storage.selectors import FieldSelector, LabelSelector
from ocmconsole.kubeapi.watch import change_log, follower, open_watches, streams
from ocmconsole.kubeapi.watch.open_watches import Watcher
from placements.kinds import PLACEMENT_DECISION
from tests import factories as make
from tests.watch.inside import LONGEST, apart, when

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread")]


def scope(labels: str = "", fields: str = "", *, revision: int = 0, shape: str = "") -> streams.WatchScope:
    served = kinds.find_served(MANAGED_CLUSTER.group, "v1", MANAGED_CLUSTER.plural)
    assert served is not None
    selectors = LabelSelector.parse(labels), FieldSelector.parse(fields)
    options = ListOptions(*selectors, resource_version=str(revision or change_log.newest_revision()))
    return streams.WatchScope(served, "", options, shape)


@dataclass
class Client:
    """A connection: ``pushed`` are lines that were written at once, ``sent`` those that waited for it."""

    stream: streams.Stream
    reads: bool = True
    pushed: list[bytes] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    can_go_on: asyncio.Event = field(default_factory=asyncio.Event)
    has_ended: bool = False

    def sink(self, lines: Sequence[bytes]) -> bool:
        if self.reads:
            self.pushed += lines
        return self.reads

    async def drain(self) -> None:
        async for line in self.stream.events():
            self.sent.append(line)
            if not self.reads:
                await self.can_go_on.wait()
        self.has_ended = True

    async def until(self, count: int) -> list[str]:
        """Names of the first objects, whichever way their events went."""
        await when(lambda: len(self.pushed) + len(self.sent) >= count)
        return [json.loads(line)["object"]["metadata"].get("name", "") for line in [*self.sent, *self.pushed]]


async def allowed() -> bool:
    return True


@asynccontextmanager
async def connected(
    seen: streams.WatchScope, judged: int = 2**40, watcher: Watcher | None = None
) -> AsyncIterator[Client]:
    """A stream that waits for what comes."""
    stream = streams.Stream(seen, allowed, judged=judged, watcher=watcher)
    client = Client(stream)
    stream.attach(client.sink)
    task = asyncio.create_task(client.drain())
    async with asyncio.timeout(LONGEST):
        await when(lambda: is_waiting(stream))
        yield client
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def is_waiting(stream: streams.Stream) -> bool:
    listeners = follower.follower()._listeners.get(stream.topic, set())
    return any(each.push is not None and each.push.__self__ is stream for each in listeners)  # type: ignore[attr-defined]


async def here(revision: int = 0, **more: str) -> streams.WatchScope:
    found: list[streams.WatchScope] = []
    await apart(lambda: found.append(scope(revision=revision, **more)))
    return found[0]


def test_a_stream_that_waits_is_written_to_and_one_that_does_not_read_gets_the_rest_in_order() -> None:
    async def follow() -> None:
        async with connected(await here()) as client:
            await apart(partial(make.cluster, "web-1"))
            assert await client.until(1) == ["web-1"]
            assert (len(client.pushed), client.sent) == (1, [])
            first, client.pushed = client.pushed, []
            client.reads = False
            for number in (2, 3, 4):
                await apart(partial(make.cluster, f"web-{number}"))
            assert await client.until(1) == ["web-2"]
            client.reads = True
            client.can_go_on.set()
            assert await client.until(3) == ["web-2", "web-3", "web-4"]
            assert client.pushed == []
            await apart(partial(make.cluster, "web-5"))
            assert await client.until(4) == ["web-2", "web-3", "web-4", "web-5"]
            assert len(client.pushed) == 1
            assert first[0].startswith(b'{"type":"ADDED","object":{')

    asyncio.run(follow())


@pytest.mark.contract("W12")
def test_a_stream_whose_server_stops_says_what_is_there_and_where_it_was() -> None:
    async def follow() -> None:
        seen = await here()
        async with connected(replace(seen, options=replace(seen.options, bookmarks=True))) as client:
            await apart(partial(make.cluster, "web-1"))
            assert await client.until(1) == ["web-1"]
            client.reads = False
            await apart(partial(make.cluster, "web-2"))
            # What the stream has not heard of comes elsewhere, after the bookmark.
            await when(lambda: len(client.sent) == 1)
            client.stream.end()
            client.can_go_on.set()
            await when(lambda: client.has_ended)
            last = json.loads(client.sent[-1])
            assert await client.until(2) == ["web-2", "", "web-1"]
            assert (last["type"], client.stream.position) == (
                "BOOKMARK",
                int(last["object"]["metadata"]["resourceVersion"]),
            )
        async with connected(await here()) as client:
            client.stream.end()
            await when(lambda: client.has_ended)
            assert client.sent == []  # it wants no bookmarks

    asyncio.run(follow())


def test_who_watches_is_known_as_long_as_the_stream_runs() -> None:
    now = clock.now()

    async def follow() -> None:
        docs: list[dict[str, Any]] = []
        await apart(partial(make.cluster, "web-1"))
        await apart(lambda: docs.append(make.stored("web-1").doc))
        seen = await here()

        def watched() -> list[Watcher]:
            return open_watches.watchers_of(MANAGED_CLUSTER, docs)

        first, again = (Watcher("argo", "argocd/v3", now + timedelta(seconds=number)) for number in (0, 1))
        async with connected(seen, watcher=again), connected(await here(fields="metadata.name=web-2"), watcher=first):
            assert watched() == [again]  # the other one sees another cluster
            async with connected(seen, watcher=first), connected(seen):
                assert watched() == [first]
                assert open_watches.watchers_of(PLACEMENT_DECISION, docs) == []
        await when(lambda: not watched())

    asyncio.run(follow())


def test_one_that_does_not_read_for_long_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "QUEUE_LENGTH", 2)

    async def follow() -> None:
        seen = await here()
        async with connected(seen) as slow, connected(seen) as quick:
            slow.reads = False
            names = [f"web-{number}" for number in range(6)]
            for number, name in enumerate(names, start=1):
                await apart(partial(make.cluster, name))
                assert await quick.until(number) == names[:number]
            await when(lambda: len(follower.follower()._listeners[slow.stream.topic]) == 1)
            slow.can_go_on.set()
            await when(lambda: slow.has_ended)
            assert slow.pushed == []
            assert await slow.until(1) == names[:1]

    asyncio.run(follow())


@pytest.mark.contract("W12", "W139")
@pytest.mark.parametrize("more", [{}, {"labels": "env=prod"}, {"fields": "metadata.name=web-1"}, {"shape": "Table"}])
def test_what_is_pushed_is_what_memory_and_log_replay(more: dict[str, str]) -> None:
    async def follow() -> None:
        await apart(partial(make.cluster, "web-0"))
        start = await follower.in_thread(change_log.newest_revision)
        async with connected(await here(start, **more)) as client:
            await apart(partial(make.cluster, "web-1"))
            await apart(partial(make.label, "web-1", env="prod"))
            await apart(partial(make.label, "web-1", env="test"))
            await apart(partial(make.label, "web-1", env="prod"))
            await apart(partial(make.cluster, "web-1-end", labels={"env": "prod"}))
            count = {"labels": 4, "fields": 4}.get(next(iter(more), ""), 5)
            await client.until(count)
            async with connected(await here(start, **more)) as again:
                await again.until(count)
            follower.follower()._recent.end(MANAGED_CLUSTER.resource)
            assert follower.follower().recent(client.stream.topic, start) is None
            async with connected(await here(start, **more)) as third:
                await third.until(count)
            assert [client.sent, again.pushed, third.pushed] == [[], [], []]
            assert untimed(client.pushed) == untimed(again.sent) == untimed(third.sent)

    asyncio.run(follow())


def untimed(lines: list[bytes]) -> list[object]:
    """Ages in tables move on."""
    events = [json.loads(line) for line in lines]
    for event in events:
        for row in event["object"].get("rows") or ():
            row["cells"] = row["cells"][:1]
    return events


def test_before_an_event_that_follows_an_end_of_rights_is_sent_the_stream_is_asked() -> None:
    asked: list[int] = []

    async def follow() -> None:
        seen = await here()
        counts = await follower.in_thread(change_log.rights_counts)
        async with connected(seen, judged=counts.ended_rights) as client:

            async def refused() -> bool:
                asked.append(1)
                return False

            client.stream.may_go_on = refused
            await apart(partial(make.cluster, "web-1"))
            await client.until(1)
            assert (len(client.pushed), asked) == (1, [])
            follower.follower().ended_rights += 1
            await apart(partial(make.cluster, "web-2"))
            await when(lambda: asked)
            assert (len(client.pushed), client.sent) == (1, [])

    asyncio.run(follow())
