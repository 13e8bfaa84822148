"""The request thread pool: Django, which is synchronous, on a fixed number of threads in an asynchronous server.

Invariants: at most ``threads`` requests are in Django at once, each on a thread that keeps its database connection;
writes never hold all of them; the health paths need none; a body is read as ``intake`` says, after the head has been
judged; a stream (``AsyncStreamResponse``) costs no thread; the listener and the peer's certificate come from the
connection, or from a proxy that is trusted (``proxy``). Mounted by ocmconsole.asgi.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl
from weakref import WeakSet

import orjson

from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access import request_limits
from ocmconsole.kubeapi.health import limit_records, metrics, probes
from ocmconsole.server import intake
from ocmconsole.server.agents import direct_answers, lease_path
from ocmconsole.server.agents.agent_exchange import AgentExchange
from ocmconsole.server.django_handler import Handle
from ocmconsole.server.exchange import Exchange, Judge
from ocmconsole.server.listeners import API
from ocmconsole.server.reply import abort

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope

    from ocmconsole.server.agents.lease_path import LeasePath

SHARE_OF_THREADS = 4  # one identity may read, and write, on this part of the API's threads each, and on two at least
THREADS = "django-"  # how the names of the pools' threads begin
THREADS_FOR_READS = 2  # of each listener: writes that wait for each other, or for a lock, leave these free


class BackgroundService(Protocol):
    """What a server needs besides: ``start`` may be called again. Both may wait for the database."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


_all: WeakSet[RequestThreads] = WeakSet()


class RequestThreads:
    """An ASGI application around a synchronous handler, for one listener."""

    def __init__(
        self,
        listener: str,
        handle: Handle,
        *,
        threads: int,
        judge: Judge,
        limits: intake.Limits | None = None,
        beside: BackgroundService | None = None,
        leases: LeasePath | None = None,
    ) -> None:
        """``beside`` is started with the lifespan of the application, or with the first probe of its health.

        ``leases`` answers what agents send all the time; what it does not is a request as any other.
        """
        self.beside = beside
        self.leases = leases
        self.listener = listener
        self.handle = handle
        self.judge = judge
        self.intake = intake.Intake(limits or intake.Limits(), request_limits.site_of)
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix=f"{THREADS}{listener}")
        _all.add(self)
        self.writers = asyncio.Semaphore(max(1, threads - THREADS_FOR_READS))
        # People's requests are distinguished only by Django: on the console one person may have all threads.
        share = min(threads, max(2, threads // SHARE_OF_THREADS)) if listener == API else threads
        self.callers = request_limits.Callers(share)
        self.held_back = limit_records.Tally()
        self.streams: dict[Any, Callable[[], object]] = {}  # their tasks or themselves, and what ends each
        self.direct = direct_answers.DirectAnswers(self.callers, leases, self.streams) if leases is not None else None
        self.is_stopping = False

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        assert scope["type"] == "http"  # ``serving`` offers no WebSockets, the one other scope of uvicorn
        if self.listener == API and _is_probe(scope):
            if self.beside is not None and not probes.monitor.is_running:
                await self._on_a_thread(self.beside.start)
            await _probed(scope, send)
            return
        if self.leases is None:
            exchange = Exchange(self, scope, receive, send)
        else:
            exchange = AgentExchange(self, self.leases, scope, receive, send)
        try:
            await exchange.answer()
        except (intake.ClientGoneError, TimeoutError):  # or too slow with a small body
            abort(scope)
        except asyncio.CancelledError:
            # The server waits no longer. Its thread may still finish the work, so any answer could be wrong.
            if not abort(scope):
                raise

    def take(self, scope: HTTPScope, body: bytes, wire: direct_answers.Answering) -> bool:
        """As ``DirectAnswers.take``, for a request that has come whole."""
        return self.direct is not None and not self.is_stopping and self.direct.take(scope, body, wire)

    def take_known(self, data: bytes, origin: bytes, wire: Callable[[], direct_answers.Answering]) -> bool:
        """As ``DirectAnswers.take_known``, for what may be a request."""
        return self.direct is not None and not self.is_stopping and self.direct.take_known(data, origin, wire)

    async def _live(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """The lifespan protocol of ASGI."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                if self.beside is not None:
                    await self._on_a_thread(self.beside.start)
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                self.stop()
                if self.beside is not None:
                    await self._on_a_thread(self.beside.stop)
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _on_a_thread(self, act: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self.pool, act)

    def stop(self) -> None:
        """End every stream cleanly from now on, a watch with a bookmark; ordinary requests finish by themselves."""
        self.is_stopping = True
        for end in [*self.streams.values()]:
            end()


def end_threads(seconds: float) -> bool:
    """End the pools of all listeners; returns whether they are at rest after ``seconds``, or a request still runs."""
    for application in _all:
        application.pool.shutdown(wait=False, cancel_futures=True)
        if application.leases is not None:
            application.leases.end()
    deadline = monotonic() + seconds
    names = (THREADS, lease_path.THREADS)
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(names)]
    for thread in threads:
        thread.join(max(0.0, deadline - monotonic()))
    return not any(thread.is_alive() for thread in threads)


def _is_probe(scope: HTTPScope) -> bool:
    name = scope["path"].strip("/").partition("/")[0]
    return name in probes.PATHS and scope["method"] in {"GET", "HEAD"}


async def _probed(scope: HTTPScope, send: ASGISendCallable) -> None:
    """Answers the health paths here: no thread, no database, no authorisation."""
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    said = probes.answer(scope["path"], query)
    if said is None:
        status, media, body = 404, "application/json", orjson.dumps(errors.unknown_path().status())
    else:
        status, media, body = said.status, probes.CONTENT_TYPE, said.text.encode()
    headers = [
        (b"content-type", media.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-cache, private"),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers, "trailers": False})
    sent = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": sent, "more_body": False})
    metrics.count_request(API, scope["method"], status, 0.0)
