"""Tables: the rows and columns that kubectl prints (W9).

Cells are final text; ages are computed here. Columns of custom kinds are JSONPaths as in a CRD, compiled once per
text; built-in kinds give functions. Missing values are blank cells, never errors. Called by ``responses``,
``table_rows`` and ``watch``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import orjson

from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.kinds import PrinterColumn, Served

Step = Callable[[Any], Any]  # the first result from here on, or ``_MISSING``

_NAME = PrinterColumn(
    "Name", "string", ".metadata.name", "name", "Name of the object, unique among its kind in its namespace."
)
_AGE = PrinterColumn("Age", "date", ".metadata.creationTimestamp", "", "Time since the object was created.")

_TOKEN = re.compile(
    r"""
      (?P<every>\[\*\]|\.\*(?=[.\[]|$))
    | \.(?P<field>(?:[^.\[\]\\]|\\.)+)
    | \[(?P<quote>['"])(?P<key>.*?)(?P=quote)\]
    | \[(?P<index>-?\d+)\]
    | \[\?\(@(?P<path>[^=!<>]*?)\s*==\s*(?P<mark>['"])(?P<wanted>.*?)(?P=mark)\s*\)\]
    """,
    re.VERBOSE,
)


def table(
    served: Served,
    docs: list[Doc],
    *,
    include_object: str,
    now: datetime,
    metadata: Doc,
    with_columns: bool = True,
) -> Doc:
    """A ``Table`` of the documents.

    ``include_object`` is None, Metadata or Object; columns are left out of all but the first event of a watch.
    """
    cells = cells_of(served)
    rows = [
        {"cells": [cell.of(doc, now) for cell in cells], "object": _row_object(doc, include_object)} for doc in docs
    ]
    return head(served, metadata, with_columns=with_columns) | {"rows": rows}


def head(served: Served, metadata: Doc, *, with_columns: bool = True) -> Doc:
    """A ``Table`` without its rows, which come last."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_definition(column) for column in columns_of(served)] if with_columns else None,
    }


def bookmark(metadata: Doc) -> Doc:
    """A bookmark in a watch of tables: one row without cells whose object carries the metadata (W177)."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": metadata["resourceVersion"]},
        "columnDefinitions": None,
        "rows": [{"cells": [], "object": partial({"metadata": metadata})}],
    }


def columns_of(served: Served) -> tuple[PrinterColumn, ...]:
    """The name first, unless the kind places it itself; a kind without columns shows its age."""
    columns = served.version.columns or (_AGE,)
    return columns if any(column.format == "name" for column in columns) else (_NAME, *columns)


def partial(doc: Doc) -> Doc:
    """The metadata-only form of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": doc.get("metadata", {}),
    }


def _row_object(doc: Doc, include_object: str) -> Doc | None:
    if include_object == "None":
        return None
    return doc if include_object == "Object" else partial(doc)


def _definition(column: PrinterColumn) -> Doc:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


# Cells


@dataclass(frozen=True, slots=True)
class ColumnCell:
    """What a column reads from a document, and how it shows that. Ages change with time alone, other cells do not."""

    read: Callable[[Doc], Any]
    show: Callable[[Any, datetime], Any]
    is_age: bool

    def of(self, doc: Doc, now: datetime) -> Any:
        return None if (value := self.read(doc)) is None else self.show(value, now)


def cells_of(served: Served) -> list[ColumnCell]:
    return [_cell(column) for column in columns_of(served)]


def _cell(column: PrinterColumn) -> ColumnCell:
    shown = column.type if column.age else "string"
    read = column.value if callable(column.value) else _first(column.value)
    return ColumnCell(read, _SHOWN[shown], is_age=shown == "date")


def _text_cell(value: Any, _now: datetime) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:
        return None


def _integer_cell(value: Any, _now: datetime) -> int | None:
    return int(value) if _is_number(value) else None


def _number_cell(value: Any, _now: datetime) -> float | None:
    return value if _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _boolean_cell(value: Any, _now: datetime) -> bool | None:
    return value if isinstance(value, bool) else None


def date_cell(value: Any, now: datetime) -> str | None:
    """The age of a time as RFC 3339 writes it; None of what is no text."""
    if not isinstance(value, str):
        return None
    try:
        then = datetime.fromisoformat(value)
    except ValueError:
        return "<invalid>"
    return age(then if then.tzinfo else then.replace(tzinfo=UTC), now)


_SHOWN: dict[str, Callable[[Any, datetime], Any]] = {
    "string": _text_cell,
    "integer": _integer_cell,
    "number": _number_cell,
    "boolean": _boolean_cell,
    "date": date_cell,
}


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400  # seconds
# Below this many seconds: the unit shown, and the smaller one shown beside it when it is not zero, as kubectl's ages.
_AGES = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def age(then: datetime | None, now: datetime) -> str:
    """Time gone by, in two or three figures as kubectl writes it; the year 1 is how Go writes no time."""
    if then is None or then.year == 1:
        return "<unknown>"
    seconds = int((now - then).total_seconds())
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    for limit, unit, letter, small, small_letter in _AGES:
        if seconds < limit:
            rest = seconds % unit // small if small else 0
            return f"{seconds // unit}{letter}" + (f"{rest}{small_letter}" if rest else "")
    return f"{seconds // _YEAR}y"


# JSONPath

_MISSING = object()  # no result: a path may lead to null


def _first(path: str) -> Callable[[Doc], Any]:
    """The first result of a path, which is all a cell shows."""
    find = compile_path(path)
    return lambda doc: None if (found := find(doc)) is _MISSING else found


@cache
def compile_path(path: str) -> Step:
    """The first result of a CRD column's JSONPath: fields, indices, ``[*]``, ``[?(@.x=="y")]``. Raises ValueError."""
    at, parts = 0, list[re.Match[str] | list[str]]()  # fields that follow each other are one part
    while at < len(path):
        token = _TOKEN.match(path, at)
        if token is None:
            msg = f"cannot read the path {path!r} from {path[at:]!r}"
            raise ValueError(msg)
        at = token.end()
        name = re.sub(r"\\(.)", r"\1", token["field"]) if token["field"] else token["key"]
        if name is None:
            parts.append(token)
        elif parts and isinstance(parts[-1], list):
            parts[-1].append(name)
        else:
            parts.append([name])
    found: Step = _itself
    for part in reversed(parts):
        found = _fields(part, found) if isinstance(part, list) else _step(part, found)
    return found


def _step(token: re.Match[str], rest: Step) -> Step:
    if token["every"]:
        return _every(rest)
    if token["index"]:
        return _element(int(token["index"]), rest)
    return _matching(compile_path(token["path"]), token["wanted"], rest)


def _itself(value: Any) -> Any:
    return value


def _fields(names: list[str], rest: Step) -> Step:
    def step(value: Any) -> Any:
        for name in names:
            if not isinstance(value, dict) or name not in value:
                return _MISSING
            value = value[name]
        return rest(value)

    return step


def _element(index: int, rest: Step) -> Step:
    def step(value: Any) -> Any:
        return rest(value[index]) if isinstance(value, list) and -len(value) <= index < len(value) else _MISSING

    return step


def _every(rest: Step) -> Step:
    def step(value: Any) -> Any:
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return next((found for item in items if (found := rest(item)) is not _MISSING), _MISSING)

    return step


def _matching(read: Step, wanted: str, rest: Step) -> Step:
    def step(value: Any) -> Any:
        if isinstance(value, list):
            for item in value:
                if read(item) == wanted and (found := rest(item)) is not _MISSING:
                    return found
        return _MISSING

    return step
