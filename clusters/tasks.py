"""Beat tasks: say who has fallen silent and whose clock is off, and sample heartbeats."""

from __future__ import annotations

import threading
from datetime import datetime

from clusters.health import deadlines, heartbeat_sampling, silence, uptime, verdicts
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key

VERDICTS = ("lease_health", "clock")

_sweeping = threading.Lock()


def sweep_leases() -> None:
    """H16, H18: find clusters whose grace period is over or whose clock check flipped, and say so of them.

    Some hundreds are written in one transaction, so that verdicts wait neither behind other work nor for each other.
    What could not be written so is left to the reconcilers, which are run here; other workers may help. A sweep that
    comes while another thread of the process is still at one leaves it alone: both would write the same clusters.
    """
    now = clock.now()
    uptime.note_sweep(now)
    if _sweeping.acquire(blocking=False):
        try:
            _sweep(now)
        finally:
            _sweeping.release()


def _sweep(now: datetime) -> None:
    gaps = uptime.serving_gaps(now)
    silent, flipped = deadlines.due(now, gaps)
    if silent:
        silence.announce(now, silent, lambda: deadlines.unheard(now, gaps))
    work = {("clock", Key("", name)) for name in verdicts.judge_clocks(flipped)}
    work |= {("lease_health", Key("", name)) for name in verdicts.call_silent(silent, now, gaps)}
    if silent or flipped:
        workqueue.put(work, now)
        workqueue.poke()
        workqueue.drain(only=VERDICTS)


def note_heartbeats() -> None:
    """D17: each minute in which the hub served, record how recently each cluster renewed its lease."""
    now = clock.now()
    heartbeat_sampling.note_heartbeats(now, uptime.serving_since(now))
    heartbeat_sampling.delete_old_heartbeats(now)
