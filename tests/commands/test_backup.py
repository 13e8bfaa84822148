"""``manage.py backup`` on a hub that serves, what its archive holds, and archives that are no good."""

from __future__ import annotations

import fcntl
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyrage
import pytest
from django.core.management import CommandError, call_command

from ocmconsole.backup import archive, databases, encryption, taking
from ocmconsole.environment import home as files
from tests import preloaded, servers, tools
from tests.conftest import StartHub
from tests.hub import ROOT, Hub

pytestmark = [pytest.mark.slow, pytest.mark.contract("D22")]
TOKENS = """
from datetime import timedelta
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi.access.actor import Actor, MASTERS
for _ in range(100):
    tokens.issue_bootstrap_token(Actor(user="setup", groups=(MASTERS,)), ttl=timedelta(hours=1))
"""


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key file as age-keygen writes it: opening with a passphrase takes seconds and half a GiB."""
    path = tmp_path_factory.mktemp("key") / "key.txt"
    identity = pyrage.x25519.Identity.generate()
    path.write_text(f"# public key: {identity.to_public()}\n{identity}\n")
    return path


@pytest.fixture(scope="module")
def saved(start_hub: StartHub) -> Iterator[Hub]:
    """A served hub whose commands find the programs of PostgreSQL."""
    programs = tools.postgres_of_machine() or tools.postgres_of_wheel()
    with start_hub() as hub:
        yield replace(hub, environment={**hub.environment, "PATH": f"{programs}:{hub.environment['PATH']}"})


@pytest.fixture(scope="module")
def backup(saved: Hub, key: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("place") / "hub.backup"
    assert "is complete" in saved.manage("backup", str(path), "--key", str(key))
    return path


def test_a_backup_of_a_serving_hub_passes_every_check_and_shows_no_secret(saved: Hub, backup: Path, key: Path) -> None:
    assert "can be restored" in saved.manage("backup", str(backup), "--verify", "--key", str(key))
    content = backup.read_bytes()
    assert content.startswith(b"age-encryption.org/v1\n")
    assert b"PRIVATE KEY" not in content
    assert backup.stat().st_mode & 0o077 == 0
    assert [path.name for path in backup.parent.iterdir()] == ["hub.backup"]
    assert not (saved.home / ".backup").exists()


@pytest.mark.django_db
def test_archives_and_keys_that_are_no_good_are_refused_in_a_sentence(
    backup: Path, key: Path, tmp_path: Path, settings: Any
) -> None:
    """By a restore as by ``--verify``, and then nothing has changed."""
    content = backup.read_bytes()
    other = tmp_path / "other.txt"
    other.write_text(f"{pyrage.x25519.Identity.generate()}\n")
    cases = {
        "damaged": (content[:-5_000] + bytes(100) + content[-4_900:], key, "is damaged or was cut off"),
        "cut": (content[: len(content) // 2], key, "is damaged or was cut off"),
        "foreign": (b"PK\x03\x04 something else", key, "is no backup of a hub"),
        "of-another": (content, other, "is not opened by the key"),
        "newer": (made_by_a_newer_version(tmp_path, key, format=2), key, "which is newer .*: install that version"),
        "ahead": (
            made_by_a_newer_version(tmp_path, key, migrations=("clusters.9999_later",)),
            key,
            "knows clusters.9999_later and is newer .*: install that version",
        ),
    }
    settings.OCMCONSOLE_HOME = tmp_path / "home"
    settings.OCMCONSOLE_HOME.mkdir()
    (settings.OCMCONSOLE_HOME / "ca.key").write_text("of the hub that is here")
    for name, (bad, with_key, expected) in cases.items():
        path = tmp_path / name
        path.write_bytes(bad)
        with pytest.raises(CommandError, match=expected):
            call_command("backup", str(path), verify=True, key=str(with_key))
        with pytest.raises(CommandError, match=expected):
            call_command("restore", str(path), replace=True, key=str(with_key))
        assert {each.name for each in settings.OCMCONSOLE_HOME.iterdir()} == {"ca.key", ".in-use"}
    with files.usage_lock(settings.OCMCONSOLE_HOME) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(CommandError, match="another restore is under way there: stop it, or wait"):
            call_command("restore", str(backup), replace=True, key=str(key))
    for log in (tmp_path / "typo.log", tmp_path / "foreign"):
        with pytest.raises(CommandError, match=rf"{log} is no log of revocations: name a copy of revocations.log"):
            call_command("restore", str(backup), replace=True, key=str(key), revocations=[log])
    with pytest.raises(CommandError, match="no key: set OCMCONSOLE_BACKUP_PASSPHRASE"):
        call_command("backup", str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def made_by_a_newer_version(folder: Path, key: Path, **values: Any) -> bytes:
    database = databases.FILES[databases.SQLITE]
    (folder / database).touch()
    members = {database: archive.member_of(folder / database)}
    base = archive.Manifest(1, "99.0", databases.SQLITE, "", 1, "2026-11-24T12:00:00Z", (), {}, members)
    archive.pack(folder / "plain", replace(base, **values), {database: folder / database})
    with (folder / "packed").open("wb") as file:
        encryption.encrypt(folder / "plain", file, encryption.BackupKey.chosen("", str(key)))
    return (folder / "packed").read_bytes()


def test_a_restore_that_runs_out_of_space_says_so_and_changes_nothing(
    saved: Hub, backup: Path, key: Path, tmp_path: Path
) -> None:
    """While it opens the archive, and while it unpacks the database, which is larger."""
    home = tmp_path / "home"
    home.mkdir()
    command = [sys.executable, "manage.py", "restore", str(backup), "--key", str(key), "--replace"]
    for most in (2**16, backup.stat().st_size + 2**12):
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**saved.environment, "OCMCONSOLE_HOME": str(home)},
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most, most)),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert "cannot be written (File too large): make room and try again" in done.stderr
        assert "Traceback" not in done.stderr
        assert not [*home.glob(".restore*"), *home.glob("hub*"), *home.glob("ca.*")]


def test_a_restore_whose_disk_is_full_when_the_new_hub_begins_says_so_and_changes_nothing(
    saved: Hub, key: Path, tmp_path: Path
) -> None:
    if "OCMCONSOLE_DATABASE_URL" in saved.environment:
        pytest.skip("the database is elsewhere")
    made, opened = tmp_path / "hub.backup", tmp_path / "opened"
    saved.manage("shell", "-c", TOKENS)  # which end with a restore, each with a page or two of its own
    saved.manage("backup", str(made), "--key", str(key))
    opened.mkdir()
    encryption.decrypt(made, tmp_path / "plain", encryption.BackupKey.chosen("", str(key)))
    archive.unpack(tmp_path / "plain", opened, made)
    taken = [(tmp_path / "plain").stat().st_size, *(each.stat().st_size for each in opened.iterdir())]
    with servers.small_disk(tmp_path / "home", f"{sum(taken) // 1024 + 64}k") as home:
        done = preloaded.run(
            [sys.executable, "manage.py", "restore", str(made), "--key", str(key)],
            cwd=ROOT,
            env={**saved.environment, "OCMCONSOLE_HOME": str(home)},
        )
        assert done.returncode == 1
        assert "make room" in done.stderr
        assert "Traceback" not in done.stderr
        assert not [*home.glob(".restore*"), *home.glob("hub*"), *home.glob("ca.*")]


def test_the_clock_writes_a_backup_when_it_is_time_and_keeps_the_newest(saved: Hub, key: Path, tmp_path: Path) -> None:
    for name in ("hub-20200101T000000Z.backup", "hub-20200102T000000Z.backup", "mine.backup"):
        (tmp_path / name).touch()
    chosen = {"PLACE": str(tmp_path), "EVERY": "24h", "KEEP": "2", "KEY": str(key)}
    environment = {**saved.environment, **{f"OCMCONSOLE_BACKUP_{name}": value for name, value in chosen.items()}}
    twice = "from ocmconsole import tasks; tasks.back_up(); tasks.back_up()"
    replace(saved, environment=environment).manage("shell", "-c", twice)
    made = sorted(path.name for path in tmp_path.iterdir() if path.name != "incarnation.json")
    assert made[0] == "hub-20200102T000000Z.backup"
    assert made[2:] == ["mine.backup"]
    assert (tmp_path / made[1]).read_bytes().startswith(b"age-encryption.org/v1\n")


def test_a_backup_that_is_killed_leaves_the_older_one_in_its_place(saved: Hub, backup: Path, key: Path) -> None:
    before = backup.read_bytes()
    command = [sys.executable, "manage.py", "backup", str(backup), "--key", str(key)]
    with preloaded.Popen[bytes](command, cwd=ROOT, env=dict(saved.environment)) as process:
        while not (saved.home / ".backup").exists() and process.poll() is None:
            pass
        process.kill()
    if backup.read_bytes() != before:  # it was done before it was killed
        saved.manage("backup", "--verify", str(backup), "--key", str(key))
    saved.manage("backup", str(backup), "--key", str(key))
    assert not (saved.home / ".backup").exists()


def test_a_backup_is_tried_out_in_the_home_and_one_that_is_killed_leaves_no_keys(
    saved: Hub, backup: Path, key: Path
) -> None:
    """Temporary files may be in memory, and nobody would remove there what a killed one left."""
    command = [sys.executable, "manage.py", "backup", str(backup), "--verify", "--key", str(key)]
    with preloaded.Popen[bytes](command, cwd=ROOT, env=dict(saved.environment)) as process:
        while not (keys := [*saved.home.glob(".backup/*/ca.key")]) and process.poll() is None:
            pass
        process.kill()
    assert keys
    assert [*saved.home.glob(".backup/*/ca.key")] == keys
    saved.manage("backup", str(backup), "--key", str(key))
    assert not (saved.home / ".backup").exists()


def test_a_backup_is_not_tried_out_where_it_would_fill_the_disk(saved: Hub, backup: Path, key: Path) -> None:
    environment = {**saved.environment, "OCMCONSOLE_DISK_RESERVE": "900000Gi"}
    command = [sys.executable, "manage.py", "backup", str(backup), "--verify", "--key", str(key)]
    done = preloaded.run(command, cwd=ROOT, env=environment)
    assert done.returncode
    assert "MiB left and a backup may need" in done.stderr
    assert not [*saved.home.glob(".backup/*")]


def test_addresses_of_receivers_outside_are_not_kept_with_it() -> None:
    """Some are secrets, and ``restore`` says what was set."""
    kept = taking.kept_settings(
        {
            f"OCMCONSOLE_{name}": "x"
            for name in ("AUDIT_WEBHOOK", "AUDIT_ANCHOR_WEBHOOK", "AUDIT_WEBHOOK_SECRET", "MAIL_PASSWORD", "PKCS11_PIN", "HUB_NAME",
                         "WEBHOOK_PRIVATE_ADDRESSES")
        }
    )  # fmt: skip
    assert set(kept) == {"OCMCONSOLE_HUB_NAME", "OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES"}
