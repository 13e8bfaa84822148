"""``manage.py restore`` over a hub that is there: refused while it serves, the old state or the new when it is killed.

What a restored hub is to its agents is shown by ``tests/crash/test_restore_drill.py``.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL

import psycopg
import pyrage
import pytest

from ocmconsole.backup import databases
from tests import preloaded, tools
from tests.conftest import StartHub
from tests.hub import ROOT, Hub
from tests.selection import FULL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200), pytest.mark.contract("D22", "D28")]
KILLS = 10 if FULL else 2
SEED = 20_261_124


def test_a_restore_is_refused_where_a_hub_is_and_killed_at_any_moment_leaves_the_old_one_or_the_new(
    start_hub: StartHub, tmp_path: Path
) -> None:
    key, backup = tmp_path / "key.txt", tmp_path / "hub.backup"
    key.write_text(f"{pyrage.x25519.Identity.generate()}\n")
    programs = tools.postgres_of_machine() or tools.postgres_of_wheel()
    with start_hub() as started:
        hub = replace(started, environment={**started.environment, "PATH": f"{programs}:{started.environment['PATH']}"})
        restore = ("restore", str(backup), "--key", str(key))
        hub.manage("backup", str(backup), "--key", str(key))
        assert "a hub serves from" in refused(hub, *restore, "--replace")
        for name in reversed([*hub.processes]):
            hub.stop(name)
        before = state(hub)
        assert "holds a hub already" in refused(hub, *restore)
        assert state(hub) == before
        if url := hub.environment.get("OCMCONSOLE_DATABASE_URL"):  # from another home
            server, _, name = url.rpartition("/")
            with psycopg.connect(f"{server}/postgres") as other:
                other.execute("SELECT pg_advisory_lock(%s, hashtext(%s))", [databases.RESTORING, name])
                assert "another restore into the database" in refused(hub, *restore, "--replace")
            elsewhere = replace(hub, environment={**hub.environment, "OCMCONSOLE_HOME": str(tmp_path / "elsewhere")})
            assert f"the database {name} holds a hub already: name an empty database" in refused(elsewhere, *restore)

        if "OCMCONSOLE_DATABASE_URL" not in hub.environment:
            (hub.home / "hub.sqlite3").write_bytes(b"damaged" * 100_000)
            assert "holds a hub already" in refused(hub, *restore)
        begun = time.monotonic()
        assert "what was revoked is known up to" in hub.manage(*restore, "--replace")
        seconds = time.monotonic() - begun
        assert len(state(hub)) == len(before) + 1
        assert [path.name for path in hub.home.glob("before-restore-*")]
        assert json.loads((tmp_path / "incarnation.json").read_text())["uid"] == state(hub)[-1], "the mark"

        dice = random.Random(SEED)  # noqa: S311 - a repeatable choice
        for _ in range(KILLS):
            was = state(hub)
            killed(hub, dice.uniform(0, seconds), *restore, "--replace")
            assert state(hub) == was or state(hub)[:-1] == before
        for name in hub.commands:
            hub.start(name)


def state(hub: Hub) -> list[str]:
    """The incarnations that the database has, of which the home is of the newest. The hub need not serve.

    A process that reads the settings finishes what a killed one has left.
    """
    settings = "from django.conf import settings; settings.OCMCONSOLE_HOME"
    environment = {**hub.environment, "DJANGO_SETTINGS_MODULE": "ocmconsole.settings"}
    subprocess.run([sys.executable, "-c", settings], cwd=ROOT, env=environment, check=True)
    with hub.reading() as ask:
        found = [str(uid) for (uid,) in ask("SELECT uid FROM kubeapi_incarnation ORDER BY number")]
        assert ask("SELECT count(*) FROM clustersets_managedclusterset") != [(0,)]
    assert json.loads((hub.home / "incarnation.json").read_text())["uid"] == found[-1]
    return found


def refused(hub: Hub, *arguments: str) -> str:
    command = [sys.executable, "manage.py", *arguments]
    done = preloaded.run(command, cwd=ROOT, env=dict(hub.environment))
    assert done.returncode != 0
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


def killed(hub: Hub, after: float, *arguments: str) -> None:
    """The command and what it has started, as when the machine stops."""
    command = [sys.executable, "manage.py", *arguments]
    with preloaded.Popen[bytes](command, cwd=ROOT, env=dict(hub.environment), start_new_session=True) as process:
        with suppress(subprocess.TimeoutExpired):
            process.wait(after)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, SIGKILL)
