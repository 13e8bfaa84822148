"""Task of the clock: every placement is scheduled again from time to time."""

from __future__ import annotations

from zlib import crc32

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key
from placements.models import Placement

TURNS = 30  # minutes until all have had their turn, as upstream; not all at once, or other work waits behind them


def resync_placements() -> None:
    """P1: every 30 minutes a placement is scheduled again, as Balance follows others' decisions only then."""
    resync(int(clock.now().timestamp() // 60) % TURNS)


def resync(turn: int) -> None:
    """Those whose turn it is, from 0 to ``TURNS``."""
    found = Placement.objects.filter(deleted_at=None).values_list("namespace", "name", "uid")
    work = {
        ("placement", Key(namespace, name)) for namespace, name, uid in found if crc32(uid.encode()) % TURNS == turn
    }
    if work:
        workqueue.put(work, clock.now())
        workqueue.poke()
