"""Rows of tables as JSON text, kept in memory while their object does not change: what ``kubectl get`` asks for.

A row is kept by the version that it is served in and by its object's uid, with the resourceVersion of what it was made
of: no other content ever has both (D22). Cells that are ages are left open in it, and filled in at each answer. Objects
of a confidential kind are never kept. Called by ``responses``.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson

from ocmconsole.kubeapi.formats import tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocmconsole.kubeapi.kinds import Served
    from ocmconsole.kubeapi.storage.reader import TextPage

Key = tuple[str, str]  # API version, uid
_ANY_TIME = datetime.min  # noqa: DTZ901 - for cells that do not read it
MOST_BYTES = 48 * 2**20  # of text a process, some 30,000 clusters; what does not fit is made anew for each answer


@dataclass(frozen=True, slots=True)
class TableRow:
    """Its text as parts: between two of them stands the age of what ``ages`` has at that place."""

    resource_version: int
    parts: tuple[str, ...]
    ages: tuple[Any, ...]

    def text(self, now: datetime) -> str:
        written = [self.parts[0]]
        for value, part in zip(self.ages, self.parts[1:], strict=True):
            written += (_text(tables.date_cell(value, now)), part)
        return "".join(written)

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))


@dataclass
class KeptRows:
    rows: dict[Key, TableRow] = field(default_factory=dict)
    size: int = 0  # bytes
    lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, key: Key, row: TableRow) -> None:
        """Where there is no room for a further one, an object's first row is not kept."""
        with self.lock:
            older = self.rows.get(key)
            size = self.size + row.size - (older.size if older else 0)
            if size <= MOST_BYTES:
                self.rows[key], self.size = row, size
            elif older:
                del self.rows[key]
                self.size -= older.size


_kept = KeptRows()


def rows_of(served: Served, page: TextPage, now: datetime) -> Iterator[str]:
    """The text of each row of a page, with its object's metadata."""
    api_version, cells = served.version.api_version, tables.cells_of(served)
    for text, (uid, resource_version) in zip(page.texts, page.versions, strict=True):
        key = (api_version, uid)
        row = _kept.rows.get(key)
        if row is None or row.resource_version != resource_version:
            row = _made(served, cells, text, resource_version)
            if not served.kind.confidential:
                _kept.keep(key, row)
        yield row.text(now)


def _made(served: Served, cells: list[tables.ColumnCell], text: str, resource_version: int) -> TableRow:
    doc = served.version.from_storage(orjson.loads(text))
    parts, ages, written = list[str](), list[Any](), '{"cells":['
    for index, cell in enumerate(cells):
        written += "," if index else ""
        value = cell.read(doc)
        if cell.is_age and value is not None:
            parts.append(written)
            ages.append(value)
            written = ""
        else:
            written += "null" if value is None else _text(cell.show(value, _ANY_TIME))
    return TableRow(resource_version, (*parts, f'{written}],"object":{_text(tables.partial(doc))}}}'), tuple(ages))


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()
