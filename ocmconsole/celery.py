"""Celery: carries pokes, never state. ``BEAT`` is also what the one-process hub runs by its own clock."""

from __future__ import annotations

import os

from celery import Celery
from celery.signals import worker_init
from kombu import Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ocmconsole.settings")

BEAT = {
    "drain": {"task": "ocmconsole.kubeapi.tasks.drain", "schedule": 1.0},
    "expire-events": {"task": "ocmconsole.corekinds.tasks.expire_events", "schedule": 60.0},
    "sweep-leases": {"task": "clusters.tasks.sweep_leases", "schedule": 2.0},
    "note-heartbeats": {"task": "clusters.tasks.note_heartbeats", "schedule": 60.0},
    "keep-sets": {"task": "clustersets.tasks.keep_sets", "schedule": 10.0},
    "collect-requests": {"task": "registration.tasks.collect_requests", "schedule": 60.0},
    "seal": {"task": "ocmconsole.kubeapi.tasks.seal", "schedule": 60.0},
    "bound-log": {"task": "ocmconsole.kubeapi.tasks.bound_log", "schedule": 10.0},
    "compact": {"task": "ocmconsole.kubeapi.tasks.compact", "schedule": 60.0},
}

# What must be on time has a queue of its own, which a worker of its own can serve; a worker for both takes turns.
TIMELY = frozenset({"sweep-leases", "note-heartbeats", "keep-sets"})
CLOCK = "clock"
WORK = "celery"  # Celery's own default
# After so many seconds a poke or a tick is dropped, as there are newer ones. So far may the hosts' clocks be apart.
EXPIRES = 15.0

app = Celery("ocmconsole")


def queue_of(name: str) -> str:
    """Of an entry of ``BEAT``."""
    return CLOCK if name in TIMELY else WORK


@app.on_configure.connect
def configure(sender: Celery, **_: object) -> None:
    """Read Django's settings when Celery is first used."""
    from django.conf import settings  # noqa: PLC0415 - Django may not be set up at import

    sender.conf.update(
        broker_url=settings.OCMCONSOLE_REDIS_URL or "memory://",
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,  # as long as Redis is away; embedded.Standby works meanwhile
        broker_transport_options={"socket_connect_timeout": 1, "socket_timeout": 5, "socket_keepalive": True},
        task_ignore_result=True,
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        task_default_queue=WORK,
        task_queues=[Queue(WORK), Queue(CLOCK)],
        beat_schedule={
            name: entry | {"options": {"queue": queue_of(name), "expires": max(EXPIRES, float(str(entry["schedule"])))}}
            for name, entry in BEAT.items()
        },
        timezone="UTC",
    )


@worker_init.connect
def stand_by(**_: object) -> None:
    """Before the worker connects to its broker, which may be away already."""
    from ocmconsole.embedded import Standby  # noqa: PLC0415 - Django is set up by now

    Standby().start()


app.autodiscover_tasks()
