"""Repeated attempts at one thing: exponential waits with jitter, a log line for each new trouble and for its end."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import MutableMapping
from typing import Any

from .api import HubError

FIRST = 0.8  # seconds, as client-go's reflectors
MOST = 30.0  # seconds between attempts, as client-go's reflectors
REMINDER = 20  # attempts after which a trouble that goes on is logged again: ten minutes at the longest wait


class Log(logging.LoggerAdapter[logging.Logger]):
    """Each line begins with the name of the cluster that it is about, once that is known."""

    def __init__(self, logger: logging.Logger, cluster: str = "") -> None:
        super().__init__(logger, {})
        self.cluster = cluster

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return (f"{self.cluster}: {msg}" if self.cluster else msg), kwargs


class Attempts:
    """``what`` is said in the log: "lease not renewed: …"."""

    def __init__(self, what: str, log: Log, chance: random.Random, *, first: float = FIRST, most: float = MOST) -> None:
        self._what, self._log, self._chance = what, log, chance
        self._first, self._most = first, most
        self._trouble = ""
        self._count = 0

    def failed(self, error: HubError) -> float:
        """Log it unless it is what the last attempt said; the seconds to wait before the next attempt."""
        trouble = str(error)
        if trouble != self._trouble or self._count % REMINDER == 0:
            self._log.warning("%s: %s", self._what, trouble)
        self._trouble = trouble
        wait: float = min(self._first * 2 ** min(self._count, 10), self._most)
        self._count += 1
        # A hub that says when to come back is not asked before; jitter keeps a fleet from coming back as one.
        return max(wait, error.retry_after) * self._chance.uniform(1, 1.5)

    async def wait_after(self, error: HubError) -> None:
        await asyncio.sleep(self.failed(error))

    def worked(self) -> None:
        if self._trouble:
            self._log.info("%s: over, after %d attempts", self._what, self._count)
        self._trouble, self._count = "", 0
