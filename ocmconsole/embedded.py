"""Reconcilers and clock without a broker: always in the one-process hub, in a Celery worker while Redis is away.

A thread for reconcilers, which follow the outbox in the database, and a thread for the clock that Celery beat would be.
"""

from __future__ import annotations

import logging
import threading
from time import monotonic

from django.db import DatabaseError, close_old_connections

from ocmconsole.celery import BEAT, app
from ocmconsole.kubeapi import broker, workqueue

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
MOST_FAILURES = 3  # looks at Redis in a row: one alone may be a busy machine
# Celery's worker and beat try again at most this many seconds apart, so for so long Redis may be back and they are not.
HOLD_SECONDS = 45.0


class Workers:
    """Started by ``serve`` when no Redis is configured."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=workqueue.follow, args=(self._stopping,), name="reconcilers", daemon=True),
            threading.Thread(target=self._beat, name="beat", daemon=True),
        ]

    def start(self, *, alone: bool = True) -> None:
        """``alone``: there is no other worker, so what a killed one had claimed is due now."""
        if alone:
            workqueue.release()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let what is running finish; what is due stays in the queue."""
        self._stopping.set()
        workqueue.woken.set()
        for thread in self._threads:
            thread.join(timeout=5)

    def _beat(self) -> None:
        """Run the same schedule as Celery beat, task by task, in this thread."""
        app.loader.import_default_modules()  # tasks are found when the first worker starts, and this is one
        due = dict.fromkeys(BEAT, monotonic())
        while not self._stopping.wait(0.5):
            for name, entry in BEAT.items():
                if entry["task"] == "ocmconsole.kubeapi.tasks.drain" or monotonic() < due[name]:
                    continue
                due[name] = monotonic() + float(str(entry["schedule"]))
                self._run(str(entry["task"]))

    @staticmethod
    def _run(task: str) -> None:
        close_old_connections()
        try:
            app.tasks[task]()
        except Exception:  # the clock goes on; the next tick tries again
            log.exception("%s failed", task)


class Standby:
    """Of a Celery worker: says that the worker lives, and works by its own clock while the broker is away.

    Work is done twice at the worst, by this and by Celery, which every reconciler and task of the clock allows.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._wanted_until = 0.0
        self._workers: Workers | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="standby", daemon=True).start()

    def _run(self) -> None:
        waiting = threading.Event()
        while not waiting.wait(LOOK_SECONDS):
            try:
                self.look(monotonic())
            except Exception:  # the next look may do better
                log.exception("the worker's own clock failed")

    def look(self, now: float) -> None:
        """``now`` in seconds of ``monotonic``."""
        self._failures = 0 if broker.answers() else self._failures + 1
        if self._failures >= MOST_FAILURES:
            self._wanted_until = now + HOLD_SECONDS
        if now < self._wanted_until and self._workers is None:
            log.warning("Redis is away: reconcilers and clock run from the database")
            self._workers = Workers()
            self._workers.start(alone=False)
        elif now >= self._wanted_until and self._workers is not None:
            log.warning("Redis is back: Celery runs reconcilers and clock again")
            self._workers.stop()
            self._workers = None
        close_old_connections()
        try:
            workqueue.say_alive()
        except DatabaseError as error:
            log.warning("the worker cannot say that it is alive: %s", error)
