"""SQL that is made once and run often, where the ORM takes several times as long to make it as a database to run it.

Models stay the definition of the tables: names of tables and columns, and the types of what is read, come from them.
SQLite runs a statement that was prepared once for each of many rows. On PostgreSQL, where each is a message, a plan
and an answer, they travel as one JSON text, of which the database makes the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from django.db import connection, transaction
from django.db.models import (
    AutoField,
    BooleanField,
    CharField,
    DateTimeField,
    ForeignKey,
    IntegerField,
    JSONField,
    TextField,
)
from django.db.models.expressions import Col

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import Field, Manager, Model

PLAIN_TYPES: dict[Any, type] = {BooleanField: bool, CharField: str, IntegerField: int, TextField: str}
# Of columns that JSON can carry to PostgreSQL as they are in Python.
JSON_TYPES = (*PLAIN_TYPES, DateTimeField, JSONField, ForeignKey)
LENGTH = re.compile(r"\(\d+\)")  # of a type: a cast to it would cut without a word
MOST_VALUES = 1_000  # of a list in one statement
M = TypeVar("M", bound="Model")
Convert = Callable[[Any, Col, Any], Any]


def row_by(manager: Manager[M], **values: str | int) -> M | None:
    """The row whose columns have these values, which together are unique; None if there is none. One query."""
    found = _found(manager.model, _selection_by(manager.model, tuple(values)), tuple(values.values()))
    return found[0] if found else None


def rows_by(manager: Manager[M], **values: str | int) -> list[M]:
    """All rows whose columns have these values, in the order of their keys. One query."""
    statement = f"{_selection_by(manager.model, tuple(values))} ORDER BY {_key(manager.model)}"
    return _found(manager.model, statement, tuple(values.values()))


def rows_where(manager: Manager[M], condition: str, *values: Any) -> list[M]:
    """All rows of a condition in SQL, which may have an order and a limit. One query. Times go through ``moment``."""
    return _found(manager.model, f"{_selection(manager.model)} WHERE {condition}", values)


def rows_at(manager: Manager[M], column: str, values: Sequence[str | int]) -> list[M]:
    """All rows whose column has one of these values, in no order. One query for ``MOST_VALUES`` of them."""
    found = []
    for start in range(0, len(values), MOST_VALUES):
        some = values[start : start + MOST_VALUES]
        found += rows_where(manager, f"{_quoted(column)} IN ({marks(some)})", *some)
    return found


def marks(values: Sequence[Any]) -> str:
    """A parameter for each value, for ``IN``."""
    return ", ".join(["%s"] * len(values))


def _found(model: type[M], statement: str, values: Sequence[Any]) -> list[M]:
    names, converters = _reading(model)
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        found = [list(row) for row in cursor.fetchall()]
    for row in found:
        for index, column, convert in converters:
            row[index] = convert(row[index], column, connection)
    return [model.from_db(connection.alias, names, row) for row in found]


@cache
def _reading(model: type[Model]) -> tuple[list[str], list[tuple[int, Col, Convert]]]:
    """Attributes of a row in the order of its columns, and what makes Python's values of the database's."""
    columns = [Col(model._meta.db_table, field) for field in _fields(model)]  # noqa: SLF001 - Django's documented name
    converters = [
        (index, column, convert)
        for index, column in enumerate(columns)
        for convert in (*connection.ops.get_db_converters(column), *column.target.get_db_converters(connection))
    ]
    return [each.attname for each in _fields(model)], converters


def is_there(model: type[Model], **values: str | int | bool) -> bool:
    """Whether any row has these values; without values, whether there is any row. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_existence(model, tuple(values)), list(values.values()))
        return cursor.fetchone() is not None


def count(model: type[Model], **values: str | int | bool) -> int:
    """How many rows have these values. One query."""
    statement = f"SELECT COUNT(*) FROM {_table(model)} WHERE {_equal(tuple(values))}"  # noqa: S608 - names of Django and of callers
    return int(rows(statement, *values.values())[0][0])


@cache
def _existence(model: type[Model], columns: tuple[str, ...]) -> str:
    where = f" WHERE {_equal(columns)}" if columns else ""
    return f"SELECT 1 FROM {_table(model)}{where} LIMIT 1"  # noqa: S608 - names of Django and of callers


@cache
def _selection_by(model: type[Model], columns: tuple[str, ...]) -> str:
    return f"{_selection(model)} WHERE {_equal(columns)}"


@cache
def _selection(model: type[Model]) -> str:
    read = ", ".join(_quoted(str(each.column)) for each in _fields(model))
    return f"SELECT {read} FROM {_table(model)}"  # noqa: S608 - names of Django


def insert(rows: Sequence[Model]) -> None:
    """Rows of one model, whose columns have plain values. A number that the database gives is not read back.

    Raises IntegrityError.
    """
    if not rows:
        return
    model = type(rows[0])
    statement, fields = _insertion(model)
    if _go_as_json(rows):
        run(_insertion_of_json(model), _json(rows, fields))
    else:
        run_each(statement, _values(rows, fields))


def _go_as_json(rows: Sequence[Model]) -> bool:
    return len(rows) > 1 and connection.vendor == "postgresql" and _fits_json(type(rows[0]))


@cache
def _fits_json(model: type[Model]) -> bool:
    return all(isinstance(each, JSON_TYPES) for each in _fields(model))


def _json(rows: Sequence[Model], fields: Sequence[Field[Any, Any]], more: Sequence[dict[str, Any]] = ()) -> str:
    """A list of objects by column, each with ``more``."""
    names = [(str(each.column), each.attname) for each in fields]
    found = [{column: getattr(row, name) for column, name in names} for row in rows]
    for each, added in zip(found, more, strict=False):
        each.update(added)
    return orjson.dumps(found).decode()


def _record(fields: Sequence[tuple[str, Field[Any, Any]]]) -> str:
    """What PostgreSQL makes of the JSON: columns by name with the types of fields."""
    types = ", ".join(f"{_quoted(name)} {LENGTH.sub('', str(each.db_type(connection)))}" for name, each in fields)
    return f"json_to_recordset(%s::json) AS given({types})"


@cache
def _insertion_of_json(model: type[Model]) -> str:
    _, fields = _insertion(model)
    columns = ", ".join(_quoted(str(each.column)) for each in fields)
    given = _record([(str(each.column), each) for each in fields])
    return f"INSERT INTO {_table(model)} ({columns}) SELECT {columns} FROM {given}"  # noqa: S608 - names of Django


def _values(rows: Sequence[Model], fields: Sequence[Field[Any, Any]]) -> list[list[Any]]:
    """As the database stores them. Plain values of plain columns are that already; rows of a commit share its time."""
    columns = [(each.attname, each, _plain_type(each)) for each in fields]
    times: dict[datetime, Any] = {}

    def prepared(field: Field[Any, Any], value: Any) -> Any:
        if type(value) is not datetime or not isinstance(field, DateTimeField):
            return field.get_db_prep_save(value, connection)
        if value not in times:
            times[value] = field.get_db_prep_save(value, connection)
        return times[value]

    return [
        [
            value if type(value := getattr(row, name)) is plain or value is None else prepared(field, value)
            for name, field, plain in columns
        ]
        for row in rows
    ]


def _plain_type(field: Field[Any, Any]) -> type | None:
    return next((plain for kinds, plain in PLAIN_TYPES.items() if isinstance(field, kinds)), None)


@cache
def _insertion(model: type[Model]) -> tuple[str, list[Field[Any, Any]]]:
    fields = [each for each in _fields(model) if not isinstance(each, AutoField)]
    columns = ", ".join(_quoted(str(each.column)) for each in fields)
    marks = ", ".join("%s" for _ in fields)
    return f"INSERT INTO {_table(model)} ({columns}) VALUES ({marks})", fields  # noqa: S608 - names of Django


def put(rows: Sequence[Model]) -> None:
    """As ``insert``; one whose key is its own, not the database's, takes the place of a row of that key.

    What they refer to has been saved.
    """
    if not rows:
        return
    for each in _fields(type(rows[0])):
        if isinstance(each, ForeignKey):
            _take_number(each, rows)
    key = type(rows[0])._meta.pk  # noqa: SLF001 - Django's documented name
    if isinstance(key, AutoField):
        insert(rows)
        return
    model = type(rows[0])
    statement, fields = _insertion(model)
    if _go_as_json(rows) and len({row.pk for row in rows}) == len(rows):  # one statement writes no row twice
        run(f"{_insertion_of_json(model)} {_over_same_key(model)}", _json(rows, fields))
    else:
        run_each(f"{statement} {_over_same_key(model)}", _values(rows, fields))


def _take_number(reference: ForeignKey[Any, Any], rows: Sequence[Model]) -> None:
    """Of rows that were made before what they refer to was saved."""
    for row in rows:
        if getattr(row, reference.attname) is None and reference.is_cached(row):
            setattr(row, reference.attname, getattr(row, reference.name).pk)


@cache
def _over_same_key(model: type[Model]) -> str:
    key = _key(model)
    names = [_quoted(str(each.column)) for each in _fields(model)]
    return f"ON CONFLICT ({key}) DO UPDATE SET " + ", ".join(
        f"{name} = excluded.{name}" for name in names if name != key
    )


def replace(rows: Sequence[Model], columns: tuple[str, ...], present: Sequence[Sequence[Any]]) -> int:
    """Write all columns of rows of one model, each over the row whose columns have its present values.

    Returns how many were there.
    """
    model = type(rows[0])
    statement, fields = _replacement(model, columns)
    if _go_as_json(rows):
        there = [{f"present_{name}": value for name, value in zip(columns, each, strict=True)} for each in present]
        return run(_replacement_by_json(model, columns), _json(rows, fields, there))
    return run_each(statement, [[*row, *there] for row, there in zip(_values(rows, fields), present, strict=True)])


def delete(model: type[Model], columns: tuple[str, ...], present: Sequence[Sequence[Any]]) -> None:
    """Rows whose columns have one of these lists of values. What hangs on them is not looked at."""
    if present:
        run_each(f"DELETE FROM {_table(model)} WHERE {_equal(columns)}", present)  # noqa: S608 - names of Django and of callers


@cache
def _replacement(model: type[Model], columns: tuple[str, ...]) -> tuple[str, list[Field[Any, Any]]]:
    fields = _fields(model)
    values = ", ".join(f"{_quoted(str(each.column))} = %s" for each in fields)
    return f"UPDATE {_table(model)} SET {values} WHERE {_equal(columns)}", fields  # noqa: S608 - names of Django and of callers


@cache
def _replacement_by_json(model: type[Model], columns: tuple[str, ...]) -> str:
    table, by_column = _table(model), {str(each.column): each for each in _fields(model)}
    sets = ", ".join(f"{_quoted(name)} = given.{_quoted(name)}" for name in by_column)
    given = _record([*by_column.items(), *((f"present_{name}", by_column[name]) for name in columns)])
    there = " AND ".join(f"{table}.{_quoted(name)} = given.{_quoted(f'present_{name}')}" for name in columns)
    return f"UPDATE {table} SET {sets} FROM {given} WHERE {there}"  # noqa: S608 - names of Django and of callers


def run(statement: str, *values: Any) -> int:
    """How many rows it has changed. Times go through ``moment``."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return int(cursor.rowcount)


def rows(statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """What it returns, as the database gives it."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def run_each(statement: str, values: Sequence[Sequence[Any]]) -> int:
    """Once for each of the rows of values, as ``run``, in one transaction; how many rows all have changed."""
    if len(values) == 1:
        return run(statement, *values[0])
    with transaction.atomic(savepoint=False), connection.cursor() as cursor:
        cursor.executemany(statement, values)
        return int(cursor.rowcount)


def moment(time: datetime) -> Any:
    """As the database stores it."""
    return connection.ops.adapt_datetimefield_value(time)


def _quoted(name: str) -> str:
    quoted: str = connection.ops.quote_name(name)
    return quoted


def _table(model: type[Model]) -> str:
    return _quoted(model._meta.db_table)  # noqa: SLF001 - Django's documented name


def _key(model: type[Model]) -> str:
    return _quoted(str(model._meta.pk.column))  # noqa: SLF001 - Django's documented name


def _fields(model: type[Model]) -> list[Field[Any, Any]]:
    return list(model._meta.concrete_fields)  # noqa: SLF001 - Django's documented name


def _equal(columns: tuple[str, ...]) -> str:
    return " AND ".join(f"{_quoted(each)} = %s" for each in columns)
