"""How far each outlet has come, kept in the database, and which process sends for it at present.

Invariant: a position moves only when the receiver has taken what lies before it, so nothing is left out. One process
sends at a time; if it dies, or stands still for longer than ``CLAIM``, another goes on from the position, and what was
on its way is sent again.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Min, Q

from ocmconsole.kubeapi import clock, write_queue
from ocmconsole.kubeapi.models import OutboundPosition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

    from ocmconsole.kubeapi.outbound.delivery import OutboundBatch

CLAIM = timedelta(seconds=45)  # more than twice what a receiver is given to take a batch
FURTHEST_CLAIM = 2 * CLAIM  # ahead of this process's clock, for another one's may be ahead of it
LONGEST_PAUSE = timedelta(minutes=5)  # between two tries
DOUBLINGS = 9  # of a second until that
LONGEST_PROBLEM = 300  # characters, as the column


def position_of(outlet: str) -> OutboundPosition:
    """A new outlet begins with the oldest entry that is kept."""
    if (row := OutboundPosition.objects.filter(pk=outlet).first()) is not None:
        return row
    with write_queue.forgettable():
        return OutboundPosition.objects.get_or_create(outlet=outlet)[0]


def is_due(row: OutboundPosition, now: datetime) -> bool:
    """No pause and nobody else's claim. Times much further ahead than such last are of a clock put back since."""
    is_paused = row.due is not None and now < row.due <= now + LONGEST_PAUSE
    return not is_paused and not (row.busy_until is not None and now < row.busy_until <= now + FURTHEST_CLAIM)


def claim(row: OutboundPosition, sender: str) -> bool:
    """Whether this sender may send what comes after the position as it was read."""
    now = clock.now()
    free = OutboundPosition.objects.filter(pk=row.pk, entry=row.entry, seal=row.seal).filter(
        Q(busy_until=None) | Q(busy_until__lt=now) | Q(busy_until__gt=now + FURTHEST_CLAIM)
    )
    with write_queue.forgettable():
        return bool(free.update(sender=sender, busy_until=now + CLAIM))


def advance(
    row: OutboundPosition, sender: str, batch: OutboundBatch, note: Callable[[], object] = lambda: None
) -> None:
    """The receiver has taken the batch. ``note`` runs in the same transaction, unless the claim was lost."""
    with write_queue.forgettable():
        moved = OutboundPosition.objects.filter(pk=row.pk, sender=sender).update(
            entry=batch.entry,
            seal=batch.seal,
            taken_at=clock.now(),
            busy_until=None,
            failures=0,
            problem="",
            failing_since=None,
            due=None,
        )
        if moved:
            note()


def pause_after(failures: int) -> timedelta:
    """Longer and longer, each a little different from others."""
    return min(timedelta(seconds=2 ** min(failures, DOUBLINGS)), LONGEST_PAUSE) * random.uniform(0.75, 1)  # noqa: S311 - no secret


def put_off(
    row: OutboundPosition,
    sender: str,
    problem: str,
    retry_after: timedelta | None,
    note: Callable[[], bool] = lambda: False,
) -> None:
    """The receiver has not taken it.

    ``note`` as in ``advance``; where it says so, what comes next is sent without the pause, unless the receiver asked
    for one.
    """
    now, pause = clock.now(), pause_after(row.failures)
    with write_queue.forgettable():
        kept = OutboundPosition.objects.filter(pk=row.pk, sender=sender)
        moved = kept.update(
            busy_until=None,
            failures=row.failures + 1,
            problem=problem[:LONGEST_PROBLEM],
            failing_since=row.failing_since or now,
            due=now + max(pause, min(retry_after or timedelta(), LONGEST_PAUSE)),
        )
        if moved and note() and retry_after is None:
            kept.update(due=None)


def release() -> None:
    """For a start with no other process: what a killed one had claimed is nobody's."""
    OutboundPosition.objects.exclude(busy_until=None).update(busy_until=None)


def try_at_once(outlet: str) -> None:
    """No pause any more: a process starts, perhaps because somebody has changed something."""
    paused = OutboundPosition.objects.filter(pk=outlet).exclude(due=None)
    if paused.exists():
        with write_queue.forgettable():
            paused.update(due=None)


def lowest_entry(outlets: Collection[str]) -> int | None:
    """Up to which entry all of these outlets have been taken; None for no outlets."""
    rows = OutboundPosition.objects.filter(pk__in=outlets)
    return (rows.aggregate(lowest=Min("entry"))["lowest"] if len(rows) == len(outlets) else 0) if outlets else None
