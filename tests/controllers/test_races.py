"""Several workers at the same object: nothing is done twice, and a lost race is tried again without alarm."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from clusters.acceptance.reconcilers import reconcile_acceptance
from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.kubeapi import errors, verbs, write_queue
from ocmconsole.kubeapi.control import controllers, workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import Change, WorkItem
from ocmconsole.kubeapi.storage import plain_sql
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import IssuedCertificate
from registration.pki import ca
from registration.reconcilers import add_decision, reconcile_request_signing
from tests import factories as make
from tests import requests

WORKERS = 3
PATIENCE = 60.0  # for what happens at once unless the test fails
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.contract("H4", "H5", "K40")
@pytest.mark.parametrize("name", ["c1", "c2"])
def test_workers_that_admit_a_cluster_at_once_report_no_error(name: str) -> None:
    make.cluster(name, accepted=True)
    start = Barrier(WORKERS)

    def admit() -> None:
        start.wait()
        with closing(connection), suppress(errors.Conflict):  # upon which the queue tries again
            reconcile_acceptance(Key("", name))

    with ThreadPoolExecutor(WORKERS) as workers:
        done = [workers.submit(admit) for _ in range(WORKERS)]
    assert [each.exception() for each in done] == [None] * WORKERS

    doc = verbs.get(make.ADMIN, MANAGED_CLUSTER, Key("", name))
    conditions = doc.get("status", {}).get("conditions", [])
    assert [each for each in conditions if each["reason"] == "Error"] == []
    reconcile_acceptance(Key("", name))
    doc = verbs.get(make.ADMIN, MANAGED_CLUSTER, Key("", name))
    accepted = [each["reason"] for each in doc["status"]["conditions"] if each["type"] == "HubAcceptedManagedCluster"]
    assert accepted == ["HubClusterAdminAccepted"]


@pytest.mark.contract("W24")
def test_workers_that_sign_a_request_at_once_sign_it_once(
    monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    settings.OCMCONSOLE_HOME = tmp_path
    ca.ensure_authority(tmp_path, ["localhost"])
    requests.ask("r", requests.agent_pem("c1"), cluster="c1", by=make.ADMIN)
    make.edit(CSR, "r", lambda doc: add_decision(doc, "Approved", "Test", ""), subresource="approval")
    start, signed = Barrier(WORKERS), []
    sign = ca.Authority.sign_client

    def sign_and_count(*args: object, **options: object) -> bytes:
        signed.append(args)
        return sign(*args, **options)  # type: ignore[arg-type] # passed on as they came

    monkeypatch.setattr(ca.Authority, "sign_client", sign_and_count)

    def work() -> None:
        start.wait()
        with closing(connection):
            reconcile_request_signing(Key("", "r"))

    with ThreadPoolExecutor(WORKERS) as workers:
        done = [workers.submit(work) for _ in range(WORKERS)]
    assert [each.exception() for each in done] == [None] * WORKERS
    assert len(signed) == 1
    assert IssuedCertificate.objects.count() == 1
    assert Change.objects.filter(resource=CSR.resource, wire__contains='"certificate":').count() == 1


# ---------------------------------------------------------------- the queue


@contextmanager
def a_reconciler(reconcile: Callable[[Key], None]) -> Iterator[None]:
    """Registered for the length of a test, with one item of work."""
    controllers._reconcilers["tried"] = controllers.Reconciler("tried", reconcile)
    workqueue.put({("tried", Key("", "x"))}, timezone.now())
    try:
        yield
    finally:
        del controllers._reconcilers["tried"]


def drain_elsewhere() -> int:
    with closing(connection):
        return workqueue.drain()


def test_what_is_asked_again_while_a_worker_is_at_it_is_run_after_that_and_not_beside_it() -> None:
    begun, may_end = Event(), Event()
    running = []

    def reconcile(key: Key) -> None:
        running.append(key)
        begun.set()
        may_end.wait(PATIENCE)

    with a_reconciler(reconcile), ThreadPoolExecutor(1) as worker:
        first = worker.submit(drain_elsewhere)
        begun.wait()
        workqueue.put({("tried", Key("", "x"))}, timezone.now())
        beside = workqueue.drain()
        may_end.set()
        assert first.result() == 2
    assert beside == 0
    assert len(running) == 2
    assert not WorkItem.objects.exists()


def test_an_item_that_waits_behind_a_slow_one_is_another_workers() -> None:
    begun, may_end = Event(), Event()
    ran = []

    def reconcile(key: Key) -> None:
        if key.name == "slow":
            begun.set()
            may_end.wait(PATIENCE)
        ran.append(key.name)

    with a_reconciler(reconcile), ThreadPoolExecutor(1) as worker:
        WorkItem.objects.update(name="slow")
        workqueue.put({("tried", Key("", "quick"))}, timezone.now())
        first = worker.submit(drain_elsewhere)
        begun.wait()
        beside = workqueue.drain()
        may_end.set()
        first.result()
    assert beside == 1
    assert ran == ["quick", "slow"]


def test_only_claims_and_their_ends_wait_for_no_disk() -> None:
    """What a reconciler commits is durable as any other write."""
    asked = {"sqlite": "PRAGMA synchronous", "postgresql": "SHOW synchronous_commit"}[connection.vendor]
    full = {"sqlite": 2, "postgresql": "on"}[connection.vendor]
    if connection.vendor == "postgresql":  # the tests' server does without
        plain_sql.run("SET synchronous_commit TO on")
    found = []

    def durability() -> object:
        return plain_sql.rows(asked)[0][0]

    def reconcile(key: Key) -> None:
        found.append(durability())

    with write_queue.forgettable():
        assert durability() == {"sqlite": 1, "postgresql": "off"}[connection.vendor]
    with a_reconciler(reconcile):
        workqueue.drain()
    assert [*found, durability()] == [full, full]
    if connection.vendor == "postgresql":
        plain_sql.run("RESET synchronous_commit")


@pytest.mark.parametrize("lost", [errors.NotFound, errors.AlreadyExists, errors.Conflict])
def test_a_lost_race_is_tried_again_without_a_word(
    lost: type[errors.ApiError], caplog: pytest.LogCaptureFixture
) -> None:
    tries = []

    def reconcile(key: Key) -> None:
        tries.append(key)
        if len(tries) == 1:
            raise lost("another was first")

    with a_reconciler(reconcile), caplog.at_level(logging.INFO):
        workqueue.drain()
        assert WorkItem.objects.get().busy_until is None
        WorkItem.objects.update(due=timezone.now())
        workqueue.drain()
    assert len(tries) == 2
    assert caplog.records == []
    assert not WorkItem.objects.exists()


def test_a_race_that_is_lost_again_and_again_is_said_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def reconcile(key: Key) -> None:
        raise errors.not_found("", "secrets", "x")

    with a_reconciler(reconcile):
        for _ in range(workqueue.QUIET_TRIES):
            WorkItem.objects.update(due=timezone.now())
            workqueue.drain(1)
    assert [(each.levelname, each.exc_info) for each in caplog.records] == [("WARNING", None)]
    assert 'secrets "x" not found' in caplog.text
