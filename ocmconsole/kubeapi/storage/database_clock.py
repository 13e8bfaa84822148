"""The database's clock, which all processes of a hub share: for what one writes and another compares with the present.

Servers and workers run on several machines, whose clocks may differ. Work that a server asked for whose clock is ten
minutes ahead was taken by no worker before ten minutes were over; a claim of a worker that is behind held nobody off.

Invariants: a difference of less than ``AS_ONE``, beyond what the question itself may have cost, is none; SQLite has
one machine, so none there. The database is asked every ``LOOK_SECONDS`` at most, by the thread and in the transaction
that needs to know. Called by the work queue, and where certificates are issued.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import inf
from time import monotonic

from django.conf import settings
from django.db import connection

from ocmconsole.kubeapi import clock

LOOK_SECONDS = 10.0  # between two questions; a clock that was put right counts so soon
AS_ONE = timedelta(seconds=1)  # more than NTP and a busy machine leave

# When the database was asked, in seconds of ``monotonic``, and by how much its clock was ahead of this process's.
_seen: tuple[float, timedelta] = (-inf, timedelta())


def now() -> datetime:
    """Raises errors of the database."""
    return clock.now() + ahead()


def earliest() -> datetime:
    """The present by whichever clock is behind: what begins then has begun for all. Raises errors of the database."""
    return clock.now() + min(ahead(), timedelta())


def ahead() -> timedelta:
    """By how much the database's clock is ahead of this process's. Raises errors of the database."""
    global _seen  # noqa: PLW0603 - one for the process
    if connection.vendor != "postgresql" or settings.OCMCONSOLE_CONTROLLERS == "inline":
        return timedelta()
    if not 0 <= monotonic() - _seen[0] < LOOK_SECONDS:
        _seen = monotonic(), _difference()
    return _seen[1]


def forget() -> None:
    """The database is asked by who wants to know next."""
    global _seen  # noqa: PLW0603 - as above
    _seen = -inf, timedelta()


def _difference() -> timedelta:
    before = clock.of_machine()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        ((found,),) = cursor.fetchall()
    after = clock.of_machine()
    difference: timedelta = found - before - (after - before) / 2
    return difference if abs(difference) > AS_ONE + (after - before) / 2 else timedelta()
