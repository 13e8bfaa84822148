"""The measurements, in the order in which they build upon each other: clusters join, renew, multiply, are watched.

Each function returns rows: the name of a goal, the value, and how it came about.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from ocmconsole.core.protobuf_fields import LEASE
from tests import fleet
from tests.bench import callers, machine, watching
from tests.bench.callers import Caller, Doc
from tests.hub import Hub
from tests.unit.kubeapi.protobuf_encoder import encode

CLUSTERS = fleet.CLUSTERS
REQUESTS = fleet.REQUESTS
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/managed-cluster-lease"
GROUP = "cluster.open-cluster-management.io/v1"
MERGE = "application/merge-patch+json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# What an informer sends since client-go 0.35, and what answers it when nothing is there.
INFORMER = "watch=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
SYNCED = b"k8s.io/initial-events-end"
TOKEN_NAME = "bench"
PAGE = 500


@dataclass(frozen=True)
class Scale:
    """How much is measured. ``clusters`` are there when lists are read."""

    agents: int
    at_once: int
    seconds: float
    clusters: int
    lists: int
    rounds: int
    active: int
    idle: int


FULL = Scale(agents=200, at_once=50, seconds=8, clusters=10_000, lists=15, rounds=40, active=200, idle=5_000)
QUICK = Scale(agents=20, at_once=20, seconds=2, clusters=200, lists=5, rounds=10, active=200, idle=300)


@dataclass(frozen=True)
class Row:
    name: str
    value: float
    detail: str


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
    """A cluster that has joined: its certificate on a connection of its own."""

    name: str
    caller: Caller
    lease: Doc

    @property
    def path(self) -> str:
        return LEASES.format(self.name)

    def put(self) -> None:
        """From the version that the last renewal was answered with."""
        lease = self.lease | {"spec": self.lease["spec"] | {"renewTime": fleet.now()}}
        body = encode(lease, LEASE, "coordination.k8s.io/v1", "Lease")
        status, answer = self.caller.ask("PUT", self.path, body, Content_Type=PROTOBUF)
        if status != 200:
            raise callers.UnexpectedError(f"PUT {self.path}: {status} {answer[:300]!r}")
        self.lease = json.loads(answer)

    def renew(self) -> None:
        """With the headers of an agent and no other, which would take the ordinary path."""
        status, answer = self.caller.ask("GET", self.path)
        if status != 200:
            raise callers.UnexpectedError(f"GET {self.path}: {status} {answer[:300]!r}")
        self.lease = json.loads(answer)
        self.put()


def measure(hub: Hub, scale: Scale) -> Iterator[Row]:
    """All rows for one hub, as they come."""
    printed = hub.manage("bootstrap_token", "create", "--name", TOKEN_NAME, "--uses", "1000")
    bench = Bench(hub, scale, printed.partition("token=")[2].split()[0], hub.admin_pair())
    for part in (intake, leases, growth, lists, fanout, many_watches):
        yield from part(bench)


# ------------------------------------------------------------------------------------------------------------ agents


def intake(bench: Bench) -> Iterator[Row]:
    effort = callers.together([_joining(bench, range(start, bench.scale.agents, 10)) for start in range(10)])
    yield Row("intake_per_s", effort.per_second, f"10 at a time: {effort}")


def _joining(bench: Bench, numbers: range) -> Iterator[None]:
    bootstrap, admin = bench.bootstrap(), bench.admin()
    for number in numbers:
        bench.agents.append(_joined(bench.hub, f"agent-{number}", bootstrap, admin))
        yield


def _joined(hub: Hub, name: str, bootstrap: Caller, admin: Caller) -> Agent:
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
    caller = Caller.of(hub, pair=_pair(asking, base64.b64decode(certificate)))
    for wanted in (f"{CLUSTERS}/{name}", LEASES.format(name)):
        while (answer := caller.ask("GET", wanted))[0] != 200:
            time.sleep(0.05)
    return Agent(name, caller, json.loads(answer[1]))


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
    """Each agent on a TLS connection of its own, one request at a time; all have renewed before.

    The fuller the batches of the lease path are, the less each renewal costs; so the detail says how full they were.
    """
    agents = bench.agents[: bench.scale.at_once]
    about = f"{len(agents)} connections, {len(bench.agents)} clusters"
    for agent in agents:
        agent.renew()
    for name, act in (("lease_put_per_cpu_s", Agent.put), ("lease_pair_per_cpu_s", Agent.renew)):
        seconds, before = bench.scale.seconds, _batches(bench)
        effort = callers.together([callers.for_seconds(seconds, partial(act, agent)) for agent in agents])
        requests, batches = (now - then for now, then in zip(_batches(bench), before, strict=True))
        share = f"{requests / max(1, batches):.1f} requests a batch"
        yield Row(name, effort.per_cpu_second, f"{about}, {share}: {effort}")


def _batches(bench: Bench) -> tuple[float, float]:
    """How many requests the lease path has answered, and in how many batches."""
    _, text = bench.admin().ask("GET", "/metrics")
    found = re.findall(rb'ocmconsole_lease_batch_(sum|count)\{thread="\w+"\} ([0-9.]+)', text)
    requests, batches = (
        sum(float(number) for what, number in found if what == wanted) for wanted in (b"sum", b"count")
    )
    return requests, batches


# ---------------------------------------------------------------------------------------------------------- clusters


def growth(bench: Bench) -> Iterator[Row]:
    """From the clusters that joined to as many as the scale wants; they are not accepted."""
    wanted = bench.scale.clusters - len(bench.agents)
    workers = [_posting(bench.bootstrap(), range(start, wanted, 16)) for start in range(16)]
    effort = callers.together(workers, settled=True)
    about = f"16 connections, growing to {bench.scale.clusters}: {effort}"
    yield Row("post_cluster_per_cpu_s", effort.per_cpu_second, about)


def _posting(caller: Caller, numbers: range) -> Iterator[Doc]:
    for number in numbers:
        yield caller.must("POST", CLUSTERS, cluster(f"cluster-{number}"))


def lists(bench: Bench) -> Iterator[Row]:
    admin, there = bench.admin(), bench.scale.clusters
    effort, size = _read(bench, admin, CLUSTERS)
    value = _p50_ms(effort) * 10_000 / there
    about = "" if there == FULL.clusters else f"scaled from a list of {there}; "
    gzipped, packed = _read(bench, admin, CLUSTERS, Accept_Encoding="gzip")
    about += f"{size / 2**20:.1f} MB, {effort}; gzip {packed / 2**20:.1f} MB, p50 {_p50_ms(gzipped):.0f} ms"
    yield Row("list_10000_ms", value, about)
    effort, size = _read(bench, admin, f"{CLUSTERS}?limit={PAGE}", Accept=TABLE)
    about = "" if there >= PAGE else f"scaled from a page of {there}; "
    about += f"among {there} clusters, {size / 2**20:.2f} MB, {effort}"
    yield Row("table_500_ms", _p50_ms(effort) * PAGE / min(PAGE, there), about)


def _read(bench: Bench, admin: Caller, path: str, **headers: str) -> tuple[callers.Effort, int]:
    sizes: list[int] = []

    def reading() -> Iterator[None]:
        for _ in range(bench.scale.lists):
            status, body = admin.ask("GET", path, None, **headers)
            if status != 200:
                raise callers.UnexpectedError(f"GET {path}: {status} {body[:300]!r}")
            sizes.append(len(body))
            yield

    return callers.together([reading()]), sizes[-1]


def _p50_ms(effort: callers.Effort) -> float:
    return callers.percentiles(effort.latencies)["p50"] * 1000


# ----------------------------------------------------------------------------------------------------------- watches


def fanout(bench: Bench) -> Iterator[Row]:
    with _active(bench) as watches:
        delivered, cpu = _deliver(bench, watches)
    yield Row("fanout_200_ms", *_last(delivered))
    count = sum(len(each) for each in delivered)
    yield Row("deliveries_per_cpu_s", count / cpu, f"{count} events, {len(delivered)} patches, {cpu:.1f} CPU s")


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
        machine.settle()
        used = machine.resident_kb(server) - before
        yield Row(
            "watch_5000_idle_kb",
            used / len(opened),
            f"{len(opened)} watches opened in {opening:.0f} s, server {before / 1024:.0f} + {used / 1024:.0f} MB",
        )
        with _active(bench) as watches:
            delivered, cpu = _deliver(bench, watches)
    value, detail = _last(delivered)
    yield Row("watch_5000_delivery_ms", value, f"beside {len(opened)} idle, {detail}, {cpu:.1f} CPU s")


def _active(bench: Bench) -> AbstractContextManager[list[watching.Watch]]:
    revision = bench.admin().must("GET", f"{CLUSTERS}?limit=1")["metadata"]["resourceVersion"]
    path = f"{CLUSTERS}?watch=true&timeoutSeconds=3000&resourceVersion={revision}"
    return watching.opened(bench.admin(), [path] * bench.scale.active, until=b"\r\n\r\n")


def _deliver(bench: Bench, watches: list[watching.Watch]) -> tuple[list[list[float]], float]:
    """One patch after the other: when each watch had it, and what all of it cost."""
    admin, delivered = bench.admin(), []
    machine.settle()
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
