"""Tasks of the clock: every placement is scheduled again from time to time; old history of decisions goes."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from django.conf import settings
from django.db.models import Count

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key
from placements.controller import brakes
from placements.models import DecisionRun, Placement

if TYPE_CHECKING:
    from django.db.models import QuerySet

TURNS = 30  # minutes until all have had their turn, as upstream; not all at once, or other work waits behind them
MOST_RUNS = 1_000  # of one placement that are kept: some 20 MB where each moves 500 clusters
AT_ONCE = 500  # runs that are removed in one transaction


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


def watch_brakes() -> None:
    """D27: brakes on evictions end by time and by the return of the clusters."""
    brakes.end_due(clock.now())


def expire_decision_history() -> None:
    """K43: what happened to decisions is kept for ``OCMCONSOLE_PLACEMENT_HISTORY``, and so many runs of a placement."""
    old = DecisionRun.objects.filter(time__lt=clock.now() - settings.OCMCONSOLE_PLACEMENT_HISTORY)
    _remove(old.order_by("time").values_list("pk", flat=True)[:AT_ONCE])
    counted = DecisionRun.objects.order_by().values("uid").annotate(runs=Count("pk")).filter(runs__gt=MOST_RUNS)
    for uid in counted.values_list("uid", flat=True)[:AT_ONCE]:
        surplus = DecisionRun.objects.filter(uid=uid).order_by("-pk").values_list("pk", flat=True)
        _remove(surplus[MOST_RUNS : MOST_RUNS + AT_ONCE])


def _remove(keys: QuerySet[DecisionRun, int]) -> None:
    if found := list(keys):
        DecisionRun.objects.filter(pk__in=found).delete()
