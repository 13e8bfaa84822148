"""A restored hub schedules nothing until a person activates it (D28), and its log follows what is taken away (D22)."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.backup import revocations
from ocmconsole.kubeapi import incarnations, verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent, Incarnation
from placements.models import PlacementDecision
from registration.approvals import services
from tests import factories as make
from tests.controllers.placement_scene import TEAM, bound_set, members, place

pytestmark = pytest.mark.django_db


def chosen() -> list[str]:
    rows = PlacementDecision.objects.filter(namespace=TEAM, placement="p1")
    return [each["clusterName"] for row in rows for each in (row.doc.get("status") or {}).get("decisions") or ()]


@pytest.mark.contract("D28")
def test_a_restored_hub_chooses_no_cluster_until_an_admin_activates_it() -> None:
    bound_set()
    members("c1")
    make.settle()
    now = timezone.now()
    Incarnation.objects.create(number=2, uid="two", begun_at=now, backup_at=now - timedelta(hours=1))
    place()
    assert chosen() == []
    User.objects.create_user("raj")
    User.objects.create_superuser("admin")
    with pytest.raises(CommandError, match="activated by its admins"):
        call_command("activate", "--as", "raj")
    call_command("activate")
    make.settle()
    assert chosen() == ["c1"]
    assert AuditEvent.objects.filter(act="hub:activate", user="admin").exists()
    with pytest.raises(CommandError, match="active already"):
        call_command("activate")


@pytest.mark.contract("D26")
def test_what_was_issued_between_backup_and_restore_may_be_unknown() -> None:
    now = timezone.now()
    Incarnation.objects.create(number=2, uid="two", begun_at=now, backup_at=now - timedelta(hours=1))
    moments = {timedelta(hours=2): False, timedelta(minutes=30): True, -timedelta(minutes=1): False}
    assert {ago: incarnations.is_lost(now - ago) for ago in moments} == moments


@pytest.mark.contract("D22")
def test_the_log_of_revocations_has_what_was_taken_away_and_is_applied_once(tmp_path: Path, settings: Any) -> None:
    settings.OCMCONSOLE_HOME = tmp_path
    incarnations.ensure_first()
    make.cluster("c1", spec={"hubAcceptsClient": True})
    make.settle()
    revocations.note()
    backup_at = timezone.now()
    services.disconnect_cluster(make.ADMIN, "c1")
    revocations.note()
    log = tmp_path / revocations.NAME
    assert [json.loads(line)["what"] for line in log.read_text().splitlines()] == ["begun", "disconnected", "seen"]
    with log.open("a") as file:
        file.write('{"cut off by a cra')
    accepts(True)  # as the backup has it
    assert revocations.apply(make.ADMIN, revocations.read(), backup_at) == ["disconnected again: c1"]
    assert revocations.apply(make.ADMIN, revocations.read(), backup_at) == []
    accepts(True)
    assert revocations.apply(make.ADMIN, revocations.read(), timezone.now() + timedelta(minutes=1)) == []
    revocations.note()  # a line that was cut off is nobody's, and the next one is whole
    assert json.loads(log.read_text().splitlines()[-1])["what"] == "seen"


def accepts(is_accepted: bool) -> None:
    def edit(doc: dict[str, Any]) -> None:
        doc["spec"]["hubAcceptsClient"] = is_accepted

    verbs.edit(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"), edit)
