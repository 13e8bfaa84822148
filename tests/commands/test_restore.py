"""A hub is lost and restored from its backup: as it was, with what was revoked since, quiet, and nobody touched.

One test leads one hub through all of it, because a hub takes seconds to start.
"""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyrage
import pytest
import yaml

from tests import tools
from tests.conftest import StartHub
from tests.hub import ROOT, Hub

pytestmark = [pytest.mark.slow, pytest.mark.contract("D21", "D22", "D26", "D28")]
CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
SETUP = """
import pathlib
from clusters.kinds import MANAGED_CLUSTER
from django.core.management import call_command
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access.actor import Actor, MASTERS
from registration.approvals import services
from registration.models import IssuedCertificate
from registration.pki import kubeconfigs
setup = Actor(user="setup", groups=(MASTERS,))
for name in ("kept", "gone", "left"):
    doc = {{"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": {{"name": name}}, "spec": {{"hubAcceptsClient": True}}}}
    verbs.create(setup, MANAGED_CLUSTER, doc)
call_command("backup", "{folder}/hub.backup", key="{folder}/key.txt")
for name in ("later", "revoked"):
    text = kubeconfigs.of_user(setup, name, groups=(), lifetime=kubeconfigs.timedelta(hours=1))
    pathlib.Path("{folder}", name).write_text(text)
services.revoke_certificate(setup, IssuedCertificate.objects.get(common_name="revoked").pk, reason="stolen")
"""


def refused(hub: Hub, *arguments: str) -> str:
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=dict(hub.environment), capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


def state(hub: Hub) -> tuple[object, ...]:
    """Incarnations and clusters that the database has; the hub need not serve."""
    with hub.reading() as ask:
        incarnations = ask("SELECT number FROM kubeapi_incarnation ORDER BY number")
        return (incarnations, ask("SELECT name FROM clusters_managedcluster ORDER BY name"))


def test_a_hub_is_restored_with_what_was_revoked_and_starts_quiet(start_hub: StartHub, tmp_path: Path) -> None:
    key, backup = tmp_path / "key.txt", tmp_path / "hub.backup"
    key.write_text(f"{pyrage.x25519.Identity.generate()}\n")
    programs = tools.postgres_of_machine() or tools.postgres_of_wheel()
    with start_hub() as started:
        hub = replace(started, environment={**started.environment, "PATH": f"{programs}:{started.environment['PATH']}"})
        hub.manage("shell", "-c", SETUP.format(folder=tmp_path))
        assert "a hub serves from" in refused(hub, "restore", str(backup), "--key", str(key), "--replace")
        with hub.admin() as client:
            client.delete(f"{CLUSTERS}/gone").raise_for_status()
            merge = {"Content-Type": "application/merge-patch+json"}
            client.patch(
                f"{CLUSTERS}/left", json={"spec": {"hubAcceptsClient": False}}, headers=merge
            ).raise_for_status()
            newest = client.get(CLUSTERS).json()["metadata"]["resourceVersion"]
        log = hub.home / "revocations.log"
        assert until(lambda: {"disconnected", "deleted", "revoked"} <= said_in(log))
        for name in reversed([*hub.processes]):
            hub.stop(name)
        before = state(hub)
        assert "holds a hub already" in refused(hub, "restore", str(backup), "--key", str(key))
        assert state(hub) == before

        killed(hub, backup, key)
        if state(hub) == before:
            said = hub.manage("restore", str(backup), "--key", str(key), "--replace")
            assert "what was revoked is known up to" in said
            assert "disconnected again: left" in said
            assert "deleted again: managedclusters gone" in said
        assert state(hub)[0] == [(1,), (2,)]
        assert [path.name for path in hub.home.glob("before-restore-*")]

        for name in hub.commands:
            hub.start(name)
        with hub.admin() as client:
            listed = client.get(CLUSTERS).json()
            by_name = {item["metadata"]["name"]: item for item in listed["items"]}
            assert "gone" not in by_name or by_name["gone"]["metadata"].get("deletionTimestamp")
            assert by_name["kept"]["spec"]["hubAcceptsClient"]
            assert not by_name["left"]["spec"].get("hubAcceptsClient")
            assert int(listed["metadata"]["resourceVersion"]) > int(newest) + 10**8
            watched = client.get(CLUSTERS, params={"watch": "1", "resourceVersion": newest, "timeoutSeconds": "5"})
            assert watched.status_code == 410 or '"code":410' in watched.text
        for name, expected in (("later", 200), ("revoked", 401)):
            with hub.client(pair=pair(tmp_path / name)) as client:
                assert client.get("/version").status_code == expected, name
        hub.manage("activate")


def pair(kubeconfig: Path) -> Path:
    """Certificate and key that it holds, in one file."""
    user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
    path = kubeconfig.with_suffix(".pem")
    path.write_bytes(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
    return path


def said_in(log: Path) -> set[str]:
    return {json.loads(line)["what"] for line in log.read_text().splitlines()} if log.exists() else set()


def until(seen: Callable[[], bool]) -> bool:
    """Whether it comes to be so within half a minute."""
    deadline = time.monotonic() + 30
    while not seen():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def killed(hub: Hub, backup: Path, key: Path) -> None:
    """A restore that is killed at a random moment leaves the old state or the new one."""
    before = state(hub)
    command = [sys.executable, "manage.py", "restore", str(backup), "--key", str(key), "--replace"]
    with subprocess.Popen(command, cwd=ROOT, env=dict(hub.environment)) as process:
        with suppress(subprocess.TimeoutExpired):
            process.wait(random.uniform(2, 9))  # noqa: S311 - no secret
        process.kill()
    now = state(hub)
    assert now == before or now[0] == [(1,), (2,)]
