"""Two servers behind nginx are restarted one after the other: no client sees a failed request (W21, W30).

FULL=1 does it with 300 clusters and 20 ``kubectl get -w``.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import tools
from tests.proxy import clients
from tests.proxy.conftest import Site
from tests.selection import FULL

pytestmark = [pytest.mark.contract("W12", "W30"), pytest.mark.slow, pytest.mark.timeout(600)]

CLUSTERS, KUBECTLS, WRITERS, WATCHERS = (300, 20, 6, 4) if FULL else (4, 1, 2, 2)
SECONDS = 120 if FULL else 10  # for which the fleet goes on once it has joined


def fleet(site: Site, report: Path) -> dict[str, int]:
    """Agents that join and beat through nginx; what was refused or not answered, by sort."""
    counts = ["--clusters", str(CLUSTERS), "--seconds", str(SECONDS), "--join-over", str(CLUSTERS / 10)]
    site.hub.manage("simulate_fleet", *counts, "--report", str(report))
    refusals: dict[str, int] = json.loads(report.read_text())["refusals"]
    return refusals


def test_a_rolling_restart_is_seen_by_no_client(site: Site, admin_pair: Path, tmp_path: Path) -> None:
    if len(site.servers) == 1:
        pytest.skip("SQLite has one server")
    kubectl = tools.kubectl_of_wheel() or tools.kubectl_of_machine()
    crowd: list[clients.WorkingClient] = [
        *(clients.Watcher(f"watcher-{number}", lambda: site.client(admin_pair)) for number in range(WATCHERS)),
        *(clients.Writer(f"writer-{number}", lambda: site.client(admin_pair)) for number in range(WRITERS)),
    ]
    if kubectl is not None:
        listed = "get", "managedclusters", "-w"
        crowd += [clients.Kubectl(f"kubectl-{number}", site.hub, kubectl, *listed) for number in range(KUBECTLS)]
    with ThreadPoolExecutor(1) as pool, clients.at_work(crowd) as work:
        agents = pool.submit(fleet, site, tmp_path / "report.json")
        joined = f"SELECT count(*) FROM clusters_managedcluster WHERE joined = 'True' AND name LIKE 'sim-%'"  # noqa: F541
        while _count(site, joined) < CLUSTERS:
            assert not agents.done() or agents.result()
            time.sleep(0.5)
        for server in site.servers:
            server.stop("server")
            server.start("server")
            time.sleep(1)
        refusals = agents.result()
    assert work.failures == []
    assert [name for name in refusals if name.endswith((" 0", "no answer")) or ": 5" in name] == []
    with site.client(admin_pair) as admin:
        assert work.lost(admin) == []
        found = admin.get(clients.MAPS).json()["items"]
    stored = {each["metadata"]["name"]: each["data"]["by"] for each in found if "by" in (each.get("data") or {})}
    for watcher in work.watchers:
        assert {name: by for name, by in watcher.seen.items() if by} == stored
        assert {*watcher.ends} == {"BOOKMARK"}, watcher.ends
    assert _count(site, "SELECT count(*) FROM clusters_silence") == 0
    assert "agree" in site.hub.manage("check_wire")


def _count(site: Site, query: str) -> int:
    with site.hub.reading() as ask:
        ((count,),) = ask(query)
    return int(count)
