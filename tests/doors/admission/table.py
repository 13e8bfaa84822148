"""The table of admission: every rule of docs/contract.md's section on it, under the hub's decisions, as rows."""

from __future__ import annotations

from tests.doors.admission import bindings, letting_in, names, schema, sets, taints
from tests.doors.admission.doors import DOORS, Door
from tests.doors.admission.row import Row

TABLE: list[Row] = [*taints.ROWS, *names.ROWS, *letting_in.ROWS, *sets.ROWS, *bindings.ROWS, *schema.ROWS]


def carries(row: Row, name: str, door: Door) -> bool:
    return door.fits(row) and (not row.doors or name in row.doors) and name not in row.not_doors


CASES: list[tuple[Row, str]] = [
    (row, name) for row in TABLE for name, door in DOORS.items() if carries(row, name, door)
]
