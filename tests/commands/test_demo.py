"""``manage.py demo`` fills a hub that then holds what it promises, and touches none that is in use."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.conf import settings as settings_of_django
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone
from django.utils.module_loading import import_string

from clusters import queries as clusters
from clusters.health import uptime
from clusters.health.heartbeat_history import KEPT
from clusters.health.status import Word
from clusters.models import HeartbeatDay
from ocmconsole.demo import building
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.models import AuditEvent, WorkItem
from ocmconsole.management.commands.demo import serving_command
from ocmconsole.schedule import BEAT
from ocmconsole.second_approval.rules import ActName, Rule
from registration import queries
from registration.evidence import assessment
from tests import factories as make

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

HUB = Actor.controller("test")


@pytest.fixture
def home(tmp_path: Path, settings: Any) -> Path:
    settings.OCMCONSOLE_HOME = tmp_path
    return tmp_path


def words(now: datetime) -> Counter[Word]:
    return Counter(found.status.word for found in clusters.observe_clusters(clusters.clusters_for(HUB), now))


def test_a_fleet_is_in_every_state_with_a_past_and_goes_on(home: Path) -> None:
    out, began = StringIO(), timezone.now()  # without an agent, all fall silent in the end
    call_command("demo", "--clusters", "30", "--password", "shown-to-everybody", stdout=out)

    assert "ana, raj, li, mallory  (password: shown-to-everybody)" in out.getvalue()
    later = [began + timedelta(minutes=minutes) for minutes in range(4)]  # a heartbeat is late for a few minutes only
    assert {word for moment in later for word in words(moment)} == set(Word)
    assert {assessment.evidence_of(name).verdict for name in queries.waiting_names(HUB)} == set(assessment.Verdict)
    assert not WorkItem.objects.filter(attempts__gt=0).exists()

    entries = list(AuditEvent.objects.order_by("pk").values_list("time", flat=True))
    assert all(later > earlier - timedelta(seconds=1) for earlier, later in pairwise(entries))
    assert entries[0] < timezone.now() - timedelta(days=100)
    assert HeartbeatDay.objects.earliest("day").day <= (timezone.now() - KEPT / 2).date()
    assert AuditEvent.objects.filter(user="ana", entry_point="web", act__contains="accept").exists()

    people = {name: actor_for(User.objects.get(username=name)) for name in ("ana", "raj", "li", "mallory")}
    seen = {name: set(clusters.clusters_for(actor).values_list("name", flat=True)) for name, actor in people.items()}
    assert seen["ana"] == seen["li"] > seen["raj"] > seen["mallory"] == set()

    with time_machine.travel(timezone.now() + timedelta(minutes=2)):
        beat = import_string(str(BEAT["beat-demo"]["task"]))
        before = words(timezone.now())[Word.HEALTHY]
        beat()
        assert words(timezone.now())[Word.HEALTHY] == before  # nothing serves: its agents would reach nobody
        uptime.note_serving(timezone.now())
        before = words(timezone.now())[Word.HEALTHY]
        beat()  # the clock of whatever serves the hub
        assert words(timezone.now())[Word.HEALTHY] > before
        assert building.beat() == 0
    with time_machine.travel(timezone.now() + timedelta(minutes=6)):
        assert building.beat() > 0


def test_the_last_line_serves_the_hub_that_was_filled(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(settings_of_django.ROOT)
    environment = {
        "OCMCONSOLE_HOME": "var/my demo",
        "OCMCONSOLE_HUB_NAME": "it's",
        "OCMCONSOLE_DATABASE_URL": "postgres://hub:secret@db/hub",
        "OCMCONSOLE_ADMIN_PASSWORD": "secret",
        "OCMCONSOLE_ENVIRONMENT": "",
        "PATH": "/bin",
    }
    line = serving_command(environment)
    assert "secret" not in line.replace("OCMCONSOLE_", "").lower().replace("secret_", "")
    words = ["sh", "-c", line.partition(f"{Path(sys.executable).name} ")[0].rpartition(" ")[0] + " env"]
    shown = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {each for each in shown if each.startswith("OCMCONSOLE_")} >= {
        f"{name}={value}" for name, value in environment.items() if name.startswith("OCMCONSOLE_") and value
    }
    assert line.endswith(" manage.py serve")
    # In a shell where a secret is not set, nothing is served from another database.
    bare = subprocess.run(words, env={"PATH": "/bin"}, capture_output=True, text=True, check=False)
    assert (bare.returncode != 0, bare.stdout) == (True, "")


def test_a_hub_in_use_is_left_alone(home: Path) -> None:
    make.cluster("somebodys")
    with pytest.raises(CommandError, match="has clusters already"):
        call_command("demo", "--clusters", "30")
    assert clusters.clusters_for(HUB).count() == 1
    with pytest.raises(CommandError, match="fewest"):
        call_command("demo", "--clusters", "3")


def test_it_is_refused_where_what_it_does_takes_two_people(settings: Any) -> None:
    settings.OCMCONSOLE_SECOND_APPROVAL = {ActName.TOKEN: Rule()}
    with pytest.raises(CommandError, match="take two people here"):
        call_command("demo")
    assert not User.objects.filter(username="ana").exists()
