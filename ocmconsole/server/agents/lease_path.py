"""The lease path: an agent's GET and PUT of its lease, answered on the event loop and in batches.

A heartbeat needs no request thread, no view and no transaction of its own. ``recognise`` takes a request only if it is
exactly what an agent sends: no query, no header but the few that agents and proxies set, a small body that has come
whole. What was waiting is given to ``Leases``, which reads or writes it by one query or transaction on a thread of its
own: the event loop never waits for the database. Nobody is answered before the commit.

Invariants: whatever is not recognised, not of an agent whose certificate the hub has registered, or not done by the
batch (a conflict, a right that ended, an error of the database) is answered by the ordinary path as if this one did not
exist, limits counted once. Answers are the same to the byte. Called by ``direct_answers`` and ``agent_exchange``.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from django.conf import settings

from ocmconsole.kubeapi import errors, spans
from ocmconsole.kubeapi.formats import negotiation
from ocmconsole.kubeapi.health import metrics, outages
from ocmconsole.server import proxy

if TYPE_CHECKING:
    from uvicorn._types import HTTPScope

    from ocmconsole.kubeapi.access.authorization import Attributes
    from ocmconsole.kubeapi.watch.change_log import Standing

log = logging.getLogger(__name__)

PATH = re.compile(
    rb"/apis/coordination\.k8s\.io/v1/namespaces/([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)/leases/managed-cluster-lease"
)
# By name, whatever their values: those that are looked at below, and those that change no answer.
HEADERS = frozenset(
    {b"host", b"user-agent", b"accept", b"accept-encoding", b"connection", b"traceparent", b"tracestate"}
)
BODY_HEADERS = HEADERS | {b"content-type", b"content-length"}
PROXY_HEADERS = {
    f"{name.removeprefix('HTTP_').replace('_', '-').lower()}".encode(): name
    for name in (proxy.CERTIFICATE, proxy.ADDRESS, proxy.SCHEME, proxy.SECRET)
}
PEOPLE = tuple(agent.encode() for agent in negotiation.PEOPLE)
MEDIA_TYPES = frozenset({b"application/json", b"application/vnd.kubernetes.protobuf"})
LARGEST_BODY = 16 * 1024  # bytes; an agent's has 1 KiB
LARGEST_ANSWER = 64 * 1024  # bytes; the ordinary path compresses large ones
LONGEST_PROGRAM = 256  # characters of a user agent, as the audit keeps
LONGEST_MANAGER = 128  # characters, as ``request_info`` cuts a user agent
MOST_WAITING = 4_096  # requests that wait for a batch; with the largest bodies 64 MiB
LARGEST_BATCH = 1_000  # of one statement; SQLite takes 32,766 values
# Watches are opened, while more heartbeats than so many wait, so many in so many seconds: a watch that is late costs
# nothing, a heartbeat that is late the cluster.
MANY_WAITING, YIELDED_BATCH, YIELDED_SECONDS = 64, 25, 0.1
# Seconds between the beginnings of two batches: at least, and at most while fewer than ``ENOUGH`` wait. What comes
# meanwhile shares the costs of the next. Of 32 renewals in a batch each takes two thirds of what it takes of 16, and
# more gain nothing.
READ_PAUSES, WRITE_PAUSES, WATCH_PAUSES = (0.010, 0.025), (0.020, 0.050), (0.025, 0.050)
ENOUGH = 32  # requests that wait
# That a request of this path is charged for, as measured: 0.3 to 0.4 ms a PUT; with a certificate that is new, besides
# its handshake, for the chain too (D23).
CPU_SECONDS, NEW_CPU_SECONDS = 0.0004, 0.0008
_answered = metrics.histogram(
    "ocmconsole_lease_batch",
    "Requests for leases that one query, or one transaction, has answered.",
    ("thread",),
    (0, 1, 3, 10, 30, 100, 300, 1_000),
)
THREADS = "lease-"  # how the names of the three threads begin


class AgentRequest(NamedTuple):
    """A request that is exactly an agent's. ``certificate`` is DER, proven by TLS or passed on by a trusted proxy.

    ``program``: what the client says of itself.
    """

    namespace: str
    certificate: bytes
    address: str
    is_write: bool
    media: bytes
    program: str


class Renewing(NamedTuple):
    """A PUT in a batch."""

    agent: Any
    namespace: str
    body: bytes
    media: bytes
    manager: str


class Leases(Protocol):
    """What knows leases and agents. ``read``, ``watch`` and ``renew`` run on a thread each and use the database.

    They return answers in the order of the requests, None where the ordinary path must answer.
    """

    def find(self, digest: bytes, certificate: bytes) -> Any:
        """Who shows this certificate, for the three below, which set its ``actor`` where that is not known."""
        ...

    def known(self, digest: bytes) -> Any:
        """As ``find``, of one who was kept; None of another. Its ``certificate`` is what it shows."""
        ...

    def keep(self, digest: bytes, agent: Any) -> None:
        """One who got an answer."""
        ...

    def forget(self, digest: bytes) -> None:
        """Whose credential was refused."""
        ...

    def read(self, asked: Sequence[tuple[Any, str]]) -> list[bytes | None]: ...

    def watch(self, asked: Sequence[tuple[Any, Attributes]]) -> list[Standing | None]: ...

    def renew(self, asked: Sequence[Renewing]) -> list[bytes | None]: ...


def recognise(scope: HTTPScope) -> AgentRequest | None:
    """The request, if its head is exactly an agent's with a certificate."""
    method = scope["method"]
    if (method != "GET" and method != "PUT") or scope["query_string"] or scope["http_version"] != "1.1":  # noqa: PLR1714 - faster
        return None
    given = list(scope["headers"])
    found, headers, is_write = PATH.fullmatch(scope["raw_path"]), dict(given), method == "PUT"
    if found is None or len(headers) != len(given):
        return None
    others = headers.keys() - (BODY_HEADERS if is_write else HEADERS)
    if (others and not others <= PROXY_HEADERS.keys()) or not _is_agents(headers, is_write=is_write):
        return None
    program = headers.get(b"user-agent", b"").decode("latin-1")[:LONGEST_PROGRAM]
    client = _client(scope, {PROXY_HEADERS[name]: headers[name].decode("latin-1") for name in others})
    if not client.certificate:
        return None
    media = headers.get(b"content-type", b"")
    return AgentRequest(found[1].decode(), client.certificate, client.address, is_write, media, program)


def certificate_of(scope: HTTPScope, headers: dict[bytes, bytes]) -> proxy.Client | None:
    """Who sends a GET with a certificate and with no header but those that agents and trusted proxies set."""
    others = headers.keys() - HEADERS
    if (others and not others <= PROXY_HEADERS.keys()) or not _is_agents(headers, is_write=False):
        return None
    client = _client(scope, {PROXY_HEADERS[name]: headers[name].decode("latin-1") for name in others})
    return client if client.certificate else None


def _is_agents(headers: dict[bytes, bytes], *, is_write: bool) -> bool:
    """Whether their values ask for nothing but an object in JSON, for one that is sent in a form that agents use."""
    if headers.get(b"connection", b"keep-alive").lower() != b"keep-alive" or not _is_plain(headers.get(b"accept", b"")):
        return False
    if is_write:
        return headers.get(b"content-type") in MEDIA_TYPES and _is_small(headers.get(b"content-length", b""))
    return not headers.get(b"user-agent", b"").startswith(PEOPLE)


def _client(scope: HTTPScope, headers: dict[str, str]) -> proxy.Client:
    extensions: dict[str, Any] = scope.get("extensions") or {}
    address = (scope.get("client") or ("", 0))[0]
    certificate, is_local = (extensions.get(f"ocmconsole.{name}") for name in ("peer_certificate", "is_local"))
    seen = proxy.Client(address, certificate, scope["scheme"], bool(is_local))
    return settings.OCMCONSOLE_TRUSTED_PROXIES.client(seen, headers) if headers or is_local else seen


def _is_small(length: bytes) -> bool:
    return length.isdigit() and len(length) <= 5 and 0 < int(length) <= LARGEST_BODY  # noqa: PLR2004 - digits


@lru_cache(maxsize=256)
def _is_plain(accept: bytes) -> bool:
    """Whether it asks for an object in JSON, and for no other form of it."""
    try:
        form = negotiation.negotiate(accept.decode("latin-1"), want=("Table", "PartialObjectMetadata"))
    except errors.ApiError:
        return False
    return form.media == "json" and not form.shape


# ---------------------------------------------------------------- batches


Item = TypeVar("Item")
Answer = TypeVar("Answer")


# What an item's answer is given to on the event loop; it raises nothing.
Done = Callable[[Answer | None], object]


class _Batches(Generic[Item, Answer]):
    """Of one act on one thread; lives on the event loop. ``pauses``: between the beginnings of two, least and most."""

    def __init__(
        self,
        name: str,
        act: Callable[[Sequence[Item]], list[Answer | None]],
        pauses: tuple[float, float],
        yields_to: Sequence[_Batches[Any, Any]] = (),
    ) -> None:
        """While many wait for one of ``yields_to``, batches of this one are small and rare."""
        self.name, self.act, self.pauses, self.yields_to = name, act, pauses, yields_to
        self.answered = _answered.labels(name)
        self.pool = ThreadPoolExecutor(1, thread_name_prefix=f"{THREADS}{name}")
        self.waiting: list[tuple[Item, Done[Answer]]] = []
        self.timer: asyncio.TimerHandle | None = None  # of the next batch
        self.is_asking = False  # one is under way
        self.began = 0.0

    def is_full(self) -> bool:
        return len(self.waiting) >= MOST_WAITING

    def add(self, item: Item, done: Done[Answer]) -> None:
        self.waiting.append((item, done))
        if not self.is_asking and (self.timer is None or len(self.waiting) == ENOUGH):
            self._set_timer()

    def _set_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        least, most = self.pauses
        pause = YIELDED_SECONDS if self._yields() else least if len(self.waiting) >= ENOUGH else most
        self.timer = asyncio.get_running_loop().call_at(self.began + pause, self._begin)

    async def ask(self, item: Item) -> Answer | None:
        return await _awaited(partial(self.add, item))

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self.timer, self.is_asking, self.began = None, True, loop.time()
        largest = YIELDED_BATCH if self._yields() else LARGEST_BATCH
        batch, self.waiting = self.waiting[:largest], self.waiting[largest:]
        try:
            done = loop.run_in_executor(self.pool, self._act, [item for item, _ in batch])
        except RuntimeError:  # the server stops
            self._finish(batch, [None] * len(batch))
            return
        done.add_done_callback(lambda done: self._end(batch, done))

    def _act(self, items: Sequence[Item]) -> list[Answer | None]:
        with spans.root(f"leases {self.name}", {"ocmconsole.requests": len(items)}, often=True):
            return self.act(items)

    def _end(self, batch: list[tuple[Item, Done[Answer]]], done: asyncio.Future[list[Answer | None]]) -> None:
        if done.cancelled() or (error := done.exception()) is not None:
            answers: list[Answer | None] = [None] * len(batch)
            if not done.cancelled():
                log.warning("a batch of %d requests goes the ordinary way: %s", len(batch), error)
        else:
            answers = done.result()
            self.answered.observe(len(answers) - answers.count(None))
        self._finish(batch, answers)

    def _finish(self, batch: list[tuple[Item, Done[Answer]]], answers: list[Answer | None]) -> None:
        for (_, done), answer in zip(batch, answers, strict=True):
            done(answer)
        self.is_asking = False
        if self.waiting:
            self._set_timer()

    def _yields(self) -> bool:
        return any(len(batches.waiting) > MANY_WAITING for batches in self.yields_to)


async def _awaited(begin: Callable[[Callable[[Answer | None], object]], object]) -> Answer | None:
    """What is given to the function that ``begin`` gets; one who has stopped waiting gets nothing."""
    answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
    begin(lambda found: None if answer.done() else answer.set_result(found))
    return await answer


def _small(answer: bytes | None) -> bytes | None:
    return answer if answer is not None and len(answer) <= LARGEST_ANSWER else None


class LeasePath:
    """For one listener."""

    def __init__(self, leases: Leases) -> None:
        self.leases = leases
        self._reads: _Batches[tuple[Any, str], bytes] = _Batches("reader", leases.read, READ_PAUSES)
        self._writes: _Batches[Renewing, bytes] = _Batches("writer", leases.renew, WRITE_PAUSES)
        self._watches: _Batches[tuple[Any, Attributes], Standing] = _Batches(
            "watcher", leases.watch, WATCH_PAUSES, (self._reads, self._writes)
        )

    def is_open(self, *, is_write: bool) -> bool:
        """Whether a recognised request can go this way now."""
        if outages.state.away:
            return False
        return (
            not (self._writes.is_full() or outages.state.locked or outages.state.only_reads)
            if is_write
            else not self._reads.is_full()
        )

    def begin(self, agent: Any, asked: AgentRequest, body: bytes, done: Callable[[bytes | None], object]) -> None:
        """``done`` gets the object, or None where the ordinary path must answer; ``agent`` is of ``Leases.find``."""
        if asked.is_write:
            manager = asked.program.split("/", 1)[0][:LONGEST_MANAGER] or "unknown"
            self._writes.add(Renewing(agent, asked.namespace, body, asked.media, manager), done)
        else:
            self._reads.add((agent, asked.namespace), lambda found: done(_small(found)))

    async def answer(self, agent: Any, asked: AgentRequest, body: bytes) -> bytes | None:
        """As ``begin``."""
        return await _awaited(partial(self.begin, agent, asked, body))

    def begin_watch(self, agent: Any, asked: Attributes, done: Callable[[Standing | None], object]) -> bool:
        """``done`` gets what ``standing`` returns; whether it will."""
        if outages.state.away or self._watches.is_full():
            return False
        self._watches.add((agent, asked), done)
        return True

    async def standing(self, agent: Any, asked: Attributes) -> Standing | None:
        """Where the log stands, if the agent may watch this now; None where the ordinary path must be asked."""
        if outages.state.away or self._watches.is_full():
            return None
        return await self._watches.ask((agent, asked))

    def end(self) -> None:
        for batches in (self._reads, self._watches, self._writes):
            batches.pool.shutdown(wait=False, cancel_futures=True)
