"""Where writers wait for each other, and transactions that wait for no disk.

SQLite lets one writer in. Inside the database the others sleep for longer and longer between two tries, up to a tenth
of a second, so they queue here: those of one process for a lock of its threads, and processes for locks on a file
beside the database. Programs that are not the hub are waited for in the database.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from contextlib import contextmanager, nullcontext, suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import connection, transaction

from ocmconsole.kubeapi.health import outages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

LOOK_SECONDS = 0.25  # between two looks of who queues at whether the file is locked by another program
NEXT_SECONDS = 0.001  # between two tries of a process to be the next that writes
TURN_FILE = "-turn"  # beside the database, after its name: empty, and locked by the process whose turn it is

_sqlite_writes = threading.RLock()


def turn() -> AbstractContextManager[None]:
    """Enter before a transaction that writes.

    Inside of one it is too late to queue: who holds the file must not wait for who waits for the file. Raises
    ServiceUnavailable when another program keeps the file locked, which ``probes`` find out meanwhile, and in a hub of
    which a newer incarnation has begun.
    """
    outages.require_writing_hub()
    return _queued() if connection.vendor == "sqlite" and not connection.in_atomic_block else nullcontext()


@contextmanager
def _queued() -> Iterator[None]:
    until = monotonic() + settings.OCMCONSOLE_DATABASE_LOCK_TIMEOUT.total_seconds()
    while outages.state.locked or not _sqlite_writes.acquire(timeout=LOOK_SECONDS):
        _require_patience(until)
    try:
        _processes.enter(until)
        try:
            yield
        finally:
            _processes.leave()
    finally:
        _sqlite_writes.release()


def _require_patience(until: float) -> None:
    """Raises ServiceUnavailable when a program that is not the hub has the database, or it is ``until``."""
    if outages.state.locked or monotonic() > until:
        raise outages.outage_error(outages.LOCKED)


class _ProcessTurn:
    """The turn of this process among those that write to one SQLite file. Used under the lock of its threads.

    Two locks on bytes of a file: who waits for the turn is the next one, and whose turn it was queues behind it. They
    are the kernel's, each of one process, and end with it. The database's own file is not touched: closing any handle
    of it would end SQLite's locks.
    """

    _TURN, _NEXT = 0, 1

    def __init__(self) -> None:
        self._name = ""
        self._handle = -1
        self._depth = 0

    def enter(self, until: float) -> None:
        """Raises ServiceUnavailable when another process has the turn at ``until``, in seconds of ``monotonic``."""
        if self._depth == 0:
            self._open()
            if self._handle >= 0:
                self._lock(self._NEXT, until)
                try:
                    self._lock(self._TURN, until)
                finally:
                    self._unlock(self._NEXT)
        self._depth += 1

    def leave(self) -> None:
        self._depth -= 1
        if self._depth == 0 and self._handle >= 0:
            self._unlock(self._TURN)

    def _lock(self, byte: int, until: float) -> None:
        while True:
            try:
                fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except OSError as error:
                if error.errno not in {errno.EACCES, errno.EAGAIN}:
                    raise
            else:
                return
            _require_patience(until)
            sleep(NEXT_SECONDS)

    def _unlock(self, byte: int) -> None:
        fcntl.lockf(self._handle, fcntl.LOCK_UN, 1, byte)

    def _open(self) -> None:
        """Once for a database. One in memory has no file; where none can be made, as on a full disk, SQLite waits."""
        name = str(connection.settings_dict["NAME"])
        if name == self._name:
            return
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        if ":memory:" not in name and "mode=memory" not in name:
            with suppress(OSError):
                self._handle = os.open(name + TURN_FILE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._name = name

    def forget(self) -> None:
        """In a forked process, which has none of its parent's locks."""
        self._depth = 0


_processes = _ProcessTurn()
os.register_at_fork(after_in_child=_processes.forget)


@contextmanager
def forgettable() -> Iterator[None]:
    """A transaction that a failure of power may undo, as long as nothing durable was committed after it.

    For what would only be done twice then: it costs no fsync. Raises as ``turn``.
    """
    if connection.in_atomic_block:
        with transaction.atomic():
            yield
        return
    with turn(), _without_fsync(), transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL synchronous_commit TO off")
        yield


@contextmanager
def _without_fsync() -> Iterator[None]:
    """SQLite has it for a connection, and takes it between two transactions only."""
    if connection.vendor != "sqlite":
        yield
        return
    _keep("NORMAL")
    try:
        yield
    finally:
        _keep("FULL")


def _keep(synchronous: str) -> None:
    connection.ensure_connection()
    # Of the driver: a cursor of Django's takes ten times as long, and this touches no file.
    connection.connection.execute(f"PRAGMA synchronous={synchronous}")
