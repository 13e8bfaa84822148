"""``python -m tests.bench``: tables on standard output, and ``var/bench/latest.json``, which ``table`` renders.

``BENCH_QUICK=1`` gives a coarse answer on SQLite; ``BENCH_CLUSTERS`` takes another number of clusters than 10,000.
``BENCH_FLEET`` seeds another number for memory, rest and fleet_sustained. ``BENCH_ONLY`` names parts: api, silence,
pages, fleet, placements, and only where they are named drill and connected; ``BENCH_DATABASE`` one database. ``BENCH_PLACEMENT_CONTROLLER`` names the program of OCM's
placement controller, which then does the same beside ours. Rows say what was left out or scaled. Every commit is durable.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tests import preloaded
from tests.bench import falling_silent, fleets, machine, pages, placing, rows, seeds, sustaining
from tests.bench.goals import GOALS
from tests.bench.row import Row
from tests.bench.seeds import Seeds
from tests.hub import ROOT

LATEST = ROOT / "var" / "bench" / "latest.json"
HEADER = f"  {'row':<24} {'value':>10}  {'goal':>10}      {'unit':<20} what"


def main() -> None:
    quick = os.environ.get("BENCH_QUICK", "") not in {"", "0"}
    machine.allow_many_files()
    preloaded.is_used = False
    run: dict[str, Any] = {
        "machine": machine.description(),
        "commit": machine.commit(),
        "began": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "is_quick": quick,
        "load": [machine.load()],
        "yardstick": [round(machine.yardstick(), 1)],
        "durability": {},
        "seconds": {},
        "rows": [],
    }
    tell(f"{run['machine']}, commit {run['commit']}; {state()}{'; a coarse answer' if quick else ''}")
    for database in _chosen("BENCH_DATABASE", ("sqlite",) if quick else ("sqlite", "postgres")):
        _measure(database, rows.QUICK if quick else _whole(), run, quick=quick)
    run["load"].append(machine.load())
    run["yardstick"].append(round(machine.yardstick(), 1))
    tell(f"\n{state()}; {sum(run['seconds'].values()):.0f} s in all")
    LATEST.parent.mkdir(parents=True, exist_ok=True)
    LATEST.write_text(json.dumps(run, indent=2, ensure_ascii=False) + "\n")


def _measure(database: str, scale: rows.Scale, run: dict[str, Any], *, quick: bool) -> None:
    with seeds.of(database) as made:
        began = time.monotonic()
        parts = _chosen("BENCH_ONLY", tuple(PARTS))
        clusters = scale.fleet if FLEETS.keys() >= set(parts) else scale.clusters
        seed = made.seed(clusters)
        run["durability"][database] = seed.durability
        kept = ", ".join(f"{name} {value}" for name, value in seed.durability.items())
        tell(f"\n{database}: {kept}; seeded with {clusters} clusters")
        began = _took(run, f"{database} seed", began)
        tell(HEADER)
        for part in parts:
            run["rows"] += [told(row, database) for row in (PARTS | FLEETS)[part](made, scale, quick)]
            began = _took(run, f"{database} {part}", began)


def _took(run: dict[str, Any], what: str, began: float) -> float:
    now = time.monotonic()
    run["seconds"][what] = round(now - began, 1)
    tell(f"  {what} took {now - began:.0f} s; load {machine.load()}")
    return now


def _chosen(variable: str, known: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(os.environ[variable].split(",")) if os.environ.get(variable) else known


def _placements(made: Seeds, scale: rows.Scale, quick: bool) -> Iterator[Row]:
    whole = replace(placing.FULL, clusters=scale.clusters, silent=scale.clusters // 2)
    return placing.measure(made, replace(placing.QUICK, clusters=scale.clusters) if quick else whole)


PARTS: dict[str, Callable[[Seeds, rows.Scale, bool], Iterator[Row]]] = {
    "api": lambda made, scale, _quick: rows.measure(made, scale),
    "silence": lambda made, scale, _quick: falling_silent.measure(made, scale),
    "pages": lambda made, scale, _quick: pages.measure(made, scale),
    "fleet": lambda made, scale, _quick: sustaining.measure(made, scale),
    "placements": _placements,
}

# Of ``BENCH_FLEET`` clusters, for many minutes each: measured only where they are named.
FLEETS: dict[str, Callable[[Seeds, rows.Scale, bool], Iterator[Row]]] = {
    "drill": lambda made, scale, _quick: fleets.drill(made, scale),
    "connected": lambda made, scale, _quick: fleets.connected(made, scale),
}


def _whole() -> rows.Scale:
    clusters = int(os.environ.get("BENCH_CLUSTERS") or rows.FULL.clusters)
    return replace(rows.FULL, clusters=clusters, fleet=int(os.environ.get("BENCH_FLEET") or clusters))


def state() -> str:
    return f"load {machine.load()}, yardstick {machine.yardstick():.1f} documents a CPU ms"


def told(row: Row, database: str) -> dict[str, Any]:
    goal = GOALS[row.name]
    is_met, shown = goal.is_met(row.value, database), goal.shown(database)
    tell(f"  {row.name:<24} {row.value:>10.1f}  {shown:>10} {'ok ' if is_met else 'not'}  {goal.unit:<20} {goal.title}")
    tell(f"  {'':<24} {goal.method}")
    tell(f"  {'':<24} {row.detail}")
    tell(f"  {'':<24} compared to {goal.compared_to}")
    value = {"name": row.name, "value": round(row.value, 2), "unit": goal.unit, "goal": shown, "is_met": is_met}
    return value | {"compared_to": goal.compared_to, "database": database, "detail": row.detail, "load": machine.load()}


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
