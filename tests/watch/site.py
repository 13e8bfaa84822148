"""Servers that share one hub, and what may happen to them: stopped, killed, paused, compacted, left without Redis."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tests import servers
from tests.hub import Hub


class Impatient(Hub):
    @property
    def commands(self) -> dict[str, list[str]]:
        return {**super().commands, "server": [sys.executable, "-m", "tests.watch.impatient", "serve"]}

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


FORGET = """
from datetime import datetime, timedelta
from ocmconsole.kubeapi.control import compaction
compaction.compact_log(datetime.fromisoformat("{moment}"), keep={keep}, age=timedelta(seconds=3))
"""


@dataclass(frozen=True)
class Site:
    servers: list[Impatient]
    pair: Path
    redis: Redis | None

    def compact(self, *, keep: int, age: str) -> None:
        self.servers[0].manage("compact", f"--keep={keep}", f"--older-than={age}")

    def forget(self, *, keep: int, moment: datetime) -> None:
        """As ``compact`` at that moment, of what is older than three seconds; it takes its time to begin."""
        self.servers[0].manage("shell", "-v", "0", "--no-imports", "-c", FORGET.format(moment=moment, keep=keep))
