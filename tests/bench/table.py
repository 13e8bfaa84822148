"""``python -m tests.bench.table``: puts the figures of ``var/bench/latest.json`` into ``docs/performance.md``.

Only the lines between the two markers change; where nothing was measured they hold the goals. ``--print`` writes them to standard output instead. A run that was quick
or measured a part only is refused unless ``--partly`` is given; then rows without a figure say so.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.bench.__main__ import LATEST
from tests.bench.goals import APART, DATABASES, GOALS
from tests.hub import ROOT

DOCUMENT = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- figures: python -m tests.bench.table -->", "<!-- end of figures -->"
TITLES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
NONE = "not measured"


def main() -> None:
    run = json.loads(LATEST.read_text()) if LATEST.exists() else None
    if run and "--partly" not in sys.argv and (lacking := lacks(run)):
        raise SystemExit(f"{LATEST}: {lacking}")
    lines = render(run)
    if "--print" in sys.argv:
        sys.stdout.write("\n".join(lines) + "\n")
        return
    head, _, rest = DOCUMENT.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    DOCUMENT.write_text("\n".join([f"{head}{BEGIN}", *lines, f"{END}{tail}"]))


def lacks(run: dict[str, Any]) -> str:
    """Why a run is no whole one; empty if it is."""
    if run["is_quick"]:
        return "a quick run is no measurement"
    found = {(each["name"], each["database"]) for each in run["rows"]}
    missing = [
        f"{name} on {database}"
        for name in GOALS
        if name not in APART
        for database in DATABASES
        if (name, database) not in found
    ]
    return f"without {', '.join(missing)}" if missing else ""


def render(run: dict[str, Any] | None) -> list[str]:
    """A line about the run, and a table with a line for each row; without a run goals alone."""
    found = {(each["name"], each["database"]): each for each in run["rows"]} if run else {}
    lines = [*([_about(run), ""] if run else []), *HEAD]
    for name, goal in GOALS.items():
        figures = [_figure(found.get((name, database))) for database in DATABASES]
        goals = " · ".join(dict.fromkeys(goal.shown(database) for database in DATABASES))
        cells = [f"`{name}`", f"{goal.title}: {goal.method}", goal.unit, *figures, goals, goal.compared_to]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


HEAD = [
    "| row | what, and how it is measured | unit | SQLite | PostgreSQL | goal | compared to |",
    "|---|---|---|---|---|---|---|",
]


def _figure(row: dict[str, Any] | None) -> str:
    if row is None:
        return NONE
    value = row["value"]
    shown = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return shown if row["is_met"] else f"{shown} (not met)"


def _about(run: dict[str, Any]) -> str:
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
