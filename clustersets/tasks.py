"""Beat task: find out every ten seconds whether the sets ``default`` and ``global`` are missing or changed (H23)."""

from __future__ import annotations

from clustersets.models import ManagedClusterSet
from clustersets.reconcilers import SELECTORS, stands
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key


def keep_sets() -> None:
    """H23, H24: queue the sets ``default`` and ``global`` where they are missing or select something else.

    A set that is missing from the start, or was edited while the gate was off, causes no change that could be followed.
    """
    present = {row.name: row.doc for row in ManagedClusterSet.objects.filter(name__in=SELECTORS)}
    if astray := [name for name in SELECTORS if not stands(name, present.get(name))]:
        workqueue.put({("standing_set", Key("", name)) for name in astray}, clock.now())
        workqueue.poke()
