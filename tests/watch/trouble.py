"""What happens to a hub in the course of time, in a random order: restarts, kills, pauses, compaction, loss of Redis."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from signal import SIGKILL, SIGTERM

from tests.watch.history import History
from tests.watch.site import Impatient, Site


class Trouble:
    """One accident after the other, each server at a time. The hub forgets nothing that ``history`` has not noted."""

    def __init__(self, site: Site, history: History, dice: random.Random) -> None:
        self.site, self.history, self.dice = site, history, dice
        self.kinds: list[Callable[[Impatient], None]] = [self.stop, self.kill, self.compact, self.compact]
        if site.redis is not None:
            self.kinds += [self.pause, self.lose_redis]

    def go_on(self, seconds: float) -> None:
        """Every kind at least once, in rounds of random order."""
        ends, pending = time.monotonic() + seconds, list[Callable[[Impatient], None]]()
        happened = 0
        while happened < len(self.kinds) or time.monotonic() < ends:
            if not pending:
                pending = self.dice.sample(self.kinds, len(self.kinds))
            time.sleep(self.dice.uniform(0.5, 2.5))
            pending.pop()(self.dice.choice(self.site.servers))
            happened += 1

    def stop(self, server: Impatient) -> None:
        server.stop("server", SIGTERM)
        time.sleep(self.dice.uniform(0, 1))
        server.start("server")

    def kill(self, server: Impatient) -> None:
        server.stop("server", SIGKILL)
        server.start("server")

    def compact(self, server: Impatient) -> None:  # noqa: ARG002 - from outside of all
        self.site.forget(keep=self.dice.choice([0, 5, 50]), moment=self.history.noted())

    def pause(self, server: Impatient) -> None:
        """Others write and forget while one server sleeps."""
        with server.paused():
            time.sleep(3)
            self.site.forget(keep=0, moment=self.history.noted())

    def lose_redis(self, server: Impatient) -> None:  # noqa: ARG002 - everybody's
        assert self.site.redis is not None
        with self.site.redis.away():
            time.sleep(2)
