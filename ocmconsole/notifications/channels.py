"""A channel as something to which ``outbound`` sends: its next message, and who receives it.

One message at a time, in the order in which they were made. A message that nobody took for a day is given up with all
that are as old, so that a receiver that is back hears of the present first; the log has a button for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import orjson
from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db.models import F

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import OutboundPosition
from ocmconsole.kubeapi.outbound import positions, signatures
from ocmconsole.kubeapi.outbound.delivery import DeliveryError, OutboundBatch, OutboundLine
from ocmconsole.kubeapi.outbound.webhooks import Webhook
from ocmconsole.models import NotificationChannel, NotificationDelivery, NotificationMessage, Severity
from ocmconsole.notifications import encrypted_columns
from ocmconsole.notifications.message_kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocmconsole.kubeapi.outbound.delivery import Receiver

GIVEN_UP_AFTER = timedelta(days=1)  # later it is no news
LONGEST_ANSWER = 300  # characters, as the column
LONGEST_SUBJECT = 200  # characters; a name of a cluster may have 253
PREFIX = "to-"  # of the names by which their positions are kept
State = NotificationDelivery.State


@dataclass(frozen=True, slots=True)
class ChannelOutlet:
    """All of ``delivery.Sent``."""

    channel: NotificationChannel

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.channel.name}"

    @property
    def receiver(self) -> Receiver:
        return receiver_of(self.channel)

    def next_batch(self, position: OutboundPosition) -> OutboundBatch:
        """The oldest that waits; sent again it says the same."""
        found = waiting().filter(channel=self.channel).select_related("message").order_by("pk").first()
        if found is None:
            return OutboundBatch((), position.entry, position.seal)
        return OutboundBatch((line_of(found.message),), found.pk, position.seal)

    def note(self, batch: OutboundBatch, problem: str) -> bool:
        now = clock.now()
        row = NotificationDelivery.objects.filter(pk=batch.entry)
        answer = problem[:LONGEST_ANSWER]
        row.update(attempts=F("attempts") + 1, tried=now, answer=answer, **({} if problem else {"state": State.TAKEN}))
        if not problem:
            return False
        old = NotificationDelivery.objects.filter(
            channel=self.channel, state=State.WAITING, created__lt=now - GIVEN_UP_AFTER
        )
        return bool(old.update(state=State.GIVEN_UP, answer=answer))


def waiting() -> Any:
    return NotificationDelivery.objects.filter(state=State.WAITING, message__sealed=True)


def due() -> list[ChannelOutlet]:
    """Channels for which something waits that is sent now: none that is put off, or that another process serves."""
    now = clock.now()
    channels = NotificationChannel.objects.filter(enabled=True, name__in=waiting().values("channel"))
    found = [ChannelOutlet(channel) for channel in channels.order_by("name")]
    if not found:
        return found
    rows = OutboundPosition.objects.in_bulk([each.name for each in found])
    return [each for each in found if each.name not in rows or positions.is_due(rows[each.name], now)]


def behind() -> str:
    """Whose receivers do not take what waits, for hub health; empty for none."""
    enabled = NotificationChannel.objects.filter(enabled=True).values_list("name", flat=True)
    names = [f"{PREFIX}{name}" for name in enabled]
    rows = OutboundPosition.objects.filter(pk__in=names).exclude(problem="").order_by("pk") if names else ()
    return "; ".join(f"{row.outlet.removeprefix(PREFIX)}: {row.problem} (tries: {row.failures})" for row in rows)


# ---------------------------------------------------------------- what is sent


def sentence_of(message: NotificationMessage) -> str:
    """As ``Fell silent: 5,000 in the set prod: c1, c2, … and 4,990 more``."""
    sentence, more = kind_of(message.kind).sentence, message.count - len(message.names)
    where = f" in the set {message.clusterset}" if message.clusterset else ""
    listed = ", ".join(message.names)
    if message.count == 1:
        return f"{sentence}: {listed}{where}" if listed else sentence
    counted = f"{sentence}: {message.count:,}{where}"
    return f"{counted}: {listed}{f' and {more:,} more' if more > 0 else ''}" if listed else counted


def line_of(message: NotificationMessage) -> OutboundLine:
    kind = kind_of(message.kind)
    data = {
        "severity": Severity(message.severity).name.lower(),
        "set": message.clusterset,
        "count": message.count,
        "names": message.names,
        "first": message.first,
        "last": message.last,
        "text": sentence_of(message),
        "detail": message.detail,
        "url": settings.OCMCONSOLE_CONSOLE_URL + kind.path(message.names, message.clusterset, message.count),
        "hub": settings.OCMCONSOLE_HUB_NAME,
    }
    body = orjson.dumps({"type": message.kind, "timestamp": message.last, "data": data}, option=orjson.OPT_UTC_Z)
    return OutboundLine(message.uid, message.kind, message.last, body)


# ---------------------------------------------------------------- who receives it


def receiver_of(channel: NotificationChannel) -> Receiver:
    """Raises Unreadable."""
    address = encrypted_columns.read(channel, "address")
    if channel.kind == NotificationChannel.ChannelKind.MAIL:
        return MailReceiver(address.split(","))
    secrets = [encrypted_columns.read(channel, column) for column in ("secret", "former_secret")]
    return WebhookReceiver(
        Webhook(
            address,
            "",
            [signatures.secret_of(secret) for secret in secrets if secret],
            private=settings.OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES,
            ca_file=settings.OCMCONSOLE_WEBHOOK_CA_FILE,
        )
    )


class WebhookReceiver:
    """A message a request; ``webhook-id`` is that of the message."""

    def __init__(self, webhook: Webhook) -> None:
        self._webhook = webhook

    def deliver(self, lines: Sequence[OutboundLine]) -> None:
        for line in lines:
            self._webhook.send(f"msg_{line.id}", line.body)


class MailReceiver:
    """A mail a message, by the server that the settings name; its Message-ID stays what it was."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses

    def deliver(self, lines: Sequence[OutboundLine]) -> None:
        if settings.OCMCONSOLE_MAIL is None:
            raise DeliveryError("OCMCONSOLE_MAIL names no mail server")
        for line in lines:
            self._mail(line).send()

    def _mail(self, line: OutboundLine) -> EmailMessage:
        data = orjson.loads(line.body)["data"]
        sender = settings.DEFAULT_FROM_EMAIL
        text = "\n".join(filter(None, (data["text"], data["detail"], "", data["url"], f"Severity: {data['severity']}")))
        subject = " ".join(f"[{data['hub']}] {data['text']}".split())[:LONGEST_SUBJECT]
        headers = {
            "Message-ID": f"<{line.id}@{sender.rpartition('@')[2].strip('>') or 'hub'}>",
            "Date": format_datetime(line.time),
            "Auto-Submitted": "auto-generated",
        }
        return EmailMessage(
            subject, text + "\n", sender, list(self._addresses), headers=headers, connection=get_connection()
        )
