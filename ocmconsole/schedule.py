"""What the hub does by the clock: names of functions, how often, and in which queue.

Read by Celery (``celery``) and by the one-process hub (``embedded``).

Invariant: no Celery is imported here, nor by a function of the schedule. A server without Redis starts without it.
"""

from __future__ import annotations

from django.utils.module_loading import import_string

from ocmconsole.kubeapi import spans
from ocmconsole.kubeapi.health import outages

BEAT: dict[str, dict[str, object]] = {
    "drain": {"task": "ocmconsole.kubeapi.tasks.drain", "schedule": 1.0},
    "expire-events": {"task": "ocmconsole.core.tasks.expire_events", "schedule": 60.0},
    "sweep-leases": {"task": "clusters.tasks.sweep_leases", "schedule": 2.0},
    "note-heartbeats": {"task": "clusters.tasks.note_heartbeats", "schedule": 60.0},
    "keep-sets": {"task": "clustersets.tasks.keep_sets", "schedule": 10.0},
    "watch-brakes": {"task": "placements.tasks.watch_brakes", "schedule": 10.0},
    "resync-placements": {"task": "placements.tasks.resync_placements", "schedule": 60.0},
    "expire-decision-history": {"task": "placements.tasks.expire_decision_history", "schedule": 60.0},
    "beat-demo": {"task": "ocmconsole.tasks.beat_demo", "schedule": 10.0},
    "collect-requests": {"task": "registration.tasks.collect_requests", "schedule": 60.0},
    "seal": {"task": "ocmconsole.kubeapi.tasks.seal", "schedule": 60.0},
    "bound-log": {"task": "ocmconsole.kubeapi.tasks.bound_log", "schedule": 10.0},
    "note-revocations": {"task": "ocmconsole.tasks.note_revocations", "schedule": 2.0},
    "back-up": {"task": "ocmconsole.tasks.back_up", "schedule": 60.0},
    "forget-proposals": {"task": "ocmconsole.tasks.forget_proposals", "schedule": 3600.0},
    "compact": {"task": "ocmconsole.kubeapi.tasks.compact", "schedule": 60.0},
}

# What must be on time has a queue of its own, which a worker of its own can serve; a worker for both takes turns. Each
# is short, as it holds up the others there: what seals and notes what was taken away may have much to do, or wait.
TIMELY = frozenset({"sweep-leases", "note-heartbeats", "keep-sets"})
# What may take minutes has a thread of its own in the one-process hub.
SLOW = frozenset({"back-up"})
CLOCK = "clock"
WORK = "celery"  # Celery's own default
# Seconds after which a poke or a tick is dropped, as there are newer ones. So far may the hosts' clocks be apart.
EXPIRES = 15.0


def run(task: str) -> None:
    """Call the function of that dotted name; nothing in a hub of which a newer incarnation has begun (D28)."""
    if not outages.state.only_reads:
        with spans.root(f"task {task}"):
            import_string(task)()


def queue_of(name: str) -> str:
    """Of an entry of ``BEAT``."""
    return CLOCK if name in TIMELY else WORK
