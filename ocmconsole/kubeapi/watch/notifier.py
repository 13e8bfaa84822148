"""Notifies other processes that the log has grown, on a thread of its own.

In: ``request()``, which returns at once. Out: one call of ``notify``; calls of ``request`` during it cause one more.
Invariant: a write never waits for Redis. What is lost with the process is found by polling. Used by ``change_log``
and ``workqueue``.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable

from ocmconsole.kubeapi.watch import redis_client

log = logging.getLogger(__name__)

LAST_SECONDS = 0.2  # seconds that a command that is done may still wait for its own notification to leave


class Notifier:
    """``notify`` may block and fail; a failure is in the log alone."""

    def __init__(self, name: str, notify: Callable[[], object]) -> None:
        self.name = name
        self.notify = notify
        self._wanted = threading.Event()
        self._start = threading.Lock()
        self._idle = threading.Event()
        self._owner = 0

    def request(self) -> None:
        self._idle.clear()
        self._wanted.set()
        if self._owner != os.getpid():  # the first call, or the first after a fork, which threads do not survive
            with self._start:
                if self._owner != os.getpid():
                    self._owner = os.getpid()
                    threading.Thread(target=self._run, name=self.name, daemon=True).start()
                    atexit.register(self._idle.wait, LAST_SECONDS)

    def _run(self) -> None:
        while self._wanted.wait():
            self._wanted.clear()
            try:
                self.notify()
            except redis_client.RedisAwayError:
                pass  # logged when it was found
            except Exception:
                log.warning("%s: nobody was notified; others follow by polling", self.name, exc_info=True)
            if not self._wanted.is_set():
                self._idle.set()
