"""Threads beside a server or worker: the note that a server serves, and reconcilers and clock without a broker.

Those run always in the one-process hub, and in a Celery worker while Redis is away: a thread for reconcilers, which
follow the outbox in the database, and two for the clock that Celery beat would be.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections
from django.db import Error as DatabaseFailure
from django.utils.module_loading import import_string

from clusters.health import uptime
from ocmconsole.environment import home
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.health import probes
from ocmconsole.kubeapi.watch import redis_client
from ocmconsole.schedule import BEAT, CLOCK, WORK, queue_of
from registration import hub_setup
from registration.pki import ca

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # between two looks at Redis
STOP_SECONDS = 0.4  # for a reconciler in its transaction, after the signal
MOST_FAILURES = 3  # looks at Redis in a row: one alone may be a busy machine
# Celery's worker and beat try again at most this many seconds apart, so for so long Redis may be back and they are not.
HOLD_SECONDS = 45.0


def _thread(name: str, run: Callable[[], None]) -> threading.Thread:
    """One that leaves no connection to the database behind."""

    def run_and_close() -> None:
        try:
            run()
        finally:
            connections.close_all()

    return threading.Thread(target=run_and_close, name=name, daemon=True)


class Presence:
    """D17: a thread of each server that records that it serves; a time without the database is a gap.

    It also keeps the serving certificate in this server's home in order, whose names may be changed through another,
    and what the hub publishes of its CAs.
    """

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._problem = ""  # of the certificate, as logged
        self._published: tuple[int, int] | None = None  # which ca.crt
        self._thread = _thread("presence", self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """May be called before the server came to serve."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            close_old_connections()
            try:
                uptime.note_serving(clock.now())
                self.keep_certificate()
            except DatabaseFailure as error:
                log.warning("the note that this server serves could not be stored: %s", error)
            self._stopping.wait(uptime.NOTE_SECONDS)

    def keep_certificate(self) -> None:
        """What cannot be used stays as it is, with a line in the log. Raises an error of the database."""
        problem = ""
        try:
            hub_setup.keep_serving_certificate()
            self._publish()
        except (ca.AuthorityError, OSError) as error:
            problem = str(error)
        if problem and problem != self._problem:
            log.warning("the serving certificate could not be kept in order: %s", problem)
        self._problem = problem

    def _publish(self) -> None:
        """At the start, and when the file was replaced: a server with another home must not publish that one's."""
        found = (settings.OCMCONSOLE_HOME / "ca.crt").stat()
        if (version := (found.st_ino, found.st_mtime_ns)) != self._published:
            hub_setup.keep_published()
            self._published = version


class ServerBackground:
    """What runs in every server besides answering: the probes and the note that it serves.

    For servers that are no ``manage.py serve``, which starts both itself; called by ``asgi``.
    """

    def __init__(self) -> None:
        self._presence: Presence | None = None
        self._starting = threading.Lock()

    def start(self) -> None:
        """Returns after the first look; doing it again changes nothing."""
        with self._starting:
            if not probes.monitor.is_running:
                home.occupy(settings.OCMCONSOLE_HOME)
                probes.monitor.start()
                self._presence = Presence()
                self._presence.start()

    def stop(self) -> None:
        if self._presence is not None:
            self._presence.stop()
            self._presence = None
            probes.monitor.stop()


class Workers:
    """Started by ``serve`` when no Redis is configured. What must be on time has a thread of its own."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._threads = [
            _thread("reconcilers", lambda: workqueue.follow(self._stopping)),
            *(_thread(f"beat-{queue}", partial(self._beat, queue)) for queue in (CLOCK, WORK)),
        ]

    def start(self, *, alone: bool = True) -> None:
        """``alone``: not inside a Celery worker. Then what a killed one had claimed is due."""
        if alone:
            workqueue.release()
        for thread in self._threads:
            thread.start()

    def ask_to_stop(self) -> None:
        """What is due stays in the queue."""
        self._stopping.set()
        workqueue.woken.set()

    def stop(self) -> None:
        """Let what is running finish, for a moment; what does not is done again after the next start."""
        self.ask_to_stop()
        deadline = monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(timeout=max(0.0, deadline - monotonic()))

    def _beat(self, queue: str) -> None:
        """Run the part of Celery beat's schedule that goes to a queue, task by task, in this thread.

        A tick that comes while a task runs is dropped.
        """
        due = {name: monotonic() for name in BEAT if queue_of(name) == queue and name != "drain"}
        while not self._stopping.wait(0.5):
            for name, moment in tuple(due.items()):
                if monotonic() >= moment:
                    due[name] = monotonic() + float(str(BEAT[name]["schedule"]))
                    self._run(str(BEAT[name]["task"]))

    @staticmethod
    def _run(task: str) -> None:
        close_old_connections()
        try:
            import_string(task)()
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
        """Raises HomeError while a restore is under way."""
        home.occupy(settings.OCMCONSOLE_HOME)
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
        self._failures = 0 if redis_client.answers() else self._failures + 1
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
