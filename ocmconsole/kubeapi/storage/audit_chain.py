"""The audit's hash chain (D11): entries are sealed in segments, in their order, and each seal holds the one before.

Keyed with a secret of the home, so that access to the database alone is not enough to forge a chain. Sealing
waits until an entry is settled: denials of one minute are counted on one row. Never part of a commit. The newest seal
is logged and goes to the anchors outside; with what was noted there `verify_chain(expected=…)` shows that the chain
was neither cut off at its end nor made anew by somebody who has the key.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import orjson
from django.conf import settings
from django.db import IntegrityError, transaction

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import AuditEvent, AuditSeal
from ocmconsole.kubeapi.storage.audit_heads import NotedHead

if TYPE_CHECKING:
    from django.db.models import QuerySet

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
OTHER_KEY = "seals were made with another audit-key than that of this home, and what they hold cannot be checked"
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
    missing: tuple[NotedHead, ...] = ()  # that were expected
    vouched: AuditSeal | None = None  # the newest that was expected and is there


# ---------------------------------------------------------------- sealing


def newest_seal() -> AuditSeal | None:
    """None before the first."""
    return AuditSeal.objects.order_by("-number").first()


def count_unsealed(newest: AuditSeal | None) -> int:
    """Entries that are younger than the newest seal."""
    return _younger_than(newest.last if newest else 0)


def oldest_unsealed(newest: AuditSeal | None) -> datetime | None:
    """When the oldest entry that is younger than the newest seal was made; None where every entry is sealed."""
    entries = AuditEvent.objects.filter(pk__gt=newest.last if newest else 0)
    return entries.order_by("pk").values_list("time", flat=True).first()


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
    """An entry that is as far ahead is of a clock that was put back since: it must not hold up those behind it."""
    rows = AuditEvent.objects.filter(pk__gt=last.last if last else FIRST).order_by("pk")[:SEGMENT]
    return list(takewhile(lambda entry: abs(now - entry.time) > SETTLED, rows))


def _seal_of(last: AuditSeal | None, entries: list[AuditEvent]) -> AuditSeal:
    previous = last.digest if last else BEGINNING
    return AuditSeal(
        number=last.number + 1 if last else 1,
        first=entries[0].pk,
        last=entries[-1].pk,
        count=len(entries),
        newest=max(entry.time for entry in entries),
        digest=digest(previous, map(line, entries)),
        key=key_name(),
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


def key_name() -> str:
    """What tells keys apart and says nothing of one: a home without its ``audit-key`` gets another."""
    return hmac.new(settings.AUDIT_KEY.encode(), b"name of this key", hashlib.sha256).hexdigest()[:16]


def first_of_other_key() -> AuditSeal | None:
    """The first seal that was made with another key than this home's."""
    return AuditSeal.objects.exclude(key__in=["", key_name()]).order_by("number").first()


# ---------------------------------------------------------------- proving


def verify_chain(*, expected: Iterable[NotedHead] = ()) -> Report:
    """Compute the whole chain again. ``expected`` are heads that were noted elsewhere: each must be in it."""
    return _verify(AuditSeal.objects.all(), None, {head.digest: head for head in expected})


def verify_between(first: int, last: int) -> Report:
    """Compute the seals again that hold these entries, on the word of the seal before them."""
    seals = seals_between(first, last)
    return _verify(seals, AuditSeal.objects.filter(last__lt=first).order_by("-number").first(), {})


def seals_between(first: int, last: int) -> QuerySet[AuditSeal]:
    """Up to the first that was made after the last of these entries: one that is missing leaves a gap before it."""
    following = AuditSeal.objects.filter(last__gte=last).order_by("number").first()
    seals = AuditSeal.objects.filter(last__gte=first)
    return seals.filter(last__lte=following.last) if following else seals


def _verify(seals: QuerySet[AuditSeal], before: AuditSeal | None, noted: dict[str, NotedHead]) -> Report:
    flaws: list[Flaw] = []
    previous, at, number = (before.digest, before.last, before.number) if before else (BEGINNING, FIRST, 0)
    missing, vouched, entries, key, own = dict(noted), None, 0, "", key_name()
    for kept in seals.order_by("number").iterator():
        if kept.number != number + 1:
            flaws.append(Flaw(number + 1, f"seal {number + 1} is missing before seal {kept.number}"))
        flaws += _between(kept, at)
        if kept.key in {"", own}:
            flaws += _broken(kept, previous) if kept.cut_at is None else _wrongly_cut(kept)
        elif kept.key != key:
            flaws.append(Flaw(kept.number, f"from seal {kept.number} on {OTHER_KEY}"))
        entries += kept.count if kept.cut_at is None else 0
        previous, at, number, key = kept.digest, kept.last, kept.number, kept.key
        if (head := noted.get(kept.digest)) is not None and head.number in {None, kept.number}:
            missing.pop(kept.digest, None)
            vouched = kept
    head_of_chain = previous if number else ""
    return Report(entries, number, head_of_chain, _younger_than(at), tuple(flaws), tuple(missing.values()), vouched)


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


def delete_old_entries(now: datetime | None = None, *, taken: int | None = None) -> int:
    """Remove sealed entries that are older than the retention; their seals stay. Returns how many were removed.

    ``taken`` is the entry up to which they are outside of the hub, where they must be before they go.
    """
    keep: timedelta | None = settings.OCMCONSOLE_AUDIT_RETENTION
    if keep is None:
        return 0
    now, removed = now or clock.now(), 0
    old = AuditSeal.objects.filter(cut_at=None, newest__lt=now - keep)
    for kept in (old if taken is None else old.filter(last__lte=taken)).order_by("number"):
        with transaction.atomic():
            removed += segment(kept).cut()
            AuditSeal.objects.filter(pk=kept.pk).update(cut_at=now, cut_mark=_cut_mark(kept, now))
    return removed
