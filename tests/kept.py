"""What a fixture makes in the database, kept and put back: verbs and reconcilers take a second for a fleet, rows take none.

A cache and nothing else. Each test has the rows for itself and is rolled back as ever. They are put back only where the
database holds, row by row, what it held when they were made, and only while they are young: pages and sweeps look at
their times. Otherwise the fixture runs again. Used by fixtures that most tests of a file begin with.

What a test has committed is taken away here too: see ``emptied``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from django.db import connection, transaction
from django.test import TransactionTestCase
from django.utils import timezone

P = ParamSpec("P")
T = TypeVar("T")
Rows = dict[str, frozenset[Any]]  # by table; one without rows is not there

LIFE = timedelta(seconds=10)  # a test on a busy machine is as old before it comes to its end


@dataclass(frozen=True)
class _Kept:
    made: datetime
    before: Rows
    after: Rows
    result: Any

    def fits(self, now: datetime, found: Rows) -> bool:
        return timedelta(0) <= now - self.made < LIFE and found == self.before


def kept(build: Callable[P, T]) -> Callable[P, T]:
    """Of a function that changes the database alone. Arguments are hashable, the result can be copied."""
    memory: dict[Any, _Kept] = {}

    @wraps(build)
    def again(*args: P.args, **kwargs: P.kwargs) -> T:
        key, now, found = (args, *sorted(kwargs.items())), timezone.now(), _rows()
        known = memory.get(key)
        if known is None or not known.fits(now, found):
            result = build(*args, **kwargs)
            memory[key] = _Kept(now, found, _rows(), copy.deepcopy(result))
            return result
        _put_back(known)
        made: T = copy.deepcopy(known.result)
        return made

    return again


def _put_back(known: _Kept) -> None:
    from ocmconsole.core.rbac import rule_index

    with transaction.atomic():  # in which foreign keys are looked at last
        for table in known.before.keys() | known.after.keys():
            before, rows = (state.get(table, frozenset()) for state in (known.before, known.after))
            if before <= rows:
                _insert(table, rows - before)
            else:
                _delete(table)
                _insert(table, rows)
    rule_index.index.forget()


def emptied(flush: Callable[[TransactionTestCase], None]) -> Callable[[TransactionTestCase], None]:
    """Of Django's end of a test that commits, ``flush``: rows of the tables that have any are deleted.

    Django truncates all tables and makes permissions and content types anew. Here they stay as migrations left them,
    and where a test changed one, Django does its work.
    """
    stay: Rows = {}

    def empty(case: TransactionTestCase) -> None:
        names = _filled()
        if not stay:  # the first of the process, which may have changed them
            flush(case)
            stay.update({table: frozenset(_read(table)) for table in OF_MIGRATIONS})
        elif any(frozenset(_read(table)) != rows for table, rows in stay.items()):
            stay.clear()
            flush(case)
        else:
            with transaction.atomic():  # in which foreign keys are looked at last
                for table in names - STAY:
                    _delete(table)

    return empty


# ---------------------------------------------------------------- rows as the database has them

OF_MIGRATIONS = frozenset({"auth_permission", "django_content_type"})
STAY = OF_MIGRATIONS | {"sqlite_sequence"}  # by which no id comes again


@cache
def _tables(vendor: str) -> dict[str, str]:
    """Columns by table, quoted."""
    quote, found = connection.ops.quote_name, {}
    with connection.cursor() as cursor:
        names = set(connection.introspection.table_names(cursor)) - {"django_migrations"}
        for name in names | ({"sqlite_sequence"} if vendor == "sqlite" else set()):
            cursor.execute(f"SELECT * FROM {quote(name)} LIMIT 0")  # noqa: S608
            found[name] = ", ".join(quote(column[0]) for column in cursor.description)
    return found


def _rows() -> Rows:
    return {table: frozenset(_read(table)) for table in _filled()}


def _filled() -> set[str]:
    """Tables that have rows: most have none, which one statement says of all of them."""
    with connection.cursor() as cursor:
        cursor.execute(_is_filled(connection.vendor))
        filled = cursor.fetchone()
    return {table for table, is_filled in zip(_tables(connection.vendor), filled, strict=True) if is_filled}


@cache
def _is_filled(vendor: str) -> str:
    tables = ", ".join(f"EXISTS (SELECT 1 FROM {connection.ops.quote_name(name)})" for name in _tables(vendor))  # noqa: S608
    return f"SELECT {tables}"


def _read(table: str) -> list[Any]:
    columns, name = _tables(connection.vendor)[table], connection.ops.quote_name(table)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {name} ({columns}) TO STDOUT") as copied:
                return b"".join(bytes(part) for part in copied).splitlines()
        # A plus in front: values as they are stored, not as their column's type is read.
        cursor.execute(f"SELECT +{columns.replace(', ', ', +')} FROM {name}")  # noqa: S608
        found: list[Any] = cursor.fetchall()
        return found


def _insert(table: str, rows: frozenset[Any]) -> None:
    columns, name = _tables(connection.vendor)[table], connection.ops.quote_name(table)
    if not rows:
        return
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {name} ({columns}) FROM STDIN") as copied:
                copied.write(b"".join(row + b"\n" for row in rows))
            return
        marks = ", ".join(["%s"] * len(columns.split(", ")))
        cursor.executemany(f"INSERT INTO {name} ({columns}) VALUES ({marks})", list(rows))  # noqa: S608


def _delete(table: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")  # noqa: S608
