"""A tiny Django site to serve: echoes, files, failures, streams that the test feeds."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.urls import path

from ocmconsole.kubeapi.access import request_limits
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.watch.stream_response import AsyncStreamResponse

CHUNK = b"x" * 65536


@dataclass
class Feed:
    """What a test knows of a stream, and how it makes it go on."""

    opened: threading.Event = field(default_factory=threading.Event)
    closed: threading.Event = field(default_factory=threading.Event)
    produced: int = 0
    queue: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    loop: asyncio.AbstractEventLoop | None = None

    def put(self, chunk: bytes | None) -> None:
        assert self.opened.wait(60)
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self.queue.put_nowait, chunk)

    async def chunks(self) -> AsyncIterator[bytes]:
        self.loop = asyncio.get_running_loop()
        self.opened.set()
        try:
            while (chunk := await self.queue.get()) is not None:
                self.produced += 1
                yield chunk
        finally:
            self.closed.set()

    async def flood(self) -> AsyncIterator[bytes]:
        self.opened.set()
        try:
            while True:
                self.produced += 1
                yield CHUNK
        finally:
            self.closed.set()

    async def failing(self) -> AsyncIterator[bytes]:
        try:
            yield b"one\n"
            raise RuntimeError("the stream broke")
        finally:
            self.closed.set()


feeds: dict[str, Feed] = {}


def echo(request: HttpRequest, rest: str = "") -> HttpResponse:
    shown = {name: value for name, value in request.META.items() if isinstance(value, str | int)}
    certificate = request.META["ocmconsole.peer_certificate"]
    return JsonResponse(
        {
            "meta": shown,
            "rest": rest,
            "path": request.path,
            "query": dict(request.GET.lists()),
            "cookies": request.COOKIES,
            "body": base64.b64encode(request.body).decode(),
            "thread": threading.current_thread().name,
            "certificate": None if certificate is None else base64.b64encode(certificate).decode(),
        }
    )


def known(request: HttpRequest) -> HttpResponseBase:
    """As the API: the bearer token is a user name, "bad" is refused; ``?hold=`` waits for the test."""
    token = request.META.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer ")
    if token == "bad":
        return HttpResponse(status=401)
    groups = ("system:masters",) if token == "root" else ()
    actor = Actor(token, groups, address=request.META["REMOTE_ADDR"]) if token else Actor.anonymous()
    request.META[request_limits.AUTHENTICATED_AS] = actor
    if name := request.GET.get("hold"):
        return held(request, name)
    if name := request.GET.get("stream"):
        return stream(request, name)
    request_limits.charge(float(request.GET.get("spent", "0")))
    return HttpResponse(str(len(request.body)))


def status(request: HttpRequest, code: int) -> HttpResponse:
    return HttpResponse(b"body" if code == 200 else b"", status=code, headers={"ETag": '"1"'})


def large(request: HttpRequest, size: int) -> HttpResponse:
    return HttpResponse(b"x" * size)


def slow(request: HttpRequest) -> HttpResponse:
    time.sleep(0.2)
    return HttpResponse(threading.current_thread().name)


def held(request: HttpRequest, name: str) -> HttpResponse:
    """Answers once the test lets it go."""
    feeds[name].opened.set()
    feeds[name].closed.wait(60)
    return HttpResponse("done")


def cookies(request: HttpRequest) -> HttpResponse:
    response = HttpResponse("ok")
    response.set_cookie("a", "1")
    response.set_cookie("b", "2")
    return response


def boom(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("boom")


def database(request: HttpRequest) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    text = f"{threading.get_ident()} {id(connection.connection)}"
    if "break" in request.GET:
        connection.connection.close()
        with connection.cursor() as cursor:  # fails, as on a connection that the server cut
            cursor.execute("SELECT 1")
    return HttpResponse(text)


def hang_up(request: HttpRequest) -> HttpResponse:
    connection.close()
    return HttpResponse("closed")


def export(request: HttpRequest, name: str) -> StreamingHttpResponse:
    feed = feeds[name]

    def rows() -> Iterator[bytes]:
        try:
            for number in range(int(request.GET.get("count", "64"))):
                feed.produced += 1
                yield bytes([number % 256]) * 65536
        finally:
            feed.closed.set()

    return StreamingHttpResponse(rows(), content_type="text/plain")


def broken_export(request: HttpRequest) -> StreamingHttpResponse:
    def rows() -> Iterator[bytes]:
        yield b"one line\n"
        raise RuntimeError("the export broke")

    return StreamingHttpResponse(rows(), content_type="text/csv")


def stream(request: HttpRequest, name: str) -> HttpResponseBase:
    chunks = getattr(feeds[name], request.GET.get("how", "chunks"))()
    return AsyncStreamResponse(chunks, content_type="application/json", headers={"Cache-Control": "no-cache, private"})


urlpatterns = [
    path("echo/<path:rest>", echo),
    path("known", known),
    path("status/<int:code>", status),
    path("large/<int:size>", large),
    path("slow", slow),
    path("held/<str:name>", held),
    path("cookies", cookies),
    path("boom", boom),
    path("database", database),
    path("hang-up", hang_up),
    path("export/<str:name>", export),
    path("broken-export", broken_export),
    path("stream/<str:name>", stream),
]
