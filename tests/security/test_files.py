"""Files of the hub: their owner reads them, nobody else (THREAT_MODEL.md, "Keys and database on disk")."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ocmconsole.environment import home as files
from tests.hub import ROOT

if TYPE_CHECKING:
    from tests.hub import Hub

OTHER_USER = 54_321  # a number that names nobody on this machine


def open_to_others(home: Path) -> dict[str, str]:
    """Paths below the home that another user could use, with their modes.

    Certificates are public, and what kubectl keeps for other tests of a shared hub is kubectl's.
    """
    below = (path for path in home.rglob("*") if not path.relative_to(home).parts[0].startswith("kubectl-"))
    found = [home, *(path for path in below if path.suffix != ".crt" and not path.is_symlink())]
    modes = {str(path): stat.S_IMODE(path.stat().st_mode) for path in found}
    return {path: f"{mode:o}" for path, mode in modes.items() if mode & 0o077}


def test_a_served_hub_leaves_nothing_open_to_other_users(hub: Hub) -> None:
    assert open_to_others(hub.home) == {}
    if "OCMCONSOLE_DATABASE_URL" not in hub.environment:
        assert {"hub.sqlite3", "hub.sqlite3-wal", "hub.sqlite3-shm"} <= {path.name for path in hub.home.iterdir()}


def test_a_home_from_before_is_closed_at_start_and_the_log_names_each_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home, database = tmp_path / "home", tmp_path / "elsewhere" / "hub.sqlite3"
    for folder in (home, database.parent):
        folder.mkdir(mode=0o755)
        folder.chmod(0o755)
    for path, mode in ((home / "ca.key", 0o640), (home / "ca.crt", 0o644), (home / "script", 0o755), (database, 0o644)):
        path.touch()
        path.chmod(mode)
    (home / "link").symlink_to(database.parent)
    with caplog.at_level(logging.WARNING, files.__name__):
        files.protect(home, database, database.with_name("hub.sqlite3-wal"))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (home, *home.iterdir(), database)}
    assert modes == {
        "home": 0o700,
        "ca.key": 0o600,
        "ca.crt": 0o644,
        "script": 0o700,
        "link": 0o755,
        "hub.sqlite3": 0o600,
    }
    repaired = [record.getMessage().split(" was open to other users")[0] for record in caplog.records]
    assert repaired == [str(path) for path in (home, home / "ca.key", home / "script", database)]
    caplog.clear()
    files.protect(home, database)
    assert not caplog.records


def test_what_this_process_makes_is_its_owners(tmp_path: Path) -> None:
    """Every process of the hub has passed through ``protect`` by the time it can write."""
    made = tmp_path / "made"
    made.touch()
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    before = os.umask(0o077)
    os.umask(before)
    assert before == 0o077


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a home to another user")
def test_root_is_refused_in_the_home_of_another_user_and_writes_nothing_there(tmp_path: Path) -> None:
    """By every command: what root writes there, such as a rotated key, the servers could not read."""
    home = tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, "OCMCONSOLE_HOME": str(home), "OCMCONSOLE_DATABASE_URL": ""}
    command = [sys.executable, "manage.py", "check"]
    os.chown(home, OTHER_USER, OTHER_USER)
    refused = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode
    assert f"the home {home} belongs to the user {OTHER_USER}: run this as that user" in refused.stderr
    assert not [*home.iterdir()]
    os.chown(home, 0, 0)
    assert not subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False).returncode
