"""Quiet hours: by the clock of their time zone, with what breaks through; what was held is sent grouped and once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from django.test import Client

from clusters.models import Transition
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.models import (
    NotificationChannel,
    NotificationDelivery,
    NotificationMessage,
    NotificationQuietHours,
    Severity,
)
from ocmconsole.notifications import gathering, quiet_hours, services
from tests import receivers
from tests.actors import ROOT, person, signed_in
from tests.security.test_notifications import fell_silent, receiver, send, told

pytestmark = pytest.mark.django_db
__all__ = ["receiver"]  # a fixture

State = NotificationDelivery.State
RECOVERED = Transition.Turn.RECOVERED
NIGHT = {"days": list(range(7)), "begins": time(22), "ends": time(7), "zone": "Europe/Berlin", "breaks": 3}


def hours(**changed: Any) -> NotificationQuietHours:
    return NotificationQuietHours(**{**NIGHT, **changed})


def utc(day: int, hour: int, minute: int = 0, month: int = 1) -> datetime:
    """Of 2027, whose January begins on a Friday."""
    return datetime(2027, month, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "now", "ends"),
    [
        ({}, utc(4, 20, 59), None),
        ({}, utc(4, 21), utc(5, 6)),
        ({}, utc(5, 5, 59), utc(5, 6)),
        ({}, utc(5, 6), None),
        ({"begins": time(12), "ends": time(13)}, utc(4, 11, 30), utc(4, 12)),
        ({"days": [4]}, utc(2, 5), utc(2, 6)),  # a Friday's night is on Saturday too
        ({"days": [4]}, utc(2, 21), None),
        ({"days": [5], "begins": time(0), "ends": time(0)}, utc(2, 12), utc(2, 23)),
        ({"begins": time(1), "ends": time(4)}, utc(28, 0, 30, month=3), utc(28, 2, month=3)),  # three hours become two
        ({"begins": time(1), "ends": time(4)}, utc(31, 1, 30, month=10), utc(31, 3, month=10)),  # and here four
    ],
)
def test_they_go_by_the_clock_of_their_zone(given: dict[str, Any], now: datetime, ends: datetime | None) -> None:
    assert quiet_hours.end_of(hours(**given), now) == ends


def test_hours_that_follow_each_other_end_together_and_those_without_an_end_are_refused() -> None:
    weekend = hours(days=[5, 6], begins=time(0), ends=time(0))
    assert quiet_hours.until([hours(), weekend], utc(1, 22)) == utc(4, 6)
    always = [hours(begins=time(8), ends=time(22)), hours()]
    assert not quiet_hours.fill_the_week(always, utc(1, 12)), "an hour is left"
    assert quiet_hours.fill_the_week([*always, hours(begins=time(5), ends=time(8))], utc(1, 12))
    assert quiet_hours.fill_the_week([hours(begins=time(0), ends=time(0))], utc(1, 12))


def quiet_now(receiver: receivers.HttpReceiver, **changed: Any) -> datetime:
    """From an hour ago to an hour from now; returns their end."""
    now = clock.now().replace(second=0, microsecond=0)
    begins, ends = (now - timedelta(hours=1)).time(), (now + timedelta(hours=1)).time()
    services.add_rule(ROOT, "ops", [], Severity.INFO, "")
    services.add_quiet_hours(ROOT, "ops", hours(begins=begins, ends=ends, zone="UTC", **changed))
    return now + timedelta(hours=1)


def look(moments: Iterable[datetime]) -> None:
    for moment in moments:
        with clock.at(moment):
            gathering.note_new()
            send()


def states() -> dict[str, int]:
    found = list(NotificationDelivery.objects.values_list("state", flat=True))
    return {state: found.count(state) for state in set(found)}


def test_what_is_held_is_sent_in_groups_when_they_end_and_what_breaks_through_at_once(
    receiver: receivers.HttpReceiver,
) -> None:
    ends = quiet_now(receiver)
    for minute in range(4):
        with clock.at(ends - timedelta(minutes=30 - 2 * minute)):
            fell_silent(f"c{minute}", turn=RECOVERED)
            gathering.note_new()
    with clock.at(ends - timedelta(minutes=20)):
        fell_silent("c9")
        gathering.note_new()
    look(ends - timedelta(minutes=minutes) for minutes in (19, 18, 1))
    assert [each["data"]["names"] for each in told(receiver)] == [["c9"]], "critical"
    assert states() == {State.HELD: 4, State.TAKEN: 1}
    look(ends + timedelta(seconds=seconds) for seconds in (1, 2, 3))
    (grouped,) = told(receiver)[1:]
    assert grouped["data"]["text"] == "Came back: 4: c0, c1, c2, c3"
    assert grouped["data"]["detail"] == "Held in quiet hours: 4 messages."
    assert grouped["data"]["first"] < grouped["data"]["last"]
    assert states() == {State.GROUPED: 4, State.TAKEN: 2}


def test_one_message_alone_is_sent_as_it_was(receiver: receivers.HttpReceiver) -> None:
    ends = quiet_now(receiver, breaks=None)
    fell_silent("c1")
    look((clock.now(), clock.now() + gathering.MINUTE, ends + timedelta(days=2)))
    (message,) = NotificationMessage.objects.all()
    assert receiver.messages == [f"msg_{message.uid}"]
    assert states() == {State.GROUPED: 1, State.TAKEN: 1}, "however long they lasted"


def test_a_channel_without_quiet_hours_hears_of_it_meanwhile(receiver: receivers.HttpReceiver) -> None:
    quiet_now(receiver, breaks=None)
    with receivers.http_receiver() as other:
        other.secret = services.create_channel(ROOT, "day", "webhook", f"http://127.0.0.1:{other.port}/")
        fell_silent("c1")
        look((clock.now(), clock.now() + gathering.MINUTE))
        assert len(other.bodies) == 1
    assert receiver.bodies == []


def test_who_removes_them_frees_what_they_held_and_a_test_is_sent_at_once(receiver: receivers.HttpReceiver) -> None:
    quiet_now(receiver, breaks=None)
    services.test_channel(ROOT, "ops")
    assert send() == 1
    fell_silent("c1")
    look((clock.now(), clock.now() + gathering.MINUTE))
    held = NotificationDelivery.objects.get(state=State.HELD)
    with pytest.raises(errors.NotFound):
        services.replay(ROOT, held.pk)
    services.remove_quiet_hours(ROOT, "ops", NotificationQuietHours.objects.get().pk)
    look((clock.now() + gathering.MINUTE,))
    assert [each["type"] for each in told(receiver)] == ["test", "cluster.silent"]


def test_of_two_processes_one_frees_what_was_held(receiver: receivers.HttpReceiver) -> None:
    ends = quiet_now(receiver, breaks=None)
    for name in ("c1", "c2"):
        fell_silent(name)
        look((clock.now(), clock.now() + gathering.MINUTE))
    channel = NotificationChannel.objects.get()
    free = list(NotificationDelivery.objects.select_related("message"))
    quiet_hours.release([channel], ends)
    waits = NotificationDelivery.objects.filter(state=State.WAITING).count()
    quiet_hours._send(channel, free, ends)  # which had read them too
    assert NotificationDelivery.objects.filter(state=State.WAITING).count() == waits == 1


# ---------------------------------------------------------------- the page

FORM = {"days": ["0", "4"], "begins": "22:00", "ends": "07:00", "zone": "Europe/Berlin", "breaks": "3"}


@pytest.fixture
def root(receiver: receivers.HttpReceiver) -> Client:
    return signed_in("root", is_superuser=True)


@pytest.mark.contract("D11")
def test_they_are_kept_on_the_page_of_the_channel_and_in_the_audit(root: Client) -> None:
    root.post("/notifications/ops/quiet/", FORM)
    page = root.get("/notifications/ops/").content.decode()
    assert "Mon, Fri 22:00 to 07:00 Europe/Berlin" in page
    assert "from Critical" in page
    (row,) = NotificationQuietHours.objects.all()
    root.post("/notifications/ops/quiet/", FORM | {"days": [str(day) for day in range(7)], "breaks": "0"})
    assert "daily 22:00 to 07:00" in root.get("/notifications/ops/").content.decode()
    root.post(f"/notifications/ops/quiet/{row.pk}/remove/")
    assert root.post(f"/notifications/ops/quiet/{row.pk}/remove/").status_code == 404
    acts = AuditEvent.objects.filter(act__contains="quiet-hours").order_by("pk").values_list("act", "user")
    assert [act.partition(":")[2] for act, _ in acts] == ["add-quiet-hours", "add-quiet-hours", "remove-quiet-hours"]
    assert {user for _, user in acts} == {"root"}
    with pytest.raises(errors.Forbidden):
        services.add_quiet_hours(person("mallory"), "ops", hours())


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("zone", "Berlin", "There is no time zone of this name"),
        ("zone", "../UTC", "There is no time zone of this name"),
        ("begins", "25:00", "Enter a valid time"),
        ("days", [], "This field is required"),
        ("days", ["7"], "not one of the available choices"),
        ("breaks", "9", "not one of the available choices"),
    ],
)
def test_hours_that_make_no_sense_are_refused_beside_their_field(
    field: str, value: object, said: str, root: Client
) -> None:
    answer = root.post("/notifications/ops/quiet/", FORM | {field: value})
    assert answer.status_code == 400
    assert any(said in error for error in answer.context["quiet_form"].errors[field])
    assert f'id="id_{field}_error"' in answer.content.decode()
    assert not NotificationQuietHours.objects.exists()


@pytest.mark.contract("D23")
def test_they_are_few_and_leave_time_to_be_told(root: Client) -> None:
    endless = FORM | {"days": [str(day) for day in range(7)], "ends": "22:00"}
    answer = root.post("/notifications/ops/quiet/", endless)
    assert answer.status_code == 400
    assert "quiet without an end" in answer.content.decode()
    for _ in range(services.MOST_QUIET_HOURS):
        services.add_quiet_hours(ROOT, "ops", hours())
    with pytest.raises(errors.Invalid, match="at most"):
        services.add_quiet_hours(ROOT, "ops", hours())
