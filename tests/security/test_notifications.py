"""Being told: once, by who may send, of what the rules say, in few messages; nothing is lost by a kill or a receiver."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from email import message_from_bytes, policy
from ipaddress import ip_network
from typing import Any

import orjson
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from clusters.models import ClusterFacts, Transition
from ocmconsole.environment import readers
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.encryption import places, stored_text
from ocmconsole.kubeapi.models import AuditEvent, Incarnation, OutboundPosition
from ocmconsole.kubeapi.outbound import sending, signatures
from ocmconsole.kubeapi.storage import audit, incarnations
from ocmconsole.models import NotificationChannel, NotificationDelivery, NotificationMessage, Severity
from ocmconsole.notifications import channels, encrypted_columns, gathering, services, sources
from ocmconsole.notifications.message_kinds import KINDS, OF_ACTS
from tests import factories as make
from tests import receivers
from tests.actors import ROOT, person

pytestmark = pytest.mark.django_db

State = NotificationDelivery.State
SILENT, RECOVERED = Transition.Turn.SILENT, Transition.Turn.RECOVERED


@pytest.fixture
def receiver(settings: Any) -> Iterator[receivers.HttpReceiver]:
    """With a channel, told of everything from warnings on."""
    settings.OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES = (ip_network("127.0.0.1"),)
    with receivers.http_receiver() as found:
        found.secret = services.create_channel(ROOT, "ops", "webhook", f"http://127.0.0.1:{found.port}/hook")
        yield found


def fell_silent(*names: str, turn: Transition.Turn = SILENT) -> None:
    Transition.objects.bulk_create(Transition(cluster=name, at=clock.now(), turn=turn) for name in names)


def send() -> int:
    """As the process does, until nothing is taken; returns how many were."""
    taken = 0
    for outlet in channels.due():
        while sending.send_next(outlet, "this process"):
            taken += 1
    return taken


def tell() -> int:
    """The minute is over."""
    gathering.note_new()
    with clock.at(clock.now() + gathering.MINUTE):
        gathering.note_new()
    return send()


def try_now() -> int:
    OutboundPosition.objects.update(due=None)
    NotificationDelivery.objects.update(due=None)
    return send()


def told(receiver: receivers.HttpReceiver) -> list[dict[str, Any]]:
    return [orjson.loads(body) for body in receiver.bodies]


# ---------------------------------------------------------------- what is told


def test_a_message_says_what_happened_and_where_the_console_shows_it(
    receiver: receivers.HttpReceiver, settings: Any
) -> None:
    settings.OCMCONSOLE_CONSOLE_URL = "https://hub.example"
    fell_silent("c1")
    assert tell() == 1
    (found,) = told(receiver)
    assert set(found) == {"type", "timestamp", "data"}
    assert found["type"] == "cluster.silent"
    assert found["data"]["text"] == "Fell silent: c1"
    assert found["data"]["severity"] == "critical"
    assert found["data"]["url"] == "https://hub.example/clusters/c1/"
    (message,) = NotificationMessage.objects.all()
    assert receiver.messages == [f"msg_{message.uid}"]
    assert tell() == 0, "nothing is told twice"


def test_a_storm_of_thousands_becomes_a_message_for_each_set(receiver: receivers.HttpReceiver) -> None:
    make.clusterset("prod")
    for name in ("c0", "c1"):
        make.cluster(name, labels={"cluster.open-cluster-management.io/clusterset": "prod"})
    make.settle()
    gathering.begin_now()  # those two wait for approval
    with clock.at(clock.now().replace(second=5)):
        fell_silent(*(f"c{number}" for number in range(5_000)))
        assert gathering.note_new() == 5_000
    assert tell() == 2, "c0 and c1 are of a set"
    by_set = {each["data"]["set"]: each["data"] for each in told(receiver)}
    assert [by_set[name]["count"] for name in ("prod", "")] == [2, 4_998]
    assert by_set["prod"]["text"] == "Fell silent: 2 in the set prod: c0, c1"
    assert by_set[""]["text"].endswith("c10, c11 and 4,988 more")
    assert len(by_set[""]["names"]) == 10
    assert by_set["prod"]["url"].endswith("/clusters/?status=silent&set=prod")
    assert sum(map(len, receiver.bodies)) < 3_000


def test_what_comes_later_in_the_minute_is_counted_and_after_it_begins_a_message_anew(
    receiver: receivers.HttpReceiver,
) -> None:
    begin = clock.now().replace(second=1, microsecond=0)
    for second, name in ((0, "c1"), (20, "c2"), (50, "c3"), (61, "c4")):
        with clock.at(begin + timedelta(seconds=second)):
            fell_silent(name)
            gathering.note_new()
    with clock.at(begin + timedelta(seconds=200)):
        gathering.note_new()
    assert send() == 2
    assert [each["data"]["count"] for each in told(receiver)] == [3, 1]


def test_nothing_is_added_to_a_message_that_is_sealed(receiver: receivers.HttpReceiver) -> None:
    with clock.at(clock.now().replace(second=1)):
        fell_silent("c1")
        gathering.note_new()
        NotificationMessage.objects.update(sealed=True)
        fell_silent("c2")
        gathering.note_new()
    tell()
    assert [each["data"]["names"] for each in told(receiver)] == [["c1"], ["c2"]]


@pytest.mark.parametrize(("act", "kind"), [(act, kind.name) for act, kind in OF_ACTS.items() if act != sources.UNKNOWN])
def test_acts_of_the_audit_are_told_with_its_sentence(act: str, kind: str, receiver: receivers.HttpReceiver) -> None:
    services.add_rule(ROOT, "ops", [], Severity.INFO, "")
    audit.entry_of(ROOT, act, verb="update", resource="tests", name="c1", reason="because", diff=[]).save()
    audit.entry_of(ROOT, "managedcluster:update", verb="update", resource="tests", name="c1", diff=[]).save()
    assert tell() == 1
    (found,) = told(receiver)
    assert (found["type"], found["data"]["text"]) == (kind, f"{KINDS[kind].sentence}: c1")
    assert found["data"]["detail"] == "because"
    assert ":" not in KINDS[kind].sentence, "that of the audit"


def test_a_cluster_that_asks_to_join_waits_and_one_that_is_let_in_does_not(receiver: receivers.HttpReceiver) -> None:
    make.cluster("c1")
    make.cluster("c2", accepted=True)
    tell()
    assert [(each["type"], each["data"]["names"]) for each in told(receiver)] == [("request.waiting", ["c1"])]


def test_a_certificate_that_comes_to_its_last_week_is_told_once_and_a_renewed_one_never(
    receiver: receivers.HttpReceiver,
) -> None:
    now, year = timezone.now(), timedelta(days=365)
    for name, ends in (("c1", now + timedelta(days=7, hours=1)), ("c2", now + year)):
        make.cluster(name, accepted=True)
        ClusterFacts.objects.update_or_create(
            cluster=name, defaults={"certificate_not_before": ends - year, "certificate_not_after": ends}
        )
    gathering.note_new()
    for hours in (2, 3):
        with clock.at(now + timedelta(hours=hours)):
            gathering.note_new()
    with clock.at(now + timedelta(hours=4)):
        gathering.note_new()
    send()
    ending = [each for each in told(receiver) if each["type"] == "certificate.ending"]
    assert [each["data"]["names"] for each in ending] == [["c1"]]
    assert "ends" in ending[0]["data"]["detail"]


def test_a_receiver_of_the_audit_that_is_behind_is_told(receiver: receivers.HttpReceiver, settings: Any) -> None:
    settings.OCMCONSOLE_AUDIT_WEBHOOK = "https://audit.example/"
    settings.OCMCONSOLE_AUDIT_WEBHOOK_SECRET = (signatures.secret_of(receivers.SECRET),)
    OutboundPosition.objects.create(outlet="webhook", failing_since=clock.now(), problem="it answered 500")
    for minutes in (5, 11, 12, 14):
        with clock.at(clock.now() + timedelta(minutes=minutes)):
            gathering.note_new()
    send()
    assert [(each["type"], each["data"]["detail"]) for each in told(receiver)] == [("audit.behind", "it answered 500")]


def test_what_happened_before_there_was_a_channel_is_told_to_nobody(settings: Any) -> None:
    fell_silent("c1")
    assert gathering.note_new() == 0
    services.create_channel(ROOT, "ops", "webhook", "https://receiver.example/")
    assert gathering.note_new() == 0


def test_rules_choose_by_kind_severity_and_set(receiver: receivers.HttpReceiver) -> None:
    (rule,) = NotificationChannel.objects.get().rules.all()
    services.remove_rule(ROOT, "ops", rule.pk)
    fell_silent("c1")
    assert tell() == 0
    services.add_rule(ROOT, "ops", ["cluster.recovered"], Severity.INFO, "")
    services.add_rule(ROOT, "ops", [], Severity.CRITICAL, "prod")
    fell_silent("c2")
    fell_silent("c3", turn=RECOVERED)
    tell()
    assert [(each["type"], each["data"]["names"]) for each in told(receiver)] == [("cluster.recovered", ["c3"])]
    make.clusterset("prod")
    make.cluster("c4", labels={"cluster.open-cluster-management.io/clusterset": "prod"})
    fell_silent("c4")
    tell()
    assert told(receiver)[1]["data"]["set"] == "prod"


# ---------------------------------------------------------------- once, whatever dies or is away


def test_a_receiver_that_was_away_gets_the_same_message_under_the_same_id(receiver: receivers.HttpReceiver) -> None:
    receiver.answer = 503
    fell_silent("c1")
    assert tell() == 0
    fell_silent("c2")
    assert tell() == 0, "it waits for the pause"
    row = NotificationDelivery.objects.order_by("pk")[0]
    assert (row.state, row.attempts, row.answer) == (State.WAITING, 1, "it answered 503")
    receiver.answer = 200
    assert try_now() == 2
    assert receiver.messages[0] == receiver.messages[1] != receiver.messages[2]
    assert [each["data"]["names"] for each in told(receiver)] == [["c1"], ["c2"]]
    row.refresh_from_db()
    assert (row.state, row.attempts, row.answer) == (State.TAKEN, 2, "")


def test_a_process_that_dies_before_it_notes_an_answer_sends_the_same_again(receiver: receivers.HttpReceiver) -> None:
    class KilledError(BaseException):
        """As if the process ended there."""

    def die() -> None:
        raise KilledError

    fell_silent("c1")
    gathering.note_new()
    with clock.at(clock.now() + gathering.MINUTE):
        gathering.note_new()
    (outlet,) = channels.due()
    deliver = outlet.receiver

    class Dies:
        def deliver(self, lines: Any) -> None:
            deliver.deliver(lines)
            die()

    class Dying(channels.ChannelOutlet):
        receiver = Dies()  # that of the outlet, and then the end

    with pytest.raises(KilledError):
        sending.send_next(Dying(outlet.channel), "a process that dies")
    assert send() == 0, "another takes over when the claim is over"
    OutboundPosition.objects.update(busy_until=timezone.now() - timedelta(seconds=1))
    assert send() == 1
    assert len(receiver.messages) == 2
    assert len(set(receiver.messages)) == 1
    assert receiver.bodies[0] == receiver.bodies[1]


def test_what_is_read_and_what_is_told_are_one_transaction(
    receiver: receivers.HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    fell_silent("c1")
    position = OutboundPosition.objects.get(outlet="notify-turns").entry
    with monkeypatch.context() as patched:
        patched.setattr(gathering, "KEPT", "no time")  # fails behind the new rows
        with pytest.raises(TypeError):
            gathering.note_new()
    assert OutboundPosition.objects.get(outlet="notify-turns").entry == position
    assert not NotificationMessage.objects.exists()
    assert tell() == 1


def test_a_day_later_it_is_given_up_and_the_present_is_told(receiver: receivers.HttpReceiver) -> None:
    receiver.answer = 500
    for name in ("c1", "c2"):
        fell_silent(name)
        tell()
    with clock.at(clock.now() - timedelta(minutes=1)):
        assert send() == 0
    NotificationDelivery.objects.update(created=clock.now() - timedelta(hours=25))
    try_now()
    assert set(NotificationDelivery.objects.values_list("state", flat=True)) == {State.GIVEN_UP}
    receiver.answer = 200
    fell_silent("c3")
    assert tell() == 1, "without the pause"
    assert [each["data"]["names"] for each in told(receiver)] == [["c3"]]
    lost = NotificationDelivery.objects.order_by("pk")[0]
    services.replay(ROOT, lost.pk)
    assert send() == 1
    assert receiver.messages[-1] == receiver.messages[0]
    assert told(receiver)[-1]["data"]["names"] == ["c1"]


def test_a_slow_receiver_holds_up_no_other(receiver: receivers.HttpReceiver) -> None:
    with receivers.http_receiver() as other:
        other.secret = services.create_channel(ROOT, "late", "webhook", f"http://127.0.0.1:{other.port}/")
        receiver.answer = 500
        fell_silent("c1")
        tell()
        assert len(other.bodies) == 1
        assert [each.name for each in channels.due()] == [], "one has it, the other is put off"


# ---------------------------------------------------------------- signed, and only where it may go


def test_a_changed_body_is_rejected_and_both_secrets_sign_while_one_is_replaced(
    receiver: receivers.HttpReceiver,
) -> None:
    former = receiver.secret
    new = services.rotate_secret(ROOT, "ops")
    channel = NotificationChannel.objects.get()
    secrets = [encrypted_columns.read(channel, column) for column in ("secret", "former_secret")]
    assert secrets == [new, former]
    headers = signatures.signed_headers([signatures.secret_of(each) for each in secrets], "msg_1", 1, b'{"a":1}')
    for secret in secrets:
        assert receivers.is_signed(headers, b'{"a":1}', secret)
        assert not receivers.is_signed(headers, b'{"a":2}', secret)
        assert not receivers.is_signed({**headers, "webhook-id": "msg_2"}, b'{"a":1}', secret)
    for each in (former, new):
        receiver.secret = each  # which it asserts
        services.test_channel(ROOT, "ops")
        assert send() == 1
    services.forget_former_secret(ROOT, "ops")
    receiver.secret = former
    services.test_channel(ROOT, "ops")
    assert send() == 0


def test_no_private_address_is_asked_unless_it_is_allowed(receiver: receivers.HttpReceiver, settings: Any) -> None:
    settings.OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES = ()
    services.test_channel(ROOT, "ops")
    assert send() == 0
    assert receiver.messages == []
    assert "its address is private" in NotificationDelivery.objects.get().answer


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("webhook", "http://receiver.example/"),
        ("webhook", "ftp://receiver.example/"),
        ("webhook", "https://me:secret@receiver.example/"),
        ("mail", "nobody"),
        ("mail", ""),
        ("mail", "a@b.example\nBcc: c@d.example"),
        ("mail", " ".join(f"a{number}@b.example" for number in range(21))),
    ],
)
def test_an_address_that_makes_no_sense_is_refused(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"It must be|not a mail address"):
        services.address_of(kind, text)


def test_address_and_secrets_are_encrypted_bound_to_their_channel_and_in_no_audit_entry(
    receiver: receivers.HttpReceiver,
) -> None:
    services.rotate_secret(ROOT, "ops")
    row = NotificationChannel.objects.get()
    for column in encrypted_columns.COLUMNS:
        assert getattr(row, column).startswith(stored_text.PREFIX)
    moved = NotificationChannel(name="other", address=row.address)
    with pytest.raises(stored_text.Unreadable):
        encrypted_columns.read(moved, "address")
    counted = {place.name: place for place in places.all_places()}
    place = counted["notification channels, address"]
    assert sum(place.by_key().values()) == 1
    assert place.encrypt_some("another", 10) == 1
    assert encrypted_columns.read(NotificationChannel.objects.get(), "address").endswith("/hook")
    entries = list(AuditEvent.objects.filter(act__startswith="notificationchannel:"))
    assert [each.act.partition(":")[2] for each in entries] == ["create", "rotate"]
    assert not any(secret in str(vars(each)) for each in entries for secret in ("/hook", "whsec_"))


@pytest.mark.contract("D28")
def test_a_restored_hub_tells_nobody_until_it_is_activated(receiver: receivers.HttpReceiver) -> None:
    fell_silent("c1")
    gathering.note_new()
    NotificationMessage.objects.update(sealed=True)
    Incarnation.objects.all().delete()
    Incarnation.objects.create(number=2, uid="u2", begun_at=timezone.now())
    fell_silent("c2")
    audit.entry_of(ROOT, incarnations.RESTORED, verb="create", resource="tests", diff=[]).save()
    assert gathering.note_new() == 0
    assert send() == 0
    Incarnation.objects.update(activated_at=timezone.now())
    tell()
    assert {(each["type"], *each["data"]["names"]) for each in told(receiver)} == {
        ("cluster.silent", "c1"), ("cluster.silent", "c2"), ("hub.restored",),
    }  # fmt: skip


@pytest.mark.contract("D11")
def test_only_hub_admins_keep_channels(receiver: receivers.HttpReceiver) -> None:
    mallory: Actor = person("mallory")
    for act in (
        lambda: services.create_channel(mallory, "mine", "mail", "m@mallory.example"),
        lambda: services.change_address(mallory, "ops", "https://mallory.example/"),
        lambda: services.rotate_secret(mallory, "ops"),
        lambda: services.add_rule(mallory, "ops", [], 1, ""),
        lambda: services.delete_channel(mallory, "ops"),
        lambda: services.test_channel(mallory, "ops"),
    ):
        with pytest.raises(errors.Forbidden):
            act()
    services.delete_channel(ROOT, "ops")
    assert not OutboundPosition.objects.filter(outlet="to-ops").exists()


@pytest.mark.contract("D23")
def test_channels_are_bounded_and_old_messages_go(receiver: receivers.HttpReceiver) -> None:
    for number in range(services.MOST_CHANNELS - 1):
        services.create_channel(ROOT, f"c{number}", "mail", "a@b.example")
    with pytest.raises(errors.Invalid):
        services.create_channel(ROOT, "more", "mail", "a@b.example")
    NotificationChannel.objects.exclude(name="ops").delete()
    fell_silent("c1")
    tell()
    NotificationMessage.objects.update(closes=clock.now() - timedelta(days=31))
    fell_silent("c2")
    tell()
    assert NotificationMessage.objects.count() == 1


# ---------------------------------------------------------------- mail


@pytest.fixture
def mail(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[receivers.MailListener]:
    with receivers.mail_listener() as listener:
        monkeypatch.setenv("OCMCONSOLE_X", f"smtp://127.0.0.1:{listener.port}")
        settings.OCMCONSOLE_MAIL = readers.mail_server("OCMCONSOLE_X")
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", listener.port
        settings.DEFAULT_FROM_EMAIL = "hub@hub.example"
        services.create_channel(ROOT, "people", "mail", services.address_of("mail", "ana@a.example, raj@a.example"))
        yield listener


def test_a_mail_is_one_message_and_keeps_its_id(mail: receivers.MailListener) -> None:
    mail.answer = "451 later"
    fell_silent(*(f"c{number}" for number in range(12)))
    assert tell() == 0
    assert "451" in NotificationDelivery.objects.get().answer
    mail.answer = "250 taken"
    assert try_now() == 1
    assert mail.recipients == [["ana@a.example", "raj@a.example"]]
    found = message_from_bytes(mail.mails[0], policy=policy.default)
    message = NotificationMessage.objects.get()
    assert found["Message-ID"] == f"<{message.uid}@hub.example>"
    assert "Fell silent: 12: c0, c1" in found["Subject"]
    text = found.get_content()
    assert "and 2 more" in text.replace("\r\n", " ")
    assert "/clusters/?status=silent" in text


def test_without_a_mail_server_the_log_says_so(mail: receivers.MailListener, settings: Any) -> None:
    settings.OCMCONSOLE_MAIL = None
    services.test_channel(ROOT, "people")
    assert send() == 0
    assert "OCMCONSOLE_MAIL" in NotificationDelivery.objects.get().answer


def test_a_name_makes_no_header_of_a_mail(mail: receivers.MailListener) -> None:
    audit.entry_of(
        ROOT, "managedcluster:disconnect", verb="update", resource="tests", name="c1\r\nBcc: m@mallory.example",
        reason="a\nb", diff=[],
    ).save()  # fmt: skip
    assert tell() == 1
    found = message_from_bytes(mail.mails[0], policy=policy.default)
    assert found["Bcc"] is None
    assert mail.recipients == [["ana@a.example", "raj@a.example"]]


@pytest.mark.parametrize(
    "text",
    [
        "hub.example",
        "http://hub.example",
        "smtp://me:secret@localhost",
        "smtp://me@hub.example",
        "smtps://",
        "smtp://h:0",
    ],
)
def test_a_mail_server_that_makes_no_sense_stops_the_start(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCMCONSOLE_X", text)
    with pytest.raises(ImproperlyConfigured, match="OCMCONSOLE_X") as refused:
        readers.mail_server("OCMCONSOLE_X")
    assert "secret" not in str(refused.value)


def test_mail_servers_as_settings_write_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, wanted in {
        "smtps://hub%40a@mail.example": ("smtps", "mail.example", 465, "hub@a"),
        "smtp+starttls://hub@mail.example:2525": ("smtp+starttls", "mail.example", 2525, "hub"),
        "smtp://localhost": ("smtp", "localhost", 25, ""),
    }.items():
        monkeypatch.setenv("OCMCONSOLE_X", text)
        found = readers.mail_server("OCMCONSOLE_X")
        assert found
        assert (found.way, found.host, found.port, found.user) == wanted
