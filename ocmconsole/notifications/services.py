"""Keeping channels and rules: for hub admins, with an audit entry in the transaction (D11).

Addresses and secrets are in no entry: an address may be a secret too. Called by the pages.
"""

from __future__ import annotations

import base64
import re
import secrets as random
import uuid
from typing import TYPE_CHECKING, TypeVar

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db.models import Exists, OuterRef

from ocmconsole.environment import readers
from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.models import OutboundPosition
from ocmconsole.kubeapi.outbound import signatures
from ocmconsole.kubeapi.storage import audit, audit_acts
from ocmconsole.models import (
    NotificationChannel,
    NotificationDelivery,
    NotificationMessage,
    NotificationQuietHours,
    NotificationRule,
    Severity,
)
from ocmconsole.notifications import channels, chat, encrypted_columns, gathering, quiet_hours
from ocmconsole.notifications.message_kinds import KINDS, TEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import QuerySet

    from ocmconsole.kubeapi.access.actor import Actor

MOST_CHANNELS = 20  # D23: each has a thread while something is sent to it
MOST_RULES = 20  # of a channel
MOST_AGAIN = 100  # messages of one act
MOST_QUIET_HOURS = 10  # of a channel
MOST_ADDRESSES = 20  # of a channel; a list of the mail server has more
SECRET_BYTES = 32  # 24 to 64, as Standard Webhooks says
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?")
PLURAL = "notificationchannels"
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
T = TypeVar("T")

for _act, _done in (
    ("create", "Channel of notifications made"),
    ("update", "Channel of notifications changed"),
    ("delete", "Channel of notifications deleted"),
    ("rotate", "New signing secret of a channel"),
    ("forget", "Former signing secret of a channel forgotten"),
    ("add-rule", "Rule of a channel added"),
    ("remove-rule", "Rule of a channel removed"),
    ("add-quiet-hours", "Quiet hours of a channel added"),
    ("remove-quiet-hours", "Quiet hours of a channel removed"),
    ("test", "Channel of notifications tested"),
    ("replay", "Message sent again"),
):
    audit_acts.declare(f"notificationchannel:{_act}", _done)


def require_admin(actor: Actor) -> None:
    """Raises Forbidden."""
    if not actor.is_master:
        raise errors.Forbidden("Whom the hub notifies is for its admins.")


def _kept(actor: Actor, act: str, name: str, reason: str, write: Callable[[], T]) -> T:
    def keep(actor: Actor) -> T:
        require_admin(actor)
        with verbs.while_permitted(actor):
            done = write()
            audit.entry_of(
                actor, f"notificationchannel:{act}", verb="update", resource=PLURAL, name=name, reason=reason
            ).save()
        return done

    return verbs.with_present_rights(actor, keep)


# ---------------------------------------------------------------- what makes sense


def new_secret() -> str:
    return signatures.PREFIX + base64.b64encode(random.token_bytes(SECRET_BYTES)).decode()


def address_of(kind: str, text: str) -> str:
    """As it is stored. Raises ValueError with what is wrong."""
    if kind == NotificationChannel.ChannelKind.WEBHOOK:
        if not readers.is_webhook(text.strip()):
            raise ValueError(f"It must be {readers.WEBHOOK}.")
        return text.strip()
    if kind == NotificationChannel.ChannelKind.CHAT:
        if problem := chat.flaw_of(text.strip()):
            raise ValueError(f"{problem[0].upper()}{problem[1:]}.")
        return text.strip()
    found = list(dict.fromkeys(text.replace(",", " ").split()))
    if not found or len(found) > MOST_ADDRESSES:
        raise ValueError(f"It must be 1 to {MOST_ADDRESSES} mail addresses.")
    for each in found:
        try:
            validate_email(each)
        except ValidationError as error:
            raise ValueError(f"“{each[:60]}” is not a mail address.") from error
    return ",".join(found)


def _channel(name: str) -> NotificationChannel:
    found = NotificationChannel.objects.filter(name=name).first()
    if found is None:
        raise errors.NotFound(f"There is no channel {name}.")
    return found


# ---------------------------------------------------------------- acts


def create_channel(actor: Actor, name: str, kind: str, address: str) -> str:
    """It hears of everything from warnings on; returns the signing secret, which no page shows again."""
    secret = new_secret() if kind == NotificationChannel.ChannelKind.WEBHOOK else ""

    def write() -> str:
        if NotificationChannel.objects.count() >= MOST_CHANNELS:
            raise errors.Invalid(f"A hub has at most {MOST_CHANNELS} channels.")
        if NotificationChannel.objects.filter(name=name).exists():
            raise errors.already_exists("", PLURAL, name)
        if not NotificationChannel.objects.filter(enabled=True).exists():
            gathering.begin_now()
        made = NotificationChannel.objects.create(
            name=name,
            kind=kind,
            address=encrypted_columns.encrypted(name, "address", address),
            secret=encrypted_columns.encrypted(name, "secret", secret),
            created=clock.now(),
        )
        NotificationRule.objects.create(channel=made, severity=Severity.WARNING)
        return secret

    return _kept(actor, "create", name, kind, write)


def change_address(actor: Actor, name: str, address: str) -> None:
    def write() -> None:
        _channel(name)
        text = encrypted_columns.encrypted(name, "address", address)
        NotificationChannel.objects.filter(name=name).update(address=text)
        channels.try_at_once(name)

    _kept(actor, "update", name, "another address", write)


def switch_channel(actor: Actor, name: str, *, on: bool) -> None:
    """What happens while every channel is off is said to nobody, also later."""

    def write() -> None:
        _channel(name)
        if on and not NotificationChannel.objects.filter(enabled=True).exists():
            gathering.begin_now()
        NotificationChannel.objects.filter(name=name).update(enabled=on)

    _kept(actor, "update", name, "on" if on else "off", write)


def delete_channel(actor: Actor, name: str) -> None:
    """With its log, and what waits for it."""

    def write() -> None:
        _channel(name).delete()
        OutboundPosition.objects.filter(outlet=f"{channels.PREFIX}{name}").delete()

    _kept(actor, "delete", name, "", write)


def rotate_secret(actor: Actor, name: str) -> str:
    """Both sign until the former is forgotten; returns the new one, which no page shows again."""
    secret = new_secret()

    def write() -> str:
        channel = _channel(name)
        if channel.kind != NotificationChannel.ChannelKind.WEBHOOK:
            raise errors.Invalid("Webhooks alone are signed.")
        former = encrypted_columns.read(channel, "secret")
        NotificationChannel.objects.filter(name=name).update(
            secret=encrypted_columns.encrypted(name, "secret", secret),
            former_secret=encrypted_columns.encrypted(name, "former_secret", former),
        )
        return secret

    return _kept(actor, "rotate", name, "", write)


def forget_former_secret(actor: Actor, name: str) -> None:
    def write() -> None:
        _channel(name)
        NotificationChannel.objects.filter(name=name).update(former_secret="")

    _kept(actor, "forget", name, "", write)


def add_rule(actor: Actor, name: str, kinds: list[str], severity: int, clusterset: str) -> None:
    def write() -> None:
        channel = _channel(name)
        if channel.rules.count() >= MOST_RULES:
            raise errors.Invalid(f"A channel has at most {MOST_RULES} rules.")
        known = [kind for kind in KINDS if kind in kinds]
        NotificationRule.objects.create(channel=channel, kinds=known, severity=severity, clusterset=clusterset)

    said = f"{', '.join(kinds) or 'every kind'} from {Severity(severity).label}{f' in {clusterset}' * bool(clusterset)}"
    _kept(actor, "add-rule", name, said, write)


def remove_rule(actor: Actor, name: str, number: int) -> None:
    def write() -> None:
        if not NotificationRule.objects.filter(channel=name, pk=number).delete()[0]:
            raise errors.NotFound("There is no such rule.")

    _kept(actor, "remove-rule", name, "", write)


def add_quiet_hours(actor: Actor, name: str, hours: NotificationQuietHours) -> None:
    """``hours`` is not stored yet. Raises Invalid where the channel would never hear of everything."""

    def write() -> None:
        channel = _channel(name)
        there = list(channel.quiet_hours.all())
        if len(there) >= MOST_QUIET_HOURS:
            raise errors.Invalid(f"A channel has at most {MOST_QUIET_HOURS} quiet hours.")
        if quiet_hours.fill_the_week([*there, hours], clock.now()):
            raise errors.Invalid("With these the channel would be quiet without an end.")
        hours.channel = channel
        hours.save()

    _kept(actor, "add-quiet-hours", name, said_of(hours), write)


def said_of(hours: NotificationQuietHours) -> str:
    """As ``Mon, Tue 22:00 to 07:00 Europe/Berlin``."""
    days = "daily" if len(hours.days) == len(DAYS) else ", ".join(DAYS[day] for day in sorted(hours.days))
    return f"{days} {hours.begins:%H:%M} to {hours.ends:%H:%M} {hours.zone}"


def remove_quiet_hours(actor: Actor, name: str, number: int) -> None:
    """What they hold is sent at the next look, unless others hold it."""

    def write() -> None:
        if not NotificationQuietHours.objects.filter(channel=name, pk=number).delete()[0]:
            raise errors.NotFound("There are no such quiet hours.")

    _kept(actor, "remove-quiet-hours", name, "", write)


def test_channel(actor: Actor, name: str) -> None:
    """A message that says so waits for nobody's minute."""

    def write() -> None:
        now = clock.now()
        made = NotificationMessage.objects.create(
            uid=str(uuid.uuid4()), kind=TEST.name, severity=TEST.severity, minute=now, closes=now, sealed=True, count=1,
            detail=f"{actor.user[:320]} has tried this channel.", first=now, last=now,
        )  # fmt: skip
        _wait(actor, _channel(name), made)

    _kept(actor, "test", name, "", write)


def replay(actor: Actor, number: int) -> str:
    """The same message with the same id to the same channel, whose name is returned."""
    found = NotificationDelivery.objects.filter(pk=number).select_related("channel", "message").first()
    if found is None or found.state in {NotificationDelivery.State.WAITING, NotificationDelivery.State.HELD}:
        raise errors.NotFound("There is no such delivery, or it waits still.")
    message, channel = found.message, found.channel
    _kept(actor, "replay", channel.name, message.uid, lambda: _wait(actor, channel, message))
    return channel.name


def replay_all(actor: Actor, name: str) -> int:
    """What the receiver refused or did not take for a day, oldest first, and was not sent again since."""

    def write() -> int:
        channel = _channel(name)
        rows = list(lost_of(channel).select_related("message").order_by("pk")[:MOST_AGAIN])
        for row in rows:
            _wait(actor, channel, row.message)
        return len(rows)

    return _kept(actor, "replay", name, "all that was refused or given up", write)


def lost_of(channel: NotificationChannel) -> QuerySet[NotificationDelivery]:
    """Refused or given up, and the newest delivery of its message."""
    newer = channel.deliveries.filter(message=OuterRef("message"), pk__gt=OuterRef("pk"))
    lost = {NotificationDelivery.State.REFUSED, NotificationDelivery.State.GIVEN_UP}
    return channel.deliveries.filter(~Exists(newer), state__in=lost)


def _wait(actor: Actor, channel: NotificationChannel, message: NotificationMessage) -> None:
    """What somebody asked for holds up nothing, and nothing holds it up."""
    NotificationDelivery.objects.create(
        channel=channel,
        message=message,
        created=clock.now(),
        asked_by=actor.user[:320],
        key=f"asked/{uuid.uuid4()}",
    )
    channels.try_at_once(channel.name)
