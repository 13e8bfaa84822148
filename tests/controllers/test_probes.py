"""What /readyz says of worker and clock, and of a hub whose migrations are not there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.health import outages, probes
from ocmconsole.kubeapi.models import Pulse, WorkItem

pytestmark = pytest.mark.django_db


def test_a_celery_worker_is_alive_while_it_says_so(settings: Any) -> None:
    settings.OCMCONSOLE_CONTROLLERS = "celery"
    now = timezone.now()
    assert workqueue.trouble(now) == "no worker is alive"
    workqueue.say_alive()
    assert workqueue.trouble(now) == ""
    assert workqueue.trouble(now + timedelta(seconds=29)) == ""
    assert workqueue.trouble(now + timedelta(seconds=40)).startswith("no worker is alive since")


def test_a_worker_writes_its_sign_of_life_only_when_it_is_needed(django_assert_num_queries: Any) -> None:
    workqueue.say_alive()
    with django_assert_num_queries(1):
        workqueue.say_alive()
    before = timezone.now()
    Pulse.objects.update(seen=before - timedelta(seconds=6))
    workqueue.say_alive()
    assert Pulse.objects.get().seen >= before


def test_work_that_nobody_does_is_said() -> None:
    WorkItem.objects.create(reconciler="acceptance", name="late", due=timezone.now() - timedelta(seconds=31))
    assert workqueue.trouble(timezone.now()) == "1 pieces of work are overdue by more than 30 s"


def test_a_missing_migration_is_said_by_its_number() -> None:
    assert probes.migrations() == ""
    with connection.cursor() as cursor:
        cursor.execute("SELECT max(name) FROM django_migrations WHERE app = 'kubeapi'")
        cursor.execute("DELETE FROM django_migrations WHERE app = 'kubeapi' AND name = %s", cursor.fetchone())
    assert probes.migrations() == "1 missing"


def test_a_failure_is_logged_when_its_grace_is_over_and_its_end_only_then(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    state = {"wrong": "no worker is alive"}
    monkeypatch.setattr(probes, "_checks", [])
    probes.register("worker", lambda: state["wrong"], needs_database=False, has_grace=True)
    monitor = probes.Monitor(is_running=True)

    def logged(wrong: str) -> list[str]:
        state["wrong"] = wrong
        caplog.clear()
        monitor.look()
        return caplog.messages

    assert logged("no worker is alive") == []
    assert logged("") == [], "an end of what was not said"
    assert logged("no worker is alive") == []
    monitor.started -= probes.GRACE_SECONDS
    assert logged("no worker is alive") == ["check worker fails: no worker is alive"]
    assert logged("no worker is alive") == []
    assert logged("") == ["check worker passes again"]


def test_a_look_without_a_loop_finds_the_database_well() -> None:
    answer = probes.answer("/readyz", [("verbose", "")])
    assert answer is not None
    assert "[+]database ok" in answer.text
    assert outages.state == outages.OutageState()
