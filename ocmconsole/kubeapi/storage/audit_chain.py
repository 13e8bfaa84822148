"""The audit's hash chain (D11): entries are sealed in segments, in their order, and each seal holds the one before.

Keyed with a secret of the home, so that access to the database alone is not enough to forge a chain. Sealing
waits until an entry is settled: denials of one minute are counted on one row. Never part of a commit. The newest seal
is logged; who keeps that line elsewhere can show that nothing was cut off at the end (`verify(expected=…)`).
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import orjson
from django.conf import settings
from django.db import IntegrityError, transaction

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import AuditEvent, AuditSeal

if TYPE_CHECKING:
    from ocmconsole.kubeapi.models import AuditQuerySet

log = logging.getLogger(__name__)

# A denial is counted for a minute; a commit that has taken its number is over long before the second one ends.
SETTLED = timedelta(minutes=2)
SEGMENT = 1_000  # entries of a seal at most
BEGINNING = "0" * 64
FIRST = -(2**63)  # before any number that a row can have
COLUMNS = ("id", "time", "revision", "request_id", "user", "groups", "impersonator", "credential", "address",
           "user_agent", "door", "outcome", "act", "verb", "resource", "namespace", "name", "uid", "reason", "diff",
           "count")  # fmt: skip
FIELDS = {"door": "entry_point"}  # seals and exports keep the name that they were made with


@dataclass(frozen=True, slots=True)
class Flaw:
    """Where the audit is not as it was sealed."""

    seal: int
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    entries: int
    seals: int
    head: str
    unsealed: int
    flaws: tuple[Flaw, ...]


# ---------------------------------------------------------------- sealing


def newest_seal() -> AuditSeal | None:
    """None before the first."""
    return AuditSeal.objects.order_by("-number").first()


def count_unsealed(newest: AuditSeal | None) -> int:
    """Entries that are younger than the newest seal."""
    return _younger_than(newest.last if newest else 0)


def _younger_than(entry: int) -> int:
    return AuditEvent.objects.filter(pk__gt=entry).count()


def seal_entries(now: datetime | None = None) -> int:
    """Seal every settled entry; returns how many seals were made. Another process that seals too loses nothing."""
    made = 0
    while True:
        last = newest_seal()
        found = _settled(last, now or clock.now())
        if not found:
            return made
        try:
            with transaction.atomic():
                new = _seal_of(last, found)
                new.save(force_insert=True)
        except IntegrityError:  # somebody else has made the seal of this number
            return made
        log.info("audit sealed up to entry %s: seal %s is %s", new.last, new.number, new.digest)
        made += 1


def _settled(last: AuditSeal | None, now: datetime) -> list[AuditEvent]:
    rows = AuditEvent.objects.filter(pk__gt=last.last if last else FIRST).order_by("pk")[:SEGMENT]
    return list(takewhile(lambda entry: entry.time < now - SETTLED, rows))


def _seal_of(last: AuditSeal | None, entries: list[AuditEvent]) -> AuditSeal:
    previous = last.digest if last else BEGINNING
    return AuditSeal(
        number=last.number + 1 if last else 1,
        first=entries[0].pk,
        last=entries[-1].pk,
        count=len(entries),
        newest=max(entry.time for entry in entries),
        digest=digest(previous, map(line, entries)),
    )


def line(entry: AuditEvent) -> bytes:
    """An entry as it is sealed and exported: one line of JSON, its names in a fixed order."""
    values: dict[str, Any] = {name: getattr(entry, FIELDS.get(name, name)) for name in COLUMNS}
    return orjson.dumps(values, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z)


def digest(previous: str, lines: Iterator[bytes]) -> str:
    chained = hmac.new(settings.AUDIT_KEY.encode(), previous.encode(), hashlib.sha256)
    for each in lines:
        chained.update(b"\n" + each)
    return chained.hexdigest()


# ---------------------------------------------------------------- proving


def verify_chain(*, expected: str = "") -> Report:
    """Compute the whole chain again. ``expected`` is a digest that was noted elsewhere: it must be in it."""
    flaws: list[Flaw] = []
    previous, at, entries, number = BEGINNING, FIRST, 0, 0
    digests = set()
    for kept in AuditSeal.objects.order_by("number").iterator():
        if kept.number != number + 1:
            flaws.append(Flaw(number + 1, f"seal {number + 1} is missing before seal {kept.number}"))
        flaws += _between(kept, at)
        flaws += _broken(kept, previous) if kept.cut_at is None else _wrongly_cut(kept)
        entries += kept.count if kept.cut_at is None else 0
        previous, at, number = kept.digest, kept.last, kept.number
        digests.add(kept.digest)
    if expected and expected not in digests:
        flaws.append(Flaw(number, f"no seal is {expected}: the end of the chain was cut off or made anew"))
    return Report(entries, number, previous if number else "", _younger_than(at), tuple(flaws))


def _between(kept: AuditSeal, at: int) -> Iterator[Flaw]:
    """An entry that no seal holds, although later ones are sealed."""
    strays = AuditEvent.objects.filter(pk__gt=at, pk__lt=kept.first)
    if numbers := list(strays.values_list("pk", flat=True)[:5]):
        yield Flaw(
            kept.number, f"entries {', '.join(map(str, numbers))} were put in before what seal {kept.number} holds"
        )


def _broken(kept: AuditSeal, previous: str) -> Iterator[Flaw]:
    rows = segment(kept)
    count = rows.count()
    if count != kept.count:
        text = f"entries {kept.first} to {kept.last} are {count}, and {kept.count} were sealed"
        yield Flaw(kept.number, text)
    elif digest(previous, map(line, rows.iterator())) != kept.digest:
        yield Flaw(kept.number, f"among the entries {kept.first} to {kept.last} one was changed, or put elsewhere")


def _wrongly_cut(kept: AuditSeal) -> Iterator[Flaw]:
    """That a segment was cut is under the key as well: else a mark would hide whatever was done to it."""
    if kept.cut_at is None or not hmac.compare_digest(kept.cut_mark, _cut_mark(kept, kept.cut_at)):
        yield Flaw(kept.number, f"seal {kept.number} says that its entries were cut, and the hub did not cut them")
    elif segment(kept).exists():
        yield Flaw(kept.number, f"entries {kept.first} to {kept.last} were cut, and some are there")


def _cut_mark(kept: AuditSeal, at: datetime) -> str:
    return digest(kept.digest, iter([f"cut {kept.number} at {at.isoformat()}".encode()]))


def segment(kept: AuditSeal) -> AuditQuerySet:
    return AuditEvent.objects.filter(pk__gte=kept.first, pk__lte=kept.last).order_by("pk")


# ---------------------------------------------------------------- retention


def delete_old_entries(now: datetime | None = None) -> int:
    """Remove sealed entries that are older than the retention; their seals stay. Returns how many were removed."""
    keep: timedelta | None = settings.OCMCONSOLE_AUDIT_RETENTION
    if keep is None:
        return 0
    now, removed = now or clock.now(), 0
    for kept in AuditSeal.objects.filter(cut_at=None, newest__lt=now - keep).order_by("number"):
        with transaction.atomic():
            removed += segment(kept).cut()
            AuditSeal.objects.filter(pk=kept.pk).update(cut_at=now, cut_mark=_cut_mark(kept, now))
    return removed
