"""Two listeners on one event loop: the API over TLS, the console in plain text; uvicorn underneath.

A Unix socket is for a proxy, which has ended TLS itself.

Invariants: the peer of a connection is known from its handshake; the certificate is put into each request's scope
(``ocmconsole.peer_certificate``, DER) and no header can replace it. Nobody keeps a connection for long by being slow:
not in the handshake, not in the head of a request, not by leaving an answer unread. A server that is to stop refuses
connections, answers what was sent and closes no idle connection of a proxy, which may be about to use it: its answers
say that each connection ends with them, and the proxy itself closes those that stay idle. Called by the serve command.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import resource
import signal
import socket
import ssl
import sys
import termios
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ocmconsole.server import addresses, tls
from ocmconsole.server.intake import ANSWER, HAS_WHOLE_BODY, IS_GONE, SINK

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope

Headers = list[tuple[bytes, bytes]]
# A scope, its body, and how it is answered. Whether it will be.
Take = Callable[["HTTPScope", bytes, "DirectAnswer"], bool]

KEEP_ALIVE_SECONDS = 620  # longer than an agent's pause between two requests and than a proxy keeps an idle connection
HEAD_SECONDS = 30.0  # for a TLS handshake, and again for the head of a request
STALL_SECONDS = 60.0  # in which a reader takes nothing, until it is cut off
FAREWELL_SECONDS = 0.5  # for the client's part of the end of TLS
LARGEST_HEAD = 64 * 1024  # bytes


logger = logging.getLogger(__name__)


class Application(Protocol):
    """An ASGI application that can end its streams when the server wants to stop.

    One that has a method ``take`` as well may answer a request that has come whole without a task (``Take``).
    """

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None: ...

    def stop(self) -> None: ...


def ssl_context(home: Path) -> ssl.SSLContext:
    """The hub's serving certificate. Clients may show any certificate; what it is worth is decided later (``tls``)."""
    return tls.Context(home / "serving.crt", home / "serving.key")


class HeadTooLargeError(Exception):
    """Raised inside the parser, which turns it into a 400."""


class Connection(HttpToolsProtocol):
    """uvicorn's protocol, which also knows its peer, bounds the head and forgets trailers.

    uvicorn has patience without end for a head that does not come and for an answer that is not taken.
    """

    peer_certificate: bytes | None = None
    is_local = False
    answering: RequestResponseCycle | None = None
    on_gone: Callable[[], None] | None = None
    has_begun = True  # what is answered was given to the application
    is_reading = False  # of what has come at one time
    take: Take | None = None
    listener: Listener | None = None
    head_bytes = 0
    head_is_read = False
    head_is_late: asyncio.TimerHandle | None = None
    reader_is_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        super().connection_made(transport)
        session: tls.TLSObject | None = transport.get_extra_info("ssl_object")
        self.peer_certificate = session.certificate if session is not None else None
        self.is_local = transport.get_extra_info("socket").family == socket.AF_UNIX
        self._await_head()

    def data_received(self, data: bytes) -> None:
        self.is_reading = True
        super().data_received(data)
        self.is_reading = False
        if not self.has_begun:
            self._begin()
        if self.answering is None or self.answering.response_complete:
            self._await_head()

    def _await_head(self) -> None:
        """From the first byte on: what follows byte by byte does not begin the time anew."""
        if self.head_is_late is None and not self.transport.is_closing():
            self.head_is_late = self.loop.call_later(HEAD_SECONDS, self.abort)

    def _stop_waiting_for_head(self) -> None:
        if self.head_is_late is not None:
            self.head_is_late.cancel()
            self.head_is_late = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.head_bytes, self.head_is_read = 0, False
        self.scope["extensions"] = {
            "ocmconsole.peer_certificate": self.peer_certificate,  # type: ignore[dict-item] # ASGI leaves extensions open
            "ocmconsole.is_local": self.is_local,  # type: ignore[dict-item]
            "ocmconsole.abort": _weakly(self.abort),  # type: ignore[dict-item]
        }

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers arrive here too: past every check that a proxy made on the head, so they are dropped."""
        if self.head_is_read:
            return
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self.head_is_read = True
        self._stop_waiting_for_head()
        super().on_headers_complete()

    def _count(self, size: int) -> None:
        self.head_bytes += size
        if self.head_bytes > LARGEST_HEAD:
            raise HeadTooLargeError

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:  # noqa: ARG002 - uvicorn's own
        """A request begins when all of its bytes that have come are read, so that one that is whole is known to be."""
        self.answering, self.has_begun = cycle, False
        if self.listener is not None and self.listener.is_draining:
            cycle.keep_alive = False
        if not self.is_reading:
            self._begin()

    def _begin(self) -> None:
        """Answer at once, or by a task."""
        self.has_begun, cycle = True, self.answering
        if cycle is None:
            return
        if self.take is not None and not (cycle.more_body or cycle.disconnected):  # noqa: SIM102 - two thoughts
            if self.take(cycle.scope, bytes(cycle.body), DirectAnswer(self, cycle)):
                return
        self.begin_task(cycle, self.app)

    def begin_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        extensions: dict[str, object] = cycle.scope["extensions"]  # type: ignore[assignment] # as above
        seen = weakref.ref(cycle)  # whose scope this is
        extensions[HAS_WHOLE_BODY] = lambda: (found := seen()) is not None and not found.more_body
        extensions[IS_GONE] = lambda: (found := seen()) is None or found.disconnected
        extensions[ANSWER] = lambda headers, body: (
            (found := seen()) is not None and _answer_at_once(found, headers, body)
        )
        extensions[SINK] = lambda chunks: (found := seen()) is not None and _write_chunks(found, chunks)
        super()._start_asgi_task(cycle, app)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader(self._unread())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_waiting_for_reader()

    def _await_reader(self, unread: int) -> None:
        self.reader_is_late = self.loop.call_later(STALL_SECONDS, self._check_reader, unread)

    def _stop_waiting_for_reader(self) -> None:
        if self.reader_is_late is not None:
            self.reader_is_late.cancel()
            self.reader_is_late = None

    def _check_reader(self, unread: int) -> None:
        """A slow reader is served to the end; one that took nothing for so long is not there."""
        if (left := self._unread()) < unread:
            self._await_reader(left)
            return
        logger.info("cut off %s, which has not read for %d s", self.client, STALL_SECONDS)
        self.abort()

    def _unread(self) -> int:
        """Bytes that the client has not taken, with those that the kernel holds: it makes room in large steps only."""
        held = bytearray(4)
        with suppress(OSError):
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, held)
        return self.transport.get_write_buffer_size() + int.from_bytes(held, sys.byteorder)

    def shutdown(self) -> None:
        """The server is to stop. A proxy's connection ends with an answer that says so, or when the proxy closes it."""
        if not self._is_proxys():
            super().shutdown()
        elif (cycle := self.answering) is not None and not cycle.response_started:
            cycle.keep_alive = False

    def _is_proxys(self) -> bool:
        listener = self.listener
        return self.is_local or (listener is not None and listener.ending.is_proxy((self.client or ("",))[0]))

    def abort(self) -> None:
        """Drop the connection without waiting for what the client has not taken."""
        self._end_answer()
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The server tells the newest request; with pipelining the one that is being answered is another."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # uvicorn leaves it for ten minutes when the connection broke
        self._stop_waiting_for_head()
        self._stop_waiting_for_reader()
        self._end_answer()

    def _end_answer(self) -> None:
        if self.answering is not None and not self.answering.response_complete:
            self.answering.disconnected = True
            self.answering.message_event.set()
        if (on_gone := self.on_gone) is not None:
            self.on_gone = None
            on_gone()


class DirectAnswer:
    """To one request that an application has taken: whole, a stream without a task, or the ordinary way after all."""

    __slots__ = ("connection", "cycle")

    def __init__(self, connection: Connection, cycle: RequestResponseCycle) -> None:
        self.connection, self.cycle = connection, cycle

    def ordinary(self) -> None:
        self.connection.begin_task(self.cycle, self.connection.app)

    def whole(self, headers: Headers, body: bytes) -> None:
        """A 200."""
        if not _answer_at_once(self.cycle, headers, body) and not self.cycle.disconnected:  # the client does not read
            self.connection.begin_task(self.cycle, partial(_send, headers, body))

    def begin(self, headers: Headers, gone: Callable[[], None]) -> bool:
        """A 200 in chunks, of which the head is sent; ``gone`` is called if the client hangs up before ``finish``.

        False, with nothing written, where the ordinary way is needed.
        """
        cycle = self.cycle
        if cycle.flow.write_paused or cycle.response_started or cycle.disconnected:
            return False
        cycle.response_started = cycle.chunked_encoding = True
        cycle.transport.write(b"".join((*_head(cycle, headers), b"transfer-encoding: chunked\r\n\r\n")))
        self.connection.on_gone = gone
        return True

    def write(self, chunks: Sequence[bytes]) -> bool:
        return _write_chunks(self.cycle, chunks)

    async def room(self) -> None:
        await self.cycle.flow.drain()

    def finish(self) -> None:
        cycle = self.cycle
        self.connection.on_gone = None
        if cycle.disconnected or cycle.response_complete:
            return
        cycle.response_complete = True
        cycle.message_event.set()
        cycle.transport.write(b"0\r\n\r\n")
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()

    def cut(self) -> None:
        self.connection.abort()


def _answer_at_once(cycle: RequestResponseCycle, headers: Headers, body: bytes) -> bool:
    """A 200 with these headers, which nobody checks again, in one write: ASGI takes two messages and two TLS records.

    False, with nothing written, where the ordinary way is needed: the client does not read, or is still sending.
    """
    if cycle.flow.write_paused or cycle.more_body or cycle.response_started or cycle.disconnected:
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.message_event.set()
    cycle.transport.write(b"".join((*_head(cycle, headers), b"\r\n", body)))
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


def _head(cycle: RequestResponseCycle, headers: Headers) -> list[bytes]:
    lines = [STATUS_LINE[200], *(b"%b: %b\r\n" % header for header in (*cycle.default_headers, *headers))]
    if not cycle.keep_alive:
        lines.append(b"connection: close\r\n")
    return lines


async def _send(
    headers: Headers, body: bytes, _scope: Scope, _receive: ASGIReceiveCallable, send: ASGISendCallable
) -> None:
    """An application that knows its answer: a 200."""
    await send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": False})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _write_chunks(cycle: RequestResponseCycle, chunks: Sequence[bytes]) -> bool:
    """As ASGI's messages would, each in a chunk of its own, without waiting. False where they have to wait."""
    if cycle.flow.write_paused or cycle.disconnected or cycle.response_complete or not cycle.chunked_encoding:
        return False
    if chunks:
        cycle.transport.write(b"".join([b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks]))
    return True


def _weakly(method: Callable[[], None]) -> Callable[[], None]:
    """The method while its object lives: a connection must be freed when it ends, not when garbage is collected."""
    found = weakref.WeakMethod(method)

    def call() -> None:
        if bound := found():
            bound()

    return call


@dataclass(frozen=True)
class GracefulStop:
    """How a server stops: ``on_signal`` is called at once, and for so many seconds it goes on answering.

    ``is_proxy`` knows addresses from which proxies connect.
    """

    seconds: float = 1.0
    is_proxy: Callable[[str], bool] = lambda _: False
    on_signal: Callable[[], None] = lambda: None


class Listener(uvicorn.Server):
    """One socket. Signals are the business of ``serve``, which has two of these."""

    def __init__(
        self,
        app: Application,
        listening: socket.socket,
        secure: ssl.SSLContext | None,
        ending: GracefulStop | None = None,
    ) -> None:
        self.ending = ending or GracefulStop()
        factory: Callable[..., ssl.SSLContext] | None = None if secure is None else lambda *_: secure
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=addresses.BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=self.ending.seconds,  # type: ignore[arg-type] # it goes to asyncio.wait_for
                ssl_context_factory=factory,
            )
        )
        self.app = app
        self.take: Take | None = getattr(app, "take", None)
        self.listening = listening
        self.is_ready = asyncio.Event()
        self.is_draining = False
        self._late: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - uvicorn's signature
        """As uvicorn, which has no setting for how long a handshake may take."""
        server = await asyncio.get_running_loop().create_server(
            self._connection, sock=self.listening, backlog=addresses.BACKLOG, **self._tls()
        )
        self.servers = [server]
        self.started = True
        self.is_ready.set()

    def _connection(self) -> Connection:
        connection = Connection(config=self.config, server_state=self.server_state, app_state={})
        connection.listener, connection.take = self, self.take
        return connection

    def _tls(self) -> dict[str, Any]:
        if (secure := self.config.ssl) is None:
            return {}
        return {"ssl": secure, "ssl_handshake_timeout": HEAD_SECONDS, "ssl_shutdown_timeout": FAREWELL_SECONDS}

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.is_draining = True
        self._stop_listening()
        self.app.stop()
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.close()

    def _stop_listening(self) -> None:
        """Connections that the kernel has taken already are served: a proxy may have sent its request with them."""
        left = self.listening.dup()
        left.settimeout(0)
        for server in self.servers:
            server.close()
        with left, suppress(OSError):
            while True:
                late = asyncio.ensure_future(self._take(left.accept()[0]))
                self._late.add(late)
                late.add_done_callback(self._late.discard)

    async def _take(self, accepted: socket.socket) -> None:
        accepted.settimeout(0)
        with suppress(OSError):  # a handshake that fails is the client's affair
            await asyncio.get_running_loop().connect_accepted_socket(self._connection, accepted, **self._tls())

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    api_app: Application,
    console_app: Application,
    *,
    api_address: addresses.Address,
    console_address: addresses.Address,
    secure: ssl.SSLContext,
    on_ready: Callable[[], None],
    ending: GracefulStop | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; ``on_ready`` is called when both listeners accept.

    A second signal ends what is still being answered. Raises AddressError.
    """
    _allow_many_connections()
    ending = ending or GracefulStop()
    api_socket = addresses.listening_socket(api_address)
    try:
        console_socket = addresses.listening_socket(console_address)
    except addresses.AddressError:
        api_socket.close()
        raise
    api_secure = None if api_socket.family == socket.AF_UNIX else secure
    listeners = [
        Listener(app, listening, tls_context, ending)
        for app, listening, tls_context in ((api_app, api_socket, api_secure), (console_app, console_socket, None))
    ]

    def stop() -> None:
        ending.on_signal()
        for listener in listeners:
            listener.force_exit = listener.should_exit
            listener.should_exit = True

    with _signals(stop):
        async with asyncio.TaskGroup() as group:
            for listener in listeners:
                group.create_task(listener.serve(sockets=[listener.listening]))
            for listener in listeners:
                await listener.is_ready.wait()
            on_ready()


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    wanted = (signal.SIGTERM, signal.SIGINT)
    for number in wanted:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in wanted:
            loop.remove_signal_handler(number)


def _allow_many_connections() -> None:
    """An agent holds up to eight connections (W30); the usual soft limit of 1024 files ends at 130 clusters."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # where "unlimited" is more than the system takes
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
