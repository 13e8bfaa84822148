"""Processes of a hub whose machines' clocks differ: work and certificates go by the clock that all of them share."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import time_machine
from cryptography import x509
from django.db import connection
from django.utils import timezone

from ocmconsole.kubeapi import clock, verbs
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import WorkItem
from ocmconsole.kubeapi.storage import database_clock
from registration import hub_setup, reconcilers
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.pki import ca
from tests import factories as make
from tests import requests

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="a hub on SQLite has one machine"),
]

WORK = ("acceptance", Key("", "c1"))


@pytest.fixture(autouse=True)
def with_workers(tmp_path: Path, settings: Any) -> Iterator[None]:
    make.hub(tmp_path, settings)
    settings.OCMCONSOLE_CONTROLLERS = "thread"
    database_clock.forget()
    yield
    database_clock.forget()


@contextmanager
def clock_ahead(minutes: float) -> Iterator[None]:
    """Inside the block this is a process whose clock is so far ahead."""
    database_clock.forget()
    with time_machine.travel(timezone.now() + timedelta(minutes=minutes), tick=True):
        yield
    database_clock.forget()


@pytest.mark.parametrize("minutes", [-10, 10])
def test_what_a_process_with_a_wrong_clock_asks_for_is_due_for_the_others(minutes: float) -> None:
    with clock_ahead(minutes):
        workqueue.put({WORK}, clock.now())
    assert workqueue.is_due()
    assert workqueue.drain() == 1
    with clock_ahead(minutes):
        workqueue.put_folded({WORK}, clock.now())
    assert not workqueue.is_due()
    workqueue.end_fold()


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_process_with_a_wrong_clock_does_what_is_due_and_its_claim_holds(minutes: float) -> None:
    workqueue.put({WORK}, clock.now())
    with clock_ahead(minutes):
        assert workqueue.trouble(clock.now()) == ""
        assert workqueue._take_all(workqueue._due(()))
    assert workqueue._due(()) == []
    over = database_clock.now() - timedelta(seconds=1)
    WorkItem.objects.update(busy_until=over, due=over)
    with clock_ahead(minutes):
        assert workqueue.drain() == 1


@pytest.mark.contract("W24")
def test_what_a_process_ahead_signs_has_begun_for_everybody(settings: Any) -> None:
    settings.OCMCONSOLE_API_ADDRESS = ("10.0.0.7", 6443)
    make.cluster("c1", accepted=True)
    requests.ask("c1-a", requests.agent_pem("c1"), cluster="c1")
    home = settings.OCMCONSOLE_HOME
    with clock_ahead(10):
        approve = partial(reconcilers.add_decision, kind="Approved", reason="Test", message="")
        verbs.edit(make.ADMIN, CSR, Key("", "c1-a"), approve, subresource="approval")
        make.settle()
        hub_setup.keep_serving_certificate()
        assert ca.is_served(home, hub_setup.serving_names())
    issued = [base64.b64decode(requests.row("c1-a").doc["status"]["certificate"]), (home / "serving.crt").read_bytes()]
    assert "10.0.0.7" in ca.further_addresses(home, ())
    for text in issued:
        begins = x509.load_pem_x509_certificates(text)[0].not_valid_before_utc
        assert begins <= timezone.now() - ca.BACKDATED


def test_a_server_that_starts_leaves_the_certificate_to_others_with_its_home(settings: Any) -> None:
    """With a new key at each start, the others' clients would meet a certificate that is new to them each time."""
    home, issued = settings.OCMCONSOLE_HOME, []
    for address in ("10.0.0.5", "10.0.0.6", "10.0.0.5", "10.0.0.6"):
        settings.OCMCONSOLE_API_ADDRESS = (address, 6443)
        hub_setup.ensure_hub()
        issued.append((home / "serving.crt").read_bytes())
    assert issued[1] == issued[2] == issued[3] != issued[0]
