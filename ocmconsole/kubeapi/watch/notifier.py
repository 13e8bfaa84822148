"""Notifies other processes that the log has grown, on a thread of its own.

Invariant: a write never waits for a broker. Askings that come while one is on its way are answered by one more telling;
what is lost with the process is found by those who poll. Used by ``changes`` and ``workqueue``.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable

from ocmconsole.kubeapi.watch import redis_client

log = logging.getLogger(__name__)

LAST_SECONDS = 0.2  # what a command that is done may still wait for its own tidings to leave


class Notifier:
    """``tell`` may block and fail; nobody notices but the log."""

    def __init__(self, name: str, tell: Callable[[], object]) -> None:
        self.name = name
        self.tell = tell
        self._wanted = threading.Event()
        self._start = threading.Lock()
        self._told = threading.Event()
        self._owner = 0

    def ask(self) -> None:
        self._told.clear()
        self._wanted.set()
        if self._owner != os.getpid():  # the first asking, or the first after a fork, which threads do not survive
            with self._start:
                if self._owner != os.getpid():
                    self._owner = os.getpid()
                    threading.Thread(target=self._run, name=self.name, daemon=True).start()
                    atexit.register(self._told.wait, LAST_SECONDS)

    def _run(self) -> None:
        while self._wanted.wait():
            self._wanted.clear()
            try:
                self.tell()
            except redis_client.RedisAwayError:
                pass  # said when it was found
            except Exception:
                log.warning("%s told nobody; others follow by polling", self.name, exc_info=True)
            if not self._wanted.is_set():
                self._told.set()
