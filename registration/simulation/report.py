"""What a simulated fleet measured: requests by sort with latencies, refusals, how long joining and coming back took."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

LEASE, STATUS = "managed-cluster-lease", "status"
SUCCESS = range(200, 300)  # of HTTP
# Percentiles that are reported, by name.
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def sort_of(method: str, path: str) -> str:
    """In the words of a report: a lease GET, a status PATCH, a POST of its collection, a watch."""
    last = path.rpartition("/")[2]
    if last in {LEASE, STATUS}:
        return f"{method} {'lease' if last == LEASE else 'status'}"
    if method == "GET" and last in {"managedclusters", "certificatesigningrequests", "managedclusteraddons"}:
        return f"open watch of {last}"
    return f"{method} {last}" if method == "POST" else f"{method} managedcluster"


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Of some durations, in milliseconds."""
    ordered = sorted(seconds)
    return {
        name: round(1000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)], 1)
        for name, share in PERCENTILES.items()
    }


@dataclass
class FleetReport:
    """Filled while agents run. ``joined`` and ``returned`` are seconds, of each agent once and of each return."""

    began: float = field(default_factory=time.monotonic)
    joined: list[float] = field(default_factory=list)
    returned: list[float] = field(default_factory=list)
    latencies: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    refusals: Counter[str] = field(default_factory=Counter)

    def heard(self, method: str, path: str, outcome: int | str, seconds: float) -> None:
        """One request: the status of its answer, or in words what came instead."""
        sort = sort_of(method, path)
        if outcome in SUCCESS:
            self.latencies[sort].append(seconds)
        else:
            self.refusals[f"{sort}: {outcome}"] += 1

    def as_document(self) -> dict[str, Any]:
        """For a file: numbers by name, milliseconds unless the name says seconds."""
        return {
            "seconds": round(time.monotonic() - self.began, 1),
            "joined": len(self.joined),
            "join_ms": percentiles(self.joined) if self.joined else {},
            "returned": len(self.returned),
            "return_ms": percentiles(self.returned) if self.returned else {},
            "requests": {
                sort: {"count": len(found), **percentiles(found)} for sort, found in sorted(self.latencies.items())
            },
            "refusals": dict(sorted(self.refusals.items())),
        }

    def lines(self) -> list[str]:
        """For a terminal."""
        doc = self.as_document()
        rows = [("joining", len(self.joined), doc["join_ms"]), ("coming back", len(self.returned), doc["return_ms"])]
        rows += [(sort, each["count"], each) for sort, each in doc["requests"].items()]
        head = f"{'':38}{'count':>9}" + "".join(f"{name + ' ms':>12}" for name in PERCENTILES)
        table = [f"{name:38}{count:9}" + _cells(found) for name, count, found in rows if count]
        refusals = [f"{count:6}  {name}" for name, count in doc["refusals"].items()] or ["none"]
        return [head, *table, "", "refused or unanswered:", *refusals]


def _cells(found: dict[str, Any]) -> str:
    return "".join(f"{found[name]:12.1f}" for name in PERCENTILES)
