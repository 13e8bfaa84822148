"""``python -m tests.bench``: tables on standard output, and ``var/bench/latest.json``.

``BENCH_QUICK=1`` gives a coarse answer on SQLite; ``BENCH_CLUSTERS`` takes another number of clusters than 10,000, which
alone need ten minutes to come. ``BENCH_ONLY`` names parts: rows, pages, placements; ``BENCH_DATABASE`` one database.
Rows say what was left out or scaled. Every commit is durable.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from tests import hub as hubs
from tests import servers
from tests.bench import machine, pages, placing, rows
from tests.bench.goals import GOALS
from tests.hub import ROOT, Hub

# What is measured is the hub, not its patience with one caller.
WITHOUT_LIMITS = {f"LIMIT_{name}": "0" for name in ("REQUESTS", "IN_FLIGHT", "WATCHES", "TOKEN_OBJECTS")}
LATEST = ROOT / "var" / "bench" / "latest.json"


def main() -> None:
    quick = os.environ.get("BENCH_QUICK", "") not in {"", "0"}
    machine.allow_many_files()
    found: list[dict[str, object]] = []
    tell(f"{machine.description()}; load before {machine.load()}{'; a coarse answer' if quick else ''}")
    scale = rows.QUICK if quick else _whole()
    for database in _chosen("BENCH_DATABASE", ("sqlite",) if quick else ("sqlite", "postgres")):
        tell(f"\n{database}\n{HEADER}")
        for part in _chosen("BENCH_ONLY", tuple(PARTS)):
            measure, settings = PARTS[part]
            with served(database, **settings) as hub:  # one for each part: another's fleet is in the way
                found += [told(row, database) for row in measure(hub, scale, quick)]
    tell(f"\nload after {machine.load()}")
    LATEST.parent.mkdir(parents=True, exist_ok=True)
    LATEST.write_text(
        json.dumps({"machine": machine.description(), "rows": found}, indent=2, ensure_ascii=False) + "\n"
    )


def _chosen(variable: str, known: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(os.environ[variable].split(",")) if os.environ.get(variable) else known


def _placements(hub: Hub, scale: rows.Scale, quick: bool) -> Iterator[rows.Row]:
    whole = replace(placing.FULL, clusters=scale.clusters, silent=scale.clusters // 2)
    return placing.measure(hub, placing.QUICK if quick else whole)


PARTS: dict[str, tuple[Callable[[Hub, rows.Scale, bool], Iterator[rows.Row]], dict[str, str]]] = {
    "rows": (lambda hub, scale, _quick: rows.measure(hub, scale), {}),
    "pages": (lambda hub, scale, _quick: pages.measure(hub, scale.clusters, scale.rounds), {}),
    "placements": (_placements, placing.SETTINGS),
}


def _whole() -> rows.Scale:
    return replace(rows.FULL, clusters=int(os.environ.get("BENCH_CLUSTERS") or rows.FULL.clusters))


HEADER = f"  {'row':<24} {'value':>10}  {'goal':>8}      {'unit':<20} what"


def told(row: rows.Row, database: str) -> dict[str, object]:
    goal = GOALS[row.name]
    verdict = "ok " if goal.is_met(row.value) else "not"
    tell(f"  {row.name:<24} {row.value:>10.1f}  {goal!s:>8} {verdict}  {goal.unit:<20} {goal.title}")
    tell(f"  {'':<24} {row.detail}; load {machine.load()}")
    tell(f"  {'':<24} compared to {goal.compared_to}")
    value = {"name": row.name, "value": round(row.value, 2), "unit": goal.unit, "goal": str(goal)}
    return {**value, "compared_to": goal.compared_to, "database": database, "detail": row.detail}


@contextmanager
def served(database: str, **settings: str) -> Iterator[Hub]:
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ocmconsole-bench-")))
        urls = {}
        if database == "postgres":
            urls["database_url"] = stack.enter_context(servers.postgres(durable=True))
            urls["redis_url"] = f"{stack.enter_context(servers.redis_server())}/0"
        yield stack.enter_context(hubs.serve(home, **urls, **WITHOUT_LIMITS, **settings))


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
