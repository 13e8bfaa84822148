"""A message that its receiver refuses, or never takes, holds up no other; those about the same stay in order."""

from __future__ import annotations

from datetime import datetime, timedelta

import orjson
import pytest
from django.utils import timezone

from clusters.models import Transition
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import OutboundPosition
from ocmconsole.kubeapi.outbound import webhooks
from ocmconsole.kubeapi.storage import audit
from ocmconsole.models import NotificationDelivery
from ocmconsole.notifications import channel_metrics, channels, gathering, services
from ocmconsole.notifications.channels import MOST_TRIES
from tests import receivers
from tests.actors import ROOT, signed_in
from tests.security.test_notifications import fell_silent, mail, receiver, send, tell, told

pytestmark = pytest.mark.django_db
__all__ = ["mail", "receiver"]  # fixtures

State = NotificationDelivery.State
RECOVERED = Transition.Turn.RECOVERED
AGAIN = b"Send again what was refused"


def refuse(receiver: receivers.HttpReceiver, status: int, word: bytes) -> None:
    """Bodies with this word."""
    receiver.answers = lambda body: status if word in body else 200


def revoked(name: str) -> None:
    """Of another key than what clusters become."""
    audit.entry_of(ROOT, "certificate:revoke", verb="update", resource="tests", name=name, diff=[]).save()


def try_for(receiver: receivers.HttpReceiver, tries: int) -> None:
    """So many looks of the hub, each when all pauses are over."""
    for _ in range(tries):
        OutboundPosition.objects.update(due=None)
        NotificationDelivery.objects.update(due=None)
        send()


def lost() -> float:
    """As Prometheus reads it."""
    families = {each.name: each for each in channel_metrics.channels_of_notifications()}
    (sample,) = families["ocmconsole_notification_channel_lost"].samples
    return sample.value


def states() -> list[str]:
    return list(NotificationDelivery.objects.order_by("pk").values_list("state", flat=True))


def names(receiver: receivers.HttpReceiver) -> list[str]:
    return [name for each in told(receiver) for name in each["data"]["names"]]


@pytest.mark.parametrize("status", [400, 401, 404, 410, 413, 422])
def test_a_refused_message_is_out_of_the_way_at_once(status: int, receiver: receivers.HttpReceiver) -> None:
    refuse(receiver, status, b'"c1"')
    for name in ("c1", "c2", "c3"):
        fell_silent(name)
        tell()
    send()
    assert names(receiver) == ["c2", "c3"]
    assert states() == [State.REFUSED, State.TAKEN, State.TAKEN]
    lost = NotificationDelivery.objects.order_by("pk")[0]
    assert (lost.attempts, lost.answer) == (1, f"it answered {status}")
    receiver.answers = None
    services.replay(ROOT, lost.pk)
    assert send() == 1
    assert names(receiver)[-1] == "c1"
    assert receiver.messages[0] == receiver.messages[-1], "under the id that it had"


@pytest.mark.parametrize("status", [302, 408, 429, 500, 503])
def test_other_answers_are_tried_again_and_hold_their_key_alone(status: int, receiver: receivers.HttpReceiver) -> None:
    refuse(receiver, status, b'"c1"')
    fell_silent("c1")
    tell()
    fell_silent("c2")
    revoked("c9")
    tell()
    OutboundPosition.objects.update(due=None)  # a second later
    send()
    assert names(receiver) == ["c9"], "c2 waits behind c1, about which it may be too"
    receiver.answers = None
    try_for(receiver, 1)
    assert names(receiver) == ["c9", "c1", "c2"]
    assert webhooks.is_refusal(status) is False


def look_for(begin: datetime, seconds: range) -> None:
    """As the process does, with the pauses that it keeps."""
    for second in seconds:
        with clock.at(begin + timedelta(seconds=second)):
            gathering.note_new()
            send()


def test_others_are_sent_while_a_message_pauses_and_those_that_come_later_at_the_next_look(
    receiver: receivers.HttpReceiver,
) -> None:
    refuse(receiver, 500, b'"c1"')
    fell_silent("c1")
    tell()
    begin = clock.now()
    for name in ("c7", "c8"):
        revoked(name)
    gathering.note_new()
    look_for(begin, range(60, 64))
    assert names(receiver) == ["c7", "c8"]
    look_for(begin, range(100, 3_000, 30))
    assert len(receiver.messages) > MOST_TRIES, "alone it goes on, up to a day"
    services.test_channel(ROOT, "ops")
    look_for(begin, range(3_001, 3_003))
    assert told(receiver)[-1]["type"] == "test"
    assert states()[0] == State.WAITING


def test_a_receiver_that_says_when_is_asked_for_nothing_before(receiver: receivers.HttpReceiver) -> None:
    refuse(receiver, 429, b'"c1"')
    receiver.headers = {"Retry-After": "120"}
    fell_silent("c1")
    tell()
    begin = clock.now()
    services.add_rule(ROOT, "ops", ["certificate.revoked"], 1, "")
    revoked("c9")
    look_for(begin, range(60, 110, 5))
    assert names(receiver) == []
    receiver.answers = None
    look_for(begin, range(125, 130))
    assert names(receiver) == ["c1", "c9"]


def test_a_message_that_fails_again_and_again_is_given_up_once_the_receiver_takes_another_of_its_key(
    receiver: receivers.HttpReceiver,
) -> None:
    refuse(receiver, 500, b'"c1"')
    fell_silent("c1")
    tell()
    fell_silent("c2")
    tell()
    try_for(receiver, MOST_TRIES - 2)
    assert names(receiver) == []
    try_for(receiver, 1)
    send()
    assert names(receiver) == ["c2"], "right behind the last try"
    assert states() == [State.WAITING, State.TAKEN]
    try_for(receiver, 1)
    assert states() == [State.GIVEN_UP, State.TAKEN]
    assert NotificationDelivery.objects.order_by("pk")[0].attempts == MOST_TRIES + 1


def test_what_is_given_up_without_a_try_is_lost_for_a_day(receiver: receivers.HttpReceiver) -> None:
    begin = clock.now()
    receiver.answer = 500
    for name in ("c1", "c2"):
        fell_silent(name)
        tell()
    NotificationDelivery.objects.update(created=begin - timedelta(hours=25))
    first, second = NotificationDelivery.objects.order_by("pk")
    NotificationDelivery.objects.update(state=State.GIVEN_UP, tried=None)
    assert lost() == 2
    with clock.at(begin + timedelta(hours=24)):
        assert lost() == 0
    receiver.answer = 200
    services.replay(ROOT, second.pk)
    OutboundPosition.objects.update(due=None)
    send()
    assert lost() == 1
    assert not NotificationDelivery.objects.get(pk=first.pk).tried


def test_an_outage_of_hours_changes_neither_order_nor_number(receiver: receivers.HttpReceiver) -> None:
    """However many tries it takes: a receiver that takes nothing says nothing about a message."""
    receiver.answer = 502
    begin = clock.now()
    for number in range(3):
        fell_silent(f"c{number}")
        fell_silent(f"c{number}", turn=RECOVERED)
        tell()
    for minutes in range(5, 300, 3):
        with clock.at(begin + timedelta(minutes=minutes)):
            send()
    assert max(NotificationDelivery.objects.values_list("attempts", flat=True)) > MOST_TRIES
    receiver.answer = 200
    for minutes in range(301, 320):
        with clock.at(begin + timedelta(minutes=minutes)):
            send()
    assert names(receiver) == ["c0", "c1", "c2"]
    assert set(states()) == {State.TAKEN}


def test_what_somebody_asks_for_waits_behind_nothing_and_holds_up_nothing(receiver: receivers.HttpReceiver) -> None:
    refuse(receiver, 500, b'"c1"')
    fell_silent("c1")
    tell()
    services.test_channel(ROOT, "ops")
    assert send() == 0, "what failed is tried again first"
    OutboundPosition.objects.update(due=None)  # a second later
    assert send() == 1
    assert told(receiver)[-1]["type"] == "test"


def test_all_that_was_refused_is_sent_again_by_one_act_and_once(receiver: receivers.HttpReceiver) -> None:
    receiver.answer = 404
    for name in ("c1", "c2"):
        fell_silent(name)
        tell()
        send()
    assert states() == [State.REFUSED, State.REFUSED]
    assert lost() == 2
    root = signed_in("root", is_superuser=True)
    assert AGAIN in root.get("/notifications/ops/").content
    receiver.answer = 200
    assert services.replay_all(ROOT, "ops") == 2
    assert services.replay_all(ROOT, "ops") == 0, "they wait already"
    assert send() == 2
    assert services.replay_all(ROOT, "ops") == 0
    assert names(receiver) == ["c1", "c2"]
    assert lost() == 0, "as the runbook of NotificationsRefused says"
    assert AGAIN not in root.get("/notifications/ops/").content


def test_a_clock_that_was_put_back_keeps_nothing_waiting(receiver: receivers.HttpReceiver) -> None:
    receiver.answer = 500
    fell_silent("c1")
    tell()
    NotificationDelivery.objects.update(due=timezone.now() + timedelta(hours=2))
    OutboundPosition.objects.update(due=timezone.now() + timedelta(hours=2))
    receiver.answer = 200
    assert send() == 1


def test_a_mail_that_its_server_refuses_for_good_is_not_tried_again(mail: receivers.MailListener) -> None:
    mail.answer = "550 no"
    fell_silent("c1")
    tell()
    row = NotificationDelivery.objects.get()
    assert (row.state, row.answer) == (State.REFUSED, "the mail server said 550 to the mail")
    mail.answer = "250 taken"
    fell_silent("c2")
    assert tell() == 1


def test_a_message_of_a_channel_that_is_deleted_while_it_is_sent_is_nobodys(receiver: receivers.HttpReceiver) -> None:
    services.test_channel(ROOT, "ops")
    (outlet,) = channels.due()
    batch = outlet.next_batch(OutboundPosition(outlet=outlet.name))
    services.delete_channel(ROOT, "ops")
    assert outlet.note(batch, "it answered 500") is False
    assert orjson.loads(batch.lines[0].body)["type"] == "test"
