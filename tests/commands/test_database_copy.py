"""``manage.py restore`` of a copy of the SQLite database alone: what is no good is refused, and nothing has changed.

What becomes of one that is good is shown by ``tests/crash/test_litestream.py``.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from ocmconsole.backup import beginning, revocation_log, succession, swapped_database
from ocmconsole.backup.encryption import BackupError
from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.kubeapi.models import AuditSeal, Incarnation, Revision
from ocmconsole.models import NotificationChannel
from registration.pki import ca
from tests import hub as hubs

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D22")]
SERVED = """
INSERT INTO kubeapi_incarnation (number, uid, begun_at, activated_by) VALUES (1, 'one', '2026-11-24 12:00:00', '');
INSERT INTO clusters_serving (id, since, seen, served, gaps)
VALUES (1, '2026-11-24 12:00:00', '2026-11-24 12:00:00', '2026-11-24 12:00:00.25', '[]');
"""
LATER = "INSERT INTO django_migrations (app, name, applied) VALUES ('clusters', '9999_later', '2026-11-24')"
KEYS = ("ca.crt", "ca.key", "audit-key")


@pytest.fixture
def on_sqlite() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("of SQLite's file")


@pytest.mark.usefixtures("on_sqlite")
def test_copies_that_are_no_good_are_refused_in_a_sentence(tmp_path: Path, settings: Any) -> None:
    home = settings.OCMCONSOLE_HOME = tmp_path / "home"
    home.mkdir()
    served = database(tmp_path / "served", SERVED)
    with pytest.raises(CommandError, match=r"is a database without keys, and .* has none"):
        call_command("restore", str(served), replace=True)
    for name in KEYS:
        (home / name).write_text("of the hub that is here")
    cases = {
        database(tmp_path / "empty", ""): "is the database of no hub that has served",
        database(
            tmp_path / "newer", SERVED + LATER
        ): "knows clusters.9999_later and is newer than this one .*: install that version",
        other(tmp_path / "other"): "is no whole database of a hub",
        damaged(served, tmp_path / "damaged"): "is damaged|is no whole database",
        cut(served, tmp_path / "cut"): "is damaged|is no whole database",
    }
    for path, expected in cases.items():
        with pytest.raises(CommandError, match=expected):
            call_command("restore", str(path), replace=True)
        assert {each.name for each in home.iterdir()} == {*KEYS, ".in-use"}
    Revision.take(1)
    with pytest.raises(CommandError, match="holds a hub already"):
        call_command("restore", str(served))


@pytest.mark.usefixtures("on_sqlite")
@pytest.mark.contract("D28")
def test_a_copy_of_another_hub_or_from_after_a_rotation_of_its_ca_is_not_put_beside_the_keys_that_are_here(
    tmp_path: Path, settings: Any
) -> None:
    """With the CA of before, a stolen one would be trusted again."""
    home = settings.OCMCONSOLE_HOME = tmp_path / "home"
    home.mkdir()
    (home / "audit-key").write_text("key")
    ca.ensure_authority(home, ["localhost"])
    copy = database(tmp_path / "copy", SERVED)
    begun = timezone.now() + timedelta(seconds=10)
    with closing(sqlite3.connect(copy)) as made:
        row: dict[str, Any] = {name: "" for _, name, *_ in made.execute("PRAGMA table_info(kubeapi_auditevent)")}
        row |= {
            "id": 1,
            "act": "ca:stolen",
            "outcome": "allowed",
            "name": "client",
            "time": f"{begun:%Y-%m-%d %H:%M:%S}",
        }
        row |= {"groups": "[]", "count": 1, "diff": '[{"path": "signs", "old": "SHA256:old", "new": "SHA256:new"}]'}
        marks = ", ".join(f":{name}" for name in row)
        made.execute(f"INSERT INTO kubeapi_auditevent ({', '.join(row)}) VALUES ({marks})", row)  # noqa: S608 - names of columns
        made.commit()
    with pytest.raises(
        CommandError, match=r"is from after a rotation of the client CA on .* restore a backup that was made"
    ):
        call_command("restore", str(copy), replace=True)
    succession.write(home, succession.IncarnationMark(1, "2026-11-24T12:00:00+00:00", "two", "two"))
    with pytest.raises(CommandError, match="is the database of another hub"):
        call_command("restore", str(copy), replace=True)
    assert not [*home.glob(".restore*"), *home.glob("before*"), *home.glob("hub*")]


def database(path: Path, statements: str) -> Path:
    """Of a hub of this version."""
    shutil.copy(hubs.migrated(Path(os.environ["TEST_HOME"])).home / "hub.sqlite3", path)
    with closing(sqlite3.connect(path)) as made:
        made.executescript(statements)
    return path


def other(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE something (name)")
    return path


def damaged(source: Path, target: Path) -> Path:
    content = bytearray(source.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 40_000] = os.urandom(40_000)
    target.write_bytes(content)
    return target


def cut(source: Path, target: Path) -> Path:
    target.write_bytes(source.read_bytes()[:-50_000])
    return target


@pytest.mark.usefixtures("on_sqlite")
@pytest.mark.parametrize(("seen", "is_older"), [(7, False), (8, True)])
def test_a_database_is_older_than_its_home_where_its_entries_and_seals_end_before_what_was_seen(
    seen: int, is_older: bool, tmp_path: Path, settings: Any
) -> None:
    """Old entries may have been removed, all of a hub that was left alone for long (``OCMCONSOLE_AUDIT_RETENTION``)."""
    settings.OCMCONSOLE_HOME = tmp_path
    now = timezone.now()
    Incarnation.objects.create(number=1, uid="one", begun_at=now)
    AuditSeal.objects.create(number=1, first=1, last=7, count=7, newest=now, digest="")
    revocation_log.append([{"what": revocation_log.SEEN, "audit": seen}], "one", now)
    assert ("is an older copy" in swapped_database.trouble()) is is_older
    revocation_log.append([{"what": revocation_log.SEEN, "audit": 99}], "another", now)
    assert not swapped_database.trouble(), "of another life"


def test_a_database_whose_keys_are_not_beside_it_is_refused_whatever_they_encrypt() -> None:
    """Not only resources: a second factor or the secret of a channel nobody reads until it is needed."""
    NotificationChannel.objects.create(
        name="alerts", kind="webhook", secret=f"{stored_text.PREFIX}0badcafe:text", created=timezone.now()
    )
    with pytest.raises(BackupError, match="the key 0badcafe of encryption-keys is missing in the hub's home"):
        beginning.check()


def test_revisions_go_on_beyond_those_of_a_hub_that_was_restored_from_an_older_copy() -> None:
    """Its own copy, older by days, has let it jump further than one of an hour ago asks for."""
    now = timezone.now()
    first = beginning._jump(now, now - timedelta(days=10), 2)
    Revision.objects.update(value=5_000)  # of a copy that was made an hour before the hub was lost
    later = now + timedelta(minutes=5)
    assert beginning._jump(later, now - timedelta(hours=1), 3) > first + beginning.A_SECOND * 300
