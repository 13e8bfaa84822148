"""The hub's clock: the present, as an aware datetime in UTC, for all that is stamped or compared with the time of day.

A demonstration lives through a past: its acts run inside ``at``, and all code that they call sees that time, which goes
on from there. Nothing else moves the clock. How long something takes is measured by ``time.monotonic``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta

from django.utils import timezone

_behind: ContextVar[timedelta] = ContextVar("how far the clock is behind the real time", default=timedelta())


def now() -> datetime:
    return timezone.now() - _behind.get()


def of_machine() -> datetime:
    """The present also inside ``at``, to compare this machine's clock with another one's."""
    return timezone.now()


@contextmanager
def at(moment: datetime) -> Iterator[None]:
    """Inside the block, and in this context alone, the clock goes on from this moment, which is aware."""
    moved = _behind.set(timezone.now() - moment)
    try:
        yield
    finally:
        _behind.reset(moved)
