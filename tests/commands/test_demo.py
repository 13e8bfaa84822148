"""``manage.py demo`` fills a hub that then holds what it promises, and touches none that is in use."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from clusters import queries as clusters
from clusters.history import KEPT
from clusters.models import HeartbeatDay
from clusters.status import Word
from ocmconsole import demo
from ocmconsole.kubeapi.actor import Actor
from ocmconsole.kubeapi.models import AuditEvent, WorkItem
from ocmconsole.kubeapi.session import actor_for
from registration import evidence, queries
from tests import factories as make

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

HUB = Actor.controller("test")


@pytest.fixture
def home(tmp_path: Path, settings: Any) -> Path:
    settings.OCMCONSOLE_HOME = tmp_path
    return tmp_path


def words(now: datetime) -> Counter[Word]:
    return Counter(found.status.word for found in clusters.observe(clusters.clusters_for(HUB), now))


def test_a_fleet_is_in_every_state_with_a_past_and_goes_on(home: Path) -> None:
    out, began = StringIO(), timezone.now()  # without an agent, all fall silent in the end
    call_command("demo", "--clusters", "30", "--password", "shown-to-everybody", stdout=out)

    assert "ana, raj, li, mallory  (password: shown-to-everybody)" in out.getvalue()
    assert set(words(began)) == set(Word)
    assert {evidence.of(name).verdict for name in queries.waiting_names(HUB)} == set(evidence.Verdict)
    assert not WorkItem.objects.filter(attempts__gt=0).exists()

    entries = list(AuditEvent.objects.order_by("pk").values_list("time", flat=True))
    assert all(later > earlier - timedelta(seconds=1) for earlier, later in pairwise(entries))
    assert entries[0] < timezone.now() - timedelta(days=100)
    assert HeartbeatDay.objects.earliest("day").day <= (timezone.now() - KEPT / 2).date()
    assert AuditEvent.objects.filter(user="ana", door="web", act__contains="accept").exists()

    people = {name: actor_for(User.objects.get(username=name)) for name in ("ana", "raj", "li", "mallory")}
    seen = {name: set(clusters.clusters_for(actor).values_list("name", flat=True)) for name, actor in people.items()}
    assert seen["ana"] == seen["li"] > seen["raj"] > seen["mallory"] == set()

    with time_machine.travel(timezone.now() + timedelta(minutes=2)):
        assert demo.beat() > words(timezone.now())[Word.HEALTHY]
        assert demo.beat() == 0


def test_a_hub_in_use_is_left_alone(home: Path) -> None:
    make.cluster("somebodys")
    with pytest.raises(CommandError, match="has clusters already"):
        call_command("demo", "--clusters", "30")
    assert clusters.clusters_for(HUB).count() == 1
    with pytest.raises(CommandError, match="fewest"):
        call_command("demo", "--clusters", "3")
