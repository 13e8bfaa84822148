"""What the passing of time asks for: one query that finds the clusters whose verdict has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery import shared_task
from django.db.models import Exists, F, OuterRef, Q, Subquery, Value
from django.db.models.functions import Abs, Coalesce
from django.utils import timezone

from clusters import health, heartbeats
from clusters.kinds import LEASE_NAME, SECOND, microseconds
from clusters.models import Lease, ManagedCluster
from clusters.status import GRACE_LEASES
from ocmconsole.kubeapi import workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import WorkItem

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet

MOST_AT_ONCE = 2_000


@shared_task(ignore_result=True)
def sweep_leases() -> None:
    """H16, H18: ask for work about clusters that fell silent or whose clock verdict flipped."""
    now = timezone.now()
    since = health.note_serving(now)
    work = {("lease_health", Key("", name)) for name in fallen_silent(now, since)}
    work |= {("clock", Key("", name)) for name in clock_flipped()}
    if work:
        workqueue.put(work, now)
        workqueue.poke()


@shared_task(ignore_result=True)
def note_heartbeats() -> None:
    """D17: each minute in which the hub served, how well each cluster is heard; no other time counts."""
    now = timezone.now()
    heartbeats.look(now, health.serving_since(now))
    heartbeats.forget(now)


def fallen_silent(now: datetime, since: datetime) -> list[str]:
    """H16, D17: a full grace has passed since the renewal and since the hub began to serve. No lease counts too.

    What already waits in the queue is left to its own time (K46).
    """
    watched = _watched("renew_time").exclude(available="Unknown").exclude(_queued("lease_health"))
    patience = F("lease_duration_seconds") * (GRACE_LEASES * SECOND)
    heard = Coalesce(F("last"), Value(0))
    lapsed = watched.annotate(heard=heard + patience).filter(heard__lte=microseconds(now))
    longest = int((now - since).total_seconds()) // GRACE_LEASES
    return _names(lapsed.filter(lease_duration_seconds__lte=longest))


def clock_flipped() -> list[str]:
    """H18, H19: the last heartbeat says something else than the condition."""
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
