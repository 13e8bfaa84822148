"""The release before serves on with the new schema, and gives way to the new one server by server, unseen (W30).

FULL=1 does it, with 300 clusters and 20 ``kubectl get -w``; the ordinary run compares schemas alone (tests/architecture).
"""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests import hub as hubs
from tests import servers
from tests.proxy import load
from tests.proxy.conftest import Site, behind_nginx
from tests.selection import FULL

pytestmark = [pytest.mark.contract("W12", "W30"), pytest.mark.slow, pytest.mark.timeout(1_800)]

# Stands for the release before while no tag is newer: the commit before the newest migrations whose servers drain at SIGTERM.
FIRST = "f342dd8c3fda6b368b7fce91ca096ea6a5bd7999"


def git(*arguments: str) -> str | None:
    """What it says, None where it fails."""
    done = subprocess.run(["git", *arguments], cwd=hubs.ROOT, capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout.strip()


def previous_release() -> str:
    """The newest tag of a release before this commit, if upgrades from it are meant to be unseen."""
    tag = git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^")
    return tag if tag and git("merge-base", "--is-ancestor", FIRST, tag) is not None else FIRST


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its tree."""
    folder = tmp_path_factory.mktemp("previous")
    archive = subprocess.run(["git", "archive", previous_release()], cwd=hubs.ROOT, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"this checkout does not have the release before: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


@pytest.fixture
def site(previous: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """All processes are of the release before, with its schema."""
    if "TEST_DATABASE_URL" not in os.environ:
        pytest.skip("SQLite has one server")
    if not FULL:
        pytest.skip("FULL=1 upgrades two servers")
    ports, secret = (servers.free_port(), servers.free_port()), secrets.token_hex(16)
    hub = hubs.prepare(
        tmp_path_factory.mktemp("hub"),
        database_url=servers.create_database(os.environ["TEST_DATABASE_URL"], "hub_to_upgrade"),
        redis_url=f"{os.environ['TEST_REDIS_URL']}/254",
        API_URL=f"https://127.0.0.1:{ports[0]}",
        CONSOLE_URL=f"https://127.0.0.1:{ports[1]}",
        TRUSTED_PROXY="127.0.0.1",
        PROXY_SECRET=secret,
    )
    old = replace(hub, folder=previous)
    with ExitStack() as stack:
        stack.enter_context(hubs.running(old))
        second = old.beside()
        second.start("server")
        stack.callback(second.stop_if_running)
        yield stack.enter_context(behind_nginx([old, second], ports, secret))


def test_an_upgrade_is_seen_by_no_client(site: Site, tmp_path: Path) -> None:
    old, new = site.hub, replace(site.hub, folder=hubs.ROOT)
    with load.at_work(site, site.hub.admin_pair(), tmp_path / "report.json", by=old):
        new.manage("migrate", "--verbosity=0")
        time.sleep(2)  # the release before works with the new schema
        for server in site.servers:
            upgraded = replace(server, folder=hubs.ROOT)  # shares its processes
            upgraded.stop("server")
            upgraded.start("server")
            time.sleep(1)
        for name in ("worker", "beat"):
            new.stop(name)
            new.start(name)
    assert "agree" in new.manage("check_wire")
