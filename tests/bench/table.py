"""``python -m tests.bench.table [RUN.json ...]``: puts the figures of runs into ``docs/performance.md``.

Without a name the run is ``var/bench/latest.json``, which each ``make bench`` replaces: copy what is to be kept. Of
several runs a figure is the median of those that have the row, with the least and the most of them.

Only the lines between the two markers change; where nothing was measured they hold the goals. ``--print`` writes them to
standard output instead. Runs of which one was quick, or that together lack a row, are refused unless ``--partly`` is
given; then rows without a figure say so.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.__main__ import LATEST
from tests.bench.goals import APART, DATABASES, GOALS
from tests.hub import ROOT

DOCUMENT = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- figures: python -m tests.bench.table -->", "<!-- end of figures -->"
TITLES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
NONE = "not measured"

Run = dict[str, Any]


def main() -> None:
    names = [each for each in sys.argv[1:] if not each.startswith("--")] or ([str(LATEST)] if LATEST.exists() else [])
    runs = [json.loads(Path(each).read_text()) for each in names]
    if runs and "--partly" not in sys.argv and (lacking := lacks(runs)):
        raise SystemExit(f"{', '.join(names)}: {lacking}")
    lines = render(runs)
    if "--print" in sys.argv:
        sys.stdout.write("\n".join(lines) + "\n")
        return
    head, _, rest = DOCUMENT.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    DOCUMENT.write_text("\n".join([f"{head}{BEGIN}", *lines, f"{END}{tail}"]))


def lacks(runs: Sequence[Run]) -> str:
    """Why runs are no whole ones; empty if they are."""
    if any(run["is_quick"] for run in runs):
        return "a quick run is no measurement"
    found = _values(runs)
    missing = [
        f"{name} on {database}"
        for name in GOALS
        if name not in APART
        for database in DATABASES
        if (name, database) not in found
    ]
    return f"without {', '.join(missing)}" if missing else ""


def render(runs: Sequence[Run]) -> list[str]:
    """A line about each run, and a table with a line for each row; without a run goals alone."""
    found = _values(runs)
    lines = [line for run in runs for line in (_about(run), "")] + HEAD
    for name, goal in GOALS.items():
        figures = [_figure(name, database, found.get((name, database), [])) for database in DATABASES]
        goals = " · ".join(dict.fromkeys(goal.shown(database) for database in DATABASES))
        cells = [f"`{name}`", f"{goal.title}: {goal.method}", goal.unit, *figures, goals, goal.compared_to]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _values(runs: Sequence[Run]) -> dict[tuple[str, str], list[float]]:
    """By name of the row and database, in the order of the runs."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        for row in run["rows"]:
            found[row["name"], row["database"]].append(row["value"])
    return found


HEAD = [
    "| row | what, and how it is measured | unit | SQLite | PostgreSQL | goal | compared to |",
    "|---|---|---|---|---|---|---|",
]


def _figure(name: str, database: str, values: Sequence[float]) -> str:
    if not values:
        return NONE
    middle = median(values)
    about = [f"{_shown(min(values))} to {_shown(max(values))}"] if len(values) > 1 else []
    about += [] if GOALS[name].is_met(middle, database) else ["not met"]
    return f"{_shown(middle)} ({'; '.join(about)})" if about else _shown(middle)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _about(run: Run) -> str:
    kept = [
        f"{TITLES[database]} with {', '.join(f'{name} {value}' for name, value in settings.items())}"
        for database, settings in run["durability"].items()
    ]
    speed = " and ".join(f"{each:g}" for each in run["yardstick"])
    return (
        f"Measured {run['began']}, commit {run['commit']}: {run['machine']}; load {' before, '.join(run['load'])} after; "
        f"yardstick {speed}; {'; '.join(kept)}; {sum(run['seconds'].values()):.0f} s."
    )


if __name__ == "__main__":
    main()
