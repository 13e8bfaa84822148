"""What a receiver that is written with the reference library of Standard Webhooks makes of the hub's messages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone
from standardwebhooks import Webhook, WebhookVerificationError

from ocmconsole.kubeapi import clock
from ocmconsole.notifications import gathering, services
from tests import factories as make
from tests import receivers
from tests.actors import ROOT
from tests.security.test_notifications import RECOVERED, fell_silent, receiver, send, tell

pytestmark = pytest.mark.django_db
__all__ = ["receiver"]  # a fixture


def is_taken(secret: str, body: bytes, headers: Mapping[str, str]) -> bool:
    try:
        Webhook(secret).verify(body, dict(headers))
    except WebhookVerificationError:
        return False
    return True


def test_the_reference_library_takes_a_message_and_neither_a_changed_nor_an_old_one(
    receiver: receivers.HttpReceiver,
) -> None:
    fell_silent("c1")
    assert tell() == 1
    (body,), (headers,), secret = receiver.bodies, receiver.came_with, receiver.secret
    assert Webhook(secret).verify(body, headers)["data"]["names"] == ["c1"]
    assert not is_taken(secret, body.replace(b"c1", b"c2"), headers)
    assert not is_taken(secret, body, headers | {"webhook-id": "msg_another"})
    assert not is_taken(services.new_secret(), body, headers)
    late = str(int(headers["webhook-timestamp"]) + 1)
    assert not is_taken(secret, body, headers | {"webhook-timestamp": late})
    with time_machine.travel(timezone.now() + timedelta(minutes=6)):
        assert not is_taken(secret, body, headers)


def test_the_reference_library_takes_both_secrets_during_a_rotation_and_the_new_one_after_it(
    receiver: receivers.HttpReceiver,
) -> None:
    former = receiver.secret
    new = services.rotate_secret(ROOT, "ops")
    services.test_channel(ROOT, "ops")
    assert send() == 1
    receiver.secret = new
    services.forget_former_secret(ROOT, "ops")
    services.test_channel(ROOT, "ops")
    assert send() == 1
    taken = [
        [is_taken(secret, body, headers) for secret in (former, new)]
        for body, headers in zip(receiver.bodies, receiver.came_with, strict=True)
    ]
    assert taken == [[True, True], [False, True]]


def test_a_message_that_is_tried_again_has_its_id_and_a_time_of_its_own(receiver: receivers.HttpReceiver) -> None:
    """So that a receiver which looks at the time takes it, however late that is."""
    receiver.answer = 503
    fell_silent("c1")
    assert tell() == 0
    receiver.answer = 200
    with time_machine.travel(timezone.now() + timedelta(hours=3)):
        assert send() == 1
        assert is_taken(receiver.secret, receiver.bodies[0], receiver.came_with[1])
    first, second = receiver.came_with
    assert first["webhook-id"] == second["webhook-id"]
    assert int(second["webhook-timestamp"]) - int(first["webhook-timestamp"]) >= 3 * 60 * 60


def test_five_thousand_events_of_a_minute_in_five_sets_become_ten_messages(receiver: receivers.HttpReceiver) -> None:
    """Read in twenty looks of the hub, as they come."""
    sets = [f"s{number}" for number in range(4)]
    for name in sets:
        make.clusterset(name)
        make.cluster(f"in-{name}", labels={"cluster.open-cluster-management.io/clusterset": name})
    make.settle()
    gathering.begin_now()
    names = [*(f"in-{name}" for name in sets), *(f"c{number}" for number in range(121))]
    services.add_rule(ROOT, "ops", ["cluster.recovered"], 1, "")
    begin, noted = clock.now().replace(second=2), 0
    for look in range(20):
        with clock.at(begin + timedelta(seconds=2 * look)):
            fell_silent(*names)
            fell_silent(*names, turn=RECOVERED)
            noted += gathering.note_new()
    assert noted == 20 * 2 * 125 == 5_000
    assert tell() == 10, "two kinds, four sets and what is of none"
    counted = sum(Webhook(receiver.secret).verify(body, headers)["data"]["count"]
                  for body, headers in zip(receiver.bodies, receiver.came_with, strict=True))  # fmt: skip
    assert counted == 5_000
