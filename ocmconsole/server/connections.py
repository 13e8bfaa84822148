"""One connection of a client: uvicorn's protocol for HTTP/1.1, which knows its peer and waits for nobody without end.

Invariants: the certificate that the peer showed in its handshake is put into each request's scope
(``ocmconsole.peer_certificate``, DER) and no header can replace it. Nobody keeps a connection for long by being slow:
not in the head of a request, not by leaving an answer unread. Made by ``serving.Listener``.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import socket
import sys
import termios
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ocmconsole.server import tls
from ocmconsole.server.direct_answer import DirectAnswer, UnparsedCycle, answer_at_once, write_chunks
from ocmconsole.server.intake import ANSWER, HAS_WHOLE_BODY, IS_GONE, SINK

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, HTTPScope

    from ocmconsole.server.serving import Listener

# A scope, its body, and how it is answered. Whether it will be.
Take = Callable[["HTTPScope", bytes, DirectAnswer], bool]
# Bytes that may be a request, who sends them (``Connection.origin``), and how it is answered. Whether it will be.
TakeKnown = Callable[[bytes, bytes, Callable[[], DirectAnswer]], bool]

HEAD_SECONDS = 30.0  # for the head of a request
STALL_SECONDS = 60.0  # in which a reader takes nothing, until it is cut off
LARGEST_HEAD = 64 * 1024  # bytes

logger = logging.getLogger(__name__)


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
    take_known: TakeKnown | None = None
    is_between = True  # requests: the parser has read all that came, to the end of the last one
    came_alone = b""  # the request that is being read, if it came at once and nothing before or behind it
    left_back = b""  # what came behind a request that is not parsed, until it is answered
    given: dict[str, object] | None = None  # extensions for the next request, which goes to a task
    last_answer = 0.0  # by the loop's clock: of a request that was not parsed
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
        """One request of those whose heads are known by their bytes is not parsed; what comes behind it waits."""
        answering = self.answering
        is_free = answering is None or answering.response_complete
        if self.left_back or (not is_free and isinstance(answering, UnparsedCycle)):
            self.left_back += data
            self.flow.pause_reading()
            return
        self.came_alone = data if is_free and self.is_between and not self.pipeline else b""
        if self.came_alone and self.take_known is not None and self.take_known(data, self.origin, self._unparsed):
            self._stop_waiting_for_head()
        else:
            self._parse(data)
        self.came_alone = b""

    def _unparsed(self) -> DirectAnswer:
        """To the request that has come alone."""
        self.cycle = self.answering = cycle = UnparsedCycle(self, self.came_alone)
        if self.listener is not None and self.listener.is_draining:
            cycle.keep_alive = False
        return DirectAnswer(self, cycle)

    @cached_property
    def origin(self) -> bytes:
        """Differs for connections of which the same bytes may say something else (``proxy.Proxies.client``)."""
        seen = self.peer_certificate, self.client and self.client[0], self.scheme, self.is_local
        return sha256(repr(seen).encode()).digest()

    def parse_after_all(self, cycle: UnparsedCycle, extensions: dict[str, object]) -> bool:
        """What nobody answers unparsed, as if it came now, by a task. False if the client has gone."""
        if cycle.disconnected or self.transport.is_closing():
            return False
        self._forget_cycle()
        self.given = extensions
        self._parse(cycle.data)
        is_begun, self.given = self.given is None, None
        self._go_on()
        return is_begun

    def on_unparsed_response(self) -> None:
        self.server_state.total_requests += 1
        self._forget_cycle()
        self.last_answer = self.loop.time()
        if self.transport.is_closing():
            return
        if self.timeout_keep_alive_task is None:
            self._await_request(self.timeout_keep_alive)
        if self.left_back:
            self.loop.call_soon(self._go_on)

    def _forget_cycle(self) -> None:
        """As before the first request: a cycle and its connection hold each other."""
        self.answering = None
        self.cycle = None  # type: ignore[assignment] # as uvicorn begins

    def _go_on(self) -> None:
        """With what came behind a request that was not parsed."""
        data, self.left_back = self.left_back, b""
        if data and not self.transport.is_closing():
            self.flow.resume_reading()
            self.data_received(data)

    def _await_request(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """A timer for many requests: those that are not parsed leave it as it is, so it may be too early."""
        self.timeout_keep_alive_task = None
        is_unparsed = isinstance(self.answering, UnparsedCycle)
        left = self.timeout_keep_alive if is_unparsed else self.last_answer + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._await_request(left)
        else:
            super().timeout_keep_alive_handler()

    def _parse(self, data: bytes) -> None:
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
        self.is_between = False
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

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.is_between = not self.parser.should_upgrade()  # after which the parser reads nothing more

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
        if self.given is not None:
            given, self.given = self.given, None
            cycle.scope["extensions"].update(given)  # type: ignore[arg-type] # as above
            self.begin_task(cycle, self.app)
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
            (found := seen()) is not None and answer_at_once(found, headers, body)
        )
        extensions[SINK] = lambda chunks: (found := seen()) is not None and write_chunks(found, chunks)
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
        self.left_back = b""
        self._unset_keepalive_if_required()  # uvicorn leaves it for ten minutes when the connection broke
        self._stop_waiting_for_head()
        self._stop_waiting_for_reader()
        self._end_answer()
        if isinstance(self.answering, UnparsedCycle):
            self._forget_cycle()

    def _end_answer(self) -> None:
        if self.answering is not None and not self.answering.response_complete:
            self.answering.disconnected = True
            self.answering.message_event.set()
        if (on_gone := self.on_gone) is not None:
            self.on_gone = None
            on_gone()


def _weakly(method: Callable[[], None]) -> Callable[[], None]:
    """The method while its object lives: a connection must be freed when it ends, not when garbage is collected."""
    found = weakref.WeakMethod(method)

    def call() -> None:
        if bound := found():
            bound()

    return call
