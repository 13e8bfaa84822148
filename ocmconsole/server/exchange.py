"""One request and its answer: counted, its body read, given to Django on a thread, sent from the event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from contextlib import nullcontext
from contextvars import Context
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django.db import Error as DatabaseFailure
from django.db import close_old_connections
from isal import isal_zlib

from ocmconsole.kubeapi import abandoned_requests, errors, spans
from ocmconsole.kubeapi.access import request_limits
from ocmconsole.kubeapi.health import outages
from ocmconsole.kubeapi.watch.stream_response import AsyncStreamResponse
from ocmconsole.server import intake
from ocmconsole.server.listeners import API
from ocmconsole.server.reply import Headers, Reply, extension, headers_of
from ocmconsole.server.request_environ import BODY_TOO_LARGE, Environ, environ_of, put_body

if TYPE_CHECKING:
    from django.http.response import HttpResponseBase, StreamingHttpResponse

Judge = Callable[[Environ], str | bool]  # as ``intake.Intake.read`` says; it may use the database
T = TypeVar("T")

SPENT = "ocmconsole.spent"  # in the environ: the CPU time that ``request_limits.metering`` found
WHOLE_FILE = 1024 * 1024  # bytes: up to here a file is sent in one piece
RETRY_SECONDS = 1  # how long a client should wait that came while the budget of bodies was used up
READS = frozenset({"GET", "HEAD", "OPTIONS"})
SMALLEST_GZIP = 128 * 1024  # bytes; a kube-apiserver compresses from this size on
GZIP_LEVEL = 1  # of isal, as fast as its 0 and a third smaller
BUSY = errors.TooManyRequests(
    "the server has received too many requests and has asked us to try again later", retry_after=RETRY_SECONDS
)
WITHOUT_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class Exchange(Reply):
    """One request and its answer."""

    async def answer(self) -> None:
        """Raises ClientGoneError."""
        environ = environ_of(self.scope, self.application.listener)
        await self.within_limits(environ, partial(self.answer_by_django, environ))

    async def within_limits(
        self,
        head: Environ,
        act: Callable[[request_limits.Visit], Coroutine[None, None, object]],
        *,
        is_heartbeat: bool = False,
    ) -> None:
        """Count the request once, whichever path answers it; over a limit the answer is 429. It is a span of traces."""
        if spans.tracer is not None:
            parent = intake.header(self.scope, b"traceparent").decode("latin-1")
            method, listener, address = self.scope["method"], self.application.listener, head["REMOTE_ADDR"]
            self.span = spans.request(method, listener, address, parent, often=is_heartbeat)
        visit = request_limits.Visit.of(self.application.callers, head)
        try:
            if self.application.listener == API:
                visit.enter(has_certificate=head["ocmconsole.peer_certificate"] is not None)
            await act(visit)
        except request_limits.HeldBackError as error:
            self._note(visit, error.limit)
            await self.hold_back(error)
        finally:
            visit.leave()
            if self.span is not None:
                self.span.end()

    def _note(self, visit: request_limits.Visit, limit: str) -> None:
        self.application.held_back.add(visit.payer.name, visit.address, limit)

    async def answer_by_django(self, environ: Environ, visit: request_limits.Visit) -> int:
        """Returns the status, 200 for a stream."""
        held: intake.Holding | None = None
        try:
            body, held = await self.application.intake.read(
                self.scope, environ, self.receive, self._judged, visit.digest
            )
            put_body(environ, body)
        except intake.BusyError:
            self._note(visit, request_limits.BODIES if visit.account.name else request_limits.STRANGER_BODIES)
            await self.refuse(BUSY)
            return BUSY.code
        except DatabaseFailure as error:
            refusal = outages.database_error_response(error)
            await self.refuse(refusal)
            return refusal.code
        except intake.TooLargeError as error:
            if self.application.listener != API or error.is_anonymous:
                await self.refuse(errors.RequestTooLarge(f"Request entity too large: limit is {error.limit}"))
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
                await self.drain(left.status_code, headers_of(left), left.stream, left.attach, left.end)
        elif left is not None:
            status, headers, content = left
            if environ[BODY_TOO_LARGE]:
                await self.answer_and_close(status, headers, b"".join(content))
                return status
            await self.start(status, headers)
            content.reverse()
            while len(content) > 1:  # what was sent is let go
                await self.send_body(content.pop(), more=True)
            await self.send_body(content[0], more=False)
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
        if self.span is not None:
            arguments = (function, *arguments)
            function = self.span.carry
        return await self.loop.run_in_executor(self.application.pool, Context().run, function, *arguments)

    def _in_thread(self, environ: Environ) -> AsyncStreamResponse | tuple[int, Headers, list[bytes]] | None:
        """Everything that Django does for a request; what is left for the event loop is returned."""
        with request_limits.metering() as environ[SPENT]:
            if self.application.listener == API and (is_gone := extension(self.scope, intake.IS_GONE)):
                if is_gone():  # while it waited for a thread
                    return None
                abandoned_requests.watch_client(is_gone)
            response = self.application.handle(environ)
            try:
                if isinstance(response, AsyncStreamResponse):
                    return response
                if response.streaming and not _is_small(response):
                    self.pump(cast("StreamingHttpResponse", response))
                    return None
                return self._whole(response)
            finally:
                response.close()

    def _whole(self, response: HttpResponseBase) -> tuple[int, Headers, list[bytes]]:
        """A long list comes and goes in parts: the whole of it is nowhere in memory a second time."""
        body = [part for part in cast("Iterable[bytes]", response) if part] or [b""]
        headers = headers_of(response)
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


def _gzipped(parts: list[bytes]) -> list[bytes]:
    """One gzip stream; its head has no time. isal packs a list five times as fast as zlib's fastest, and smaller."""
    packing = isal_zlib.compressobj(GZIP_LEVEL, wbits=isal_zlib.MAX_WBITS | 16)
    return [*filter(None, map(packing.compress, parts)), packing.flush()]


def _is_small(response: HttpResponseBase) -> bool:
    """A file that is read at once does not hold its thread for a slow reader."""
    length = response.headers.get("Content-Length", "")
    return length.isdigit() and int(length) <= WHOLE_FILE


def _with_database(judge: Judge, environ: Environ) -> str | bool:
    """On a thread of the pool, outside of a request: a database connection that broke is dropped first."""
    close_old_connections()
    return judge(environ)
