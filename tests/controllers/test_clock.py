"""What the clock runs, run as the clock runs it: by the name in its schedule, with the present time."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from threading import Event as Signal

import pytest
from django.utils import timezone
from django.utils.module_loading import import_string

from clusters.health import uptime
from ocmconsole.celery import MOVED, app
from ocmconsole.core.kinds import EVENT
from ocmconsole.core.models import Event
from ocmconsole.embedded import Workers
from ocmconsole.kubeapi import tasks
from ocmconsole.kubeapi.control import compaction, workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import Change, Compaction, WorkItem, writing
from ocmconsole.kubeapi.schema import times
from ocmconsole.schedule import BEAT, CLOCK, EXPIRES, TIMELY, WORK
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import CertificateSigningRequest
from tests import factories as make
from tests import requests

pytestmark = pytest.mark.django_db

PATIENCE = 60.0  # seconds, for what takes two unless the test fails


def tick(name: str) -> None:
    import_string(str(BEAT[name]["task"]))()


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
        for number in range(compaction.KEEP_CHANGES + 3)
    )
    tick("compact")
    assert Change.objects.filter(resource=CSR.resource).count() == compaction.KEEP_CHANGES
    assert Compaction.objects.get(resource=CSR.resource).revision == 10**9 + 2


# ---------------------------------------------------------------- on time


@pytest.mark.contract("H16")
def test_what_must_be_on_time_has_a_queue_of_its_own_and_late_ticks_expire() -> None:
    schedule = app.conf.beat_schedule
    assert {name for name, entry in schedule.items() if entry["options"]["queue"] == CLOCK} == TIMELY
    assert "sweep-leases" in TIMELY
    assert all(EXPIRES <= entry["options"]["expires"] <= max(EXPIRES, entry["schedule"]) for entry in schedule.values())
    assert {queue.name for queue in app.conf.task_queues} == {CLOCK, WORK}, "a worker that names no queue serves both"


@pytest.mark.contract("H16")
@pytest.mark.django_db(transaction=True)
def test_leases_are_swept_while_other_tasks_of_the_clock_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end, swept = Signal(), Signal(), Signal()

    def slow() -> None:
        begun.set()
        may_end.wait(PATIENCE)

    def note_sweep(_: object) -> None:
        if begun.is_set():
            swept.set()

    for name in BEAT.keys() - {"sweep-leases"}:
        monkeypatch.delitem(BEAT, name)
    monkeypatch.setitem(BEAT, "slow", {"task": f"{__name__}.slow", "schedule": 60.0})
    monkeypatch.setitem(globals(), "slow", slow)
    monkeypatch.setattr(uptime, "note_sweep", note_sweep)
    workers = Workers()
    workers.start()
    try:
        assert begun.wait(PATIENCE)
        assert swept.wait(PATIENCE), "nobody looks for silence"
    finally:
        may_end.set()
        workers.stop()


def test_a_worker_with_much_to_do_takes_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a task of the clock that shares the worker waits until all work is done."""
    monkeypatch.setattr(tasks, "TURN_SECONDS", 0.0)
    workqueue.put({("taints", Key("", f"c{number}")) for number in range(3)}, timezone.now())
    tick("drain")
    assert WorkItem.objects.count() == 3
    monkeypatch.undo()
    tick("drain")
    assert not WorkItem.objects.exists()


def test_celery_has_a_task_for_each_function_of_the_schedule() -> None:
    app.loader.import_default_modules()
    assert {name for name in app.tasks if not name.startswith("celery.")} == {
        *MOVED,
        *(entry["task"] for entry in BEAT.values()),
    }


def test_the_clock_of_an_earlier_version_finds_its_tasks_by_their_names_of_then() -> None:
    app.loader.import_default_modules()
    assert {name: app.tasks[name].run for name in MOVED} == {name: import_string(path) for name, path in MOVED.items()}
    assert set(MOVED.values()) <= {entry["task"] for entry in BEAT.values()}
