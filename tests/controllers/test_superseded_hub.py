"""D28: a hub that meets a newer incarnation of itself, at the backup place or in the database, only reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from ocmconsole import schedule
from ocmconsole.backup import revocation_log, succession
from ocmconsole.backup.succession import IncarnationMark
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.health import outages, probes
from ocmconsole.kubeapi.models import Incarnation
from ocmconsole.kubeapi.storage import incarnations
from tests import factories as make

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D28")]
ONLY_READS = "this hub only reads, because it was restored from a backup"


@pytest.fixture
def own(tmp_path: Path, settings: Any) -> Iterator[IncarnationMark]:
    settings.OCMCONSOLE_HOME, settings.OCMCONSOLE_BACKUP_PLACE = tmp_path / "home", tmp_path / "place"
    settings.OCMCONSOLE_HOME.mkdir()
    settings.OCMCONSOLE_BACKUP_PLACE.mkdir()
    incarnations.ensure_first()
    succession.look()
    mark = succession.read(settings.OCMCONSOLE_HOME)
    assert mark is not None
    assert mark == succession.read(settings.OCMCONSOLE_BACKUP_PLACE)
    yield mark
    outages.state.superseded = ""


def newer(own: IncarnationMark) -> IncarnationMark:
    return replace(own, number=own.number + 1, uid="two", begun_at=timezone.now().isoformat())


def test_a_hub_that_meets_a_newer_mark_at_the_backup_place_only_reads_until_it_is_gone(
    own: IncarnationMark, settings: Any
) -> None:
    place = settings.OCMCONSOLE_BACKUP_PLACE
    make.cluster("c1")
    admin = make.staff("admin")
    admin.is_superuser = True
    admin.save()
    page = Client()
    page.force_login(admin)
    mark = newer(own)
    succession.write(place, mark)
    succession.look()
    with pytest.raises(errors.ServiceUnavailable, match=ONLY_READS) as refused:
        make.label("c1", a="b")
    assert refused.value.code == 503
    answer = page.post("/clusters/c1/labels/", {"labels": "a=b"})
    assert answer.status_code == 503
    assert "This hub only reads" in answer.content.decode()
    shown = page.get("/attention/").content.decode()
    assert "Only reads" in shown
    assert f"elsewhere since {mark.begun_at}" in shown
    assert ONLY_READS in (probes.answer("/readyz/incarnation", ()) or ("", ""))[1]
    schedule.run("ocmconsole.tasks.note_revocations")
    assert not revocation_log.path().exists()
    assert succession.read(place) == mark, "an older hub leaves a newer mark alone"
    (place / succession.NAME).unlink()
    succession.look()
    make.label("c1", a="b")
    assert succession.read(place) == own


def test_a_hub_that_meets_a_newer_incarnation_in_its_database_only_reads(own: IncarnationMark) -> None:
    now = timezone.now()
    Incarnation.objects.create(number=own.number + 1, uid="two", begun_at=now, backup_at=now - timedelta(hours=1))
    succession.look()
    with pytest.raises(errors.ServiceUnavailable, match=ONLY_READS):
        make.cluster("c2")


def test_the_mark_of_another_hub_says_nothing_and_stays(own: IncarnationMark, settings: Any) -> None:
    other = replace(newer(own), hub="another")
    succession.write(settings.OCMCONSOLE_BACKUP_PLACE, other)
    succession.look()
    assert outages.state.superseded == ""
    assert succession.read(settings.OCMCONSOLE_BACKUP_PLACE) == other
