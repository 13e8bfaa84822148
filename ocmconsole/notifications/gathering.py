"""What happened becomes messages: one for each kind, set and minute, and a delivery for each channel that hears of it.

Invariant: the position of a source moves in the transaction that stores what was read from it, so that a kill loses
nothing and says nothing twice. A message gathers until its minute is over; then it is sealed, and only then sent.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import F

from ocmconsole.kubeapi import clock, write_queue
from ocmconsole.kubeapi.health import outages
from ocmconsole.kubeapi.models import OutboundPosition
from ocmconsole.kubeapi.outbound import positions
from ocmconsole.kubeapi.storage import incarnations
from ocmconsole.models import NotificationChannel, NotificationDelivery, NotificationMessage
from ocmconsole.notifications import quiet_hours
from ocmconsole.notifications.channels import key_of
from ocmconsole.notifications.message_kinds import MOST_NAMED, MessageKind
from ocmconsole.notifications.sources import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ocmconsole.notifications.sources import Happening, MessageSource

MINUTE = timedelta(minutes=1)  # in which what is alike becomes one message
KEPT = timedelta(days=30)  # messages and their deliveries, as the log shows them
LONGEST_DETAIL = 500  # characters of a reason that somebody wrote


def begin_now() -> None:
    """Nothing from before becomes a message. In the transaction that makes or enables the first channel."""
    for source in SOURCES:
        OutboundPosition.objects.update_or_create(outlet=source.outlet, defaults={"entry": source.newest()})


def note_new() -> int:
    """Read on from each source; returns how many happenings were noted. Nothing without channels, or in a quiet hub.

    D28: what happened in a restored hub is said after its activation.
    """
    channels = list(NotificationChannel.objects.filter(enabled=True).prefetch_related("rules", "quiet_hours"))
    if not channels or outages.state.only_reads or incarnations.is_quiet():
        return 0
    noted = sum(_note(source, channels) for source in SOURCES)
    seal_due(clock.now())
    quiet_hours.release(channels, clock.now())
    return noted


def _note(source: MessageSource, channels: Sequence[NotificationChannel]) -> int:
    noted = 0
    while True:
        row = positions.position_of(source.outlet)
        happenings, position = source.after(row.entry)
        if position == row.entry:
            return noted
        # What was sent must not be read again after a failure of power: then it would have another uid.
        with write_queue.turn(), transaction.atomic():
            moved = OutboundPosition.objects.filter(pk=row.pk, entry=row.entry).update(entry=position)
            if moved:
                _gather(happenings, channels)
        noted += len(happenings) if moved else 0


def _gather(happenings: Iterable[Happening], channels: Sequence[NotificationChannel]) -> None:
    groups: dict[tuple[MessageKind, str], list[Happening]] = {}
    for each in happenings:
        groups.setdefault((each.kind, each.clusterset), []).append(each)
    for (kind, clusterset), found in groups.items():
        if hearing := [channel for channel in channels if hears_of(channel, kind, clusterset)]:
            _add(kind, clusterset, found, hearing)


def hears_of(channel: NotificationChannel, kind: MessageKind, clusterset: str) -> bool:
    return any(
        rule.severity <= kind.severity
        and (not rule.kinds or kind.name in rule.kinds)
        and rule.clusterset in {"", clusterset}
        for rule in channel.rules.all()
    )


def _add(
    kind: MessageKind, clusterset: str, found: Sequence[Happening], hearing: Sequence[NotificationChannel]
) -> None:
    now = clock.now()
    minute = now.replace(second=0, microsecond=0)
    there = NotificationMessage.objects.filter(kind=kind.name, clusterset=clusterset, minute=minute, sealed=False)
    names = list(dict.fromkeys(each.name for each in found if each.name))
    if (row := there.first()) is not None:
        first_names = list(dict.fromkeys((*row.names, *names)))[:MOST_NAMED]
        last = max(row.last, *(each.at for each in found))
        if there.filter(pk=row.pk).update(count=F("count") + len(found), names=first_names, last=last):
            return
    made = NotificationMessage.objects.create(
        uid=str(uuid.uuid4()),
        kind=kind.name,
        severity=kind.severity,
        clusterset=clusterset,
        minute=minute,
        closes=minute + MINUTE,
        count=len(found),
        names=names[:MOST_NAMED],
        detail=found[0].detail[:LONGEST_DETAIL] if len(found) == 1 else "",
        first=min(each.at for each in found),
        last=max(each.at for each in found),
    )
    key = key_of(made)
    NotificationDelivery.objects.bulk_create(
        NotificationDelivery(channel=channel, message=made, created=now, key=key, state=_state_in(channel, kind, now))
        for channel in hearing
    )
    NotificationMessage.objects.filter(closes__lt=now - KEPT).exclude(
        deliveries__state__in=(NotificationDelivery.State.WAITING, NotificationDelivery.State.HELD)
    ).delete()


def _state_in(channel: NotificationChannel, kind: MessageKind, now: datetime) -> str:
    is_held = quiet_hours.holds(channel.quiet_hours.all(), kind.severity, now)
    return NotificationDelivery.State.HELD if is_held else NotificationDelivery.State.WAITING


def seal_due(now: datetime) -> None:
    due = NotificationMessage.objects.filter(sealed=False, closes__lte=now)
    if due.exists():
        with write_queue.forgettable():
            due.update(sealed=True)
