"""Servers that share one hub, and what may happen to them: stopped, killed, paused, compacted, left without Redis."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests import servers
from tests.hub import Hub


class Impatient(Hub):
    @property
    def commands(self) -> dict[str, list[str]]:
        return {**super().commands, "server": [sys.executable, "-m", "tests.watch.impatient", "serve"]}

    def beside(self) -> Impatient:
        """One more server with the same home and database, at other addresses."""
        api, console = (f"127.0.0.1:{servers.free_port()}" for _ in range(2))
        addresses = {"OCMCONSOLE_API_ADDRESS": api, "OCMCONSOLE_CONSOLE_ADDRESS": console}
        environment = {**self.environment, **addresses}
        return replace(self, api_url=f"https://{api}", environment=environment, processes={})

    def stop_if_running(self) -> None:
        if "server" in self.processes:
            self.stop("server")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """As a machine that is put to sleep."""
        process = self.processes["server"]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)


class Redis:
    """One that comes back at the same address."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._server = ExitStack()

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[Redis]:
        with ExitStack() as first:
            redis = cls(first.enter_context(servers.redis_server()))
            redis._server = first.pop_all()
        try:
            yield redis
        finally:
            redis._server.close()

    @contextmanager
    def away(self) -> Iterator[None]:
        self._server.close()
        try:
            yield
        finally:
            self._server.enter_context(servers.redis_server(self.url))


@dataclass(frozen=True)
class Site:
    servers: list[Impatient]
    pair: Path
    redis: Redis | None

    def compact(self, *, keep: int, age: str) -> None:
        self.servers[0].manage("compact", f"--keep={keep}", f"--older-than={age}")
