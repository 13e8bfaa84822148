"""What a connection answers without an ASGI task: an object, a stream in chunks, or bytes that a task hands over.

Invariant: what goes onto the wire is, to the byte, what uvicorn writes for the same answer by ASGI's messages.
Called by ``connections``, and through ``DirectAnswer`` by the application that has taken a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

if TYPE_CHECKING:
    from ocmconsole.server.connections import Connection

Headers = list[tuple[bytes, bytes]]


class UnparsedCycle(RequestResponseCycle):
    """Of a request that has come whole and whose head is known by its bytes, ``data``: no parser has read it.

    It is what uvicorn looks at of a cycle. Nobody waits for its message: no task answers it.
    """

    more_body = response_started = response_complete = disconnected = False
    keep_alive = True
    chunked_encoding = None
    message_event = asyncio.Event()

    def __init__(self, connection: Connection, data: bytes) -> None:
        self.data = data
        self.transport, self.flow = connection.transport, connection.flow
        self.on_response = connection.on_unparsed_response
        self.default_headers = connection.server_state.default_headers


class DirectAnswer:
    """To one request that an application has taken: whole, a stream without a task, or the ordinary way after all."""

    __slots__ = ("connection", "cycle")

    def __init__(self, connection: Connection, cycle: RequestResponseCycle) -> None:
        self.connection, self.cycle = connection, cycle

    @property
    def data(self) -> bytes:
        """The request as it came, if it came at once and alone; else nothing."""
        return self.cycle.data if isinstance(self.cycle, UnparsedCycle) else self.connection.came_alone

    @property
    def origin(self) -> bytes:
        return self.connection.origin

    def ordinary(self, extensions: dict[str, object]) -> bool:
        """``extensions`` are added to the request's scope. False if its client has gone before it was parsed."""
        if isinstance(self.cycle, UnparsedCycle):
            return self.connection.parse_after_all(self.cycle, extensions)
        self.cycle.scope["extensions"].update(extensions)  # type: ignore[arg-type] # ASGI leaves extensions open
        self.connection.begin_task(self.cycle, self.connection.app)
        return True

    def whole(self, headers: Headers, body: bytes) -> None:
        """A 200, at once or when the client reads."""
        if not answer_at_once(self.cycle, headers, body) and not self.cycle.disconnected:
            tasks = self.connection.tasks
            later = self.connection.loop.create_task(self._when_it_reads(headers, body))
            tasks.add(later)
            later.add_done_callback(tasks.discard)

    async def _when_it_reads(self, headers: Headers, body: bytes) -> None:
        while not self.cycle.disconnected and not answer_at_once(self.cycle, headers, body):
            await self.room()

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
        if isinstance(cycle, UnparsedCycle):
            cycle.data = b""  # a stream may last
        return True

    def write(self, chunks: Sequence[bytes]) -> bool:
        return write_chunks(self.cycle, chunks)

    async def room(self) -> None:
        await self.cycle.flow.drain()

    def finish(self, chunks: Sequence[bytes] = ()) -> bool:
        cycle = self.cycle
        if chunks and cycle.flow.write_paused:
            return False
        self.connection.on_gone = None
        if cycle.disconnected or cycle.response_complete:
            return True
        cycle.response_complete = True
        cycle.message_event.set()
        cycle.transport.write(b"".join([*map(_chunk, chunks), b"0\r\n\r\n"]))
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()
        return True

    def cut(self) -> None:
        self.connection.abort()


def answer_at_once(cycle: RequestResponseCycle, headers: Headers, body: bytes) -> bool:
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
    global _usual  # noqa: PLW0603 - as it says
    given, beginning = _usual
    if given is not cycle.default_headers:
        given = cycle.default_headers
        beginning = b"".join([STATUS_LINE[200], *(b"%b: %b\r\n" % header for header in given)])
        _usual = given, beginning
    lines = [beginning, *[b"%b: %b\r\n" % header for header in headers]]
    if not cycle.keep_alive:
        lines.append(b"connection: close\r\n")
    return lines


# uvicorn's headers of each answer, of which it makes a new list each second, and how an answer begins with them.
_usual: tuple[Headers, bytes] = ([], b"")


def write_chunks(cycle: RequestResponseCycle, chunks: Sequence[bytes]) -> bool:
    """As ASGI's messages would, each in a chunk of its own, without waiting. False where they have to wait."""
    if cycle.flow.write_paused or cycle.disconnected or cycle.response_complete or not cycle.chunked_encoding:
        return False
    if chunks:
        cycle.transport.write(b"".join(map(_chunk, chunks)))
    return True


def _chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)
