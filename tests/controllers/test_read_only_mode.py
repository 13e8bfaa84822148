"""Read-only mode: a person lets the hub write nothing for a while, whichever process is asked."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from celery.bin.base import CLIContext
from celery.bin.worker import worker
from celery.concurrency import thread
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from clusters import tasks
from clusters.health import uptime
from ocmconsole import celery, embedded, schedule
from ocmconsole.backup import only_reads as commands
from ocmconsole.backup import read_only_mode, revocation_log, succession
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.health import outages
from ocmconsole.kubeapi.models import AuditEvent, Incarnation, Revision
from ocmconsole.kubeapi.storage import incarnations, only_reads
from ocmconsole.models import Preferences
from registration import hub_setup
from registration.pki import ca
from tests import factories as make
from tests.actors import ROOT, person
from tests.security.callers import CLUSTERS, bearer

pytestmark = pytest.mark.django_db
WHY = "the hub is read-only since .* UTC: the database moves"


@pytest.fixture(autouse=True)
def process() -> Iterator[None]:
    """What a process knows is as it was."""
    yield
    outages.state.read_only, Revision.is_exempt = "", False


def test_no_process_commits_from_the_moment_it_is_said_and_none_writes_once_it_has_looked() -> None:
    make.cluster("c1")
    read_only_mode.turn_on(ROOT, "the database moves")
    assert outages.state.read_only == ""  # this process has not looked
    with pytest.raises(errors.ServiceUnavailable, match=WHY) as refused:
        make.label("c1", a="b")
    assert refused.value.retry_after == 2
    user = make.staff("late")
    read_only_mode.look()
    with pytest.raises(only_reads.OnlyReads, match=WHY), transaction.atomic():
        Preferences.objects.update_or_create(user=user, defaults={"values": {}})
    with pytest.raises(errors.Conflict, match="is read-only since"):
        read_only_mode.turn_on(ROOT, "")
    read_only_mode.turn_off(ROOT)
    make.label("c1", a="b")
    with pytest.raises(errors.Conflict):
        read_only_mode.turn_off(ROOT)
    with pytest.raises(errors.Forbidden):
        read_only_mode.turn_on(person("raj"), "")
    acts = AuditEvent.objects.filter(resource="revisions").order_by("pk").values_list("act", "user")
    assert [*acts] == [("hub:read-only", ROOT.user), ("hub:writes", ROOT.user)]


def test_reads_go_on_and_everybody_is_told_why_writes_do_not() -> None:
    make.cluster("c1")
    admin = make.staff("admin")
    admin.is_superuser = True
    admin.save()
    page = Client()
    page.force_login(admin)
    read_only_mode.turn_on(ROOT, "the database moves")
    read_only_mode.look()
    shown = page.get("/clusters/c1/")
    assert (shown.status_code, "Read-only" in shown.content.decode()) == (200, True)
    assert "The hub is read-only since" in shown.content.decode()
    refused = page.post("/clusters/c1/labels/", {"labels": "a=b"})
    assert (refused.status_code, "the database moves" in refused.content.decode()) == (503, True)
    assert "This hub only reads" in refused.content.decode()
    answer = bearer("nonsense").post(CLUSTERS, {})
    assert answer.code in {401, 503}
    with pytest.raises(CommandError, match=WHY):
        run("compact")
    assert "the database moves" in run("read_only", "status")
    assert run("read_only", "off") == "the hub is not read-only\n"
    assert "Read-only" not in page.get("/clusters/c1/").content.decode()


@pytest.mark.contract("D17", "H16")
def test_the_time_counts_for_no_silence() -> None:
    make.cluster("c1")
    now = timezone.now()
    uptime.note_serving(now - timedelta(seconds=400))
    read_only_mode.turn_on(ROOT, "")
    read_only_mode.look()
    schedule.run("clusters.tasks.sweep_leases")  # does nothing
    read_only_mode.turn_off(ROOT)
    tasks.sweep_leases()
    missed = uptime.missed_microseconds(
        uptime.serving_gaps(now), int((now - timedelta(seconds=400)).timestamp() * 10**6)
    )
    assert missed >= 399 * 10**6


@pytest.mark.parametrize("arguments", [[], ["--pool", "prefork"]])
def test_tasks_of_a_worker_run_in_the_process_that_looks(arguments: list[str]) -> None:
    """A process that it forked would go on with what was known when it was forked."""
    context = worker.make_context("worker", arguments, obj=CLIContext(app=celery.app, no_color=True, workdir=None))
    assert context.params["pool"] is thread.TaskPool


@pytest.mark.contract("D28")
@pytest.mark.django_db(transaction=True)
def test_a_backup_place_that_hangs_holds_up_neither_the_beginning_nor_the_end(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.OCMCONSOLE_HOME, settings.OCMCONSOLE_BACKUP_PLACE = tmp_path / "home", tmp_path / "place"
    for folder in (settings.OCMCONSOLE_HOME, settings.OCMCONSOLE_BACKUP_PLACE):
        folder.mkdir()
    incarnations.ensure_first()
    mark = settings.OCMCONSOLE_BACKUP_PLACE / succession.NAME
    os.mkfifo(mark)  # a read waits for a writer
    monkeypatch.setattr(embedded, "FIRST_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(embedded, "SUCCESSION_SECONDS", 0.05)
    watch = embedded.SuccessionWatch()
    watch.start()
    try:
        read_only_mode.turn_on(ROOT, "the database moves")
        while not outages.state.read_only:
            sleep(0.05)
        read_only_mode.turn_off(ROOT)
        while outages.state.read_only:
            sleep(0.05)
    finally:
        mark.rename(tmp_path / "mark")
        os.close(os.open(tmp_path / "mark", os.O_RDWR | os.O_NONBLOCK))
        watch.stop()


@pytest.mark.django_db(transaction=True)
def test_the_command_that_follows_the_queue_looks_as_well(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.OCMCONSOLE_HOME = tmp_path

    def follow() -> None:
        read_only_mode.turn_on(ROOT, "the database moves")
        while not outages.state.read_only:
            sleep(0.05)

    monkeypatch.setattr(workqueue, "follow", follow)
    monkeypatch.setattr(embedded, "SUCCESSION_SECONDS", 0.05)
    call_command("work", follow=True)
    assert outages.state.read_only


def test_a_server_whose_commit_is_refused_at_that_moment_notes_that_it_serves_once_it_is_over(
    tmp_path: Path, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    hub_setup.ensure_hub()
    settings.OCMCONSOLE_HOME = tmp_path
    ca.ensure_authority(tmp_path, hub_setup.serving_names())  # another CA, which is to be published
    presence = embedded.Presence()
    read_only_mode.turn_on(ROOT, "the database moves")
    presence.note()
    assert "could not be stored: the server is currently unable to handle the request: the hub is" in caplog.text
    read_only_mode.turn_off(ROOT)
    presence.note()
    assert presence._published is not None


@pytest.mark.contract("D22")
@pytest.mark.django_db(transaction=True)
def test_an_older_copy_that_was_made_of_a_read_only_hub_is_not_served_either(tmp_path: Path, settings: Any) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("of SQLite's file")
    settings.OCMCONSOLE_HOME, settings.OCMCONSOLE_CONTROLLERS = tmp_path, "inline"
    incarnations.ensure_first()
    present = Incarnation.objects.get()
    read_only_mode.turn_on(ROOT, "the database is copied")
    revocation_log.append([{"what": revocation_log.SEEN, "audit": 10**6}], present.uid, timezone.now())
    with pytest.raises(CommandError, match="is an older copy of this hub's database"):
        call_command("serve")
    assert not {"succession", "read-only"} & {each.name for each in threading.enumerate()}


def run(name: str, *arguments: str) -> str:
    from django.core.management import get_commands, load_command_class

    said = StringIO()
    command = commands.guard(load_command_class(get_commands()[name], name), name)
    call_command(command, *arguments, stdout=said)
    return said.getvalue()
