"""Celery: carries pokes, never state. Its tasks are the functions of ``schedule``, by their dotted names."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from celery import Celery, Task
from celery.signals import beat_init, import_modules, task_received, worker_init, worker_shutdown
from kombu import Queue
from kombu.transport import redis

from ocmconsole.environment import frame_stack, garbage, home, thread_turns
from ocmconsole.schedule import BEAT, CLOCK, EXPIRES, WORK, queue_of

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ocmconsole.settings")
# Each worker and beat would run Django's system checks at its start, which import every page, and ignore what they say.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

frame_stack.make_room_in_threads()  # a worker or beat begins here
garbage.look_less_often()

app = Celery("ocmconsole")

# Names of tasks that moved: the clock of an earlier version may still send them while hosts are updated one by one.
MOVED = {"ocmconsole.corekinds.tasks.expire_events": "ocmconsole.core.tasks.expire_events"}


class Channel(redis.Channel):
    """One that puts no message back when it is closed.

    A message is a poke, and another follows. Putting it back while Redis is away ends a worker of Celery 5.7: it closes
    the connection twice, and what the second time raises is no error of a connection.
    """

    do_restore = False


class Transport(redis.Transport):
    Channel = Channel


@app.on_configure.connect
def configure(sender: Celery, **_: object) -> None:
    """Read Django's settings when Celery is first used."""
    from django.conf import settings  # noqa: PLC0415 - Django may not be set up at import

    sender.conf.update(
        broker_url=settings.OCMCONSOLE_REDIS_URL or "memory://",
        broker_transport=f"{__name__}:Transport" if settings.OCMCONSOLE_REDIS_URL else None,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,  # as long as Redis is away; embedded.Standby works meanwhile
        broker_transport_options={
            "socket_connect_timeout": 1,
            "socket_timeout": 5,
            "socket_keepalive": True,
            "ack_emulation": False,  # what a worker has taken is kept nowhere else: see Channel
        },
        beat_scheduler="ocmconsole.beat:OneOfSeveral",
        task_ignore_result=True,
        task_acks_late=False,
        # Threads of the process that looks whether the hub only reads (``embedded``), also where nobody says --pool:
        # processes that it forks would write on.
        worker_pool="threads",
        worker_prefetch_multiplier=1,
        # Celery closes a thread's connection to the database before and after each task otherwise: a new one every two
        # seconds. ``HubTask`` closes one that is of no use any more.
        CELERY_DB_REUSE_MAX=sys.maxsize,
        worker_hijack_root_logger=False,
        task_default_queue=WORK,
        task_queues=[Queue(WORK), Queue(CLOCK)],
        beat_schedule={
            name: entry | {"options": {"queue": queue_of(name), "expires": max(EXPIRES, float(str(entry["schedule"])))}}
            for name, entry in BEAT.items()
        },
        timezone="UTC",
    )


@import_modules.connect(sender=app)
def make_tasks(**_: object) -> None:
    """Once Django is set up, which Celery's own receiver of this signal does before."""
    from django.utils.module_loading import import_string  # noqa: PLC0415 - as above

    paths = {str(entry["task"]): str(entry["task"]) for entry in BEAT.values()}
    for name, path in (MOVED | paths).items():
        app.task(name=name, ignore_result=True, base=HubTask)(import_string(path))


class HubTask(Task):  # type: ignore[type-arg] # it takes none at run time
    """D28: does nothing in a hub of which a newer incarnation has begun."""

    @frame_stack.with_room
    def __call__(self, *arguments: object, **options: object) -> object:
        from django.db import close_old_connections  # noqa: PLC0415 - as above

        from ocmconsole.kubeapi import spans  # noqa: PLC0415 - as above
        from ocmconsole.kubeapi.health import outages  # noqa: PLC0415 - as above

        close_old_connections()
        if outages.state.only_reads:
            return None
        with spans.root(f"task {self.name}"):
            return super().__call__(*arguments, **options)


@worker_init.connect
def stand_by(**_: object) -> None:
    """Before the worker connects to its broker, which may be away already."""
    thread_turns.take_short_turns()
    from ocmconsole.embedded import Standby  # noqa: PLC0415 - Django is set up by now
    from ocmconsole.server import tracing  # noqa: PLC0415 - as above

    standby = Standby()
    task_received.connect(lambda **_: standby.note_task(), weak=False)
    with _refused_in_words():
        standby.start()
    tracing.begin()
    worker_shutdown.connect(lambda **_: tracing.end(), weak=False)


@beat_init.connect
def hold_home(**_: object) -> None:
    """D22: a restore is refused beside a beat too, which would go on with the hub of before."""
    from django.conf import settings  # noqa: PLC0415 - as above

    with _refused_in_words():
        home.occupy(settings.OCMCONSOLE_HOME)


@contextmanager
def _refused_in_words() -> Iterator[None]:
    """Celery logs what a receiver of its signals raises and goes on: only an exit ends the process."""
    try:
        yield
    except home.HomeError as error:
        raise SystemExit(str(error)) from error
