"""Who has fallen silent, and whose clock check flipped (H16, H18): of all clusters, or of those that have moved.

The two queries here are the definition; over ten thousand clusters they take a noticeable part of a processor every two
seconds. So a process remembers when each cluster falls silent unless it is heard, and reads in the change log whose
cluster or lease was written since. The log is complete in the order of its numbers, but for what was cut (D23), after
which all are looked at; so no process needs to tell another one anything. Who is late by what is remembered is asked
about by name, so that one cluster that falls silent is no reason to look at all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import BigIntegerField, Exists, ExpressionWrapper, F, OuterRef, Q, Subquery, Value
from django.db.models.functions import Abs, Coalesce, Greatest

from clusters.health.status import GRACE_LEASES, LATE_LEASES
from clusters.kinds import LEASE, LEASE_NAME, MANAGED_CLUSTER, SECOND, microseconds
from clusters.models import Lease, ManagedCluster
from ocmconsole.kubeapi.models import Change, WorkItem
from ocmconsole.kubeapi.watch import change_log

if TYPE_CHECKING:
    from collections.abc import Collection

    from django.db.models import QuerySet

    from clusters.health.uptime import Gap

WATCHED = (MANAGED_CLUSTER.resource, LEASE.resource)
MOST_AT_ONCE = 10_000  # clusters of one sweep; the next comes two seconds later
# Clusters that are asked about by their names; where more have moved all are looked at. A hub of 100,000 hears of 3,334
# between two sweeps, which takes 0.13 s of CPU time by name, and 1.6 s of all.
MOST_MOVED = 10_000
LONGEST_REST = timedelta(seconds=60)  # between two looks at all: half as long as the log keeps a lease's changes


class Due(NamedTuple):
    """Names of clusters."""

    silent: list[str]
    flipped: list[str]


@dataclass(slots=True)
class _Look:
    """At all clusters, at a moment with its gaps (D17), and at what has moved since.

    ``ends`` are the microseconds at which clusters fall silent, by name, of those that are not yet; ``flipped`` the
    names that the last sweep found; ``seen`` the revision up to which the log was read.
    """

    at: datetime
    gaps: list[Gap]
    ends: dict[str, int]
    flipped: list[str]
    seen: int


_last: _Look | None = None


def forget() -> None:
    """The next sweep looks at all clusters."""
    global _last  # noqa: PLW0603 - one for the process, which sweeps in one thread
    _last = None


def due(now: datetime, gaps: list[Gap]) -> Due:
    """As ``fallen_silent`` and ``clock_flipped``. One short query while nothing is written and no time is over.

    A verdict that is still to be written is found again.
    """
    global _last  # noqa: PLW0603 - as above
    head = change_log.newest_revision()  # before the rows: what comes later is seen again
    last = _last if _last is not None and _is_fresh(_last, now, gaps, head) else None
    moved = _moved(last.seen) if last is not None and head != last.seen else []
    _last = None  # a sweep that fails midway is followed by a look at all
    if last is None or moved is None:
        look = _Look(now, gaps, _ends(gaps), clock_flipped(), head)
    else:
        look = _followed(last, moved, head)
    late = [name for name, end in look.ends.items() if end <= microseconds(now)]
    silent = fallen_silent(now, gaps, _among(late)) if late else []
    if len(look.flipped) < MOST_AT_ONCE:  # else there may be more
        _last = look
    return Due(silent, look.flipped)


def _is_fresh(last: _Look, now: datetime, gaps: list[Gap], head: int) -> bool:
    return last.at <= now < last.at + LONGEST_REST and last.gaps == gaps and last.seen <= head


def _followed(look: _Look, moved: Collection[str], head: int) -> _Look:
    """With what has moved up to the revision."""
    for name in moved:
        look.ends.pop(name, None)
    if moved:
        look.ends.update(_ends(look.gaps, moved))
    again = {*moved, *look.flipped}
    look.flipped = clock_flipped(_among(again)) if again else []
    look.seen = head
    return look


def _among(names: Collection[str]) -> Collection[str] | None:
    """None, which is all, where a statement would name too many."""
    return sorted(names) if len(names) <= MOST_MOVED else None


def _moved(seen: int) -> list[str] | None:
    """Names of clusters that were written since a revision, or whose lease was; None for too many, or a cut log."""
    changes = Change.objects.filter(revision__gt=seen, resource__in=WATCHED)
    rows = changes.order_by().values_list("namespace", "name")[: MOST_MOVED + 1]
    names = {namespace or name for namespace, name in rows if not namespace or name == LEASE_NAME}
    is_whole = len(rows) <= MOST_MOVED and change_log.cut_before(WATCHED, seen) is None
    return sorted(names) if is_whole else None


def fallen_silent(now: datetime, gaps: list[Gap], among: Collection[str] | None = None) -> list[str]:
    """Names of clusters that were not renewed for a grace period (H16), not counting time without service (D17).

    A missing lease counts as never renewed. Keys that wait in the queue are left to their own time (K46).
    """
    return _names(unheard(now, gaps, GRACE_LEASES, among).exclude(_queued("lease_health")))


def unheard(
    now: datetime, gaps: list[Gap], leases: int = LATE_LEASES, among: Collection[str] | None = None
) -> QuerySet[Any]:
    """Clusters that were not renewed for so many lease durations, without time without service (D17)."""
    return _with_end(gaps, leases, among).filter(until__lte=microseconds(now))


def _ends(gaps: list[Gap], among: Collection[str] | None = None) -> dict[str, int]:
    """By name, the microsecond at which each cluster that is not silent falls silent; in the past for who is late."""
    return dict(_with_end(gaps, GRACE_LEASES, among).order_by().values_list("name", "until"))


def _with_end(gaps: list[Gap], leases: int, among: Collection[str] | None) -> QuerySet[Any]:
    """Clusters that are not silent, with the microsecond at which they would be after so many lease durations."""
    watched = _watched("renew_time", among).exclude(available="Unknown")
    watched = watched.annotate(heard=Coalesce(F("last"), _number(0)))
    until: Any = F("heard") + F("lease_duration_seconds") * _number(leases * SECOND)
    for begin, end in gaps:
        until += Greatest(_number(0), _number(end) - Greatest(F("heard"), _number(begin)))
    # Without its type Django takes the sum for 32 bits, holds that every such number is less, and drops the condition.
    until = ExpressionWrapper(until, output_field=BigIntegerField())
    found: QuerySet[Any] = watched.annotate(until=until)
    return found


def _number(value: int) -> Value:
    return Value(value, output_field=BigIntegerField())


def clock_flipped(among: Collection[str] | None = None) -> list[str]:
    """Names of clusters whose last heartbeat contradicts ClockSynced (H18; H19: clusters that skip the check)."""
    beaten = _watched("skew", among).filter(last__isnull=False).exclude(_queued("clock"))
    beaten = beaten.annotate(off=Abs(F("last")), limit=F("lease_duration_seconds") * (GRACE_LEASES * SECOND))
    good = Q(ignores_clock=True) | Q(off__lt=F("limit"))
    return _names(beaten.filter((good & ~Q(clock_synced="True")) | (~good & ~Q(clock_synced="False"))))


def _watched(column: str, among: Collection[str] | None) -> QuerySet[Any]:
    """Clusters that were ever let in, with a column of their lease as ``last``."""
    lease = Lease.objects.filter(namespace=OuterRef("name"), name=LEASE_NAME)
    accepted: QuerySet[Any] = ManagedCluster.objects.exclude(accepted="")
    if among is not None:
        accepted = accepted.filter(name__in=among)
    found: QuerySet[Any] = accepted.annotate(last=Subquery(lease.values(column)[:1]))
    return found


def _queued(reconciler: str) -> Exists:
    return Exists(WorkItem.objects.filter(reconciler=reconciler, namespace="", name=OuterRef("name")))


def _names(clusters: QuerySet[Any]) -> list[str]:
    return list(clusters.values_list("name", flat=True)[:MOST_AT_ONCE])
