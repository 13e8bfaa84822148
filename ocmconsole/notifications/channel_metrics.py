"""For Prometheus: what waits for each channel, since when, and what its receiver did not take."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Count, Exists, Min, OuterRef, Q

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.health import metrics
from ocmconsole.kubeapi.models import OutboundPosition
from ocmconsole.models import NotificationChannel, NotificationDelivery
from ocmconsole.notifications import channels

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet
    from prometheus_client.core import Metric

LOOKED_BACK = timedelta(days=1)  # at what was refused
State = NotificationDelivery.State


@metrics.reads
def channels_of_notifications() -> Iterator[Metric]:
    """Of channels that are on."""
    now = clock.now()
    names = list(NotificationChannel.objects.filter(enabled=True).order_by("name").values_list("name", flat=True))
    rows = OutboundPosition.objects.in_bulk([f"{channels.PREFIX}{name}" for name in names])
    failures = {name: row.failures for name in names if (row := rows.get(f"{channels.PREFIX}{name}"))}
    waits = {
        name: (count, max((now - oldest).total_seconds(), 0.0))
        for name, count, oldest in channels.waiting().values_list("channel").annotate(Count("pk"), Min("created"))
    }
    lost = dict(_lost(since=now - LOOKED_BACK).values_list("channel").annotate(Count("pk")))
    for name, said, values in (
        ("waiting", "Messages that wait to be sent.", {name: count for name, (count, _) in waits.items()}),
        ("age_seconds", "How long the oldest of them waits.", {name: age for name, (_, age) in waits.items()}),
        ("failures", "Tries in a row that the receiver has not taken.", failures),
        ("lost", "Messages of a day that were refused or given up, and not taken later.", lost),
    ):
        family = metrics.GaugeMetricFamily(f"ocmconsole_notification_channel_{name}", said, labels=["channel"])
        for channel in names:
            family.add_metric([channel], values.get(channel, 0))
        yield family


def _lost(since: datetime) -> QuerySet[NotificationDelivery]:
    """What was given up without a try has no time of that: it was when its creation was ``GIVEN_UP_AFTER`` ago."""
    taken = NotificationDelivery.objects.filter(
        channel=OuterRef("channel"), message=OuterRef("message"), state=State.TAKEN, pk__gt=OuterRef("pk")
    )
    tried = Q(state__in=(State.REFUSED, State.GIVEN_UP), tried__gt=since)
    untried = Q(state=State.GIVEN_UP, tried=None, created__gt=since - channels.GIVEN_UP_AFTER)
    return NotificationDelivery.objects.filter(tried | untried).exclude(Exists(taken))
