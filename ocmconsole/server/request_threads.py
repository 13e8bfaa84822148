"""The request thread pool: Django, which is synchronous, on a fixed number of threads in an asynchronous server.

Invariants: at most ``threads`` requests are in Django at once, each on a thread that keeps its database connection;
writes never hold all of them; the health paths need none; a body is read as ``intake`` says, after the head has been
judged; a stream (``AsyncStreamResponse``) costs no thread; the listener and the peer's certificate come from the
connection, or from a proxy that is trusted (``proxy``). Mounted by ocmconsole.asgi.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import Context
from functools import partial
from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from urllib.parse import parse_qsl
from weakref import WeakSet

import orjson
from django.core import signals
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest, get_script_name
from django.db import Error as DatabaseFailure
from django.db import close_old_connections
from django.template import engines
from django.urls import get_resolver, set_script_prefix
from isal import isal_zlib

from ocmconsole.kubeapi import abandoned_requests, clock, errors
from ocmconsole.kubeapi.access import authentication, request_limits
from ocmconsole.kubeapi.health import limit_records, metrics, outages, probes
from ocmconsole.kubeapi.watch import follower, streams
from ocmconsole.kubeapi.watch.open_watches import Watcher
from ocmconsole.kubeapi.watch.stream_response import AsyncStreamResponse
from ocmconsole.server import intake, lease_path, watch_path
from ocmconsole.server.listeners import API, API_URLCONF
from ocmconsole.server.request_environ import BODY_TOO_LARGE, Environ, environ_of, put_body

if TYPE_CHECKING:
    from django.http.response import HttpResponseBase, StreamingHttpResponse
    from uvicorn._types import ASGIReceiveCallable, ASGIReceiveEvent, ASGISendCallable, HTTPScope, Scope

    from ocmconsole.kubeapi.watch.stream_response import Sink
    from ocmconsole.server.lease_path import LeasePath

__all__ = ["AsyncStreamResponse", "RequestThreads", "django_handler"]

log = logging.getLogger(__name__)

Handle = Callable[[Environ], "HttpResponseBase"]


class BackgroundService(Protocol):
    """What a server needs besides: ``start`` may be called again. Both may wait for the database."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


Judge = Callable[[Environ], str | bool]  # as ``intake.Intake.read`` says; it may use the database
T = TypeVar("T")
Headers = list[tuple[bytes, bytes]]

SPENT = "ocmconsole.spent"  # in the environ: the CPU time that ``request_limits.metering`` found
SHARE_OF_THREADS = 4  # one identity may read, and write, on this part of the API's threads each, and on two at least
THREADS = "django-"  # how the names of the pools' threads begin
WHOLE_FILE = 1024 * 1024  # bytes: up to here a file is sent in one piece
RETRY_SECONDS = 1  # how long a client should wait that came while the budget of bodies was used up
READS = frozenset({"GET", "HEAD", "OPTIONS"})
THREADS_FOR_READS = 2  # of each listener: writes that wait for each other, or for a lock, leave these free
SMALLEST_GZIP = 128 * 1024  # bytes; a kube-apiserver compresses from this size on
GZIP_LEVEL = 1  # of isal, as fast as its 0 and a third smaller
BUSY = errors.TooManyRequests(
    "the server has received too many requests and has asked us to try again later", retry_after=RETRY_SECONDS
)
WITHOUT_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


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
        self.streams: set[asyncio.Task[None]] = set()
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
        exchange = _Exchange(self, scope, receive, send)
        try:
            await exchange.answer()
        except (intake.ClientGoneError, TimeoutError):  # or too slow with a small body
            _abort(scope)
        except asyncio.CancelledError:
            # The server waits no longer. Its thread may still finish the work, so any answer could be wrong.
            if not _abort(scope):
                raise

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
        """End every stream cleanly, now and from now on; ordinary requests finish by themselves."""
        self.is_stopping = True
        for stream in self.streams:
            stream.cancel()


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


def django_handler() -> Handle:
    """Django's synchronous handler without the WSGI around it; needs ready apps."""
    handler = WSGIHandler()

    def handle(environ: Environ) -> HttpResponseBase:
        """``request_started`` here and ``request_finished`` in ``close`` keep the thread's database connection.

        Both must come on the thread of the view: they drop a connection that broke, and arm its health check.
        """
        _import_views(environ["ocmconsole.listener"])
        set_script_prefix(get_script_name(environ))
        signals.request_started.send(sender=WSGIHandler, environ=environ)
        response = handler.get_response(WSGIRequest(environ))
        response._handler_class = WSGIHandler  # type: ignore[attr-defined] # noqa: SLF001 - what Django's own handlers do
        return response

    return handle


_importing = threading.Lock()
_imported: set[str] = set()
_unusable: set[str] = set()  # listeners whose views failed to be imported; each request tries again


def _import_views(listener: str) -> None:
    """At a listener's first request, as they take up to 0.4 s of CPU time, and not each hub has users of both.

    By one thread at a time: of packages that import each other two threads could find each other's half made modules.
    """
    if listener in _imported:
        return
    with _importing:
        try:
            if listener == API:
                _ = get_resolver(API_URLCONF).url_patterns
            else:
                _ = get_resolver().url_patterns, engines.all()
        except Exception:
            _unusable.add(listener)
            log.exception("the views of the listener %s cannot be imported", listener)
            raise
        _unusable.discard(listener)
        _imported.add(listener)


def _trouble_with_views() -> str:
    """For ``/readyz``: known from the first request of a listener on."""
    return ", ".join(f"the views of the listener {name} cannot be imported" for name in sorted(_unusable))


probes.register("views", _trouble_with_views, needs_database=False)


# ---------------------------------------------------------------- the answer


class _Exchange:
    """One request and its answer."""

    def __init__(
        self, application: RequestThreads, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        self.application = application
        self.scope = scope
        self.receive = receive
        self.send = send
        self.loop = asyncio.get_running_loop()

    async def answer(self) -> None:
        """An agent's lease and its watches by paths of their own, anything else by Django. Raises ClientGoneError."""
        leases = self.application.leases
        asked = lease_path.recognise(self.scope) if leases is not None else None
        watch = watch_path.recognise(self.scope) if leases is not None and asked is None else None
        if asked is not None and leases is not None:
            head = {"REMOTE_ADDR": asked.address, "ocmconsole.peer_certificate": asked.certificate}
            await self._within_limits(head, partial(self._answer_agent, asked, leases))
        elif watch is not None and leases is not None:
            head = {"REMOTE_ADDR": watch.address, "ocmconsole.peer_certificate": watch.certificate}
            await self._within_limits(head, partial(self._answer_watch, watch, leases))
        else:
            environ = environ_of(self.scope, self.application.listener)
            await self._within_limits(environ, partial(self._answer, environ))

    async def _within_limits(
        self, head: Environ, act: Callable[[request_limits.Visit], Coroutine[None, None, object]]
    ) -> None:
        """Count the request once, whichever path answers it; over a limit the answer is 429."""
        visit = request_limits.Visit.of(self.application.callers, head)
        try:
            if self.application.listener == API:
                visit.enter(has_certificate=head["ocmconsole.peer_certificate"] is not None)
            await act(visit)
        except request_limits.HeldBackError as error:
            self._note(visit, error.limit)
            await self._hold_back(error)
        finally:
            visit.leave()

    async def _answer_agent(
        self, asked: lease_path.AgentRequest, leases: LeasePath, visit: request_limits.Visit
    ) -> None:
        """By the lease path, or else as any other."""
        began = monotonic()
        answer = await self._agents_answer(asked, leases, visit)
        if answer is not None:
            headers, at_once = _headers_of_object(answer), _extension(self.scope, intake.ANSWER)
            if at_once is None or not at_once(headers, answer):
                await self._start(HTTPStatus.OK, headers)
                await self._send(answer, more=False)
            metrics.count_request(API, self.scope["method"], HTTPStatus.OK, monotonic() - began)
            return
        status = await self._answer(environ_of(self.scope, self.application.listener), visit)
        if visit.digest is not None and status == HTTPStatus.UNAUTHORIZED:
            leases.leases.forget(visit.digest)

    async def _answer_watch(self, asked: watch_path.AgentWatch, leases: LeasePath, visit: request_limits.Visit) -> None:
        """By the watch path, or else as any other."""
        began, digest = monotonic(), visit.digest
        standing = None
        if digest is not None and not visit.account.delay(began):  # else it waits its turn with the others
            agent = leases.leases.find(digest, asked.certificate)
            standing = await leases.standing(agent, asked.asked)
        if digest is None or standing is None:
            await self._answer(environ_of(self.scope, self.application.listener), visit)
            return
        self._settle(visit, digest, agent, leases)

        async def may_go_on() -> bool:
            agent = leases.leases.find(digest, asked.certificate)
            if await leases.standing(agent, asked.asked) is not None:
                return True
            environ = environ_of(self.scope, self.application.listener)
            return await follower.in_thread(authentication.may_still, environ, asked.asked, deleting=False)

        watcher = Watcher(visit.payer.name, asked.program, clock.now())
        stream = streams.Stream(asked.scope, may_go_on, judged=standing.rights, standing=standing, watcher=watcher)
        visit.leave()
        with visit.watching():
            metrics.count_request(API, "GET", HTTPStatus.OK, monotonic() - began)
            await self._drain(HTTPStatus.OK, watch_path.HEADERS, stream.events(), stream.attach)

    async def _agents_answer(
        self, asked: lease_path.AgentRequest, leases: LeasePath, visit: request_limits.Visit
    ) -> bytes | None:
        """None where the ordinary path must answer, which then finds the request as it came."""
        digest = visit.digest
        if digest is None or visit.account.delay(monotonic()):  # it waits its turn with the others
            return None
        if not leases.is_open(is_write=asked.is_write):
            return None
        agent = leases.leases.find(digest, asked.certificate)
        if asked.is_write and agent.actor is None and not intake.has_whole_body(self.scope):
            return None  # whose body may be waited for is judged by its head (D23)
        body = await self._small_body() if asked.is_write else b""
        answer = await leases.answer(agent, asked, body)
        if answer is not None:
            self._settle(visit, digest, agent, leases)
        return answer

    def _settle(self, visit: request_limits.Visit, digest: bytes, agent: Any, leases: LeasePath) -> None:
        """Charge who was answered without Django; who is new is known from now on."""
        if visit.account.name:
            visit.account.spend(lease_path.CPU_SECONDS)
        else:
            visit.settle(agent.actor, lease_path.NEW_CPU_SECONDS, is_refused=False)
        leases.leases.keep(digest, agent)

    async def _small_body(self) -> bytes:
        """Of ``lease_path.LARGEST_BODY`` at most, as the head declares; the ordinary path receives it once more.

        Raises ClientGoneError.
        """
        body, more = b"", True
        async with asyncio.timeout(intake.BODY_SECONDS) if not intake.has_whole_body(self.scope) else nullcontext():
            while more:
                message = await self.receive()
                if message["type"] == "http.disconnect":
                    raise intake.ClientGoneError
                body += message["body"]  # type: ignore[typeddict-item] # an HTTPRequestEvent
                more = message["more_body"]  # type: ignore[typeddict-item] # likewise
        self.receive = _again({"type": "http.request", "body": body, "more_body": False}, self.receive)
        return body

    def _note(self, visit: request_limits.Visit, limit: str) -> None:
        self.application.held_back.add(visit.payer.name, visit.address, limit)

    async def _answer(self, environ: Environ, visit: request_limits.Visit) -> int:
        """Returns the status, 200 for a stream."""
        held: intake.Holding | None = None
        try:
            body, held = await self.application.intake.read(
                self.scope, environ, self.receive, self._judged, visit.digest
            )
            put_body(environ, body)
        except intake.BusyError:
            self._note(visit, request_limits.BODIES if visit.account.name else request_limits.STRANGER_BODIES)
            await self._refuse(BUSY)
            return BUSY.code
        except DatabaseFailure as error:
            refusal = outages.database_error_response(error)
            await self._refuse(refusal)
            return refusal.code
        except intake.TooLargeError as error:
            if self.application.listener != API or error.is_anonymous:
                await self._refuse(errors.RequestTooLarge(f"Request entity too large: limit is {error.limit}"))
                return errors.RequestTooLarge.code
            environ[BODY_TOO_LARGE] = error.limit  # the API answers first whether this caller may do this at all
        try:
            left = await self._in_turn(environ, visit)
        finally:
            if held:
                held.close()
        if isinstance(left, AsyncStreamResponse):
            visit.leave()
            with visit.watching():
                await self._drain(left.status_code, _headers(left), left.stream, left.attach)
        elif left is not None:
            status, headers, content = left
            if environ[BODY_TOO_LARGE]:
                await self._answer_and_close(status, headers, b"".join(content))
                return status
            await self._start(status, headers)
            content.reverse()
            while len(content) > 1:  # what was sent is let go
                await self._send(content.pop(), more=True)
            await self._send(content[0], more=False)
            return status
        return HTTPStatus.OK

    async def _in_turn(
        self, environ: Environ, visit: request_limits.Visit
    ) -> AsyncStreamResponse | tuple[int, Headers, list[bytes]] | None:
        writes = self.scope["method"] not in READS
        async with visit.turn(writes=writes) as delay:
            if delay >= request_limits.NOTED_DELAY:
                self._note(visit, request_limits.CPU)
            async with self.application.writers if writes else nullcontext():
                left = await self._on_a_thread(self._in_thread, environ)
        status = left[0] if isinstance(left, tuple) else HTTPStatus.OK
        actor = environ.get(request_limits.AUTHENTICATED_AS)
        visit.settle(actor, environ[SPENT][0], is_refused=status == HTTPStatus.UNAUTHORIZED)
        return left

    async def _judged(self, environ: Environ) -> str | bool:
        return await self._on_a_thread(_with_database, self.application.judge, environ)

    async def _on_a_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await self.loop.run_in_executor(self.application.pool, Context().run, function, *arguments)

    def _in_thread(self, environ: Environ) -> AsyncStreamResponse | tuple[int, Headers, list[bytes]] | None:
        """Everything that Django does for a request; what is left for the event loop is returned."""
        with request_limits.metering() as environ[SPENT]:
            if self.application.listener == API and (is_gone := _extension(self.scope, intake.IS_GONE)):
                if is_gone():  # while it waited for a thread
                    return None
                abandoned_requests.watch_client(is_gone)
            response = self.application.handle(environ)
            try:
                if isinstance(response, AsyncStreamResponse):
                    return response
                if response.streaming and not _is_small(response):
                    self._pump(cast("StreamingHttpResponse", response))
                    return None
                return self._whole(response)
            finally:
                response.close()

    def _whole(self, response: HttpResponseBase) -> tuple[int, Headers, list[bytes]]:
        """A long list comes and goes in parts: the whole of it is nowhere in memory a second time."""
        body = [part for part in cast("Iterable[bytes]", response) if part] or [b""]
        headers = _headers(response)
        if response.status_code in WITHOUT_BODY:
            return response.status_code, [item for item in headers if item[0] != b"content-length"], [b""]
        if self._wants_gzip(response, sum(map(len, body))):
            body = _gzipped(body)
            headers += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
        if not response.has_header("Content-Length"):
            headers.append((b"content-length", str(sum(map(len, body))).encode()))
        return response.status_code, headers, [b""] if self.scope["method"] == "HEAD" else body

    def _wants_gzip(self, response: HttpResponseBase, size: int) -> bool:
        """Large lists of the API only: what holds secrets of a page must not be guessed from its length."""
        if self.application.listener != API or size < SMALLEST_GZIP or response.has_header("Content-Length"):
            return False
        codings = (part.split(b";") for part in intake.header(self.scope, b"accept-encoding").lower().split(b","))
        return any(name.strip() == b"gzip" and b"q=0" not in b"".join(rest).split() for name, *rest in codings)

    def _pump(self, response: StreamingHttpResponse) -> None:
        """A large file or export stays on its thread, which owns the database cursor, and waits for the reader."""
        self._wait(self._start(response.status_code, _headers(response)))
        gone = asyncio.run_coroutine_threadsafe(_hang_up(self.receive), self.loop)
        try:
            for chunk in cast("Iterable[bytes]", response) if self.scope["method"] != "HEAD" else ():
                if gone.done():
                    return
                self._wait(self._send(chunk, more=True))
            self._wait(self._send(b"", more=False))
        finally:
            gone.cancel()

    def _wait(self, sending: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(sending, self.loop).result()

    async def _hold_back(self, error: request_limits.HeldBackError) -> None:
        """As ``_refuse``, on a connection that goes on, unless its body is still coming: a new handshake costs more."""
        body = orjson.dumps(error.status())
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"retry-after", str(error.retry_after).encode()),
            (b"cache-control", b"no-cache, private"),
            (b"x-content-type-options", b"nosniff"),
        ]
        if not intake.has_whole_body(self.scope):
            headers.append((b"connection", b"close"))  # a half-sent body would hold the memory of its connection
        await self._start(error.code, headers)
        await self._send(b"" if self.scope["method"] == "HEAD" else body, more=False)
        metrics.count_request(API, self.scope["method"], error.code, 0.0)

    # ------------------------------------------------------------ streams

    async def _drain(
        self, status: int, headers: Headers, stream: AsyncIterator[bytes], attach: Callable[[Sink], None] | None
    ) -> None:
        """Until the stream ends, the client hangs up or the server stops: then ``aclose`` runs the stream's cleanup."""
        try:
            await self._start(status, headers)
            if self.scope["method"] != "HEAD" and not self.application.is_stopping:
                if attach is not None and (sink := _extension(self.scope, intake.SINK)) is not None:
                    attach(sink)
                await self._until_gone(stream)
        finally:
            await _close(stream)
        await self._send(b"", more=False)

    async def _until_gone(self, stream: AsyncIterator[bytes]) -> None:
        """An error in the stream goes to the server, which logs it and cuts the connection without a last chunk."""
        draining = self.loop.create_task(self._forward(stream))
        gone = self.loop.create_task(_hang_up(self.receive))
        self.application.streams.add(draining)
        try:
            await asyncio.wait((draining, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.application.streams.discard(draining)
            for task in (draining, gone):
                task.cancel()
            results = await asyncio.gather(draining, gone, return_exceptions=True)
        if isinstance(results[0], Exception):
            raise results[0]

    async def _forward(self, stream: AsyncIterator[bytes]) -> None:
        async for chunk in stream:
            await self._send(chunk, more=True)
            await asyncio.sleep(0)  # a stream that is always ready must not keep the loop from everybody else

    # ------------------------------------------------------------ sending

    async def _start(self, status: int, headers: Headers) -> None:
        await self.send({"type": "http.response.start", "status": status, "headers": headers, "trailers": False})

    async def _send(self, body: bytes, *, more: bool) -> None:
        """Blocks while the client does not read; one that does not for long is cut off by the server."""
        await self.send({"type": "http.response.body", "body": body, "more_body": more})

    async def _answer_and_close(self, status: int, headers: Headers, body: bytes) -> None:
        """While the body is unread: what is still on its way would be taken for the next request."""
        await self._start(status, [*headers, (b"connection", b"close")])
        await self._send(body, more=True)
        await self.application.intake.discard(self.scope, self.receive)
        await self._send(b"", more=False)

    async def _refuse(self, error: errors.ApiError) -> None:
        """Without Django: this must cost next to nothing."""
        if self.application.listener == API:
            body, media_type = orjson.dumps(error.status()), b"application/json"
        else:
            body, media_type = HTTPStatus(error.code).phrase.encode(), b"text/plain; charset=utf-8"
        headers = [(b"cache-control", b"no-store"), (b"content-type", media_type)]
        if error.retry_after is not None:
            headers.append((b"retry-after", str(error.retry_after).encode()))
        headers.append((b"content-length", str(len(body)).encode()))
        await self._answer_and_close(error.code, headers, body)


def _gzipped(parts: list[bytes]) -> list[bytes]:
    """One gzip stream; its head has no time. isal packs a list five times as fast as zlib's fastest, and smaller."""
    packing = isal_zlib.compressobj(GZIP_LEVEL, wbits=isal_zlib.MAX_WBITS | 16)
    return [*filter(None, map(packing.compress, parts)), packing.flush()]


async def _close(stream: AsyncIterator[bytes]) -> None:
    if aclose := getattr(stream, "aclose", None):
        await aclose()


async def _hang_up(receive: ASGIReceiveCallable) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _is_small(response: HttpResponseBase) -> bool:
    """A file that is read at once does not hold its thread for a slow reader."""
    length = response.headers.get("Content-Length", "")
    return length.isdigit() and int(length) <= WHOLE_FILE


def _headers(response: HttpResponseBase) -> Headers:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.items()]
    cookies = [
        (b"set-cookie", morsel.output(header="").strip().encode("latin-1")) for morsel in response.cookies.values()
    ]
    return headers + cookies


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


def _extension(scope: HTTPScope, name: str) -> Any:
    """What only ocmconsole.server.serving offers, or None."""
    return cast("dict[str, Any]", scope.get("extensions") or {}).get(name)


def _again(message: ASGIReceiveEvent, receive: ASGIReceiveCallable) -> ASGIReceiveCallable:
    """Receives a message once more, then what follows."""
    left = [message]

    async def received() -> ASGIReceiveEvent:
        return left.pop() if left else await receive()

    return received


def _headers_of_object(body: bytes) -> Headers:
    """Of an object in JSON, as ``responses.respond`` and ``_whole`` make them."""
    return [
        (b"cache-control", b"no-cache, private"),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]


def _abort(scope: HTTPScope) -> bool:
    """Close without waiting for what the client has not taken; possible only under ocmconsole.server.serving."""
    abort = _extension(scope, "ocmconsole.abort")
    if abort is not None:
        abort()
    return abort is not None


def _with_database(judge: Judge, environ: Environ) -> str | bool:
    """On a thread of the pool, outside of a request: a database connection that broke is dropped first."""
    close_old_connections()
    return judge(environ)
