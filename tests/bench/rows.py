"""What the API is asked, among ten thousand clusters: clusters join, renew, come, are listed and watched."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from tests import fleet
from tests.bench import callers, heartbeats, machine, reading, reopening, watching
from tests.bench.callers import Caller, Doc
from tests.bench.row import Row
from tests.bench.seeds import Seeds
from tests.hub import Hub

CLUSTERS = fleet.CLUSTERS
REQUESTS = fleet.REQUESTS
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/managed-cluster-lease"
GROUP = "cluster.open-cluster-management.io/v1"
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# What an informer sends since client-go 0.35, and what answers it when nothing is there.
INFORMER = "watch=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
SYNCED = b"k8s.io/initial-events-end"
TOKEN_NAME = "bench"
PAGE = 500
ASKED_AGAIN = 0.6  # of a core: 5,000 open watches, of which each is asked again each half minute whether it may go on


@dataclass(frozen=True)
class Scale:
    """How much is measured. ``clusters`` are there from the start, ``small`` and ``fleet`` in the parts about memory."""

    clusters: int
    agents: int
    at_once: int
    seconds: float
    posts: int
    lists: int
    rounds: int
    active: int
    idle: int
    reopened: int
    small: int
    fleet: int
    idle_seconds: float
    first_step: int
    step_seconds: float
    steps: int


FULL = Scale(
    clusters=10_000, agents=100, at_once=50, seconds=8, posts=300, lists=15, rounds=20, active=200, idle=5_000,
    reopened=1_000, small=1_000, fleet=10_000, idle_seconds=65, first_step=10_000, step_seconds=12, steps=6,
)  # fmt: skip
QUICK = Scale(
    clusters=500, agents=20, at_once=20, seconds=1, posts=30, lists=5, rounds=3, active=200, idle=300,
    reopened=100, small=200, fleet=500, idle_seconds=3, first_step=5_000, step_seconds=3, steps=2,
)  # fmt: skip


@dataclass
class Bench:
    """One hub under measurement and who calls it."""

    hub: Hub
    scale: Scale
    token: str
    pair: Path
    agents: list[Agent] = field(default_factory=list)

    def admin(self) -> Caller:
        return Caller.of(self.hub, pair=self.pair)

    def bootstrap(self) -> Caller:
        return Caller.of(self.hub, token=self.token)


@dataclass
class Agent:
    """A cluster that has joined: its certificate and key in one file, and its lease as it was answered last."""

    name: str
    pair: Path
    lease: Doc


def measure(made: Seeds, scale: Scale) -> Iterator[Row]:
    with made.hub(scale.clusters) as hub:
        printed = hub.manage("bootstrap_token", "create", "--name", TOKEN_NAME, "--uses", "1000")
        bench = Bench(hub, scale, printed.partition("token=")[2].split()[0], hub.admin_pair())
        for part in (intake, leases, posts, lists, fanout, openings, many_watches):
            yield from part(bench)


# ------------------------------------------------------------------------------------------------------------ agents


def intake(bench: Bench) -> Iterator[Row]:
    effort = callers.together([_joining(bench, range(start, bench.scale.agents, 10)) for start in range(10)])
    yield Row("intake_per_s", effort.per_second, f"10 at a time: {effort}")


def _joining(bench: Bench, numbers: range) -> Iterator[None]:
    bootstrap, admin = bench.bootstrap(), bench.admin()
    for number in numbers:
        bench.agents.append(joined(bench.hub, f"agent-{number}", bootstrap, admin))
        yield


def joined(hub: Hub, name: str, bootstrap: Caller, admin: Caller) -> Agent:
    """The whole way of one agent, with the person who lets it in."""
    asking = fleet.Agent(fleet.Fleet(hub), name, f"{name}-csr", name)
    bootstrap.must("POST", CLUSTERS, cluster(name))
    bootstrap.must("POST", REQUESTS, _request(asking))
    path = f"{REQUESTS}/{asking.request}"
    approved = {"type": "Approved", "status": "True", "reason": "Bench", "message": "known"}
    admin.must("PUT", f"{path}/approval", admin.must("GET", path) | {"status": {"conditions": [approved]}})
    admin.must("PATCH", f"{CLUSTERS}/{name}", {"spec": {"hubAcceptsClient": True}}, media=MERGE)
    while not (certificate := bootstrap.must("GET", path)["status"].get("certificate")):
        time.sleep(0.05)
    pair = _pair(asking, base64.b64decode(certificate))
    caller = Caller.of(hub, pair=pair)
    for wanted in (f"{CLUSTERS}/{name}", LEASES.format(name)):
        while (answer := caller.ask("GET", wanted))[0] != 200:
            time.sleep(0.05)
    caller.connection.close()
    return Agent(name, pair, json.loads(answer[1]))


def cluster(name: str) -> Doc:
    configs = [{"url": f"https://{name}.example.com:6443", "caBundle": base64.b64encode(name.encode()).decode()}]
    spec = {"hubAcceptsClient": False, "leaseDurationSeconds": 60, "managedClusterClientConfigs": configs}
    return {"apiVersion": GROUP, "kind": "ManagedCluster", "metadata": {"name": name}, "spec": spec}


def _request(agent: fleet.Agent) -> Doc:
    spec = {
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": fleet.USAGES,
        "request": base64.b64encode(agent.signing_request()).decode(),
    }
    labels = {"open-cluster-management.io/cluster-name": agent.name}
    metadata = {"name": agent.request, "labels": labels}
    kind = "CertificateSigningRequest"
    return {"apiVersion": "certificates.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _pair(agent: fleet.Agent, certificate: bytes) -> Path:
    private = agent.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = agent.fleet.hub.home / f"{agent.name}.pem"
    path.touch(mode=0o600)
    path.write_bytes(certificate + private)
    return path


def leases(bench: Bench) -> Iterator[Row]:
    yield from heartbeats.measure(bench.hub, bench.agents[: bench.scale.at_once], bench.scale.seconds, bench.admin())


# ---------------------------------------------------------------------------------------------------------- clusters


def posts(bench: Bench) -> Iterator[Row]:
    """They are not accepted."""
    workers = [_posting(bench.bootstrap(), range(start, bench.scale.posts, 16)) for start in range(16)]
    effort = callers.together(workers, settled=True)
    about = f"16 connections, among {bench.scale.clusters}: {effort}"
    yield Row("post_cluster_per_cpu_s", effort.per_cpu_second, about)


def _posting(caller: Caller, numbers: range) -> Iterator[Doc]:
    for number in numbers:
        yield caller.must("POST", CLUSTERS, cluster(f"posted-{number}"))


def lists(bench: Bench) -> Iterator[Row]:
    admin, there = bench.admin(), bench.scale.clusters + bench.scale.agents + bench.scale.posts
    effort, size = _read(bench, admin, CLUSTERS)
    gzipped, packed = _read(bench, admin, CLUSTERS, Accept_Encoding="gzip")
    about = f"scaled from a list of {there}, {size / 2**20:.1f} MB, {effort}; "
    about += f"gzip {packed / 2**20:.1f} MB, p50 {_p50_ms(gzipped):.0f} ms"
    yield Row("list_10000_ms", _p50_ms(effort) * 10_000 / there, about)
    yield Row("list_10000_cpu_ms", effort.cpu / effort.acts * 1000 * 10_000 / there, about)
    effort, size = _read(bench, admin, f"{CLUSTERS}?limit={PAGE}", Accept=TABLE)
    about = f"among {there} clusters, {size / 2**20:.2f} MB, {effort}"
    yield Row("table_500_ms", _p50_ms(effort), about)


def _read(bench: Bench, admin: Caller, path: str, **headers: str) -> tuple[callers.Effort, int]:
    sizes: list[int] = []

    def read() -> Iterator[None]:
        for _ in range(bench.scale.lists):
            sizes.append(reading.read(admin, path, **headers))
            yield

    return callers.together([read()]), sizes[-1]


def _p50_ms(effort: callers.Effort) -> float:
    return callers.percentiles(effort.latencies)["p50"] * 1000


# ----------------------------------------------------------------------------------------------------------- watches


def fanout(bench: Bench) -> Iterator[Row]:
    with _active(bench) as watches:
        delivered, cpu = _deliver(bench, watches)
    yield Row("fanout_200_ms", *_last(delivered))
    count = sum(len(each) for each in delivered)
    yield Row("deliveries_per_cpu_s", count / cpu, f"{count} events, {len(delivered)} patches, {cpu:.1f} CPU s")


def openings(bench: Bench) -> Iterator[Row]:
    names = [(each.name, each.pair) for each in bench.agents]
    yield from reopening.measure(bench.hub, names, bench.scale.reopened, bench.admin())


def many_watches(bench: Bench) -> Iterator[Row]:
    """Each idle one follows a cluster of its own, as an agent does; the active ones follow all."""
    files = machine.allow_many_files()
    idle = min(bench.scale.idle, files - bench.scale.active - 500)
    server = bench.hub.processes["server"].pid
    machine.settle()
    before = machine.resident_kb(server)
    names = [f"{CLUSTERS}?{INFORMER}&timeoutSeconds=3000&fieldSelector=metadata.name%3Dnone-{n}" for n in range(idle)]
    began = time.monotonic()
    with watching.opened(bench.admin(), names, until=SYNCED) as opened:
        opening = time.monotonic() - began
        machine.settle(ASKED_AGAIN)
        used = machine.resident_kb(server) - before
        yield Row(
            "watch_5000_idle_kb",
            used / len(opened),
            f"{len(opened)} watches opened in {opening:.0f} s, server {before / 1024:.0f} + {used / 1024:.0f} MB",
        )
        with _active(bench) as watches:
            delivered, cpu = _deliver(bench, watches, ASKED_AGAIN)
    value, detail = _last(delivered)
    yield Row("watch_5000_delivery_ms", value, f"beside {len(opened)} idle, {detail}, {cpu:.1f} CPU s")


def _active(bench: Bench) -> AbstractContextManager[list[watching.Watch]]:
    revision = bench.admin().must("GET", f"{CLUSTERS}?limit=1")["metadata"]["resourceVersion"]
    path = f"{CLUSTERS}?watch=true&timeoutSeconds=3000&resourceVersion={revision}"
    return watching.opened(bench.admin(), [path] * bench.scale.active, until=b"\r\n\r\n")


def _deliver(
    bench: Bench, watches: list[watching.Watch], calm_use: float = machine.CALM
) -> tuple[list[list[float]], float]:
    """One patch after the other: when each watch had it, and what all of it cost."""
    admin, delivered = bench.admin(), []
    machine.settle(calm_use)
    before = machine.cpu_seconds()
    for number in range(bench.scale.rounds):
        mark = f"round-{number}-{time.time_ns()}"
        body = json.dumps({"metadata": {"labels": {"bench": mark}}}).encode()
        write = partial(admin.begin, "PATCH", f"{CLUSTERS}/{bench.agents[0].name}", body, Content_Type=MERGE)
        delivered.append(watching.latencies(watches, mark.encode(), write))
        status, answer = admin.end()
        if status != 200:
            raise callers.UnexpectedError(f"PATCH: {status} {answer[:300]!r}")
    return delivered, machine.cpu_seconds() - before


def _last(delivered: list[list[float]]) -> tuple[float, str]:
    """When the last watch had the change, in ms; and how all deliveries were spread."""
    every = callers.percentiles([taken for each in delivered for taken in each])
    last = callers.percentiles([each[-1] for each in delivered])
    spread = ", ".join(f"{name} {value * 1000:.0f}" for name, value in every.items())
    return last["p50"] * 1000, f"{len(delivered[0])} watches, {len(delivered)} patches; ms of all deliveries: {spread}"
