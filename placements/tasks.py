"""Task of the clock: every placement is scheduled again from time to time."""

from __future__ import annotations

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key
from placements.models import Placement


def resync_placements() -> None:
    """P1: every 30 minutes all placements are scheduled again, as Balance follows others' decisions only then."""
    found = Placement.objects.filter(deleted_at=None).values_list("namespace", "name")
    if work := {("placement", Key(*place)) for place in found}:
        workqueue.put(work, clock.now())
        workqueue.poke()
