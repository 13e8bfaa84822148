"""The one follower of change log and audit in each process, and its fan-out to watches and live pages.

In: commits of this process, handed over in memory; those of others, noticed by a wake-up by Redis or by asking for the
head of the log. Out: each change to its topics' watches and into the memory of recent changes, each audit entry in the
queues of the open pages.

Invariant: a listener that subscribed first and then replayed the log, or what is kept of it, misses nothing, and drops
what came twice by its number. Changes are passed on in the order of their revisions: a commit that was handed over is
taken only if it follows at once, else the log is read. A slow watch is cut, never waited for; its client comes back
from its last revision. Rights do not wait for the follower: the RBAC index reads the log itself
(docs/adr/0020-the-rbac-index-reads-the-log-itself.md).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db import close_old_connections

from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.watch import change_log, redis_client
from ocmconsole.kubeapi.watch.change_log import ChangeEntry, CommittedChanges, Head
from ocmconsole.kubeapi.watch.recent_changes import RecentChanges

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0  # between looks at the log where no wake-up came, in case one was lost
SOON_SECONDS = 0.5  # where no wake-up comes: without Redis from other processes, and for denials and sign-ins
NOTICE_SECONDS = 1.0  # between two reads of the audit, however much is written
MOST_PUSHED = 500  # streams that are written to at once, 5 to 10 ms; more wait for their turn beside other requests
QUEUE_LENGTH = 1_000  # batches that a watch may be behind
LINGER_SECONDS = 60.0  # for which changes are kept of a resource whose last watch has ended: agents come back at once
MOST_COMMITS = 1_000  # that wait to be passed on; of more the log is read
NOTICE_QUEUE_LENGTH = 100  # batches that a page may be behind: one a second


# ---------------------------------------------------------------- what is passed on


@dataclass(frozen=True, slots=True)
class Notice:
    """An audit entry, as far as a page needs it."""

    number: int
    user: str
    resource: str
    namespace: str
    name: str

    @property
    def plural(self) -> str:
        """``managedclusters`` of ``managedclusters/status.cluster.open-cluster-management.io``."""
        return self.resource.partition(".")[0].partition("/")[0]


def notices_after(number: int) -> list[Notice]:
    """The next audit entries, at most ``change_log.BATCH``."""
    rows = AuditEvent.objects.filter(pk__gt=number).order_by("pk")
    return [Notice(*row) for row in rows.values_list("pk", "user", "resource", "namespace", "name")[: change_log.BATCH]]


class Look(NamedTuple):
    """What one look at the database found."""

    head: Head
    entries: list[ChangeEntry]
    reached: int  # the revision up to which the log was read
    cuts: dict[str, int]  # by resource, what was cut unread
    notices: list[Notice]


def look(after: int, noticed: int | None, resources: Collection[str] | None = None) -> Look:
    """What follows a revision, of these resources or of all, and, unless None, an audit entry.

    One query where nothing follows. The head comes first: of all entries up to it, no change of rights before them
    goes unnoticed.
    """
    head = change_log.head()
    found: tuple[list[ChangeEntry], int, dict[str, int]] = ([], after, {})
    if head.revision > after:
        found = change_log.between(after, head.revision, resources)
    return Look(head, *found, notices_after(noticed) if noticed is not None and head.audit > noticed else [])


class Topic(NamedTuple):
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
    """One stream's bounded queue. None in the queue ends the stream.

    ``push`` is there while the stream waits for the queue: it takes changes at once, and returns how many it took. Its
    second argument is how often rights may have ended. ``wake`` is called when something was put into the queue, of a
    stream that has no task which waits for it.
    """

    topic: Topic
    push: Callable[[list[ChangeEntry], int], int] | None = None
    wake: Callable[[], None] | None = None
    queue: asyncio.Queue[list[ChangeEntry] | None] = field(default_factory=lambda: asyncio.Queue(QUEUE_LENGTH))

    def cut(self) -> None:
        while not self.queue.empty():
            self.queue.get_nowait()
        self.put(None)

    def put(self, batch: list[ChangeEntry] | None) -> None:
        self.queue.put_nowait(batch)
        if self.wake is not None:
            self.wake()


@dataclass(eq=False, slots=True)
class NoticeSubscriber:
    """One page's queue. What does not fit is dropped: a page asks for itself whole, whatever the number of notices."""

    position: int  # the last audit entry that it has taken
    queue: asyncio.Queue[list[Notice]] = field(default_factory=lambda: asyncio.Queue(NOTICE_QUEUE_LENGTH))

    async def next(self) -> list[Notice]:
        notices = await self.queue.get()
        self.position = notices[-1].number
        return notices


# ---------------------------------------------------------------- the follower


class Follower:
    """Of one event loop."""

    def __init__(self) -> None:
        self.revision = 0  # up to here every watch has in its queue what it hears of
        self.ended_rights = 0  # how often they may have ended when the last entries were read, or by them
        self._noticed = 0  # up to here every page has the audit in its queue
        self._looked = 0.0  # by the loop's clock: when the database was asked last
        self._next_notice = 0.0  # by the loop's clock: the audit is not read before
        self._listeners: dict[Topic, set[ChangeSubscriber]] = {}
        self._heard: Counter[str] = Counter()  # topics that somebody listens to, by resource; nothing else is read
        self._left: dict[str, float] = {}  # by the loop's clock: when the last watch of a resource has ended
        self._recent = RecentChanges()  # of what is heard
        self._committed: list[CommittedChanges] = []
        self._must_look = False  # commits came that were not handed over, or may have come
        self._pages: set[NoticeSubscriber] = set()
        self._cuts: dict[str, int] = {}
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.create_future()
        self._task = self._loop.create_task(self._run())

    @asynccontextmanager
    async def subscribe(self, topic: Topic) -> AsyncIterator[ChangeSubscriber]:
        """A queue that gets every change of the topic that is committed after this returns."""
        await self._until_started()
        listener = self.listen(topic)
        try:
            yield listener
        finally:
            self.forget(listener)

    @property
    def is_started(self) -> bool:
        return self._started.done()

    def listen(self, topic: Topic) -> ChangeSubscriber:
        """As ``subscribe``, of a follower that has started, until ``forget``."""
        listener = ChangeSubscriber(topic)
        if topic not in self._listeners:
            self._listeners[topic] = set()
            self._heard[topic.resource] += 1
            self._left.pop(topic.resource, None)
            self._recent.begin(topic.resource, self.revision)
        self._listeners[topic].add(listener)
        return listener

    @asynccontextmanager
    async def notices(self) -> AsyncIterator[NoticeSubscriber]:
        """A queue that gets every audit entry that is committed after this returns, and maybe some from just before."""
        await self._until_started()
        if not self._pages:  # the audit was not looked at for a while
            with suppress(DatabaseFailure):
                head = await in_thread(change_log.head)
                self._noticed = head.audit if not self._pages else self._noticed
        page = NoticeSubscriber(self._noticed)
        self._pages.add(page)
        self._look_soon()  # the pause is shorter with a page
        try:
            yield page
        finally:
            self._pages.discard(page)

    def recent(self, topic: Topic, revision: int) -> list[ChangeEntry] | None:
        """What the topic had after a revision, for a listener that has subscribed; the queue has what comes after it.

        None where not all of it is kept. It may be more than the log has, which may have been cut.
        """
        return self._recent.after(topic, revision)

    async def _until_started(self) -> None:
        if not self._started.done():
            await asyncio.shield(self._started)

    def forget(self, listener: ChangeSubscriber) -> None:
        listeners = self._listeners.get(listener.topic, set())
        listeners.discard(listener)
        if not listeners and self._listeners.pop(listener.topic, None) is not None:
            self._heard[listener.topic.resource] -= 1
            if not self._heard[listener.topic.resource]:
                self._left[listener.topic.resource] = self._loop.time()

    def _drop_what_nobody_hears(self) -> None:
        before = self._loop.time() - LINGER_SECONDS
        for resource in [resource for resource, left in self._left.items() if left < before]:
            del self._left[resource], self._heard[resource]
            self._recent.end(resource)

    async def _run(self) -> None:
        self.revision, self.ended_rights, self._noticed = await self._first()
        await self._expect_watches()
        self._started.set_result(None)
        change_log.wakers.add(self._wake)
        remote = self._loop.create_task(self._follow_redis()) if settings.OCMCONSOLE_REDIS_URL else None
        try:
            while True:
                await self._catch_up()
                try:  # not wait_for, which in Python 3.11 may swallow that the task is cancelled
                    async with asyncio.timeout_at(self._next_look()):
                        await self._woken.wait()
                except TimeoutError:
                    self._must_look = True
                self._woken.clear()
        finally:
            change_log.wakers.discard(self._wake)
            if remote is not None:
                remote.cancel()

    async def _expect_watches(self) -> None:
        """Keep what changes from the start on: agents whose watches another process has ended come at once.

        Where a resource has not changed since its newest entry, there is nothing that they would have to read.
        """
        with suppress(DatabaseFailure):
            for resource, newest in (await in_thread(change_log.newest_of_each)).items():
                self._heard[resource] += 0
                self._left[resource] = self._loop.time()
                self._recent.begin(resource, min(newest, self.revision))

    async def _first(self) -> Head:
        """Where log and audit end now; waits for a database that is away."""
        while True:
            try:
                return await in_thread(change_log.head)
            except DatabaseFailure:
                log.exception("the follower could not read the log; trying again")
                await asyncio.sleep(POLL_SECONDS)

    def _next_look(self) -> float:
        """By the loop's clock: when the database is looked at, whatever wakes until then."""
        poll = SOON_SECONDS if self._pages or _is_deaf() else POLL_SECONDS
        now = self._loop.time()
        return min(self._looked + poll, self._next_notice) if self._next_notice > now else self._looked + poll

    async def _catch_up(self) -> None:
        """Pass on what was committed; the database is asked only where that may not be all."""
        self._drop_what_nobody_hears()
        is_due = self._loop.time() >= (self._next_notice if self._pages and self._committed else self._next_look())
        self._must_look |= is_due
        self._pass_on_commits()
        try:
            while self._must_look:
                self._must_look = False
                await self._look()
                self._pass_on_commits()
        except DatabaseFailure:
            log.exception("the follower could not read the log; trying again")

    def _pass_on_commits(self) -> None:
        """Of this process, in the order of their revisions, as long as none is missing between two."""
        commits, self._committed = sorted(self._committed, key=lambda commit: commit.first), []
        for commit in commits:
            if commit.last <= self.revision:
                continue
            if commit.first != self.revision + 1:
                self._must_look = True  # another process was in between, or a thread has not come to announce its own
                return
            self.ended_rights = max(self.ended_rights, commit.ended_rights)
            is_heard = not commit.resources.isdisjoint(self._heard)
            entries = [each for each in commit.entries() if each.resource in self._heard] if is_heard else []
            self._publish(commit.last, entries)

    async def _look(self) -> None:
        self._looked = self._loop.time()
        while True:
            may_notice = self._pages and self._loop.time() >= self._next_notice
            asked = frozenset(self._heard)
            found = await in_thread(look, self.revision, self._noticed if may_notice else None, asked)
            if not asked.issuperset(self._heard):
                continue  # a stream that was opened meanwhile may be due what this look has left out
            self._cut_off(found.cuts)
            self.ended_rights = max(self.ended_rights, found.head.ended_rights)
            if found.reached > self.revision:
                self._publish(found.reached, found.entries)
            if found.notices:
                self._notify(found.notices)
            elif not self._pages:  # nor when a page came meanwhile: it is due what it has not been read
                self._noticed = found.head.audit
            if self.revision >= found.head.revision:
                return

    def _cut_off(self, cuts: dict[str, int]) -> None:
        """End the streams that would miss what was compacted unread, as after a pause of the machine (W12)."""
        new = {resource for resource, revision in cuts.items() if revision > self._cuts.get(resource, 0)}
        self._cuts |= cuts
        for resource in new:
            self._recent.begin_again(resource, cuts[resource])
        for listeners in [set(each) for topic, each in self._listeners.items() if topic.resource in new]:
            for listener in listeners:
                self._cut(listener)

    def _publish(self, reached: int, entries: Iterable[ChangeEntry]) -> None:
        self.revision = reached
        self._recent.add(entries)
        batches: dict[Topic, list[ChangeEntry]] = defaultdict(list)
        for entry in entries:
            for topic in Topic.all_of(entry):
                if topic in self._listeners:
                    batches[topic].append(entry)
        left = MOST_PUSHED
        for topic, batch in batches.items():
            for listener in tuple(self._listeners.get(topic, ())):
                left -= 1
                self._hand(listener, batch, may_push=left >= 0)

    def _hand(self, listener: ChangeSubscriber, batch: list[ChangeEntry], *, may_push: bool) -> None:
        """Straight to a stream that waits, else into its queue; one whose queue is full is cut."""
        taken = 0
        if may_push and listener.push is not None and listener.queue.empty():
            try:
                taken = listener.push(batch, self.ended_rights)
            except Exception:
                log.exception("a watch of %s is cut, as its events cannot be made", listener.topic)
                self._cut(listener)
                return
        if taken == len(batch):
            return
        if listener.queue.full():
            self._cut(listener)
        else:
            listener.put(batch[taken:] if taken else batch)

    def _cut(self, listener: ChangeSubscriber) -> None:
        self.forget(listener)
        listener.cut()

    def _notify(self, notices: list[Notice]) -> None:
        self._noticed = notices[-1].number
        self._next_notice = self._loop.time() + NOTICE_SECONDS
        for page in self._pages:
            if not page.queue.full():
                page.queue.put_nowait(notices)

    def _wake(self, commit: CommittedChanges | None) -> None:
        """Called on any thread, that of the loop included."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._take, commit)

    def _take(self, commit: CommittedChanges | None) -> None:
        if commit is None or len(self._committed) >= MOST_COMMITS:
            self._must_look = True
        else:
            self._committed.append(commit)
        self._woken.set()

    def _look_soon(self) -> None:
        self._must_look = True
        self._woken.set()

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
                    await channel.subscribe(change_log.CHANNEL)
                    async for message in channel.listen():
                        if message["data"] != change_log.own_mark():  # what is written here is handed over
                            self._look_soon()
            except RedisError:
                await asyncio.sleep(POLL_SECONDS)


def _is_deaf() -> bool:
    """Redis is there to announce other processes' commits, and is away: a poll must find them within a second."""
    return bool(settings.OCMCONSOLE_REDIS_URL) and redis_client.breaker.is_open


_followers: WeakKeyDictionary[asyncio.AbstractEventLoop, Follower] = WeakKeyDictionary()


def follower() -> Follower:
    """The follower of the running event loop, started at first use."""
    loop = asyncio.get_running_loop()
    if loop not in _followers:
        _followers[loop] = Follower()
    return _followers[loop]


Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
_threads = ThreadPoolExecutor(2, thread_name_prefix="log-reader")


async def in_thread(call: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
    """Run a database read beside the event loop, on the few threads of the log's readers."""
    return await on(_threads, call, *arguments, **named)


async def on(
    pool: Executor, call: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Result:
    """Run a database read beside the event loop, on threads that keep their connections."""

    def work() -> Result:
        close_old_connections()
        return call(*arguments, **named)

    return await asyncio.get_running_loop().run_in_executor(pool, work)
