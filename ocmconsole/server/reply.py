"""The answer to one request as it is sent: heads, bodies, refusals without Django, streams until somebody hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import orjson

from ocmconsole.kubeapi import errors, spans
from ocmconsole.kubeapi.access import request_limits
from ocmconsole.kubeapi.health import metrics
from ocmconsole.server import intake
from ocmconsole.server.listeners import API

if TYPE_CHECKING:
    from django.http.response import HttpResponseBase, StreamingHttpResponse
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, HTTPScope

    from ocmconsole.kubeapi.watch.stream_response import Sink
    from ocmconsole.server.request_threads import RequestThreads

Headers = list[tuple[bytes, bytes]]


class Reply:
    """To one request of ``application``."""

    def __init__(
        self, application: RequestThreads, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        self.application = application
        self.scope = scope
        self.receive = receive
        self.send = send
        self.loop = asyncio.get_running_loop()
        self.span: spans.RequestSpan | None = None

    async def start(self, status: int, headers: Headers) -> None:
        if self.span is not None:
            self.span.answered(status)
        await self.send({"type": "http.response.start", "status": status, "headers": headers, "trailers": False})

    async def send_body(self, body: bytes, *, more: bool) -> None:
        """Blocks while the client does not read; one that does not for long is cut off by the server."""
        await self.send({"type": "http.response.body", "body": body, "more_body": more})

    async def answer_and_close(self, status: int, headers: Headers, body: bytes) -> None:
        """While the body is unread: what is still on its way would be taken for the next request."""
        await self.start(status, [*headers, (b"connection", b"close")])
        await self.send_body(body, more=True)
        await self.application.intake.discard(self.scope, self.receive)
        await self.send_body(b"", more=False)

    async def refuse(self, error: errors.ApiError) -> None:
        """Without Django: this must cost next to nothing."""
        if self.application.listener == API:
            body, media_type = orjson.dumps(error.status()), b"application/json"
        else:
            body, media_type = HTTPStatus(error.code).phrase.encode(), b"text/plain; charset=utf-8"
        headers = [(b"cache-control", b"no-store"), (b"content-type", media_type)]
        if error.retry_after is not None:
            headers.append((b"retry-after", str(error.retry_after).encode()))
        headers.append((b"content-length", str(len(body)).encode()))
        await self.answer_and_close(error.code, headers, body)

    async def hold_back(self, error: request_limits.HeldBackError) -> None:
        """As ``refuse``, on a connection that goes on, unless its body is still coming: a new handshake costs more."""
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
        await self.start(error.code, headers)
        await self.send_body(b"" if self.scope["method"] == "HEAD" else body, more=False)
        metrics.count_request(API, self.scope["method"], error.code, 0.0)

    async def drain(
        self,
        status: int,
        headers: Headers,
        stream: AsyncIterator[bytes],
        attach: Callable[[Sink], None] | None = None,
        end: Callable[[], None] | None = None,
    ) -> None:
        """Until the stream ends, the client hangs up or the server stops: then ``aclose`` runs the stream's cleanup."""
        try:
            await self.start(status, headers)
            if self.span is not None:
                self.span.end()  # a watch is traced until it is open
            if self.scope["method"] != "HEAD":
                if attach is not None and (sink := extension(self.scope, intake.SINK)) is not None:
                    attach(sink)
                await self._until_gone(stream, end)
        finally:
            await _close(stream)
        await self.send_body(b"", more=False)

    async def _until_gone(self, stream: AsyncIterator[bytes], end: Callable[[], None] | None) -> None:
        """An error in the stream goes to the server, which logs it and cuts the connection without a last chunk."""
        draining = self.loop.create_task(self._forward(stream))
        gone = self.loop.create_task(_hang_up(self.receive))
        ending = self.application.streams[draining] = end or draining.cancel
        if self.application.is_stopping:
            ending()
        try:
            await asyncio.wait((draining, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.application.streams.pop(draining, None)
            for task in (draining, gone):
                task.cancel()
            results = await asyncio.gather(draining, gone, return_exceptions=True)
        if isinstance(results[0], Exception):
            raise results[0]

    async def _forward(self, stream: AsyncIterator[bytes]) -> None:
        async for chunk in stream:
            await self.send_body(chunk, more=True)
            await asyncio.sleep(0)  # a stream that is always ready must not keep the loop from everybody else

    def pump(self, response: StreamingHttpResponse) -> None:
        """A large file or export stays on its thread, which owns the database cursor, and waits for the reader."""
        self._wait(self.start(response.status_code, headers_of(response)))
        gone = asyncio.run_coroutine_threadsafe(_hang_up(self.receive), self.loop)
        try:
            for chunk in cast("Iterable[bytes]", response) if self.scope["method"] != "HEAD" else ():
                if gone.done():
                    return
                self._wait(self.send_body(chunk, more=True))
            self._wait(self.send_body(b"", more=False))
        finally:
            gone.cancel()

    def _wait(self, sending: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(sending, self.loop).result()


async def _close(stream: AsyncIterator[bytes]) -> None:
    if aclose := getattr(stream, "aclose", None):
        await aclose()


async def _hang_up(receive: ASGIReceiveCallable) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def headers_of(response: HttpResponseBase) -> Headers:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.items()]
    cookies = [
        (b"set-cookie", morsel.output(header="").strip().encode("latin-1")) for morsel in response.cookies.values()
    ]
    return headers + cookies


def extension(scope: HTTPScope, name: str) -> Any:
    """What only ocmconsole.server.serving offers, or None."""
    return cast("dict[str, Any]", scope.get("extensions") or {}).get(name)


def abort(scope: HTTPScope) -> bool:
    """Close without waiting for what the client has not taken; possible only under ocmconsole.server.serving."""
    abort = extension(scope, "ocmconsole.abort")
    if abort is not None:
        abort()
    return abort is not None
