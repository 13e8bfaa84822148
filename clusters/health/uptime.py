"""When the hub served: silence counts only in that time (D17).

A server notes every few seconds that it serves; a heartbeat that was stored proves it as well. Where neither is found
for ``LONGEST_GAP`` the hub did not serve: it was stopped, frozen, could not write, or its clock jumped. Such gaps
are subtracted from every silence that spans them. A late sweep of a hub that serves is no gap.

``note_serving`` is called by the thread of ``embedded.Presence``; ``serving_gaps`` and ``serving_since`` by sweeps and
reconcilers.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

from clusters.kinds import LEASE, microseconds, parse_instant
from clusters.models import Serving
from ocmconsole.kubeapi.models import Change

LONGEST_GAP = timedelta(seconds=15)  # three notes of a server: shorter ones are its own pauses
# Between two notes of a server, and two of a sweep: three may be lost before it looks like a gap.
NOTE_SECONDS = 5.0
# Kept: enough for a hub that stutters during the longest usual grace; the oldest are joined.
MOST_GAPS = 12
BEGINNING = -(10**17)  # before any time that a lease can carry

# From and to, in microseconds since 1970.
Gap = tuple[int, int]


def note_serving(now: datetime) -> None:
    """A server serves now. What has passed since the last note of any server is a gap when it is too long."""
    serving = _row(now)
    last = serving.served or serving.seen
    if timedelta() <= now - last < timedelta(seconds=NOTE_SECONDS) and serving.served:
        return
    columns: dict[str, object] = {"served": now}
    if last - now > LONGEST_GAP:  # the clock went back: nothing is known of the time before
        columns |= {"since": now, "gaps": [(BEGINNING, microseconds(now))]}
    elif found := _holes(last, now):
        columns |= {"since": parse_instant(found[-1][1]), "gaps": _joined([*_stored(serving), *found])}
    Serving.objects.filter(pk=1, served=serving.served).update(**columns)  # another server may have been first


def note_sweep(now: datetime) -> None:
    """Somebody looks for silence now: read by those who watch over the clock."""
    if abs(now - _row(now).seen) >= timedelta(seconds=NOTE_SECONDS):
        Serving.objects.update(seen=now)


def serving_gaps(now: datetime) -> list[Gap]:
    """When the hub did not serve, oldest first, up to ``now``; the first one begins before all times."""
    serving = Serving.objects.first()
    if serving is None or serving.served is None or serving.served - now > LONGEST_GAP:
        return [(BEGINNING, microseconds(now))]
    return [*_stored(serving), *_holes(serving.served, now)]


def is_serving(now: datetime) -> bool:
    """Whether a server has noted within ``LONGEST_GAP`` that it serves."""
    serving = Serving.objects.filter(pk=1).first()
    return serving is not None and serving.served is not None and abs(now - serving.served) <= LONGEST_GAP


def serving_since(now: datetime) -> datetime:
    """Since when the hub has served without a gap; one that does not serve now begins now."""
    return parse_instant(serving_gaps(now)[-1][1])


def missed_microseconds(found: list[Gap], after: int) -> int:
    """Microseconds after a moment in which the hub did not serve."""
    return sum(max(0, end - max(begin, after)) for begin, end in found)


def _row(now: datetime) -> Serving:
    return Serving.objects.get_or_create(pk=1, defaults={"since": now, "seen": now})[0]


def _stored(serving: Serving) -> list[Gap]:
    return [(begin, end) for begin, end in serving.gaps] or [(BEGINNING, microseconds(serving.since))]


def _holes(last: datetime, now: datetime) -> list[Gap]:
    """Times between two signs of service that are too long, after ``last`` and up to ``now``."""
    if now - last <= LONGEST_GAP:
        return []
    heartbeats = Change.objects.filter(resource=LEASE.resource, verb=Change.Verb.MODIFIED, time__gt=last, time__lte=now)
    signs = [last, *heartbeats.order_by("time").values_list("time", flat=True), now]
    return [(microseconds(one), microseconds(other)) for one, other in pairwise(signs) if other - one > LONGEST_GAP]


def _joined(found: list[Gap]) -> list[Gap]:
    """At most ``MOST_GAPS``: the oldest two after the first become one of their length, at the place of the later."""
    while len(found) > MOST_GAPS:
        first, (begin, end), (later, last), *others = found
        found = [first, (later - (end - begin), last), *others]
    return found
