"""A listener of ocmconsole.server.serving in a thread of the test, on a free loopback port; and a client that sees the bytes."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvloop

from ocmconsole.server import serving
from tests.selection import FULL

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
# Which of them a test meets: the ordinary run has the one on which a hub is served.
LOOP_NAMES = [*LOOPS] if FULL else ["uvloop"]


@dataclass(frozen=True)
class Site:
    """Where the listener is, and the listener itself."""

    port: int
    listener: serving.Listener
    loop: asyncio.AbstractEventLoop

    def url(self, path: str, *, scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    def connect(self, *, receive_buffer: int | None = None) -> socket.socket:
        connection = socket.socket()
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", self.port))
        return connection


@contextmanager
def listening(
    app: serving.Application,
    *,
    secure: ssl.SSLContext | None = None,
    loop: str = "asyncio",
    bound: socket.socket | None = None,
    ending: serving.GracefulStop | None = None,
) -> Iterator[Site]:
    bound = bound or socket.create_server(("127.0.0.1", 0))
    ready, sites = threading.Event(), list[Site]()

    async def run() -> None:
        listener = serving.Listener(app, bound, secure, ending)
        port = 0 if bound.family == socket.AF_UNIX else bound.getsockname()[1]
        sites.append(Site(port, listener, asyncio.get_running_loop()))
        serving_task = asyncio.create_task(listener.serve(sockets=[bound]))
        await listener.is_ready.wait()
        ready.set()
        await serving_task

    def in_thread() -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(run())

    thread = threading.Thread(target=in_thread, name="listener")
    thread.start()
    assert ready.wait(60)
    try:
        yield sites[0]
    finally:
        sites[0].listener.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def read_until(connection: socket.socket, wanted: bytes) -> bytes:
    """What came up to and with ``wanted``, and what came along. Raises TimeoutError, EOFError."""
    seen = b""
    while wanted not in seen:
        chunk = connection.recv(65536)
        if not chunk:
            raise EOFError(seen)
        seen += chunk
    return seen


def read_all(connection: socket.socket) -> bytes:
    seen = b""
    while chunk := connection.recv(65536):
        seen += chunk
    return seen
