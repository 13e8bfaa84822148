"""The hub is killed while a receiver of notifications has a message, and before it has read what happened."""

from __future__ import annotations

import threading
import time
from signal import SIGKILL

import pytest

from ocmconsole.kubeapi.outbound import positions
from tests import receivers
from tests.conftest import StartHub
from tests.hub import Hub

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.contract("D11")]

WAIT_SECONDS = 120.0  # on a machine that is busy with something else
CHANNEL = """
from django.contrib.auth.models import User
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.notifications import services
admin = actor_for(User.objects.get(username="admin"), entry_point=EntryPoint.CLI, credential="cli")
services.new_secret = lambda: "{secret}"
services.create_channel(admin, "ops", "webhook", "http://127.0.0.1:{port}/")
services.test_channel(admin, "ops")
"""
MESSAGES = "SELECT kind, count FROM ocmconsole_notificationmessage WHERE kind <> 'test'"


def test_what_a_killed_hub_was_sending_or_had_not_read_is_sent_once_under_one_id(start_hub: StartHub) -> None:
    came, over = threading.Event(), threading.Event()

    def hold() -> None:
        came.set()
        over.wait(WAIT_SECONDS)

    with receivers.http_receiver() as receiver, start_hub(WEBHOOK_PRIVATE_ADDRESSES="127.0.0.1") as hub:
        receiver.before = hold
        hub.manage("shell", "--no-imports", "-c", CHANNEL.format(port=receiver.port, secret=receivers.SECRET))
        assert came.wait(WAIT_SECONDS)
        with hub.client(pair=hub.admin_pair()) as client:
            cluster = {
                "apiVersion": "cluster.open-cluster-management.io/v1",
                "kind": "ManagedCluster",
                "metadata": {"name": "c1"},
                "spec": {"hubAcceptsClient": False},
            }
            path = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
            answer = client.post(path, json=cluster)
            assert answer.status_code == 201, answer.text
        names = [*hub.processes]
        for name in names:
            hub.stop(name, SIGKILL)
        receiver.before = lambda: None
        over.set()
        for name in names:
            hub.start(name)
        deadline = time.monotonic() + WAIT_SECONDS + positions.CLAIM.total_seconds()  # of a sender beside others
        while len(receiver.messages) < 2 or not _read(hub):
            assert time.monotonic() < deadline, hub.log("server")
            time.sleep(0.1)
        assert receiver.messages[0] == receiver.messages[1]
        assert _read(hub) == [("request.waiting", 1)]


def _read(hub: Hub) -> list[tuple[str, int]]:
    with hub.reading() as ask:
        return [tuple(row) for row in ask(MESSAGES)]
