"""Beat tasks: find expired leases and flipped clock checks by one query each, say so, and sample heartbeats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import BigIntegerField, Exists, ExpressionWrapper, F, OuterRef, Q, Subquery, Value
from django.db.models.functions import Abs, Coalesce, Greatest

from clusters.health import heartbeat_sampling, silence, uptime, verdicts
from clusters.health.status import GRACE_LEASES, LATE_LEASES
from clusters.kinds import LEASE_NAME, SECOND, microseconds
from clusters.models import Lease, ManagedCluster
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import WorkItem

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet

MOST_AT_ONCE = 10_000  # clusters of one sweep; the next comes two seconds later
VERDICTS = ("lease_health", "clock")


def sweep_leases() -> None:
    """H16, H18: find clusters whose grace period is over or whose clock check flipped, and say so of them.

    Some hundreds are written in one transaction, so that verdicts wait neither behind other work nor for each other.
    What could not be written so is left to the reconcilers, which are run here; other workers may help.
    """
    now = clock.now()
    uptime.note_sweep(now)
    gaps = uptime.serving_gaps(now)
    silent, flipped = fallen_silent(now, gaps), clock_flipped()
    if silent:
        silence.announce(now, silent, lambda: _unheard(now, gaps, LATE_LEASES))
    work = {("clock", Key("", name)) for name in verdicts.judge_clocks(flipped)}
    work |= {("lease_health", Key("", name)) for name in verdicts.call_silent(silent, now, gaps)}
    if silent or flipped:
        workqueue.put(work, now)
        workqueue.poke()
        workqueue.drain(only=VERDICTS)


def note_heartbeats() -> None:
    """D17: each minute in which the hub served, record how recently each cluster renewed its lease."""
    now = clock.now()
    heartbeat_sampling.note_heartbeats(now, uptime.serving_since(now))
    heartbeat_sampling.delete_old_heartbeats(now)


def fallen_silent(now: datetime, gaps: list[uptime.Gap]) -> list[str]:
    """Names of clusters that were not renewed for a grace period (H16), not counting time without service (D17).

    A missing lease counts as never renewed. Keys that wait in the queue are left to their own time (K46).
    """
    return _names(_unheard(now, gaps, GRACE_LEASES).exclude(_queued("lease_health")))


def _unheard(now: datetime, gaps: list[uptime.Gap], leases: int) -> QuerySet[Any]:
    """Clusters that were not renewed for so many lease durations, without time without service (D17)."""
    watched = _watched("renew_time").exclude(available="Unknown")
    watched = watched.annotate(heard=Coalesce(F("last"), _number(0)))
    until: Any = F("heard") + F("lease_duration_seconds") * _number(leases * SECOND)
    for begin, end in gaps:
        until += Greatest(_number(0), _number(end) - Greatest(F("heard"), _number(begin)))
    # Without its type Django takes the sum for 32 bits, holds that every such number is less, and drops the condition.
    until = ExpressionWrapper(until, output_field=BigIntegerField())
    found: QuerySet[Any] = watched.annotate(until=until).filter(until__lte=microseconds(now))
    return found


def _number(value: int) -> Value:
    return Value(value, output_field=BigIntegerField())


def clock_flipped() -> list[str]:
    """Names of clusters whose last heartbeat contradicts ClockSynced (H18; H19: clusters that skip the check)."""
    beaten = _watched("skew").filter(last__isnull=False).exclude(_queued("clock"))
    beaten = beaten.annotate(off=Abs(F("last")), limit=F("lease_duration_seconds") * (GRACE_LEASES * SECOND))
    good = Q(ignores_clock=True) | Q(off__lt=F("limit"))
    return _names(beaten.filter((good & ~Q(clock_synced="True")) | (~good & ~Q(clock_synced="False"))))


def _watched(column: str) -> QuerySet[Any]:
    """Clusters that were ever let in, with a column of their lease as ``last``."""
    lease = Lease.objects.filter(namespace=OuterRef("name"), name=LEASE_NAME)
    accepted: QuerySet[Any] = ManagedCluster.objects.exclude(accepted="")
    found: QuerySet[Any] = accepted.annotate(last=Subquery(lease.values(column)[:1]))
    return found


def _queued(reconciler: str) -> Exists:
    return Exists(WorkItem.objects.filter(reconciler=reconciler, namespace="", name=OuterRef("name")))


def _names(clusters: QuerySet[Any]) -> list[str]:
    return list(clusters.values_list("name", flat=True)[:MOST_AT_ONCE])
