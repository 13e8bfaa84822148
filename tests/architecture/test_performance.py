"""The page about performance names the rows of the bench, each with its goal and what bounds it, and no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests import preloaded
from tests.bench import __main__ as bench
from tests.bench import machine, table
from tests.bench.goals import DATABASES, GOALS, Better, Goal

CELL = re.compile(r"^\| `(\w+)` ", re.MULTILINE)
# Names that readers of var/bench/latest.json rely on.
PROMISED = frozenset(
    [
        "lease_put_per_cpu_s",
        "lease_pair_per_cpu_s",
        "intake_per_s",
        "post_cluster_per_cpu_s",
        "list_10000_ms",
        "table_500_ms",
        "fanout_200_ms",
        "deliveries_per_cpu_s",
        "silent_10000_s",
        "rss_1000_mb",
        "rss_10000_mb",
        "fleet_sustained",
        "page_p95_ms",
        "watch_open_cpu_ms",
        "silent_cpu_ms",
        "idle_cpu_percent",
        "rss_peak_mb",
        "placement_change_ms",
        "placement_storm_s",
    ]
)


def worse(goal: Goal) -> float:
    """Than the goal on PostgreSQL."""
    return goal.values["postgres"] * (0.5 if goal.better is Better.MORE else 2)


def _run(**changes: Any) -> dict[str, Any]:
    rows = [
        {"name": name, "database": database, "value": goal.values[database] if database == "sqlite" else worse(goal)}
        for name, goal in GOALS.items()
        for database in DATABASES
    ]
    whole = {
        "machine": "2 CPUs", "commit": "abc", "began": "2026-01-31 12:00 UTC", "is_quick": False, "load": ["0.1", "0.2"],
        "yardstick": [300.0, 310.0], "durability": {"sqlite": {"synchronous": "FULL"}}, "seconds": {"sqlite api": 60},
        "rows": rows,
    }  # fmt: skip
    return whole | changes


def test_every_promised_row_has_a_goal_on_both_databases() -> None:
    assert PROMISED - GOALS.keys() == set()
    assert [name for name, goal in GOALS.items() if set(goal.values) != set(DATABASES)] == []


def test_the_table_of_figures_has_each_row_once() -> None:
    text = table.DOCUMENT.read_text()
    head, _, rest = text.partition(table.BEGIN)
    figures, _, tail = rest.partition(table.END)
    assert CELL.findall(figures) == list(GOALS)
    assert not CELL.findall(head + tail)


def test_the_goals_of_the_table_are_those_of_the_bench() -> None:
    figures = table.DOCUMENT.read_text().partition(table.BEGIN)[2].partition(table.END)[0]
    assert _without_figures(figures.splitlines()) == _without_figures(table.render([]))


def _without_figures(lines: list[str]) -> list[list[str]]:
    cells = [line.split(" | ") for line in lines if line.startswith("| `")]
    return [each[:3] + each[5:] for each in cells]


def test_each_row_says_what_bounds_it() -> None:
    bounds = table.DOCUMENT.read_text().partition("## What bounds each row\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(\w+_\w+)`", bounds)) == GOALS.keys()


def test_a_run_becomes_the_table_between_the_markers() -> None:
    text = table.render([_run()])
    assert text[0].startswith("Measured 2026-01-31 12:00 UTC, commit abc: 2 CPUs; load 0.1 before, 0.2 after")
    assert [line.split(" | ")[3:5] for line in text[4:]] == [
        [table._shown(goal.values["sqlite"]), f"{table._shown(worse(goal))} (not met)"] for goal in GOALS.values()
    ]
    assert [table._shown(value) for value in (1234.5, 99.94, 9.994)] == ["1,234", "99.9", "9.99"]


def test_of_several_runs_a_figure_is_the_median_with_its_range() -> None:
    runs = [_run(rows=[{"name": "list_10000_ms", "database": "sqlite", "value": value}]) for value in (30, 90, 50)]
    text = table.render([*runs, _run(rows=[])])
    assert [line[:8] for line in text[:8:2]] == ["Measured"] * 4
    found = dict(line.split(" | ")[:4:3] for line in text if line.startswith("| `"))
    assert found["| `list_10000_ms`"] == "50.0 (30.0 to 90.0; not met)"
    assert found["| `list_10000_cpu_ms`"] == table.NONE


def test_a_run_of_a_part_is_refused() -> None:
    whole = _run()
    assert table.lacks([whole]) == ""
    assert table.lacks([whole, _run(is_quick=True)])
    part = _run(rows=[each for each in whole["rows"] if each["name"] != "silent_cpu_ms"])
    assert "silent_cpu_ms on postgres" in table.lacks([part])
    assert table.lacks([part, whole]) == ""


def test_hubs_that_are_measured_start_as_anybody_would(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A fork shares memory with its parent and copies the pages that it touches: its figures are not a hub's."""
    monkeypatch.setattr(preloaded, "is_used", True)
    monkeypatch.setattr(bench, "LATEST", tmp_path / "latest.json")
    monkeypatch.setattr(bench, "_chosen", lambda *_: ())  # no database, so nothing is measured
    monkeypatch.setattr(machine, "allow_many_files", lambda: None)
    bench.main()
    assert not preloaded.is_used
