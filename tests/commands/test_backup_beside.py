"""``manage.py backup`` beside what changes the home: a rotation of a CA, and a restore; a restore beside Celery."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyrage
import pytest
from django.core.management import CommandError, call_command

from ocmconsole.backup import archive, encryption, taking
from ocmconsole.environment import home as files
from registration import hub_setup
from registration.pki import authority_files
from tests import preloaded, servers
from tests.hub import ROOT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("D22")]
BACKUPS = 6
CLIENT = authority_files.AuthorityRole.CLIENT


@pytest.fixture
def home(tmp_path: Path, settings: Any) -> Path:
    settings.OCMCONSOLE_HOME = tmp_path / "home"
    settings.OCMCONSOLE_HOME.mkdir()
    (settings.OCMCONSOLE_HOME / "audit-key").write_text("key")
    hub_setup.ensure_hub()
    return tmp_path / "home"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    (tmp_path / "key.txt").write_text(f"{pyrage.x25519.Identity.generate()}\n")
    return tmp_path / "key.txt"


def test_a_backup_beside_a_rotation_is_whole_and_has_the_keys_of_one_moment(
    home: Path, key: Path, tmp_path: Path
) -> None:
    done, opens = threading.Event(), encryption.BackupKey.chosen("", str(key))

    def rotate_without_end() -> None:
        while not done.is_set():
            authority_files.rotate(home, CLIENT, note=lambda _: None)
            authority_files.retire(home, CLIENT, note=lambda _: None)
            done.wait(0.05)  # each CA begins a second after the one before it: no more than fit in five minutes

    with ThreadPoolExecutor(1) as pool:
        rotating = pool.submit(rotate_without_end)
        try:
            for number in range(BACKUPS):
                taking.take_backup(tmp_path / f"{number}.backup", opens)
        finally:
            done.set()
        rotating.result()
    for number in range(BACKUPS):
        folder = tmp_path / f"opened-{number}"
        folder.mkdir()
        encryption.decrypt(tmp_path / f"{number}.backup", tmp_path / "plain", opens)
        archive.unpack(tmp_path / "plain", folder, folder)
        authority_files.client_authority(folder)


def test_backup_and_restore_of_one_home_exclude_each_other(home: Path, key: Path, tmp_path: Path) -> None:
    target = tmp_path / "hub.backup"
    with files.usage_lock(home) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(CommandError, match=r"a restore into .* is under way: wait until it has ended"):
            call_command("backup", str(target), key=str(key))
    assert not target.exists()
    call_command("backup", str(target), key=str(key))
    with taking.no_backup(), pytest.raises(CommandError, match="or a backup or another restore is under way there"):
        call_command("restore", str(target), key=str(key), replace=True)


@pytest.mark.slow
def test_a_worker_and_a_beat_hold_their_home_and_do_not_start_during_a_restore(home: Path, key: Path) -> None:
    celery = [sys.executable, "-m", "celery", "-A", "ocmconsole"]
    environment = {**os.environ, "OCMCONSOLE_HOME": str(home), "OCMCONSOLE_REDIS_URL": ""}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    with files.usage_lock(home) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for command in (["worker", "--pool=threads", "--without-mingle", "--without-gossip"], ["beat"]):
            done = preloaded.run([*celery, *command], cwd=ROOT, env=environment, timeout=400)
            assert done.returncode == 1, done.stderr
            assert f"a restore into {home} is under way: start the hub when it has ended" in done.stderr
            assert "Traceback" not in done.stderr
    with preloaded.Popen[bytes]([*celery, "beat"], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL) as beat:
        try:
            while not is_held(home):
                assert beat.poll() is None
                time.sleep(0.05)
            with pytest.raises(CommandError, match="a hub serves from"):
                call_command("restore", str(key.with_name("hub.backup")), key=str(key))
        finally:
            servers.stop(beat)


def is_held(home: Path) -> bool:
    with files.usage_lock(home) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
