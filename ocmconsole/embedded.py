"""Threads beside a server or worker: the note that a server serves, and reconcilers and clock without a broker.

Those run always in the one-process hub, and in a Celery worker while Redis is away or no task comes: a thread for
reconcilers, which follow the outbox in the database, and three for the clock that Celery beat would be.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from time import monotonic

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections
from django.db import Error as DatabaseFailure

from clusters.health import uptime
from ocmconsole import schedule
from ocmconsole.backup import read_only_mode, revocation_log, succession
from ocmconsole.environment import home
from ocmconsole.kubeapi import clock, errors, write_queue
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.health import outages, probes
from ocmconsole.kubeapi.models import Revision
from ocmconsole.kubeapi.outbound import outlets, positions, sending
from ocmconsole.kubeapi.storage import incarnations
from ocmconsole.kubeapi.watch import redis_client
from ocmconsole.notifications import channels, gathering
from ocmconsole.schedule import BEAT, SLOW, TIMELY
from ocmconsole.server import tracing
from registration import hub_setup
from registration.pki import ca

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # between two looks at Redis, and at what there is to tell
SUCCESSION_SECONDS = read_only_mode.LOOK_SECONDS  # between two looks at whether the hub only reads
FIRST_LOOK_SECONDS = 5.0  # that a start waits for the first of them: a backup place that hangs holds up no hub
STOP_SECONDS = 0.4  # for a reconciler in its transaction, after the signal
MOST_FAILURES = 3  # looks at Redis in a row: one alone may be a busy machine
# Celery's worker and beat try again at most this many seconds apart, so for so long Redis may be back and they are not.
HOLD_SECONDS = 45.0
# Without a task for so long, beat has ended, or Celery's consumer no longer asks Redis for any (kombu#2492).
QUIET_SECONDS = 20.0


def _thread(name: str, run: Callable[[], None]) -> threading.Thread:
    """One that leaves no connection to the database behind."""

    def run_and_close() -> None:
        try:
            run()
        finally:
            connections.close_all()

    return threading.Thread(target=run_and_close, name=name, daemon=True)


class SuccessionWatch:
    """D28: threads that see whether a newer incarnation of the hub has begun, and whether a person made it read-only.

    Of each server, worker and ``work --follow``. One asks the database, the other alone touches the backup place,
    which may hang: that holds up neither the beginning nor the end of read-only mode.
    """

    def __init__(self) -> None:
        self._stopping = threading.Event()
        looks = {"succession": self._look, "read-only": self._look_at_mode}
        self._looked = {name: threading.Event() for name in looks}
        self._threads = [_thread(name, partial(self._run, look, self._looked[name])) for name, look in looks.items()]
        self._was = self._problem = ""  # as logged

    def start(self) -> None:
        """Hold the home, and return after the first looks. Raises HomeError while a restore is under way."""
        home.occupy(settings.OCMCONSOLE_HOME)
        for thread in self._threads:
            thread.start()
        deadline = monotonic() + FIRST_LOOK_SECONDS
        for looked in self._looked.values():
            looked.wait(max(0.0, deadline - monotonic()))

    def stop(self) -> None:
        """May be called before the start."""
        self._stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(STOP_SECONDS)

    def _run(self, look: Callable[[], None], looked: threading.Event) -> None:
        while not self._stopping.is_set():
            close_old_connections()
            try:
                look()
            except DatabaseFailure:  # the probes say so; before the first migration there is no such table
                pass
            except Exception:  # the next look may do better
                log.exception("whether this hub only reads is not known")
            looked.set()
            self._stopping.wait(SUCCESSION_SECONDS)

    def _look(self) -> None:
        """Raises an error of the database."""
        succession.look()
        if settings.OCMCONSOLE_BACKUP_PLACE and not outages.state.only_reads:
            self._copy_log(settings.OCMCONSOLE_BACKUP_PLACE)

    def _look_at_mode(self) -> None:
        """Raises an error of the database."""
        read_only_mode.look()
        incarnations.look_at_encryption()
        if outages.state.only_reads != self._was:
            self._was = outages.state.only_reads
            log.error("%s", self._was or "this hub writes again")

    def _copy_log(self, place: Path) -> None:
        """D22: what is taken away is known outside of the home too."""
        problem = ""
        try:
            revocation_log.copy_to(place)
        except OSError as error:
            problem = f"revocations.log is not copied to the backup place: {error}"
        if problem and problem != self._problem:
            log.error(problem)
        self._problem = problem


class Presence:
    """D17: a thread of each server that records that it serves; a time in which nobody can write is a gap.

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
            self.note()
            self._stopping.wait(uptime.NOTE_SECONDS)

    def note(self) -> None:
        """Also in the second in which the hub becomes read-only, and a commit is refused that this process begins."""
        try:
            if not outages.state.only_reads:
                with write_queue.forgettable():
                    Revision.take(0)  # as a heartbeat does: while somebody holds the counter, none is stored
                    uptime.note_serving(clock.now())
                self.keep_certificate()
        except (DatabaseFailure, errors.ApiError) as error:
            log.warning("the note that this server serves could not be stored: %s", error)

    def keep_certificate(self) -> None:
        """What cannot be used stays as it is, with a line in the log. Raises an error of the database, and ApiError."""
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
        self._succession: SuccessionWatch | None = None
        self._starting = threading.Lock()

    def start(self) -> None:
        """Returns after the first look; doing it again changes nothing."""
        with self._starting:
            if not probes.monitor.is_running:
                tracing.begin()
                self._succession = SuccessionWatch()
                self._succession.start()
                probes.monitor.start()
                self._presence = Presence()
                self._presence.start()

    def stop(self) -> None:
        if self._presence is not None:
            self._presence.stop()
            self._presence = None
            probes.monitor.stop()
            tracing.end()
        if self._succession is not None:
            self._succession.stop()
            self._succession = None


def _turns() -> list[set[str]]:
    """Names of the clock's tasks, by the thread that runs them; ``reconcilers`` drains without the clock."""
    every = BEAT.keys() - {"drain"}
    return [every & TIMELY, every - TIMELY - SLOW, every & SLOW]


class Senders:
    """What sends to receivers outside; other processes of the same hub may send as well.

    A thread for each outlet of the audit, and one for notifications, which starts one for each channel that has
    something to send.
    """

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._sender = str(uuid.uuid4())
        self._channels: dict[str, threading.Thread] = {}
        self._threads = [
            _thread("notifications", self._tell),
            *(
                _thread(f"audit-{outlet.name}", partial(sending.follow, outlet, self._stopping))
                for outlet in outlets.configured()
            ),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def ask_to_stop(self) -> None:
        """What is on its way and was not acknowledged is sent again after the next start."""
        self._stopping.set()

    def _tell(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            close_old_connections()
            try:
                gathering.note_new()
                due = channels.due()
            except (DatabaseError, errors.ApiError) as error:  # the probes say so
                log.warning("notifications wait for the database: %s", error)
                continue
            except Exception:  # the next look may do better
                log.exception("notifications failed")
                continue
            for outlet in due:
                self._start_channel(outlet)

    def _start_channel(self, outlet: channels.ChannelOutlet) -> None:
        """So that no receiver holds up another; its thread ends when nothing is left to send."""
        running = self._channels.get(outlet.name)
        if running is None or not running.is_alive():
            self._channels[outlet.name] = _thread(outlet.name, partial(self._send, outlet))
            self._channels[outlet.name].start()

    def _send(self, outlet: channels.ChannelOutlet) -> None:
        try:
            while not self._stopping.is_set() and sending.send_next(outlet, self._sender):
                pass
        except Exception:  # the next look may do better
            log.exception("the channel %s failed", outlet.channel.name)


class Workers:
    """Started by ``serve`` when no Redis is configured. What must be on time has a thread of its own."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._senders = Senders()
        self._threads = [
            _thread("reconcilers", lambda: workqueue.follow(self._stopping)),
            *(_thread(f"beat-{number}", partial(self._beat, names)) for number, names in enumerate(_turns())),
        ]

    def start(self, *, alone: bool = True) -> None:
        """``alone``: not inside a Celery worker. Then what a killed one had claimed is due."""
        if alone and not outages.state.only_reads:
            workqueue.release()
            positions.release()
        for thread in self._threads:
            thread.start()
        if alone:
            self._senders.start()

    def ask_to_stop(self) -> None:
        """What is due stays in the queue."""
        self._stopping.set()
        self._senders.ask_to_stop()
        workqueue.woken.set()

    def stop(self) -> None:
        """Let what is running finish, for a moment; what does not is done again after the next start."""
        self.ask_to_stop()
        deadline = monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(timeout=max(0.0, deadline - monotonic()))

    def _beat(self, names: Collection[str]) -> None:
        """Run a part of Celery beat's schedule, task by task, in this thread.

        A tick that comes while a task runs is dropped.
        """
        due = {name: monotonic() for name in names}
        while not self._stopping.wait(0.5):
            for name, moment in tuple(due.items()):
                if monotonic() >= moment:
                    due[name] = monotonic() + float(str(BEAT[name]["schedule"]))
                    self._run(str(BEAT[name]["task"]))

    @staticmethod
    def _run(task: str) -> None:
        close_old_connections()
        try:
            schedule.run(task)
        except Exception:  # the clock goes on; the next tick tries again
            log.exception("%s failed", task)


class Standby:
    """Of a Celery worker: says that the worker lives, and works by its own clock while the broker is away or silent.

    Work is done twice at the worst, by this and by Celery, which every reconciler and task of the clock allows.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._tasked = monotonic()
        self._wanted_until = 0.0
        self._workers: Workers | None = None

    def start(self) -> None:
        """Raises HomeError while a restore is under way."""
        SuccessionWatch().start()
        Senders().start()
        threading.Thread(target=self._run, name="standby", daemon=True).start()

    def note_task(self) -> None:
        """Celery has received one."""
        self._tasked = monotonic()

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
        is_quiet = now - self._tasked > QUIET_SECONDS
        if self._failures >= MOST_FAILURES:
            self._wanted_until = now + HOLD_SECONDS
        elif is_quiet:
            self._wanted_until = max(self._wanted_until, now + 2 * LOOK_SECONDS)
        if now < self._wanted_until and self._workers is None:
            cause = f"no task has come for {QUIET_SECONDS:.0f} s" if is_quiet else "Redis is away"
            log.warning("%s: reconcilers and clock run from the database", cause)
            self._workers = Workers()
            self._workers.start(alone=False)
        elif now >= self._wanted_until and self._workers is not None:
            log.warning("tasks come again: Celery runs reconcilers and clock")
            self._workers.stop()
            self._workers = None
        close_old_connections()
        try:
            if not outages.state.only_reads:
                workqueue.say_alive()
        except DatabaseError as error:
            log.warning("the worker cannot say that it is alive: %s", error)
