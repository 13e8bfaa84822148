"""The clock of cluster sets: the two standing ones are looked at every ten seconds (H23)."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from clustersets.controllers import SELECTORS
from clustersets.models import ManagedClusterSet
from ocmconsole.kubeapi import workqueue
from ocmconsole.kubeapi.kinds import Key


@shared_task(ignore_result=True)
def keep_sets() -> None:
    """H23, H24: their absence causes no change that could be watched, so somebody has to look."""
    present = set(ManagedClusterSet.objects.filter(name__in=SELECTORS).values_list("name", flat=True))
    if missing := SELECTORS.keys() - present:
        workqueue.put({("standing_set", Key("", name)) for name in missing}, timezone.now())
        workqueue.poke()
