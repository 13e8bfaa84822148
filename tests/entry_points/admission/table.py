"""The table of admission: every rule of docs/contract.md's section on it, under the hub's decisions, as rows."""

from __future__ import annotations

from tests.entry_points.admission import bindings, letting_in, names, placements, profiles, schema, sets, taints
from tests.entry_points.admission.row import Refused, Row
from tests.entry_points.admission.ways import WAYS, Way

TABLE: list[Row] = [
    *taints.ROWS,
    *names.ROWS,
    *letting_in.ROWS,
    *sets.ROWS,
    *bindings.ROWS,
    *placements.ROWS,
    *profiles.ROWS,
    *schema.ROWS,
]


def carries(row: Row, name: str, way: Way) -> bool:
    return way.fits(row) and (not row.ways or name in row.ways) and name not in row.not_ways


CASES: list[tuple[Row, str]] = [(row, name) for row in TABLE for name, way in WAYS.items() if carries(row, name, way)]


def brief(cases: list[tuple[Row, str]]) -> list[tuple[Row, str]]:
    """Each row through the first way that carries it; through the others, for each id, one that is done and one refused."""
    chosen: list[tuple[Row, str]] = []
    rows: set[str] = set()
    shown: set[tuple[str, str, bool]] = set()
    for row, name in cases:
        shows = {(name, each, isinstance(row.outcome, Refused)) for each in row.ids}
        if row.title not in rows or not shows <= shown:
            chosen.append((row, name))
        rows.add(row.title)
        shown |= shows
    return chosen
