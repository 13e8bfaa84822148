"""Read-only mode: a person lets the hub write nothing for a while, whichever process is asked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import transaction
from django.test import Client
from django.utils import timezone

from clusters import tasks
from clusters.health import uptime
from ocmconsole import schedule
from ocmconsole.backup import only_reads as commands
from ocmconsole.backup import read_only_mode
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.health import outages
from ocmconsole.kubeapi.models import AuditEvent, Revision
from ocmconsole.kubeapi.storage import only_reads
from ocmconsole.models import Preferences
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


def run(name: str, *arguments: str) -> str:
    from django.core.management import get_commands, load_command_class

    said = StringIO()
    command = commands.guard(load_command_class(get_commands()[name], name), name)
    call_command(command, *arguments, stdout=said)
    return said.getvalue()
