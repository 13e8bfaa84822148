"""The clock of cluster sets: the two standing ones are looked at every ten seconds (H23)."""

from __future__ import annotations

from django.utils import timezone

from clustersets.controllers import SELECTORS, stands
from clustersets.models import ManagedClusterSet
from ocmconsole.kubeapi import workqueue
from ocmconsole.kubeapi.kinds import Key


def keep_sets() -> None:
    """H23, H24: neither absence nor an edit while the gate was off is a change that could be watched."""
    present = {row.name: row.doc for row in ManagedClusterSet.objects.filter(name__in=SELECTORS)}
    if astray := [name for name in SELECTORS if not stands(name, present.get(name))]:
        workqueue.put({("standing_set", Key("", name)) for name in astray}, timezone.now())
        workqueue.poke()
