"""What each row is measured against. A recorded baseline is what a real hub did on two CPUs (``RECORDED``)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

RECORDED = "recorded, a real hub on 2 CPUs (kube-apiserver 1.36, etcd, OCM): "


class Better(StrEnum):
    MORE = "≥"
    LESS = "≤"


@dataclass(frozen=True)
class Goal:
    title: str
    unit: str
    better: Better
    value: float
    compared_to: str = "nothing: no baseline was recorded"

    def is_met(self, value: float) -> bool:
        return value >= self.value if self.better is Better.MORE else value <= self.value

    def __str__(self) -> str:
        return f"{self.better} {self.value:g}"


GOALS = {
    "intake_per_s": Goal(
        "clusters from the first request to a certificate that may read cluster and lease",
        "clusters/s",
        Better.MORE,
        2.9,
        f"{RECORDED}2.9/s, 10 at a time",
    ),
    "lease_put_per_cpu_s": Goal(
        "lease PUT of agents, protobuf over TLS",
        "requests per CPU s",
        Better.MORE,
        10_000,  # on SQLite; 6,000 on PostgreSQL
        f"{RECORDED}193, 304/s, 50 connections, 400 clusters; on PostgreSQL the goal is 6,000",
    ),
    "lease_pair_per_cpu_s": Goal(
        "lease GET and PUT, as agents renew",
        "pairs per CPU s",
        Better.MORE,
        7_000,  # on SQLite; 4,000 on PostgreSQL
        f"{RECORDED}163, 265 pairs/s, 50 connections, 400 clusters; on PostgreSQL the goal is 4,000",
    ),
    "post_cluster_per_cpu_s": Goal(
        "POST managedclusters with everything that follows from it",
        "requests per CPU s",
        Better.MORE,
        47,
        f"{RECORDED}47, 86/s, 16 connections, growing to 10,000; without what the hub still owed at the end",
    ),
    "list_10000_ms": Goal(
        "list of 10,000 clusters as JSON, p50",
        "ms",
        Better.LESS,
        444,
        f"{RECORDED}444 ms, 9.9 MB",
    ),
    "table_500_ms": Goal(
        "first page of 500 as a Table among 10,000 clusters, p50",
        "ms",
        Better.LESS,
        36,
        f"{RECORDED}36 ms, 0.49 MB",
    ),
    "fanout_200_ms": Goal(
        "a change until the last of 200 watches has it, p50",
        "ms",
        Better.LESS,
        24,
        f"{RECORDED}24 ms among 10,002 clusters (max 31)",
    ),
    "deliveries_per_cpu_s": Goal(
        "events delivered to 200 watches, the writes included",
        "events per CPU s",
        Better.MORE,
        4_000,
        f"{RECORDED}4,000 to 4,800",
    ),
    "watch_5000_idle_kb": Goal(
        "memory of the server for one of 5,000 idle watches over TLS",
        "kB",
        Better.LESS,
        100,
    ),
    "watch_5000_delivery_ms": Goal(
        "a change until the last of 200 watches has it, beside 5,000 idle ones, p50",
        "ms",
        Better.LESS,
        24,
        f"{RECORDED}24 ms without the idle ones",
    ),
    "page_p95_ms": Goal(
        "the slowest of list, filter, search and overview among 10,000 clusters, p95",
        "ms",
        Better.LESS,
        300,
    ),
    "pipeline_10000_ms": Goal(
        "the slowest of usual placements through the scheduler's pipeline, 10,000 clusters, CPU time",
        "ms",
        Better.LESS,
        50,
    ),
    "placements_scratch_s": Goal(
        "1,000 placements that may choose from 10,000 clusters, from the first binding to the last decision",
        "s",
        Better.LESS,
        60,
    ),
    "placement_change_ms": Goal(
        "one changed label to the last decision, among as many",
        "ms",
        Better.LESS,
        200,
    ),
    "placement_storm_s": Goal(
        "5,000 clusters fall silent, to the last decision, with history and Events",
        "s",
        Better.LESS,
        20,
    ),
    "placement_return_s": Goal(
        "they report again, to the last decision",
        "s",
        Better.LESS,
        60,
    ),
    "groups_of_one_s": Goal(
        "a placement of 10,000 clusters with clustersPerDecisionGroup 1, to its last decision",
        "s",
        Better.LESS,
        60,
    ),
}
