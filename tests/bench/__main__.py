"""``python -m tests.bench``: tables on standard output, and ``var/bench/latest.json``.

``BENCH_QUICK=1`` gives a coarse answer on SQLite; ``BENCH_CLUSTERS`` takes another number of clusters than 10,000, which
alone need ten minutes to come. Rows say what was left out or scaled.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from tests import hub as hubs
from tests import servers
from tests.bench import machine, pages, rows
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
    for database in ("sqlite",) if quick else ("sqlite", "postgres"):
        tell(f"\n{database}\n{HEADER}")
        with served(database) as hub:
            found += [told(row, database) for row in rows.measure(hub, rows.QUICK if quick else _whole())]
        with served(database) as hub:  # one whose fleet is let in
            scale = rows.QUICK if quick else _whole()
            found += [told(row, database) for row in pages.measure(hub, scale.clusters, scale.rounds)]
    tell(f"\nload after {machine.load()}")
    LATEST.parent.mkdir(parents=True, exist_ok=True)
    LATEST.write_text(
        json.dumps({"machine": machine.description(), "rows": found}, indent=2, ensure_ascii=False) + "\n"
    )


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
def served(database: str) -> Iterator[Hub]:
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ocmconsole-bench-")))
        urls = {}
        if database == "postgres":
            urls["database_url"] = stack.enter_context(servers.postgres())
            urls["redis_url"] = f"{stack.enter_context(servers.redis_server())}/0"
        yield stack.enter_context(hubs.serve(home, **urls, **WITHOUT_LIMITS))


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
