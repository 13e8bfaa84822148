"""A channel as something to which ``outbound`` sends: its next message, and who receives it.

One message at a time, in the order in which they were made. A message that the receiver refuses is out of the way at
once. One that fails pauses with those of its key, and others go on; when its tries are spent and the receiver takes
others, it is given up. So is one that nobody took for a day, with all that are as old, so that a receiver that is back
hears of the present first; the log has a button for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from email.utils import format_datetime
from smtplib import SMTPDataError, SMTPRecipientsRefused
from typing import TYPE_CHECKING, Any

import orjson
from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db.models import Q

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import OutboundPosition
from ocmconsole.kubeapi.outbound import positions, signatures
from ocmconsole.kubeapi.outbound.delivery import DeliveryError, OutboundBatch, OutboundLine
from ocmconsole.kubeapi.outbound.webhooks import Webhook
from ocmconsole.models import NotificationChannel, NotificationDelivery, NotificationMessage, Severity
from ocmconsole.notifications import encrypted_columns
from ocmconsole.notifications.chat import ChatReceiver
from ocmconsole.notifications.message_kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ocmconsole.kubeapi.outbound.delivery import Receiver

GIVEN_UP_AFTER = timedelta(days=1)  # later it is no news
AT_ONCE = timedelta(seconds=10)  # a look of the hub, and a slow machine
MOST_TRIES = 10  # of a message, in some nine minutes, while the receiver takes others
LONGEST_ANSWER = 300  # characters, as the column
LONGEST_SUBJECT = 200  # characters; a name of a cluster may have 253
PERMANENT = 500  # answers of a mail server from here on are
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
        """The oldest that waits, with none before it in its key that pauses; sent again it says the same."""
        now = clock.now()
        rows, pauses = waiting().filter(channel=self.channel), _pauses(now)
        paused = list(rows.filter(pauses).values_list("key", "attempts", "tried"))
        # Behind one whose tries are spent the next is tried at once, and not later, when the receiver may be back:
        # taken, it proves that this one alone is the problem.
        newest = max((tried for _, _, tried in paused), default=now)
        is_moment = bool(position.failures) and now - AT_ONCE < newest <= now
        held = {key for key, tries, tried in paused if not (is_moment and tries >= MOST_TRIES and tried == newest)}
        found = rows.exclude(pauses).exclude(key__in=held).select_related("message").order_by("pk").first()
        if found is None:
            return OutboundBatch((), position.entry, position.seal)
        return OutboundBatch((line_of(found.message),), found.pk, position.seal)

    def note(self, batch: OutboundBatch, problem: str, *, is_final: bool = False) -> bool:
        found = NotificationDelivery.objects.filter(pk=batch.entry).first()
        if found is None:  # its channel was deleted meanwhile
            return False
        before, found.tried = found.tried, clock.now()
        found.attempts, found.answer, found.due = found.attempts + 1, problem[:LONGEST_ANSWER], None
        if not problem:
            found.state = State.TAKEN
        elif is_final:
            found.state = State.REFUSED
        elif found.attempts >= MOST_TRIES and before and self._has_taken_since(before):
            found.state = State.GIVEN_UP
        else:
            found.due = found.tried + positions.pause_after(found.attempts - 1)
        found.save(update_fields=["tried", "attempts", "answer", "due", "state"])
        waits = self.channel.deliveries.filter(state=State.WAITING)
        if problem:
            waits.filter(created__lt=found.tried - GIVEN_UP_AFTER).update(state=State.GIVEN_UP, answer=found.answer)
        elif found.attempts > 1:  # the receiver is back: what paused has its turn
            waits.exclude(due=None).update(due=None)
        return True  # each message has a pause of its own

    def _has_taken_since(self, moment: datetime) -> bool:
        return OutboundPosition.objects.filter(pk=self.name, taken_at__gt=moment).exists()


def key_of(message: NotificationMessage) -> str:
    """What is of one key is about the same: what clusters of a set become, say."""
    return f"{message.kind.partition('.')[0]}/{message.clusterset}"


def try_at_once(name: str) -> None:
    """No pause any more, for the channel of this name: somebody looks at it."""
    NotificationDelivery.objects.filter(channel=name, state=State.WAITING).exclude(due=None).update(due=None)
    positions.try_at_once(f"{PREFIX}{name}")


def waiting() -> Any:
    return NotificationDelivery.objects.filter(state=State.WAITING, message__sealed=True)


def _pauses(now: datetime) -> Q:
    """After a failed try; a time much further ahead is of a clock that was put back since."""
    return Q(due__gt=now, due__lte=now + positions.LONGEST_PAUSE)


def due() -> list[ChannelOutlet]:
    """Channels for which something waits that is sent now: none that is put off, or that another process serves."""
    now = clock.now()
    ready = waiting().exclude(_pauses(now)).values("channel")
    channels = NotificationChannel.objects.filter(enabled=True, name__in=ready)
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
    if channel.kind == NotificationChannel.ChannelKind.CHAT:
        return ChatReceiver(address)
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
            try:
                self._mail(line).send()
            except (SMTPDataError, SMTPRecipientsRefused) as error:
                raise _refused_mail(error) from error

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


def _refused_mail(error: SMTPDataError | SMTPRecipientsRefused) -> DeliveryError:
    """For good where the mail server says so of the mail itself, or of every address: 5yz of RFC 5321."""
    if isinstance(error, SMTPRecipientsRefused):
        codes, what = [code for code, _ in error.recipients.values()], "of every address"
    else:
        codes, what = [error.smtp_code], "to the mail"
    said = ", ".join(str(code) for code in dict.fromkeys(codes))
    return DeliveryError(f"the mail server said {said} {what}", is_final=all(code >= PERMANENT for code in codes))
