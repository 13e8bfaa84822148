"""What the hub cannot do now because the database is away, locked or full: the state of this process, and its words.

``probes`` writes the state once a second; whatever would wait for the database in vain reads it (the API, the store,
the console's middleware, the PostgreSQL backend). ``database_error_response`` turns an error of the database into an
ApiError without any text of the driver, which may name hosts and files.
"""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass
from time import monotonic
from typing import Any

from django.db import Error as DatabaseFailure
from django.db import connection

from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.storage import only_reads

RETRY_SECONDS = 2  # a probe a second, and one more second for luck: sooner nothing can have changed

AWAY = "the database does not answer"
DAMAGED = "the database is damaged"
LOCKED = "the database is locked by another transaction or program"
FULL = "the disk of the database is full"
SLOW = "the database did not finish the request in time"
UNUSABLE = "the database cannot be read or written"

# PostgreSQL's SQLSTATE and SQLite's primary result code, to the words. Everything else is "away".
WORDS: dict[str | int, str] = {
    "53100": FULL,
    "55P03": LOCKED,
    "40P01": LOCKED,
    "57014": SLOW,
    "25006": UNUSABLE,
    "42P01": UNUSABLE,
    "XX001": DAMAGED,
    "XX002": DAMAGED,
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_BUSY: LOCKED,
    sqlite3.SQLITE_LOCKED: LOCKED,
    sqlite3.SQLITE_IOERR: UNUSABLE,
    sqlite3.SQLITE_READONLY: UNUSABLE,
    sqlite3.SQLITE_CANTOPEN: UNUSABLE,
    sqlite3.SQLITE_ERROR: UNUSABLE,
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
}
WAYS_BACK = {
    "sqlite": "Stop whatever uses the file {name} and put a backup in its place with the command restore FILE "
    "--replace, which keeps it aside; what is left in it can be read with: sqlite3 {name} .recover",
    "postgresql": "Stop the hub and put a backup in the place of the database {name} with the command restore FILE "
    "--replace, which keeps it aside",
}
PRIMARY = 0xFF  # the lowest byte of SQLite's extended codes


@dataclass
class OutageState:
    """Causes in words, or empty. ``away``: neither reads nor writes. ``locked``: no writes. ``full``: no growth.

    ``superseded``: no writes, because the hub goes on elsewhere (D28); set by ``backup.succession``. ``read_only``: no
    writes, because a person wants none; set by ``backup.read_only_mode``. ``only_reads`` is either.
    """

    away: str = ""
    locked: str = ""
    full: str = ""
    full_seen: float | None = None  # when the database last said that its disk is full, in seconds of ``monotonic``

    @property
    def superseded(self) -> str:
        return only_reads.state.superseded

    @superseded.setter
    def superseded(self, why: str) -> None:
        only_reads.state.superseded = why

    @property
    def read_only(self) -> str:
        return only_reads.state.read_only

    @read_only.setter
    def read_only(self, why: str) -> None:
        only_reads.state.read_only = why

    @property
    def only_reads(self) -> str:
        return only_reads.state.why


state = OutageState()

# ``at``: until when this thread waits for PostgreSQL, in seconds of ``monotonic``; else until ``state.away`` says so.
deadline = threading.local()


def cause_of(error: BaseException) -> str:
    """What an error of the database means."""
    if isinstance(error, only_reads.OnlyReads):
        return str(error)
    driver: Any = error.__cause__ if isinstance(error, DatabaseFailure) else error
    code = getattr(driver, "sqlstate", None) or getattr(driver, "sqlite_errorcode", None)
    if code is None and str(error) == AWAY:  # raised by ourselves
        return AWAY
    found = WORDS.get(code & PRIMARY if isinstance(code, int) else code or "", AWAY)
    # SQLite reports a full disk also as an error of input and output, where it wanted to extend its index of the log.
    return FULL if found == UNUSABLE and state.full else found


def operator_line(error: BaseException) -> str:
    """One line for an operator: what is wrong, in the driver's words too, and what leads back. Not for clients."""
    cause = cause_of(error)
    text = f"{cause}: {' '.join(str(error).split())}"
    way = WAYS_BACK.get(connection.vendor, "").format(name=connection.settings_dict["NAME"])
    return f"{text}. {way}" if cause == DAMAGED and way else text


def database_error_response(error: BaseException) -> errors.ApiError:
    """503, or 507 when there is no space: the cause, and when to try again."""
    cause = cause_of(error)
    if cause == FULL:
        state.full_seen = monotonic()
    return outage_error(cause)


def outage_error(cause: str) -> errors.ApiError:
    if cause in {FULL, state.full}:
        return errors.InsufficientStorage(cause, retry_after=RETRY_SECONDS)
    return errors.unable(cause, RETRY_SECONDS)


def require_space() -> None:
    """Raises InsufficientStorage while there is only the reserve left."""
    if state.full:
        raise outage_error(state.full)


def require_writing_hub() -> None:
    """Raises ServiceUnavailable in a hub of which a newer incarnation has begun (D28), or that is read-only."""
    if state.only_reads:
        raise outage_error(state.only_reads)


def require_database() -> None:
    """Raises ServiceUnavailable at once while the database is known to be away."""
    if state.away:
        raise outage_error(state.away)
