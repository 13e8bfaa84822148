"""How many clusters are in which state. In: rows of clusters and a moment. Out: counts by rank and by columns.

Of a large fleet nearly all clusters are healthy, and all but time and certificate says so in columns of one index. So
those are counted from that index, and only clusters that may be in another state are read with lease and facts, by
``status_sql.with_word``, the definition. Both are parts of one statement, of one moment. Called by pages and metrics.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db.models import Case, Count, Exists, F, Min, OuterRef, Q, SmallIntegerField, Subquery, Value, When

from clusters.health.certificate_expiry import SOON
from clusters.health.status import LATE_LEASES, Word
from clusters.health.status_sql import RANKS, with_word
from clusters.kinds import LEASE_NAME, SECOND, microseconds
from clusters.models import ClusterFacts, Lease, ManagedCluster

if TYPE_CHECKING:
    from django.db.models import QuerySet

HEALTHY = RANKS[Word.HEALTHY]
# Healthy, unless its certificate has ended or was revoked, or its heartbeat is late. By ``clusters_cluster_usual``.
USUAL = Q(
    available="True", hub_accepts_client=True, joined="True", in_maintenance=False, deleted_at=None,
    available_since__isnull=False,
) & ~Q(clock_synced="False")  # fmt: skip
REVOKED = Q(certificate_revoked_at__isnull=False)
YES, NO = (Value(value, output_field=SmallIntegerField()) for value in (1, 0))


def unusual(now: datetime) -> QuerySet[Any]:
    """Names of all clusters that may be in another state than healthy; some are healthy, some are of no cluster."""
    shortest = ManagedCluster.objects.order_by().annotate(one=Value(1)).values("one")
    shortest = shortest.annotate(least=Min("lease_duration_seconds")).values("least")
    overdue = Value(microseconds(now)) - Subquery(shortest) * Value(LATE_LEASES * SECOND)
    late = Lease.objects.filter(name=LEASE_NAME, skew__isnull=False, renew_time__lt=overdue)
    names = ManagedCluster.objects.filter(~USUAL).order_by().values("name")
    return names.union(*_with_certificates(REVOKED, Q(certificate_not_after__lte=now)), late.values("namespace"))


def unusual_of(clusters: QuerySet[Any], now: datetime) -> QuerySet[Any]:
    """Of these with their word, ``is_usual`` where columns alone say healthy."""
    rows = with_word(clusters.filter(name__in=unusual(now)), now)
    found: QuerySet[Any] = rows.annotate(is_usual=Case(When(USUAL, then=YES), default=NO))
    return found


def usual_of(clusters: QuerySet[Any]) -> QuerySet[Any]:
    """Of these what columns alone call healthy, with the columns of ``unusual_of`` but ``heard``."""
    rank = Value(HEALTHY, output_field=SmallIntegerField())
    found: QuerySet[Any] = clusters.filter(USUAL).annotate(rank=rank, since=F("available_since"), is_usual=NO)
    return found


def unlike_most(now: datetime) -> QuerySet[Any]:
    """Names of clusters whose certificate is in another bucket than ``LATER``."""
    facts = ClusterFacts.objects.filter(cluster=OuterRef("name"))
    unknown = ManagedCluster.objects.filter(~Exists(facts)).order_by().values("name")
    ends = Q(certificate_not_after__lte=now + SOON), Q(certificate_not_after=None)
    return unknown.union(*_with_certificates(REVOKED, *ends))


def _with_certificates(*conditions: Q) -> list[QuerySet[Any]]:
    """A query for each, so that each has its index."""
    return [ClusterFacts.objects.filter(each).order_by().values("cluster") for each in conditions]


def counted(clusters: QuerySet[Any], now: datetime, *columns: str) -> Counter[tuple[Any, ...]]:
    """By rank and these columns. One statement."""
    parts = [
        rows.order_by().values_list("rank", "is_usual", *columns).annotate(n=Count("pk"))
        for rows in (usual_of(clusters), unusual_of(clusters, now))
    ]
    found: Counter[tuple[Any, ...]] = Counter()
    for rank, is_usual, *values, number in parts[0].union(parts[1], all=True):
        found[rank, *values] += number
        if is_usual:
            found[HEALTHY, *values] -= number
    return +found
