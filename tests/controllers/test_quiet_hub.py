"""A restored hub schedules nothing until a person activates it (D28), and its log follows what is taken away (D22)."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.utils import timezone

from clusters.kinds import MANAGED_CLUSTER
from ocmconsole import tasks
from ocmconsole.accounts import people, permissions
from ocmconsole.backup import revocation_log, revocations, scheduled
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent, Incarnation
from ocmconsole.kubeapi.storage import incarnations
from placements.models import PlacementDecision
from registration.approvals import services
from tests import factories as make
from tests.controllers.placement_scene import TEAM, bound_set, members, place

pytestmark = pytest.mark.django_db
ACCEPT = "clusters.accept_managedcluster"


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
    revocations.note()
    backup_at = timezone.now()
    services.disconnect_cluster(make.ADMIN, "c1")
    tasks.note_revocations()
    log = tmp_path / revocation_log.NAME
    assert [json.loads(line)["what"] for line in log.read_text().splitlines()] == [
        "begun",
        "decided",
        "seen",
        "disconnected",
        "seen",
    ]
    with log.open("a") as file:
        file.write('{"cut off by a cra')
    accepts(True)  # as the backup has it
    assert revocations.apply(make.ADMIN, revocation_log.read(), backup_at) == ["disconnected again: c1"]
    assert revocations.apply(make.ADMIN, revocation_log.read(), backup_at) == []
    accepts(True)
    assert revocations.apply(make.ADMIN, revocation_log.read(), timezone.now() + timedelta(minutes=1)) == []
    revocations.note()  # a line that was cut off is nobody's, and the next one is whole
    assert json.loads(log.read_text().splitlines()[-1])["what"] == "seen"


@pytest.mark.contract("D22")
def test_lines_of_the_log_that_somebody_damaged_hold_up_no_other(tmp_path: Path, settings: Any) -> None:
    settings.OCMCONSOLE_HOME = tmp_path
    incarnations.ensure_first()
    make.cluster("c1", spec={"hubAcceptsClient": True})
    make.settle()
    revocations.note()
    backup_at = timezone.now()
    good = {"audit": 1, "incarnation": "one", "at": (backup_at + timedelta(seconds=1)).isoformat()}
    no_lines = [{**good, "what": "seen", "at": at} for at in ("yesterday", 5, "2026-11-28T12:00:00", "9999-99-99")]
    no_lines += [{**good, "what": ["x"]}, {**good, "what": "decided", "when": None}]
    not_applied = [
        {**good, "what": "revoked", "row": "[]"},
        {**good, "what": "revoked", "row": 5},
        {**good, "what": "line-ended", "cluster": "c1", "begun": "once"},
        {**good, "what": "permission", "permission": "x.y", "holder": "user ana", "resource": ""},
        {**good, "what": "rights", "resource": [], "namespace": "", "name": "x"},
        {**good, "what": "deleted", "resource": "nothing", "namespace": "", "name": "x", "uid": ""},
    ]
    log = tmp_path / revocation_log.NAME
    with log.open("a") as file:
        file.writelines(f"{json.dumps(each)}\n" for each in [*no_lines, *not_applied])
    services.disconnect_cluster(make.ADMIN, "c1")
    tasks.note_revocations()  # the last line is of no incarnation of this hub: the audit is read anew
    tasks.note_revocations()
    accepts(True)
    revocation_log.gather(log, [log])
    said = revocations.apply(make.ADMIN, revocation_log.read(), backup_at)
    assert [line.partition(":")[0] for line in said] == ["NOT applied, see to it by hand"] * len(not_applied) + [
        "disconnected again"
    ]


@pytest.mark.contract("D22")
def test_what_another_hub_took_away_is_nothing_to_this_one(tmp_path: Path, settings: Any) -> None:
    """Two hubs may share a backup place, and have people of one name."""
    settings.OCMCONSOLE_HOME = tmp_path
    incarnations.ensure_first()
    people.save_user(make.ADMIN, User(username="ana", is_staff=True), groups=[])
    revocations.note()
    backup_at = timezone.now()
    of_both = {"at": (backup_at + timedelta(hours=1)).isoformat(), "incarnation": "one", "audit": 1}
    person = {**of_both, "what": "person", "name": "ana", "groups": [], **dict.fromkeys(revocations.FLAGS, False)}
    with (tmp_path / revocation_log.NAME).open("a") as log:
        log.write(f"{json.dumps({**person, 'hub': 'another'})}\n")
    known = revocation_log.read()
    assert known.until is not None
    assert known.until <= backup_at
    assert revocations.apply(make.ADMIN, known, backup_at) == []
    with (tmp_path / revocation_log.NAME).open("a") as log:
        log.write(f"{json.dumps({**person, 'hub': incarnations.hub_uid()})}\n")
    assert revocations.apply(make.ADMIN, revocation_log.read(), backup_at) == [
        "rights of a person withdrawn again: ana"
    ]
    assert User.objects.get(username="ana").is_staff is False


def accepts(is_accepted: bool) -> None:
    def edit(doc: dict[str, Any]) -> None:
        doc["spec"]["hubAcceptsClient"] = is_accepted

    verbs.edit(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"), edit)


@pytest.mark.contract("D22")
def test_the_log_carries_permissions_and_lists_what_a_person_decides_again(tmp_path: Path, settings: Any) -> None:
    settings.OCMCONSOLE_HOME = tmp_path
    incarnations.ensure_first()
    ana, group = User.objects.create_user("ana"), Group.objects.create(name="team")
    permissions.grant_permission(make.ADMIN, ACCEPT, to=ana)
    revocations.note()
    backup_at = timezone.now()
    permissions.revoke_permission(make.ADMIN, ACCEPT, to=ana)
    people.delete_account(make.ADMIN, group)
    token = tokens.issue_bootstrap_token(make.ADMIN, ttl=timedelta(hours=1))
    bearer = tokens.bootstrap_actor(token)
    assert bearer is not None
    make.hub(tmp_path, settings)
    make.cluster("c1", by=bearer)
    services.accept_cluster(make.ADMIN, "c1")
    revocations.note()
    permissions.grant_permission(make.ADMIN, ACCEPT, to=ana)  # as the backup has it
    Group.objects.create(name="team")
    said = revocations.apply(make.ADMIN, revocation_log.read(), backup_at)
    number = token.partition(".")[0]
    for expected in (
        f'permission taken back again: {ACCEPT} of user "ana"',
        "group deleted again: team",
        f"decided after the backup, so decide again: bootstraptoken:create {number}, by root",
        f"came after the backup, with bootstrap token {number}: c1",
        "decided after the backup, so decide again: managedcluster:accept c1, by root",
    ):
        assert any(line.startswith(expected) for line in said), (expected, said)
    assert not User.objects.get(username="ana").user_permissions.exists()
    assert not Group.objects.exists()


@pytest.mark.contract("D22")
def test_the_log_is_copied_as_it_grows_and_loses_what_no_backup_needs(tmp_path: Path, settings: Any) -> None:
    settings.OCMCONSOLE_HOME, place = tmp_path / "home", tmp_path / "place"
    settings.OCMCONSOLE_HOME.mkdir()
    place.mkdir()
    now = timezone.now()
    lines = [{"what": "deleted", "audit": 1, "name": "old"}, {"what": "seen", "audit": 2}]
    revocation_log.append(lines, "one", now - timedelta(days=500))
    revocation_log.append([{"what": "deleted", "audit": 3, "name": "new"}], "one", now - timedelta(days=1))
    revocation_log.copy_to(place)
    log, copy = tmp_path / "home" / revocation_log.NAME, place / revocation_log.NAME
    assert copy.read_bytes() == log.read_bytes()
    copy.write_text(
        copy.read_text() + json.dumps({"what": "declined", "audit": 4, "at": now.isoformat(), "incarnation": "one"})
    )
    revocation_log.append([{"what": "seen", "audit": 5}], "one", now)
    assert names(log) == ["deleted 3", "seen 5"]
    revocation_log.copy_to(place)
    assert names(copy) == ["deleted 3", "declined 4", "seen 5"], "what only the copy has stays"


@pytest.mark.contract("D22")
def test_a_backup_that_is_due_and_cannot_be_made_is_said(
    tmp_path: Path, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.OCMCONSOLE_BACKUP_PLACE, settings.OCMCONSOLE_BACKUP_EVERY = tmp_path, timedelta(days=1)
    tasks.back_up()
    assert "no backup was made: no key: set OCMCONSOLE_BACKUP_PASSPHRASE" in caplog.text
    assert scheduled.warning() == f"there is no backup in {tmp_path} yet"
    (tmp_path / "hub-20200101T000000Z.backup").touch()
    assert "the log says why" in scheduled.warning()


def names(log: Path) -> list[str]:
    return [f"{line['what']} {line['audit']}" for line in map(json.loads, log.read_text().splitlines())]
