"""A hub on SQLite whose database is lost goes on from the continuous copy that Litestream has made of it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL

import pyrage
import pytest

from tests import preloaded, tools
from tests.conftest import StartHub, missing
from tests.crash.agents import CLUSTERS, MERGE
from tests.hub import Hub

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200), pytest.mark.contract("D21", "D22", "D28")]

LAST = "the-last-that-was-copied"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PATIENCE_SECONDS = 200
CHECKED = "from django.core.management import call_command as run; run('check_wire'); run('audit', 'verify')"


def test_a_lost_database_comes_back_from_litestream_and_begins_a_new_life(start_hub: StartHub, tmp_path: Path) -> None:
    if "TEST_DATABASE_URL" in os.environ:
        pytest.skip("Litestream copies SQLite")
    program = tools.litestream() or missing("litestream")
    place, replica, copy, key = (tmp_path / name for name in ("place", "replica", "copy.sqlite3", "key.txt"))
    place.mkdir()
    key.write_text(f"{pyrage.x25519.Identity.generate()}\n")
    with start_hub(BACKUP_PLACE=str(place)) as hub:
        hub.manage("backup", str(place / "hub.backup"), "--key", str(key))
        with litestream(program, hub, replica):
            write(hub, *(f"before-{number}" for number in range(20)))
            with hub.admin() as client:
                client.post(CLUSTERS, json=cluster("left")).raise_for_status()
            write(hub, LAST)
            assert until_copied(program, replica, copy, LAST)
        with hub.admin() as client:  # nobody copies this
            off = {"spec": {"hubAcceptsClient": False}}
            client.patch(f"{CLUSTERS}/left", json=off, headers=MERGE).raise_for_status()
            head = int(client.get(CLUSTERS).json()["metadata"]["resourceVersion"])
        assert until(lambda: "disconnected" in (hub.home / "revocations.log").read_text())
        hub.stop("server", SIGKILL)
        for left in hub.home.glob("hub.sqlite3*"):
            left.unlink()

        # Put there by hand it would give out revisions a second time.
        (hub.home / "hub.sqlite3").write_bytes(copy.read_bytes())
        assert "is an older copy of this hub's database" in refused(hub, "serve")
        (hub.home / "hub.sqlite3").unlink()

        said = hub.manage("restore", str(copy))
        assert "disconnected again: left" in said
        assert number_of(hub.home) == 2
        with hub.reading() as ask:
            revision = int(ask("SELECT value FROM kubeapi_revision")[0][0])
        assert revision > head + 10**9

        # The home is lost as well: keys of the backup, rows of the copy.
        hub.home.rename(tmp_path / "lost")
        hub.home.mkdir()
        other = replace(hub, processes={})
        assert "a database without keys" in refused(other, "restore", str(copy))
        assert not [*hub.home.glob("hub*"), *hub.home.glob("ca.*"), *hub.home.glob(".restore*")]
        other.manage("restore", str(place / "hub.backup"), "--key", str(key))
        assert "disconnected again: left" in other.manage("restore", str(copy), "--replace")
        assert number_of(hub.home) == 4
        try:
            other.start("server")
            assert stands(other, head) > revision + 10**9, "beyond the hub that was restored before, too"
            other.manage("shell", "-c", CHECKED)
            # Litestream follows the restored hub as it did the other, at a place of its own.
            with litestream(program, other, tmp_path / "another"):
                write(other, "afterwards")
                copy.unlink()
                assert until_copied(program, tmp_path / "another", copy, "afterwards")
        finally:
            other.stop("server")


def stands(hub: Hub, seen: int) -> int:
    """What was acknowledged up to the last copy is there; the revision."""
    with hub.admin() as client:
        found = client.get(CONFIGMAPS).json()
        names = {item["metadata"]["name"] for item in found["items"]}
        assert names >= {LAST, *(f"before-{number}" for number in range(20))}
        assert not client.get(f"{CLUSTERS}/left").json()["spec"].get("hubAcceptsClient")
        watch = client.get(CLUSTERS, params={"watch": "1", "resourceVersion": str(seen), "timeoutSeconds": "5"})
        assert watch.status_code == 410 or '"code":410' in watch.text
    return int(found["metadata"]["resourceVersion"])


@contextmanager
def litestream(program: Path, hub: Hub, replica: Path) -> Iterator[None]:
    """As the guide says; it ends as when its machine stops."""
    command = [str(program), "replicate", str(hub.home / "hub.sqlite3"), f"file://{replica}"]
    with (hub.home / "litestream.log").open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield
            assert process.poll() is None, (hub.home / "litestream.log").read_text()
        finally:
            process.kill()


def until_copied(program: Path, replica: Path, target: Path, name: str) -> bool:
    """Whether what Litestream restores comes to hold a ConfigMap."""

    def is_there() -> bool:
        command = [
            str(program),
            "restore",
            "-force",
            "-integrity-check",
            "full",
            "-o",
            str(target),
            f"file://{replica}",
        ]
        done = subprocess.run(command, capture_output=True, check=False)
        return done.returncode == 0 and name.encode() in target.read_bytes()

    return until(is_there)


def write(hub: Hub, *names: str) -> None:
    with hub.admin() as client:
        for name in names:
            client.post(CONFIGMAPS, json={"metadata": {"name": name}}).raise_for_status()


def cluster(name: str) -> dict[str, object]:
    group = "cluster.open-cluster-management.io/v1"
    spec = {"hubAcceptsClient": True}
    return {"apiVersion": group, "kind": "ManagedCluster", "metadata": {"name": name}, "spec": spec}


def number_of(home: Path) -> int:
    return int(json.loads((home / "incarnation.json").read_text())["number"])


def until(seen: Callable[[], bool]) -> bool:
    """Whether it comes to be so while anybody waits."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not seen():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def refused(hub: Hub, *arguments: str) -> str:
    done = preloaded.run([*hub.program, *arguments], cwd=hub.folder, env=dict(hub.environment), timeout=400)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr
