"""Celery beat of a hub that may have several: one sends, the others stand by (H16).

Who holds an advisory lock of PostgreSQL sends. It belongs to the session of a connection: PostgreSQL gives it up when
the process ends, and by ``idle_session_timeout`` when nothing was heard of it for some seconds, because it was stopped
or cut off. On SQLite there is one machine, and one beat. Named in the configuration of ``celery``.

Invariant: that two send for a moment does no harm. Every task of the clock may run twice.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from celery.beat import Scheduler
from django.db import Error as DatabaseFailure
from django.db import connection, transaction

from ocmconsole.kubeapi.health import probes

log = logging.getLogger(__name__)

LOCK = int.from_bytes(b"ocm beat")  # one a database
LOOK_SECONDS = 1.0  # between two looks at the lock
IDLE_SECONDS = 8  # without a look, after which PostgreSQL gives the lock to another


class OneOfSeveral(Scheduler):
    """Keeps no file: what beat does comes at most once a minute, so a start needs no memory of the one before."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._session: object = None  # the connection that holds the lock
        self._said = ""
        super().__init__(*args, **options)

    def tick(self, *args: Any, **options: Any) -> float:
        """Seconds until the next one."""
        if not self._keeps_the_clock():
            return LOOK_SECONDS
        wait: float = super().tick(*args, **options)
        return min(wait, LOOK_SECONDS)

    def _keeps_the_clock(self) -> bool:
        if connection.vendor != "postgresql":
            return True
        try:
            with probes.patient():
                is_ours = self._holds_lock()
        except DatabaseFailure as error:
            connection.close()
            is_ours = False
            self._say(f"stands by, because the database does not answer: {error}")
        else:
            self._say("keeps the clock" if is_ours else "stands by, because another one keeps the clock")
        if not is_ours:
            self._session = None
        return is_ours

    def _holds_lock(self) -> bool:
        """Raises DatabaseFailure. A lock is lost with its session, never otherwise."""
        with connection.cursor() as cursor:
            if self._session is not None and self._session is connection.connection:
                cursor.execute("SELECT 1")
                return True
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
            (is_ours,) = cursor.fetchone()
            if is_ours:
                self._session = connection.connection
                self._give_up_when_silent()
        return bool(is_ours)

    def _give_up_when_silent(self) -> None:
        """Of a PostgreSQL before 14, which does not know it, the end of TCP's patience frees the lock."""
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f"SET idle_session_timeout = '{IDLE_SECONDS}s'")
        except DatabaseFailure as error:
            log.warning("a beat that hangs keeps the clock until its connection ends: %s", error)

    def _say(self, what: str) -> None:
        if what != self._said:
            self._said = what
            log.warning("beat %d %s", os.getpid(), what)
