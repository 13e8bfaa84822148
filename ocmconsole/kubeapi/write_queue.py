"""Where writers of one process wait for each other, and transactions that wait for no disk.

SQLite lets one writer in. Inside the database the others sleep for longer and longer between two tries, so those of
this process queue here; other processes are waited for there.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, nullcontext
from time import monotonic
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import connection, transaction

from ocmconsole.kubeapi.health import outages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

LOOK_SECONDS = 0.25  # between two looks of who queues at whether the file is locked by another program

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
        if outages.state.locked or monotonic() > until:
            raise outages.outage_error(outages.LOCKED)
    try:
        yield
    finally:
        _sqlite_writes.release()


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
