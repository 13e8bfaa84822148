"""What the clock runs, run as the clock runs it: by the name in its schedule, with the present time."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from ocmconsole.celery import BEAT, app
from ocmconsole.corekinds.kinds import EVENT
from ocmconsole.corekinds.models import Event
from ocmconsole.kubeapi import changes, times
from ocmconsole.kubeapi.models import Change, Compaction, writing
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import CertificateSigningRequest
from tests import factories as make
from tests import requests

pytestmark = pytest.mark.django_db


def tick(name: str) -> None:
    app.loader.import_default_modules()
    app.tasks[str(BEAT[name]["task"])]()


@pytest.mark.contract("W28")
def test_the_clock_forgets_old_events() -> None:
    make.namespace("c1")
    for name in ("old", "fresh"):
        regarding = {"kind": "ManagedCluster", "name": "c1", "namespace": "c1"}
        make.create(EVENT, make.document(EVENT, name) | {"involvedObject": regarding}, namespace="c1")
    with writing():
        Event.objects.filter(name="old").update(last_seen=timezone.now() - timedelta(minutes=61))
    tick("expire-events")
    assert [event.name for event in Event.objects.all()] == ["fresh"]


@pytest.mark.contract("W25")
def test_the_clock_collects_decided_requests() -> None:
    for name, age in (("old", 61), ("fresh", 59)):
        requests.ask(name, requests.agent_pem("c1"), cluster="c1", by=make.ADMIN, signerName="example.com/signer")
        decided = times.timestamp(timezone.now() - timedelta(minutes=age))
        denied = {"type": "Denied", "status": "True", "reason": "Test", "lastUpdateTime": decided}
        make.edit(CSR, name, partial(dict.update, status={"conditions": [denied]}), subresource="approval")
    tick("collect-requests")
    assert [request.name for request in CertificateSigningRequest.objects.all()] == ["fresh"]


@pytest.mark.contract("W12")
def test_the_clock_cuts_what_every_watch_had_time_to_see() -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    Change.objects.bulk_create(
        Change(revision=10**9 + number, resource=CSR.resource, verb="MODIFIED", name="r", time=long_ago, wire="{}")
        for number in range(changes.KEEP_CHANGES + 3)
    )
    tick("compact")
    assert Change.objects.filter(resource=CSR.resource).count() == changes.KEEP_CHANGES
    assert Compaction.objects.get(resource=CSR.resource).revision == 10**9 + 2
