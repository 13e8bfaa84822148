"""For how long a thread runs while others wait for Python's interpreter. Called where a process begins."""

from __future__ import annotations

import sys

# Seconds; Python's own are 0.005. A request gives the interpreter away with each statement that a database runs for it,
# and waited for so long each time where a scheduler computed beside it.
LONGEST = 0.001


def take_short_turns() -> None:
    sys.setswitchinterval(LONGEST)
