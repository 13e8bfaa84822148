"""Who was held back by a limit, for hub health (D23): one row for an identity and a limit, counted.

Refusals of the event loop are collected by ``Tally`` and written every few seconds beside it; those of a rule at once.
Rows are bounded in number and age, so that a flood of addresses fills no disk. Callers:
``ocmconsole.server.exchange``, rules, ``tasks.compact``.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import F

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.health import metrics
from ocmconsole.kubeapi.models import HeldBack
from ocmconsole.kubeapi.storage import only_reads
from ocmconsole.kubeapi.watch import follower

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor

log = logging.getLogger(__name__)

WRITTEN_EVERY = 2.0  # seconds
KEPT = timedelta(days=7)  # since the last refusal
SAME_SPELL = timedelta(hours=1)  # refusals that are closer together have one "since"
MOST_ROWS = 1_000  # the newest; identities are free to invent
MOST_COLLECTED = 1_000  # between two writes; what is beyond is counted as of OTHERS
OTHERS = "others"

Key = tuple[str, str, str]


def record(actor: Actor, limit: str) -> None:
    """A rule refused something of the actor; outside of the transaction that the refusal ends."""
    write_counts({(actor.user, actor.address, limit): 1})


def write_counts(counts: dict[Key, int]) -> None:
    """Add to the rows, and log each line of them. A hub that only reads logs alone."""
    if not only_reads.is_set():
        now = clock.now()
        with transaction.atomic():
            for (user, address, limit), count in sorted(counts.items()):
                _add(user[:320], address[:64], limit, count, now)
    for (user, address, limit), count in counts.items():
        metrics.held_back(limit, count)
        log.warning("held back %s from %s: %s, %d times", user or "a caller without credential", address, limit, count)


def _add(user: str, address: str, limit: str, count: int, now: datetime) -> None:
    # An identity is one row wherever it comes from; callers without one are a row for each address.
    of = {"user": user, "limit": limit} if user else {"user": "", "limit": limit, "address": address}
    found = HeldBack.objects.filter(**of)
    if found.filter(last__gte=now - SAME_SPELL).update(count=F("count") + count, last=now, address=address):
        return
    if not found.update(count=count, since=now, last=now, address=address):
        HeldBack.objects.create(user=user, limit=limit, address=address, count=count, since=now, last=now)


def delete_old_counts(now: datetime) -> None:
    """Rows of the last week, and of those the newest."""
    HeldBack.objects.filter(last__lt=now - KEPT).delete()
    kept = HeldBack.objects.order_by("-last").values("pk")[:MOST_ROWS]
    if HeldBack.objects.count() > MOST_ROWS:
        HeldBack.objects.exclude(pk__in=list(kept.values_list("pk", flat=True))).delete()


@dataclass(slots=True)
class Tally:
    """What one event loop refused since the last write."""

    counts: dict[Key, int] = field(default_factory=dict)
    writing: asyncio.Task[None] | None = None

    def add(self, user: str, address: str, limit: str) -> None:
        key = (user, address, limit)
        if key not in self.counts and len(self.counts) >= MOST_COLLECTED:
            key = (OTHERS, "", limit)
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.writing is None:
            self.writing = asyncio.get_running_loop().create_task(self._write_soon())

    async def _write_soon(self) -> None:
        await asyncio.sleep(WRITTEN_EVERY)
        counts, self.counts, self.writing = self.counts, {}, None
        try:
            await follower.in_thread(write_counts, counts)
        except Exception:  # the page misses them; the next are written as ever
            log.exception("could not record who was held back")
