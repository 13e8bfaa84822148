"""The table of admission: every rule of docs/contract.md's section on it, under the hub's decisions, as rows."""

from __future__ import annotations

from tests.doors.admission import bindings, letting_in, names, schema, sets, taints
from tests.doors.admission.doors import DOORS, Door
from tests.doors.admission.row import Refused, Row

TABLE: list[Row] = [*taints.ROWS, *names.ROWS, *letting_in.ROWS, *sets.ROWS, *bindings.ROWS, *schema.ROWS]


def carries(row: Row, name: str, door: Door) -> bool:
    return door.fits(row) and (not row.doors or name in row.doors) and name not in row.not_doors


CASES: list[tuple[Row, str]] = [
    (row, name) for row in TABLE for name, door in DOORS.items() if carries(row, name, door)
]


def brief(cases: list[tuple[Row, str]]) -> list[tuple[Row, str]]:
    """Each row through the first door that carries it; through the others, for each id, one that is done and one refused."""
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
