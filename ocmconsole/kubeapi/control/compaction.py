"""How the change log is cut: by age and number, and by bytes (D23).

Invariant: that a resource was cut is committed before its changes go, so a reader that missed one finds out. Called by
the clock, and by the compact command.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Max, Sum

from ocmconsole.kubeapi import clock, kinds, write_queue
from ocmconsole.kubeapi.models import Change, Compaction

log = logging.getLogger(__name__)

KEEP_CHANGES = 10_000  # the newest changes of each kind, for watches that come back
SPARE_PART = 8  # of the bound in bytes: how much more is cut than needed
STEP = 200  # changes removed in one transaction; the largest have 6 MiB


def compact_log(now: datetime | None = None, *, keep: int = KEEP_CHANGES, age: timedelta | None = None) -> int:
    """Cut what every reader had time to see; returns the number of changes removed.

    Each resource keeps its newest ``keep`` and those younger than ``age``, else than its kind's retention (leases
    2 minutes, others 10).
    """
    now = now or clock.now()
    removed = 0
    for kind in kinds.all_kinds():
        since = now - (age or timedelta(seconds=kind.retention_seconds))
        old = Change.objects.filter(resource=kind.resource, time__lt=since)
        spared = Change.objects.filter(resource=kind.resource).order_by("-revision").values_list("revision", flat=True)
        floor = spared[keep : keep + 1].first()
        newest = old.aggregate(newest=Max("revision"))["newest"]
        if floor is None or newest is None:
            continue
        cut = min(floor, newest)
        removed += _cut(kind.resource, cut)
    return removed


def bound_log(most: int | None = None) -> int:
    """Cut the log to ``most`` bytes of documents, else to its setting (D23); returns the number of changes removed.

    The resource that takes the most room is cut first, so that a flood of one kind costs the watchers of another
    nothing; and by an eighth of the bound more than needed, so that it is not cut at each run. Watches from before get
    410 and list again, however young the changes were.
    """
    most = settings.OCMCONSOLE_LIMIT_CHANGE_LOG if most is None else most
    by_resource = Change.objects.order_by().values_list("resource").annotate(bytes=Sum("size"))
    sizes = {resource: size or 0 for resource, size in by_resource}
    removed, excess = 0, sum(sizes.values()) - most
    for resource, size in sorted(sizes.items(), key=lambda item: -item[1]):
        if not most or excess <= 0:
            break
        goal, freed, cut = min(size, excess + most // SPARE_PART), 0, 0
        rows = Change.objects.filter(resource=resource).order_by("revision").values_list("revision", "size")
        for revision, length in rows.iterator():
            if freed >= goal:
                break
            freed, cut = freed + length, revision
        removed += _cut(resource, cut)
        excess -= freed
    if removed:
        log.warning("the change log was larger than %d bytes: %d changes cut", most, removed)
    return removed


def _cut(resource: str, upto: int) -> int:
    """Remove the changes of a resource up to a revision, in steps, so that writers get in between."""
    removed = 0
    with write_queue.forgettable():
        Compaction.objects.update_or_create(resource=resource, defaults={"revision": upto})
    found = Change.objects.filter(resource=resource, revision__lte=upto).order_by("revision")
    while batch := list(found.values_list("revision", flat=True)[:STEP]):
        with write_queue.forgettable():
            removed += Change.objects.filter(resource=resource, revision__lte=batch[-1]).delete()[0]
    return removed
