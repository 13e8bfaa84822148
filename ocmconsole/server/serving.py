"""Two listeners on one event loop: the API over TLS, the console in plain text; uvicorn underneath.

A Unix socket is for a proxy, which has ended TLS itself.

Invariant: a server that is to stop refuses connections, answers what was sent and closes no idle connection of a
proxy, which may be about to use it: its answers say that each connection ends with them, and the proxy itself closes
those that stay idle. Called by the serve command.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import uvicorn

from ocmconsole.server import addresses, tls
from ocmconsole.server.connections import Connection, Take, TakeKnown

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

KEEP_ALIVE_SECONDS = 620  # longer than an agent's pause between two requests and than a proxy keeps an idle connection
HANDSHAKE_SECONDS = 30.0  # of TLS
FAREWELL_SECONDS = 0.5  # for the client's part of the end of TLS


class Application(Protocol):
    """An ASGI application that can end its streams when the server wants to stop.

    One that has methods ``take`` and ``take_known`` as well may answer a request that has come whole without a task
    (``Take``), and one whose head it knows by its bytes without its being parsed (``TakeKnown``).
    """

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None: ...

    def stop(self) -> None: ...


def ssl_context(home: Path) -> ssl.SSLContext:
    """The hub's serving certificate. Clients may show any certificate; what it is worth is decided later (``tls``)."""
    return tls.Context(home / "serving.crt", home / "serving.key")


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
        self.take_known: TakeKnown | None = getattr(app, "take_known", None)
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
        connection.listener, connection.take, connection.take_known = self, self.take, self.take_known
        return connection

    def _tls(self) -> dict[str, Any]:
        if (secure := self.config.ssl) is None:
            return {}
        return {"ssl": secure, "ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": FAREWELL_SECONDS}

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
