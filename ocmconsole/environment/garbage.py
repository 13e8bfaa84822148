"""How often a process looks for garbage in cycles; most of what it lets go is in none. Called where one begins."""

from __future__ import annotations

import gc

# New objects until Python looks at them, and looks until it looks at older ones, and at all. Its own are 700, 10, 10.
THRESHOLDS = (20_000, 10, 20)


def look_less_often() -> None:
    gc.set_threshold(*THRESHOLDS)


def look_at_what_is_new() -> None:
    """After a start without looks, ``gc.disable``: what is there now stays, and later looks leave it out."""
    gc.freeze()
    gc.enable()
