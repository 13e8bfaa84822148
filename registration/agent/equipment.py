"""What every part of one agent uses: log, clock, randomness, key tool. Passed along, since nothing is global."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .client.attempts import Attempts, Log
from .client.clock import AgentClock
from .keys import KeyTool


@dataclass(frozen=True, slots=True)
class Equipment:
    tool: KeyTool
    clock: AgentClock
    log: Log
    chance: random.Random

    def attempts(self, what: str, *, first: float | None = None, most: float | None = None) -> Attempts:
        """At one thing; ``what`` failed, for the log."""
        bounds = {name: value for name, value in (("first", first), ("most", most)) if value is not None}
        return Attempts(what, self.log, self.chance, **bounds)
