"""How far behind each outlet is, for Prometheus, and for hub health and ``doctor`` (``console.checkup``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db.models import Min

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.health import metrics
from ocmconsole.kubeapi.models import AuditEvent, AuditSeal, OutboundPosition
from ocmconsole.kubeapi.outbound import outlets
from ocmconsole.kubeapi.storage import audit_chain, incarnations

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LATE = timedelta(minutes=10)  # that an outlet of the audit is behind, after which somebody must see to its receiver


@dataclass(frozen=True, slots=True)
class Backlog:
    """Of one outlet: how many entries and seals wait, since when, and why if they should not."""

    outlet: str
    waiting: int
    oldest: datetime | None
    taken_at: datetime | None
    failures: int
    problem: str
    is_quiet: bool

    @property
    def age(self) -> timedelta:
        return max(clock.now() - self.oldest, timedelta()) if self.oldest else timedelta()


def backlogs() -> list[Backlog]:
    """One for each outlet that the settings name."""
    quiet = incarnations.is_quiet()
    rows = OutboundPosition.objects.in_bulk()
    return [
        _of(outlet, rows.get(outlet.name) or OutboundPosition(outlet=outlet.name), is_quiet=quiet)
        for outlet in outlets.configured()
    ]


def _of(outlet: outlets.Outlet, row: OutboundPosition, *, is_quiet: bool) -> Backlog:
    seals = AuditSeal.objects.filter(number__gt=row.seal)
    waiting, sealed = seals.count(), seals.aggregate(oldest=Min("newest"))["oldest"]
    oldest = sealed + audit_chain.SETTLED if sealed else None  # a seal is not made before
    if not outlet.seals_only:
        entries = AuditEvent.objects.filter(pk__gt=row.entry)
        waiting += entries.count()
        first = entries.order_by("pk").values_list("time", flat=True).first()
        oldest = min(filter(None, (oldest, first)), default=None)
    return Backlog(outlet.name, waiting, oldest, row.taken_at, row.failures, row.problem, is_quiet)


@metrics.reads
def outlets_of_the_audit() -> Iterator[Metric]:
    found = backlogs()
    for name, said, values in (
        (
            "waiting",
            "Entries and seals that the receiver of an outlet has not taken.",
            [each.waiting for each in found],
        ),
        ("age_seconds", "How long the oldest of them waits.", [each.age.total_seconds() for each in found]),
        ("failures", "Tries in a row that the receiver has not taken.", [each.failures for each in found]),
    ):
        family = metrics.GaugeMetricFamily(f"ocmconsole_audit_outlet_{name}", said, labels=["outlet"])
        for each, value in zip(found, values, strict=True):
            family.add_metric([each.outlet], value)
        yield family
