"""``manage.py backup`` on a hub that serves, what its archive holds, and archives that are no good."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyrage
import pytest
from django.core.management import CommandError, call_command

from tests import tools
from tests.conftest import StartHub
from tests.hub import ROOT, Hub

pytestmark = [pytest.mark.slow, pytest.mark.contract("D22")]


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


def test_archives_and_keys_that_are_no_good_are_refused_in_a_sentence(backup: Path, key: Path, tmp_path: Path) -> None:
    content = backup.read_bytes()
    other = tmp_path / "other.txt"
    other.write_text(f"{pyrage.x25519.Identity.generate()}\n")
    cases = {
        "damaged": (content[:-5_000] + bytes(100) + content[-4_900:], key, "is damaged or was cut off"),
        "cut": (content[: len(content) // 2], key, "is damaged or was cut off"),
        "foreign": (b"PK\x03\x04 something else", key, "is no backup of a hub"),
        "of-another": (content, other, "is not opened by the key"),
    }
    for name, (bad, with_key, expected) in cases.items():
        path = tmp_path / name
        path.write_bytes(bad)
        with pytest.raises(CommandError, match=expected):
            call_command("backup", str(path), verify=True, key=str(with_key))
    with pytest.raises(CommandError, match="no key: set OCMCONSOLE_BACKUP_PASSPHRASE"):
        call_command("backup", str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_backup_that_is_killed_leaves_the_older_one_in_its_place(saved: Hub, backup: Path, key: Path) -> None:
    before = backup.read_bytes()
    command = [sys.executable, "manage.py", "backup", str(backup), "--key", str(key)]
    with subprocess.Popen(command, cwd=ROOT, env=dict(saved.environment)) as process:
        while not (saved.home / ".backup").exists() and process.poll() is None:
            pass
        process.kill()
    assert backup.read_bytes() == before
    saved.manage("backup", str(backup), "--key", str(key))
    assert not (saved.home / ".backup").exists()
