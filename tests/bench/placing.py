"""Placements among ten thousand clusters: all decided from scratch, one label, half the fleet silent and back again.

Clusters come from ``crowd``, everything else through the API and the hub's own clock. When the last decision was made is
read from the change log of the database, so that watching costs the hub nothing. Where ``BENCH_PLACEMENT_CONTROLLER`` names
the program, OCM's placement controller does the same beside a hub that leaves Placements to it: a live comparison.
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from tests import fleet, servers
from tests.bench import database, machine
from tests.bench.callers import Caller, Doc
from tests.bench.falling_silent import LEASE_SECONDS, moment
from tests.bench.row import Row
from tests.bench.seeds import Seeds
from tests.hub import Hub

CLUSTERS = fleet.CLUSTERS
MERGE = "application/merge-patch+json"
GROUP = "/apis/cluster.open-cluster-management.io"
TEAMS = 20  # namespaces, each with as many Placements
RETURNING = 0.2  # of the silent clusters report again
LEAVE_ALONE = 0.02  # of the placements read a label that no other one reads
CALLERS = 16
REGIONS = ("eu-west", "eu-north", "eu-central", "lyon", "paris", "madrid", "porto")  # labels and claims of the crowd
STEP = 0.1  # seconds between two looks at the queue
OTHERS_QUIET_STEPS = 50  # of those: what another scheduler still owes cannot be asked
PATIENCE = 1_800.0
# No brake: what is measured is what it would hold back. No ClusterProfiles: one for each cluster in each of the namespaces
# would be 200,000 objects that placements do not need.
SETTINGS = {"EVICTION_BRAKE": "off", "FEATURE_GATES": "ClusterProfile=false"}
WITHOUT_SCHEDULER = {
    "program": (sys.executable, "-m", "tests.bench.without_scheduler"),
    "application": "tests.bench.without_scheduler",
}

Decisions = Mapping[tuple[str, str], frozenset[str]]


@dataclass(frozen=True)
class Scale:
    clusters: int
    placements: int
    silent: int


FULL = Scale(clusters=10_000, placements=1_000, silent=5_000)
QUICK = Scale(clusters=500, placements=40, silent=100)


@dataclass(frozen=True)
class Took:
    """From the beginning to the last decision, the CPU seconds of everything that followed, and writes of decisions."""

    seconds: float
    cpu: float
    writes: int

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s, {self.cpu:.1f} CPU s, {self.writes} writes of decisions"


@dataclass(frozen=True)
class Bench:
    hub: Hub
    scale: Scale
    pair: Path
    quiet_steps: int = 3

    def admin(self) -> Caller:
        return Caller.of(self.hub, pair=self.pair)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        with self.hub.reading() as ask:
            return ask(statement)

    def shell(self, code: str) -> str:
        """The last line that the code writes; what Django says of its imports comes before."""
        return ["", *self.hub.manage("shell", "-c", code).splitlines()][-1]

    def timed(self, act: Callable[[], object], is_done: Callable[[], bool] = lambda: True) -> Took:
        """``act`` may return when it began in earnest. ``is_done``: what must have happened besides an empty queue."""
        self.wait()
        machine.settle()
        head, before, began = self._head(), machine.cpu_seconds(), datetime.now(UTC)
        found = act()
        began = found if isinstance(found, datetime) else began
        deadline = time.monotonic() + PATIENCE
        while not is_done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not done after {PATIENCE:.0f} s")
            time.sleep(STEP)
        self.wait()
        machine.settle()
        decided = "resource = 'placementdecisions.cluster.open-cluster-management.io'"
        [(last, writes)] = self.ask(
            f"SELECT max(time), count(*) FROM kubeapi_change WHERE {decided} AND revision > {head}"  # noqa: S608 - ours
        )
        seconds = (moment(last) - began).total_seconds() if last is not None else 0.0
        return Took(seconds, machine.cpu_seconds() - before, writes)

    def wait(self) -> None:
        """Until nothing is due, and nothing was written meanwhile."""
        deadline, quiet, head = time.monotonic() + PATIENCE, 0, 0
        while quiet < self.quiet_steps:
            now = datetime.now(UTC).isoformat(sep=" ", timespec="microseconds")
            busy = f"SELECT count(*) FROM kubeapi_workitem WHERE due <= '{now}' OR busy_until > '{now}'"  # noqa: S608 - ours
            before, head = head, self._head()
            quiet = 0 if self.ask(busy)[0][0] or head != before else quiet + 1
            if time.monotonic() > deadline:
                raise TimeoutError(f"work is left after {PATIENCE:.0f} s")
            time.sleep(STEP)

    def _head(self) -> int:
        return int(self.ask("SELECT coalesce(max(revision), 0) FROM kubeapi_change")[0][0])

    def decisions(self) -> Decisions:
        """By namespace and name of the Placement."""
        found: dict[tuple[str, str], frozenset[str]] = {}
        rows = self.ask("SELECT namespace, placement, wire FROM placements_placementdecision")
        for namespace, placement, wire in rows:
            named = (json.loads(wire).get("status") or {}).get("decisions") or ()
            key = namespace, placement
            found[key] = found.get(key, frozenset()) | {each["clusterName"] for each in named}
        return found


def measure(made: Seeds, scale: Scale) -> Iterator[Row]:
    live: dict[str, Row] = {}
    short = partial(database.shorten_grace, seconds=LEASE_SECONDS)
    if program := os.environ.get("BENCH_PLACEMENT_CONTROLLER", ""):
        others = replace(made, programs=WITHOUT_SCHEDULER)
        with others.hub(scale.clusters, first=short, **SETTINGS) as hub, _controller(hub, program):
            bench = Bench(hub, scale, hub.admin_pair(), quiet_steps=OTHERS_QUIET_STEPS)
            for row in (row for part in (scratch, partial(label, times=1), storm) for row in part(bench)):
                live[row.name] = row
                sys.stderr.write(f"  live: {row.name} {row.value:.2f}: {row.detail}\n")
    with made.hub(scale.clusters, first=short, **SETTINGS) as hub:
        bench = Bench(hub, scale, hub.admin_pair())
        for row in (row for part in (pipeline, scratch, label, storm, group_of_one) for row in part(bench)):
            other = f"; live, OCM's placement controller: {live[row.name].detail}" if row.name in live else ""
            yield replace(row, detail=row.detail + other)


@contextmanager
def _controller(hub: Hub, program: str) -> Iterator[None]:
    """OCM's, as the hub's administrator, with its own defaults."""
    options = [f"--kubeconfig={hub.admin_kubeconfig}", f"--listen=127.0.0.1:{servers.free_port()}"]
    options += ["--disable-leader-election", "--namespace=default"]
    with (hub.home / "placement-controller.log").open("ab") as log:
        process = subprocess.Popen([program, "controller", *options], stdout=log, stderr=log)
    try:
        yield
    finally:
        servers.stop(process)


def pipeline(bench: Bench) -> Iterator[Row]:
    """Without database, explanation and writes: filters, scores, choice, groups, conditions and the next look."""
    found = json.loads(bench.shell("from tests.bench import pipeline; pipeline.main()"))
    scaled = {name: took * 10_000 / bench.scale.clusters for name, took in found.items()}
    slowest = max((name for name in scaled if name != "groups of one"), key=lambda name: scaled[name])
    detail = ", ".join(f"{name} {took:.0f}" for name, took in scaled.items())
    about = "" if bench.scale.clusters == FULL.clusters else f"scaled from {bench.scale.clusters} clusters; "
    yield Row("pipeline_10000_ms", scaled[slowest], f"{about}CPU ms, best of seven: {detail}")


# ------------------------------------------------------------------------------------------------------- from scratch


def team(number: int) -> str:
    return f"team-{number % TEAMS:02}"


def placement(number: int, count: int) -> Doc:
    """One of a fleet's usual ones, over all clusters: labels, claims, a part of them or all that match, tolerations."""
    region = REGIONS[number % len(REGIONS)]
    spec: Doc = {"numberOfClusters": 10, "tolerations": [{"key": "dedicated", "operator": "Exists"}]}
    by_region = {"labelSelector": {"matchLabels": {"region": region}}}
    if number < count * LEAVE_ALONE:
        selector: Doc = {"labelSelector": {"matchLabels": {"bench-tier": "gold"}}}
        spec.pop("numberOfClusters")
    elif number % 10 == 0:
        spec.pop("numberOfClusters")
        selector = {"labelSelector": {"matchLabels": {"region": region, "env": "prod"}}}
    elif number % 10 == 1:
        claim = {"key": "region", "operator": "In", "values": [region]}
        selector = {"claimSelector": {"matchExpressions": [claim]}}
    elif number % 10 == 2:
        selector = {}
        coordinate = {"type": "BuiltIn", "builtIn": "ResourceAllocatableCPU"}
        spec["prioritizerPolicy"] = {"configurations": [{"scoreCoordinate": coordinate}]}
    else:
        selector = by_region
    return {
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "Placement",
        "metadata": {"name": f"p{number:04}", "namespace": team(number)},
        "spec": spec | {"predicates": [{"requiredClusterSelector": selector}]},
    }


def scratch(bench: Bench) -> Iterator[Row]:
    """The sets come last, so that all have work at one moment."""
    admin, scale = bench.admin(), bench.scale
    for number in range(TEAMS):
        admin.must("POST", "/api/v1/namespaces", {"metadata": {"name": team(number)}})
    _together(
        bench,
        range(scale.placements),
        lambda caller, number: caller.must(
            "POST",
            f"{GROUP}/v1beta1/namespaces/{team(number)}/placements",
            placement(number, scale.placements),
        ),
    )
    took = bench.timed(partial(_bind, admin))
    chosen = sum(map(len, bench.decisions().values()))
    detail = f"{scale.placements} placements x {scale.clusters} clusters, {chosen} decided: {took}"
    yield Row("placements_scratch_s", took.seconds, detail)


def _bind(admin: Caller) -> None:
    for number in range(TEAMS):
        binding = {"metadata": {"name": "global"}, "spec": {"clusterSet": "global"}}
        path = f"{GROUP}/v1beta2/namespaces/{team(number)}/managedclustersetbindings"
        admin.must("POST", path, binding | {"apiVersion": path[6:48], "kind": "ManagedClusterSetBinding"})


def _together(bench: Bench, work: Any, act: Callable[[Caller, Any], object]) -> None:
    """Each piece of work once, by several callers."""
    items = list(work)

    def some(start: int) -> None:
        caller = bench.admin()
        for each in items[start::CALLERS]:
            act(caller, each)

    with ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(some, range(CALLERS)))


# ----------------------------------------------------------------------------------------------------- one label


def label(bench: Bench, times: int = 5) -> Iterator[Row]:
    admin = bench.admin()
    rows = bench.ask("SELECT name, wire FROM clusters_managedcluster WHERE available = 'True' ORDER BY name")
    tainted = {name for name, wire in rows if json.loads(wire)["spec"].get("taints")}
    free = [str(name) for name, _ in rows if name not in tainted]

    def patch(name: str, labels: Doc) -> None:
        admin.must("PATCH", f"{CLUSTERS}/{name}", {"metadata": {"labels": labels}}, media=MERGE)

    found = [bench.timed(partial(patch, name, {"bench-tier": "gold"})) for name in free[:times]]
    took = sorted(found, key=lambda each: each.seconds)[len(found) // 2]
    # A label that a seventh of all placements read, of a cluster that none of them may choose then.
    many = bench.timed(partial(patch, free[times], {"region": "elsewhere"}))
    readers = math.ceil(bench.scale.placements * LEAVE_ALONE)
    detail = f"read by {readers} of {bench.scale.placements} placements, median of {len(found)}: {took}; "
    yield Row("placement_change_ms", took.seconds * 1000, f"{detail}one that most of a region's read: {many}")


# ----------------------------------------------------------------------------------------------------- the storm


def storm(bench: Bench) -> Iterator[Row]:
    rows = bench.ask("SELECT name FROM clusters_managedcluster WHERE available = 'True' ORDER BY name")
    count = min(bench.scale.silent, len(rows))
    names = sorted(random.Random(1).sample([str(name) for (name,) in rows], count))  # noqa: S311 - the same each time
    before = bench.decisions()
    took = bench.timed(
        partial(database.beat, bench.hub, names, timedelta(hours=-1)),
        lambda: _unavailable(bench) >= count,
    )
    during = bench.decisions()
    gone = _lost(before, during)
    detail = f"{count} of {bench.scale.clusters} clusters silent, {gone} decisions left them: {took}"
    yield Row("placement_storm_s", took.seconds, detail)
    database.beat(bench.hub, names, timedelta(days=2))

    def come_back(caller: Caller, name: str) -> None:
        path = f"{CLUSTERS}/{name}"
        doc = caller.must("GET", path)
        available = {"type": "ManagedClusterConditionAvailable", "status": "True", "reason": "ManagedClusterAvailable"}
        known = [each for each in doc["status"]["conditions"] if each["type"] != available["type"]]
        said = available | {"message": "Managed cluster is available", "lastTransitionTime": fleet.now()[:19] + "Z"}
        caller.must("PATCH", f"{path}/status", {"status": {"conditions": [*known, said]}}, media=MERGE)

    returning = names[: round(RETURNING * len(names))]
    took = bench.timed(lambda: _together(bench, returning, come_back))
    after = bench.decisions()
    stayed = _lost(before, after)
    moved = sum(before[key] != after.get(key) for key in before)
    detail = f"{len(returning)} agents: {took}, from the first to report; {max(0, gone - stayed)} of {gone} decisions came back"
    reason = f"and {moved} placements have others now: their number was full and Steady keeps who is chosen"
    yield Row("placement_return_s", took.seconds, f"{detail} {reason}")


def _unavailable(bench: Bench) -> int:
    """Silent clusters with their taint."""
    like = '%"key":"cluster.open-cluster-management.io/unreachable"%'
    where = f"available = 'Unknown' AND wire LIKE '{like}'"
    return int(bench.ask(f"SELECT count(*) FROM clusters_managedcluster WHERE {where}")[0][0])  # noqa: S608 - ours


def _lost(before: Decisions, after: Decisions) -> int:
    """Clusters that a placement had and has no more, of all placements."""
    return sum(len(names - after.get(key, frozenset())) for key, names in before.items())


# ----------------------------------------------------------------------------------------------------- groups of one


def group_of_one(bench: Bench) -> Iterator[Row]:
    """A PlacementDecision for each cluster; then the first one leaves, and every other moves up a group."""
    admin = bench.admin()
    doc = placement(0, 0) | {"metadata": {"name": "one-by-one", "namespace": team(0)}}
    strategy = {"groupStrategy": {"clustersPerDecisionGroup": 1}}
    doc["spec"] = {"decisionStrategy": strategy, "tolerations": [{"operator": "Exists"}]}
    path = f"{GROUP}/v1beta1/namespaces/{team(0)}/placements"
    took = bench.timed(partial(admin.must, "POST", path, doc))
    first = min(bench.decisions()[team(0), "one-by-one"])
    expression = {"key": "bench-out", "operator": "DoesNotExist"}
    selector = {"requiredClusterSelector": {"labelSelector": {"matchExpressions": [expression]}}}
    one = f"{path}/one-by-one"
    bench.timed(partial(admin.must, "PATCH", one, {"spec": {"predicates": [selector]}}, media=MERGE))
    label = {"metadata": {"labels": {"bench-out": "1"}}}
    moved = bench.timed(partial(admin.must, "PATCH", f"{CLUSTERS}/{first}", label, media=MERGE))
    yield Row("groups_of_one_s", took.seconds, f"created: {took}; the first cluster leaves: {moved}")
