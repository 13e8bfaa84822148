"""The change log's readers: the tail of each process, its fan-out to listeners, and compaction.

Invariant: a listener that subscribed first and then replayed the log misses nothing and can drop what it saw twice by
its revision. A slow listener is cut, never waited for; its client comes back from its last revision.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import orjson
from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db import close_old_connections, connection, transaction
from django.db.models import Max, Sum
from django.utils import timezone

from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.models import Change, Compaction, Revision
from ocmconsole.kubeapi.watch import redis_client
from ocmconsole.kubeapi.watch.notifier import Notifier

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

log = logging.getLogger(__name__)

CHANNEL = "ocmconsole:changes"
POLL_SECONDS = 1.0
BATCH = 1_000
QUEUE_LENGTH = 1_000
KEEP_CHANGES = 10_000
SPARE_PART = 8  # of the bound in bytes: how much more is cut than needed
STEP = 200  # changes removed in one transaction; the largest have 6 MiB


@dataclass(frozen=True)
class ChangeEntry:
    """A change as watchers share it: parsed at most once, rendered at most once for each form."""

    revision: int
    resource: str
    verb: str
    namespace: str
    name: str
    wire: str
    before: str

    @classmethod
    def of(cls, row: Change) -> ChangeEntry:
        return cls(row.revision, row.resource, row.verb, row.namespace, row.name, row.wire, row.before)

    @cached_property
    def doc(self) -> Doc:
        document: Doc = orjson.loads(self.wire)
        return document

    @cached_property
    def doc_before(self) -> Doc:
        """What selectors saw before: the old document where it differs in their eyes."""
        document: Doc = orjson.loads(self.before) if self.before else self.doc
        return document

    @cached_property
    def rendered(self) -> dict[object, bytes]:
        return {}


def since(resource: str, after: int) -> list[ChangeEntry]:
    """Replay the log of one resource from after a revision, at most ``BATCH`` entries."""
    rows = Change.objects.filter(resource=resource, revision__gt=after).order_by("revision")[:BATCH]
    return [ChangeEntry.of(row) for row in rows]


def deletions(resource: str, upto: int, seconds: float) -> list[ChangeEntry]:
    """What the log says to have been deleted lately, as of a revision."""
    found = Change.objects.filter(resource=resource, verb=Change.Verb.DELETED, revision__lte=upto)
    rows = found.filter(time__gt=timezone.now() - timedelta(seconds=seconds)).order_by("revision")[:BATCH]
    return [ChangeEntry.of(row) for row in rows]


def cut_before(resource: str, after: int) -> int | None:
    """The oldest revision a watch may start from, when ``after`` lies before it; else None."""
    cut = Compaction.objects.filter(resource=resource).values_list("revision", flat=True).first()
    return cut if cut is not None and after < cut else None


def newest_revision() -> int:
    """The newest committed revision."""
    return Revision.objects.values_list("value", flat=True).filter(pk=1).first() or 1


def rights() -> int:
    """How often rights or credentials have changed (``Revision.rights``).

    Read for each request, so without a queryset: one row by its key.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT rights FROM kubeapi_revision WHERE id = 1")
        row = cursor.fetchone()
    return int(row[0]) if row else 0


# ---------------------------------------------------------------- waking


_wakers: set[Callable[[set[str]], None]] = set()


def wake(resources: set[str]) -> None:
    """Tell the readers of the log that it grew. Never fails a write that is committed already."""
    for waker in tuple(_wakers):
        waker(resources)
    if settings.OCMCONSOLE_REDIS_URL:
        _others.request()


_others = Notifier("wake", lambda: redis_client.publish(CHANNEL))


# ---------------------------------------------------------------- fan-out


@dataclass(frozen=True, slots=True)
class Topic:
    """What a listener hears of: a resource, only in one namespace if one is given, only of one name if one is given.

    Thousands of agents watch one object each, and a change of another object must not wake them.
    """

    resource: str
    namespace: str = ""
    name: str = ""

    def covers(self, entry: ChangeEntry) -> bool:
        """Of an entry of the resource."""
        return self.namespace in {"", entry.namespace} and self.name in {"", entry.name}

    @classmethod
    def all_of(cls, entry: ChangeEntry) -> Iterator[Topic]:
        for namespace in {"", entry.namespace}:
            for name in ("", entry.name):
                yield cls(entry.resource, namespace, name)


@dataclass(eq=False, slots=True)
class ChangeSubscriber:
    """One stream's bounded queue. None in the queue ends the stream."""

    topic: Topic
    queue: asyncio.Queue[list[ChangeEntry] | None] = field(default_factory=lambda: asyncio.Queue(QUEUE_LENGTH))

    def cut(self) -> None:
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put_nowait(None)


class Tail:
    """Follows the log for one event loop and passes each change to the listeners of its topics."""

    def __init__(self) -> None:
        self.revision = 0  # up to here every listener has in its queue what it hears of
        self.rights = 0  # how often rights had changed when the last entries were read, those before them included
        self._listeners: dict[Topic, set[ChangeSubscriber]] = {}
        self._cuts: dict[str, int] = {}
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.create_future()
        self._task = self._loop.create_task(self._run())

    @asynccontextmanager
    async def subscribe(self, topic: Topic) -> AsyncIterator[ChangeSubscriber]:
        """A queue that gets every change of the topic that is committed after this returns."""
        await asyncio.shield(self._started)
        listener = ChangeSubscriber(topic)
        self._listeners.setdefault(topic, set()).add(listener)
        try:
            yield listener
        finally:
            self._forget(listener)

    def _forget(self, listener: ChangeSubscriber) -> None:
        listeners = self._listeners.get(listener.topic, set())
        listeners.discard(listener)
        if not listeners:
            self._listeners.pop(listener.topic, None)

    async def stop(self) -> None:
        """End every stream and the tail itself."""
        self._task.cancel()
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.cut()

    async def _run(self) -> None:
        self.revision = await self._first()
        self._started.set_result(None)
        _wakers.add(self._wake)
        remote = self._loop.create_task(self._follow_redis()) if settings.OCMCONSOLE_REDIS_URL else None
        try:
            while True:
                await self._catch_up()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), POLL_SECONDS / 2 if _is_deaf() else POLL_SECONDS)
                self._woken.clear()
        finally:
            _wakers.discard(self._wake)
            if remote is not None:
                remote.cancel()

    async def _first(self) -> int:
        """Where the log ends now; waits for a database that is away."""
        while True:
            try:
                return await in_thread(newest_revision)
            except DatabaseFailure:
                log.exception("the tail could not read the log; trying again")
                await asyncio.sleep(POLL_SECONDS)

    async def _catch_up(self) -> None:
        try:
            while True:
                entries, cuts, changed = await in_thread(_after, self.revision)
                self._notice(cuts)
                if not entries:
                    return
                self.rights = changed
                self._publish(entries)
        except DatabaseFailure:
            log.exception("the tail could not read the log; trying again")

    def _notice(self, cuts: dict[str, int]) -> None:
        """End the streams that would miss what was compacted unread, as after a pause of the machine (W12)."""
        new = {resource for resource, revision in cuts.items() if revision > self._cuts.get(resource, 0)}
        self._cuts |= cuts
        for listeners in [set(each) for topic, each in self._listeners.items() if topic.resource in new]:
            for listener in listeners:
                self._cut(listener)

    def _publish(self, entries: list[ChangeEntry]) -> None:
        self.revision = entries[-1].revision
        batches: dict[Topic, list[ChangeEntry]] = defaultdict(list)
        for entry in entries:
            for topic in Topic.all_of(entry):
                if topic in self._listeners:
                    batches[topic].append(entry)
        for topic, batch in batches.items():
            for listener in tuple(self._listeners[topic]):
                if listener.queue.full():
                    self._cut(listener)
                else:
                    listener.queue.put_nowait(batch)

    def _cut(self, listener: ChangeSubscriber) -> None:
        self._forget(listener)
        listener.cut()

    def _wake(self, resources: set[str]) -> None:  # noqa: ARG002 - every reader follows the whole log
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    async def _follow_redis(self) -> None:
        """Other processes' commits; when Redis is away the poll is the floor."""
        from redis import RedisError  # noqa: PLC0415 - see ``redis_client``
        from redis.asyncio import Redis  # noqa: PLC0415

        client = Redis.from_url(
            settings.OCMCONSOLE_REDIS_URL, socket_connect_timeout=redis_client.SECONDS, socket_keepalive=True
        )
        while True:
            try:
                async with client.pubsub() as channel:
                    await channel.subscribe(CHANNEL)
                    async for _ in channel.listen():
                        self._woken.set()
            except RedisError:
                await asyncio.sleep(POLL_SECONDS)


def _is_deaf() -> bool:
    """Redis is there to announce other processes' commits, and is away: a poll must find them within a second."""
    return bool(settings.OCMCONSOLE_REDIS_URL) and redis_client.breaker.is_open


_tails: WeakKeyDictionary[asyncio.AbstractEventLoop, Tail] = WeakKeyDictionary()


def tail() -> Tail:
    """The tail of the running event loop, started at first use."""
    loop = asyncio.get_running_loop()
    if loop not in _tails:
        _tails[loop] = Tail()
    return _tails[loop]


async def stop_tail() -> None:
    if found := _tails.pop(asyncio.get_running_loop(), None):
        await found.stop()


def _after(revision: int) -> tuple[list[ChangeEntry], dict[str, int], int]:
    """What follows in the log, what was cut beyond the revision, and how often rights have changed.

    In this order, so that no cut and no change of rights before an entry goes unnoticed.
    """
    entries = [ChangeEntry.of(row) for row in Change.objects.filter(revision__gt=revision).order_by("revision")[:BATCH]]
    cuts = dict(Compaction.objects.filter(revision__gt=revision).values_list("resource", "revision"))
    return entries, cuts, rights() if entries else 0


Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
_threads = ThreadPoolExecutor(2, thread_name_prefix="log-reader")


async def in_thread(call: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
    """Run a database read beside the event loop, on a few threads that keep their connections."""

    def work() -> Result:
        close_old_connections()
        return call(*arguments, **named)

    return await asyncio.get_running_loop().run_in_executor(_threads, work)


# ---------------------------------------------------------------- compaction


def compact_log(now: datetime | None = None, *, keep: int = KEEP_CHANGES, age: timedelta | None = None) -> int:
    """Cut what every reader had time to see; returns the number of changes removed.

    Each resource keeps its newest ``keep`` and those younger than ``age``, else than its kind's retention (leases
    2 minutes, others 10).
    """
    now = now or timezone.now()
    removed = 0
    for kind in kinds.all_kinds():
        since = now - (age or timedelta(seconds=kind.retention_seconds))
        old = Change.objects.filter(resource=kind.resource, time__lt=since)
        spared = Change.objects.filter(resource=kind.resource).order_by("-revision").values_list("revision", flat=True)
        floor = spared[keep : keep + 1].first()
        newest = old.aggregate(newest=Max("revision"))["newest"]
        if floor is None or newest is None:
            continue
        cut = min(floor, newest)
        removed += _cut(kind.resource, cut)
    return removed


def bound_log(most: int | None = None) -> int:
    """Cut the log to ``most`` bytes of documents, else to its setting (D23); returns the number of changes removed.

    The resource that takes the most room is cut first, so that a flood of one kind costs the watchers of another
    nothing; and by an eighth of the bound more than needed, so that it is not cut at each run. Watches from before get
    410 and list again, however young the changes were.
    """
    most = settings.OCMCONSOLE_LIMIT_CHANGE_LOG if most is None else most
    by_resource = Change.objects.order_by().values_list("resource").annotate(bytes=Sum("size"))
    sizes = {resource: size or 0 for resource, size in by_resource}
    removed, excess = 0, sum(sizes.values()) - most
    for resource, size in sorted(sizes.items(), key=lambda item: -item[1]):
        if not most or excess <= 0:
            break
        goal, freed, cut = min(size, excess + most // SPARE_PART), 0, 0
        rows = Change.objects.filter(resource=resource).order_by("revision").values_list("revision", "size")
        for revision, length in rows.iterator():
            if freed >= goal:
                break
            freed, cut = freed + length, revision
        removed += _cut(resource, cut)
        excess -= freed
    if removed:
        log.warning("the change log was larger than %d bytes: %d changes cut", most, removed)
    return removed


def _cut(resource: str, upto: int) -> int:
    """Remove the changes of a resource up to a revision, in steps, so that writers get in between."""
    removed = 0
    with transaction.atomic():
        Compaction.objects.update_or_create(resource=resource, defaults={"revision": upto})
    found = Change.objects.filter(resource=resource, revision__lte=upto).order_by("revision")
    while batch := list(found.values_list("revision", flat=True)[:STEP]):
        removed += Change.objects.filter(resource=resource, revision__lte=batch[-1]).delete()[0]
    return removed
