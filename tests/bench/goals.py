"""The rows of the bench: what each measures and how, its goal on each database, and what it is compared to.

A recorded baseline (``RECORDED``) is what a real hub did on two CPUs. ``docs/performance.md`` has a section for each row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

RECORDED = "recorded, a real hub on 2 CPUs (kube-apiserver 1.36, etcd, OCM): "
NOTHING = "nothing: no baseline was recorded"
SCHEDULER = "OCM's placement controller (00f84c32b, its own flags) beside a hub on PostgreSQL that leaves Placements to it; recorded: "
DATABASES = ("sqlite", "postgres")


class Better(StrEnum):
    MORE = "≥"
    LESS = "≤"


@dataclass(frozen=True)
class Goal:
    """``values`` by database. ``method`` is how the row is measured, in one line."""

    title: str
    unit: str
    better: Better
    values: Mapping[str, float]
    method: str
    compared_to: str = NOTHING

    def is_met(self, value: float, database: str) -> bool:
        goal = self.values[database]
        return value >= goal if self.better is Better.MORE else value <= goal

    def shown(self, database: str) -> str:
        return f"{self.better} {self.values[database]:,g}"


def _both(value: float) -> dict[str, float]:
    return dict.fromkeys(DATABASES, value)


def _each(sqlite: float, postgres: float) -> dict[str, float]:
    return {"sqlite": sqlite, "postgres": postgres}


GOALS = {
    "lease_put_per_cpu_s": Goal(
        "lease PUT of agents, protobuf over TLS",
        "requests per CPU s",
        Better.MORE,
        _each(10_000, 6_000),
        "50 agents that joined, each on a TLS connection of its own, one request after the other",
        f"{RECORDED}193 to 198, 304/s, 50 connections, 400 to 1,000 clusters; live: the same PUT by the ordinary path",
    ),
    "lease_pair_per_cpu_s": Goal(
        "lease GET and PUT, as agents renew",
        "pairs per CPU s",
        Better.MORE,
        _each(7_000, 4_000),
        "as lease_put_per_cpu_s, with the GET that an agent sends before",
        f"{RECORDED}163, 265 pairs/s, 50 connections, 400 clusters",
    ),
    "intake_per_s": Goal(
        "clusters from the first request to a certificate that may read cluster and lease",
        "clusters/s",
        Better.MORE,
        _each(40, 30),
        "10 at a time: POST of cluster and request, approval and acceptance by an admin, polls each 50 ms",
        f"{RECORDED}2.6 to 2.9/s, 0.3 CPU s each, 10 at a time",
    ),
    "post_cluster_per_cpu_s": Goal(
        "POST managedclusters with everything that follows from it",
        "requests per CPU s",
        Better.MORE,
        _each(200, 120),
        "16 connections with a bootstrap token, among 10,000 clusters, until the hub rests again",
        f"{RECORDED}47, 86/s, 16 connections, growing to 10,000; without what the hub still owed at the end",
    ),
    "list_10000_ms": Goal(
        "list of 10,000 clusters as JSON, p50",
        "ms",
        Better.LESS,
        _both(40),
        "one admin, one list after the other, until the last byte",
        f"{RECORDED}444 ms, 9.9 MB, 9,000 of them not accepted; 97 ms for 1,002 that were, 1.97 MB",
    ),
    "list_10000_cpu_ms": Goal(
        "CPU time of that list",
        "CPU ms",
        Better.LESS,
        _both(30),
        "CPU time of all processes of the hub during those lists, by their number",
        f"{RECORDED}630 CPU ms; 110 for 1,002 that were accepted",
    ),
    "table_500_ms": Goal(
        "first page of 500 as a Table among 10,000 clusters, p50",
        "ms",
        Better.LESS,
        _both(10),
        "one admin, one page after the other",
        f"{RECORDED}36 ms, 0.49 MB",
    ),
    "fanout_200_ms": Goal(
        "a change until the last of 200 watches has it, p50",
        "ms",
        Better.LESS,
        _both(12),
        "200 watches of all clusters over TLS, one PATCH of a label after the other, timed from the sending",
        f"{RECORDED}24 ms among 10,002 clusters (max 31)",
    ),
    "deliveries_per_cpu_s": Goal(
        "events delivered to 200 watches, the writes included",
        "events per CPU s",
        Better.MORE,
        _both(30_000),
        "the events of fanout_200_ms by the CPU time in which they were written and delivered",
        f"{RECORDED}4,000 to 4,800",
    ),
    "handshake_cpu_ms": Goal(
        "a TLS connection with a client certificate",
        "CPU ms",
        Better.LESS,
        _both(0.5),
        "connections that are opened, each with a whole handshake, and asked for /livez",
    ),
    "watch_open_cpu_ms": Goal(
        "a watch that is opened again, without its handshake",
        "CPU ms",
        Better.LESS,
        _both(0.15),
        "informers of one cluster each that go on from a recent resourceVersion, on connections that are open",
    ),
    "watch_5000_idle_kb": Goal(
        "memory of the server for one of 5,000 idle watches over TLS",
        "kB",
        Better.LESS,
        _both(100),
        "resident memory of the server before and after they were opened",
    ),
    "watch_5000_delivery_ms": Goal(
        "a change until the last of 200 watches has it, beside 5,000 idle ones, p50",
        "ms",
        Better.LESS,
        _both(24),
        "as fanout_200_ms; each idle watch follows a cluster of its own",
        f"{RECORDED}24 ms without the idle ones",
    ),
    "silent_10000_s": Goal(
        "10,000 clusters fall silent at one moment, to the last Unknown with its taint",
        "s",
        Better.LESS,
        _both(5),
        "all leases are set back by SQL; leaseDurationSeconds is 2; the sweep's pause is included; ended and scaled after 2 minutes",
        f"{RECORDED}599 in 10.6 s after the last patch, 56/s, which is 179 s for 10,000",
    ),
    "silent_cpu_ms": Goal(
        "CPU time for one cluster that falls silent",
        "CPU ms",
        Better.LESS,
        _both(0.5),
        "CPU time of silent_10000_s until the hub rests, by the number of clusters",
        f"{RECORDED}49 CPU ms",
    ),
    "rss_1000_mb": Goal(
        "memory of all processes at 1,000 clusters",
        "MB",
        Better.LESS,
        _each(200, 350),
        "proportional set size (PSS), after each agent has renewed its lease once and an admin has read all clusters",
        f"{RECORDED}1,063 MB resident at 1,000 accepted clusters",
    ),
    "rss_10000_mb": Goal(
        "memory of all processes at 10,000 clusters",
        "MB",
        Better.LESS,
        _each(250, 450),
        "as rss_1000_mb",
        f"{RECORDED}1,515 MB resident at 1,000 accepted clusters and 9,000 that were not",
    ),
    "rss_peak_mb": Goal(
        "what eight lists of 10,000 at once add to the server's memory",
        "MB",
        Better.LESS,
        _both(100),
        "the server's largest resident memory while they are read, less what it had before",
    ),
    "idle_cpu_percent": Goal(
        "CPU of all processes at 10,000 clusters while nobody asks",
        "% of a core",
        Better.LESS,
        _both(0.5),
        "a minute and five seconds, so that each task of the clock comes at least once; no agent renews in it",
        f"{RECORDED}7 % at 1,000 clusters, a sample of one second",
    ),
    "fleet_sustained": Goal(
        "clusters whose heartbeats and watches the hub sustains",
        "clusters",
        Better.MORE,
        _both(100_000),
        "GET and PUT of each once in 60 s, 3 watches that are opened again each 7.5 minutes on average; steps until one fails",
        f"{RECORDED}265 pairs/s, which is 15,900 clusters without their watches",
    ),
    "fleet_held": Goal(
        "clusters whose heartbeats and watch re-opens a hub takes for ten minutes, while people use it",
        "clusters",
        Better.MORE,
        _both(100_000),
        "as fleet_sustained, of all that are registered, each minute with 97 % of what was due in it, seven of ten with a p99 below 1 s; nobody Unknown",
        f"{RECORDED}265 pairs/s, which is 15,900 clusters without their watches",
    ),
    "fleet_page_ms": Goal(
        "the slowest of overview, list, search and approvals beside that fleet, p95",
        "ms",
        Better.LESS,
        _both(2_000),
        "a browser that is signed in, a page each 4 s",
    ),
    "fleet_join_s": Goal(
        "one cluster beside that fleet, from its first request to a certificate that may read its lease, p95",
        "s",
        Better.LESS,
        _both(5),
        "a cluster each 4 s, approved and accepted by an admin over the API",
    ),
    "fleet_chunk_ms": Goal(
        "first page of 500 as a Table beside that fleet, p95",
        "ms",
        Better.LESS,
        _both(1_000),
        "one admin, a page each 4 s",
    ),
    "fleet_kubectl_s": Goal(
        "kubectl get managedclusters --chunk-size=500 beside that fleet, p95",
        "s",
        Better.LESS,
        _both(120),
        "all clusters, from the start of kubectl to its end, which takes its share of the two cores",
    ),
    "fleet_restart_s": Goal(
        "the server of that fleet is stopped and started, until each agent was heard again",
        "s",
        Better.LESS,
        _both(120),
        "from SIGTERM; agents renew once in 60 s, and one that failed again after 2 to 5 s",
    ),
    "fleet_back_s": Goal(
        "the whole fleet was cut off and is back at one moment, until each agent was heard",
        "s",
        Better.LESS,
        _both(120),
        "cut off for a minute; all heartbeats are due at once, and watches at their rate",
    ),
    "fleet_connected": Goal(
        "agents, each with TLS connections and watches of its own",
        "agents",
        Better.MORE,
        _both(15_000),
        "four connections an agent over HTTP/1.1, all open at once, three with a watch of 5 to 10 minutes, one that renews once in 60 s",
    ),
    "agent_memory_kb": Goal(
        "memory of the hub for one of those agents",
        "kB",
        Better.LESS,
        _both(400),
        "PSS of all processes when all are connected, less what they had before",
    ),
    "agent_minute_cpu_ms": Goal(
        "CPU time of the hub for one of those agents in a minute",
        "CPU ms",
        Better.LESS,
        _both(1.2),
        "of all processes, while nothing else happens; two cores have 1.2 for each of 100,000",
    ),
    "page_p95_ms": Goal(
        "the slowest of list, filter, search and overview among 10,000 clusters, p95",
        "ms",
        Better.LESS,
        _both(300),
        "a browser that is signed in, one page after the other, as an admin and as the owner of a set",
    ),
    "pipeline_10000_ms": Goal(
        "the slowest of usual placements through the scheduler's pipeline, 10,000 clusters, CPU time",
        "ms",
        Better.LESS,
        _both(50),
        "in a process of its own, best of seven, nothing is written",
    ),
    "placements_scratch_s": Goal(
        "1,000 placements that may choose from 10,000 clusters, from the first binding to the last decision",
        "s",
        Better.LESS,
        _both(60),
        "placements first, then the bindings of their 20 namespaces; the last decision is read from the change log",
        f"{SCHEDULER}199 and 223 s",
    ),
    "placement_change_ms": Goal(
        "one changed label to the last decision, among as many",
        "ms",
        Better.LESS,
        _both(200),
        "a label that 2 % of the placements read, median of five",
        f"{SCHEDULER}115,000, 127,000 and 133,000 ms, since it looks at every placement",
    ),
    "placement_storm_s": Goal(
        "5,000 clusters fall silent, to the last decision, with history and Events",
        "s",
        Better.LESS,
        _both(20),
        "half of the leases are set back by SQL, without a brake on evictions",
        f"{SCHEDULER}195 s from the first Unknown",
    ),
    "placement_return_s": Goal(
        "a fifth of them report again, to the last decision",
        "s",
        Better.LESS,
        _both(60),
        "16 connections that patch the status of one cluster after the other",
    ),
    "groups_of_one_s": Goal(
        "a placement of 10,000 clusters with clustersPerDecisionGroup 1, to its last decision",
        "s",
        Better.LESS,
        _both(60),
        "created, then its first cluster leaves, so that each other one moves up a group",
    ),
}

# Parts that run only where they are named measure these: a whole run is whole without them.
APART = frozenset(name for name in GOALS if name.startswith(("fleet_", "agent_")) and name != "fleet_sustained")
