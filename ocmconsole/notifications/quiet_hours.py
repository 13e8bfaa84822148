"""Quiet hours of a channel: when it waits, what is held meanwhile, and that this is sent grouped when they end.

Invariant: what is held is in the log as held until it waits to be sent; to change or remove quiet hours frees
it at the next look.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from django.db import transaction

from ocmconsole.kubeapi import write_queue
from ocmconsole.models import NotificationChannel, NotificationDelivery, NotificationMessage
from ocmconsole.notifications.channels import key_of
from ocmconsole.notifications.message_kinds import MOST_NAMED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ocmconsole.models import NotificationQuietHours

DAY = timedelta(days=1)
WEEK = range(7)  # days; 0 is Monday
AT_ONCE = 1_000  # messages of one channel that one transaction frees
State = NotificationDelivery.State


def end_of(hours: NotificationQuietHours, now: datetime) -> datetime | None:
    """When they end, if they are now. The same time twice is a whole day; the clock of the zone may jump meanwhile."""
    zone = ZoneInfo(hours.zone)
    today = now.astimezone(zone).date()
    for day in (today, today - DAY):
        last = day if hours.ends > hours.begins else day + DAY
        begin, end = datetime.combine(day, hours.begins, zone), datetime.combine(last, hours.ends, zone)
        if day.weekday() in hours.days and begin <= now < end:
            return end.astimezone(UTC)
    return None


def holds(hours: Iterable[NotificationQuietHours], severity: int, now: datetime) -> bool:
    """Whether a message of this severity waits."""
    return any((each.breaks is None or severity < each.breaks) and end_of(each, now) is not None for each in hours)


def until(hours: Sequence[NotificationQuietHours], now: datetime) -> datetime | None:
    """When the channel hears of everything again: None for now, and for hours that fill the week without an end."""
    moment = now
    for _ in range(len(hours) * 2 * len(WEEK) + 1):
        ends = [end for each in hours if (end := end_of(each, moment)) is not None]
        if not ends:
            break
        moment = max(ends)
    return moment if now < moment < now + 8 * DAY else None


def fill_the_week(hours: Sequence[NotificationQuietHours], now: datetime) -> bool:
    """Whether there is no moment at which the channel hears of everything."""
    return until(hours, now) is None and any(end_of(each, now) for each in hours)


# ---------------------------------------------------------------- what was held


def release(channels: Iterable[NotificationChannel], now: datetime) -> None:
    """What no hours hold any more waits to be sent, one message for each kind and set."""
    names = [channel.name for channel in channels]
    held = NotificationDelivery.objects.filter(channel__in=names, state=State.HELD, message__sealed=True)
    with_some = set(held.values_list("channel", flat=True).distinct()) if names else set()
    for channel in channels:
        if channel.name in with_some:
            rows = held.filter(channel=channel).select_related("message").order_by("pk")[:AT_ONCE]
            hours = channel.quiet_hours.all()
            if free := [row for row in rows if not holds(hours, row.message.severity, now)]:
                _send(channel, free, now)


def _send(channel: NotificationChannel, free: Sequence[NotificationDelivery], now: datetime) -> None:
    with write_queue.turn(), transaction.atomic():
        rows = NotificationDelivery.objects.filter(pk__in=[row.pk for row in free], state=State.HELD)
        if rows.update(state=State.GROUPED) < len(free):  # another process does it
            transaction.set_rollback(True)
            return
        groups: dict[tuple[str, str], list[NotificationMessage]] = {}
        for row in free:
            groups.setdefault((row.message.kind, row.message.clusterset), []).append(row.message)
        # What clusters became last is said last.
        for group in sorted(groups.values(), key=lambda group: max(each.last for each in group)):
            message = group[0] if len(group) == 1 else _together(group, now)
            NotificationDelivery.objects.create(channel=channel, message=message, created=now, key=key_of(message))


def _together(group: Sequence[NotificationMessage], now: datetime) -> NotificationMessage:
    names = dict.fromkeys(name for each in group for name in each.names)
    return NotificationMessage.objects.create(
        uid=str(uuid.uuid4()),
        kind=group[0].kind,
        severity=max(each.severity for each in group),
        clusterset=group[0].clusterset,
        minute=now.replace(second=0, microsecond=0),
        closes=now,
        sealed=True,
        count=sum(each.count for each in group),
        names=list(names)[:MOST_NAMED],
        detail=f"Held in quiet hours: {len(group)} messages.",
        first=min(each.first for each in group),
        last=max(each.last for each in group),
    )
