"""A hub behind nginx with everything at work: agents that join and beat, writers, watches, ``kubectl get -w``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests import tools
from tests.hub import Hub
from tests.proxy import clients
from tests.proxy.conftest import Site
from tests.selection import FULL

CLUSTERS, KUBECTLS, WRITERS, WATCHERS = (300, 20, 6, 4) if FULL else (4, 1, 2, 2)
SECONDS = 150 if FULL else 10  # for which the fleet goes on once it has joined
LONGEST = 1_500  # seconds that the fleet may take: a machine of two cores with load 15 lets 300 join in four minutes


@contextmanager
def at_work(site: Site, admin_pair: Path, report: Path, *, by: Hub | None = None) -> Iterator[None]:
    """The block begins when all clusters have joined. What it does must be seen by nobody.

    ``by``: whose ``simulate_fleet`` is run.
    """
    kubectl = tools.kubectl_of_wheel() or tools.kubectl_of_machine()
    crowd: list[clients.WorkingClient] = [
        *(clients.Watcher(f"watcher-{number}", lambda: site.client(admin_pair)) for number in range(WATCHERS)),
        *(clients.Writer(f"writer-{number}", lambda: site.client(admin_pair)) for number in range(WRITERS)),
    ]
    if kubectl is not None:
        listed = "get", "managedclusters", "-w"
        crowd += [clients.Kubectl(f"kubectl-{number}", site.hub, kubectl, *listed) for number in range(KUBECTLS)]
    counts = ["--clusters", str(CLUSTERS), "--seconds", str(SECONDS), "--join-over", str(CLUSTERS / 10)]
    command = "simulate_fleet", *counts, "--report", str(report)
    with ThreadPoolExecutor(1) as pool, clients.at_work(crowd) as work:
        agents = pool.submit((by or site.hub).manage, *command, seconds=LONGEST)
        joined = "SELECT count(*) FROM clusters_managedcluster WHERE joined = 'True' AND name LIKE 'sim-%'"
        while count(site, joined) < CLUSTERS:
            assert not agents.done() or agents.result()
            time.sleep(0.5)
        yield
        agents.result()
    refusals: dict[str, int] = json.loads(report.read_text())["refusals"]
    assert work.failures == []
    # A connection that came too late is no failure: nginx, which takes it, is not restarted, this machine is busy.
    failed = {name: count for name, count in refusals.items() if name.endswith("no answer") or ": 5" in name}
    assert failed == {}, failed
    with site.client(admin_pair) as admin:
        assert work.lost(admin) == []
        found = admin.get(clients.MAPS).json()["items"]
    stored = {each["metadata"]["name"]: each["data"]["by"] for each in found if "by" in (each.get("data") or {})}
    for watcher in work.watchers:
        assert {name: by for name, by in watcher.seen.items() if by} == stored
        assert {*watcher.ends} <= {"BOOKMARK"}, watcher.ends
    slowest = max(each.slowest for each in work.writers)
    print(f"{CLUSTERS} clusters, {work.answered} writes, the slowest {slowest:.2f} s")  # noqa: T201
    assert count(site, "SELECT count(*) FROM clusters_silence WHERE cluster LIKE 'sim-%'") == 0  # others beat no more


def count(site: Site, query: str) -> int:
    with site.hub.reading() as ask:
        ((found,),) = ask(query)
    return int(found)
