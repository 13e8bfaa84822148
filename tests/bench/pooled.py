"""Agents over connections that they share, as behind a proxy: each request passes on the certificate of its agent.

Raw HTTP/1.1 on asyncio, so that what the asking costs leaves the machine to the hub. A connection carries one request
or watch at a time. Also used with a certificate of its own on each connection.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlsplit

import uvloop

from tests.bench.callers import UnexpectedError
from tests.hub import Hub

SECRET = "bench-" + "0" * 32
# Settings of a hub that believes what this machine passes on.
AS_PROXY = {"TRUSTED_PROXY": "127.0.0.1", "PROXY_SECRET": SECRET}
AGENT = "registration/v1.0.0 (linux/amd64) kubernetes/$Format"
END_OF_HEAD, END_OF_CHUNKS = b"\r\n\r\n", b"0\r\n\r\n"
RENEW_TIME = b'"renewTime":"'
DIGITS = 27  # of a time such as 2026-01-31T12:00:00.000000Z
OPENERS = 32  # connections that are opened at one time
OK = 200
LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/managed-cluster-lease"

T = TypeVar("T")


class LostError(ConnectionError):
    """The hub closed a connection on which it owed an answer."""


class Connection(asyncio.Protocol):
    """``ask`` for one answer after the other, or ``watch``."""

    def __init__(self) -> None:
        self._seen = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._opened: asyncio.Future[int] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, url: str, tls: ssl.SSLContext) -> Self:
        address = urlsplit(url)
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(cls, str(address.hostname), address.port or 443, ssl=tls)
        return made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment] # of a stream

    def connection_lost(self, exc: Exception | None) -> None:
        for waiting in (self._answer, self._opened, self._ended):
            if waiting is not None and not waiting.done():
                waiting.set_exception(LostError(str(exc or "closed")))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def ask(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        self._answer = asyncio.get_running_loop().create_future()
        self._send(request)
        return self._answer

    def watch(self, request: bytes) -> tuple[asyncio.Future[int], asyncio.Future[None]]:
        """The status when the head has come, and the end of the stream. What is in it is forgotten."""
        loop = asyncio.get_running_loop()
        self._opened, self._ended = loop.create_future(), loop.create_future()
        self._send(request)
        return self._opened, self._ended

    def _send(self, request: bytes) -> None:
        self._seen.clear()
        if self._transport is None or self._transport.is_closing():
            self.connection_lost(None)
        else:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._seen += data
        if self._answer is not None:
            self._read_answer()
        elif self._opened is not None and self._ended is not None:
            self._read_stream(self._opened, self._ended)

    def _read_answer(self) -> None:
        found = _whole(self._seen)
        if found is not None and self._answer is not None:
            answer, self._answer = self._answer, None
            if not answer.done():
                answer.set_result(found)

    def _read_stream(self, opened: asyncio.Future[int], ended: asyncio.Future[None]) -> None:
        if not opened.done():
            if END_OF_HEAD not in self._seen:
                return
            status = int(self._seen[9:12])
            opened.set_result(status)
            if status != OK:  # an answer of known length
                self._opened = None
                ended.set_result(None)
                return
        if self._seen.endswith(END_OF_CHUNKS):
            self._opened = None
            if not ended.done():
                ended.set_result(None)
        else:
            del self._seen[: -len(END_OF_CHUNKS)]


def _whole(seen: bytearray) -> tuple[int, bytes] | None:
    """Status and body, once all of it has come."""
    begin = seen.find(END_OF_HEAD)
    if begin < 0:
        return None
    begin += len(END_OF_HEAD)
    head = bytes(seen[:begin]).lower()
    at = head.find(b"content-length:")
    if at < 0:
        return (int(head[9:12]), bytes(seen[begin:])) if seen.endswith(END_OF_CHUNKS) else None
    length = int(head[at + 15 : head.index(b"\r\n", at)])
    return (int(head[9:12]), bytes(seen[begin:])) if len(seen) - begin >= length else None


# ----------------------------------------------------------------------------------------------------------- requests


def head_lines(host: str, certificate: str = "") -> bytes:
    """What all requests of one agent have; ``certificate`` is PEM, to be passed on."""
    lines = [f"Host: {host}", f"User-Agent: {AGENT}", "Accept: application/json"]
    if certificate:
        leaf = "".join(certificate.partition("-----END CERTIFICATE-----")[:2]) + "\n"
        lines += [f"X-Client-Certificate: {quote(leaf, safe='')}", f"X-Proxy-Secret: {SECRET}"]
    return "".join(f"{line}\r\n" for line in lines).encode()


def request(method: str, path: str, lines: bytes, body: bytes = b"", media: str = "application/json") -> bytes:
    sent = f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\n".encode() + lines + sent.encode() + b"\r\n" + body


@dataclass(frozen=True, slots=True)
class Agent:
    """``lines`` are the head of its requests."""

    name: str
    lines: bytes

    async def renew(self, connection: Connection) -> bytes:
        """GET, then PUT with the time now; the lease as it is stored then."""
        path = LEASE.format(self.name)
        lease = expect(await connection.ask(request("GET", path, self.lines)), path)
        return expect(await connection.ask(request("PUT", path, self.lines, renewed(lease))), path)


def renewed(lease: bytes) -> bytes:
    begin = lease.index(RENEW_TIME) + len(RENEW_TIME)
    return lease[:begin] + micro_time() + lease[begin + DIGITS :]


def micro_time() -> bytes:
    seconds, nanos = divmod(time.time_ns(), 10**9)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanos // 1000:06}Z".encode()


def expect(answer: tuple[int, bytes], path: str) -> bytes:
    status, body = answer
    if status != OK:
        raise UnexpectedError(f"{path}: {status} {body[:300]!r}")
    return body


# ----------------------------------------------------------------------------------------------------------- the pool


@dataclass
class Pool:
    """Connections to one hub; a request that finds none free waits."""

    hub: Hub
    tls: ssl.SSLContext
    free: deque[Connection] = field(default_factory=deque)
    all: list[Connection] = field(default_factory=list)
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def grow(self, wanted: int) -> None:
        """To so many connections in all."""
        missing = wanted - len(self.all)
        made = await gathered(
            (lambda: Connection.open(self.hub.api_url, self.tls) for _ in range(missing)), at_once=OPENERS
        )
        self.all += made
        for each in made:
            self.give_back(each)

    async def take(self) -> Connection:
        await self.turns.acquire()
        return self.free.popleft()  # not the last one: the hub closes connections on which nothing is ever asked

    def give_back(self, connection: Connection) -> None:
        self.free.append(connection)
        self.turns.release()

    def close(self) -> None:
        for each in self.all:
            each.close()


@asynccontextmanager
async def pool_of(hub: Hub, connections: int) -> AsyncIterator[Pool]:
    pool = Pool(hub, hub.tls())
    try:
        await pool.grow(connections)
        yield pool
    finally:
        pool.close()


async def gathered(acts: Iterable[Callable[[], Awaitable[T]]], *, at_once: int) -> list[T]:
    """The results of all, some at a time."""
    waiting, found = iter(acts), list[T]()

    async def work() -> None:
        for act in waiting:
            found.append(await act())

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
    return found


def run(work: Coroutine[Any, Any, T]) -> T:
    return uvloop.run(work)
