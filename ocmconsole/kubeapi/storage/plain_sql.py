"""SQL that is made once and run often, where the ORM takes several times as long to make it as a database to run it.

Models stay the definition of the tables: names of tables and columns, and the types of what is read, come from them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import connection

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import Manager, Model

M = TypeVar("M", bound="Model")


def row_by(manager: Manager[M], **values: str | int) -> M | None:
    """The row whose columns have these values, which together are unique; None if there is none. One query."""
    return next(iter(manager.raw(_selection(manager.model, tuple(values)), list(values.values()))), None)


@cache
def _selection(model: type[Model], columns: tuple[str, ...]) -> str:
    quote = connection.ops.quote_name
    table = quote(model._meta.db_table)  # noqa: SLF001 - Django's documented name
    return f"SELECT * FROM {table} WHERE {' AND '.join(f'{quote(each)} = %s' for each in columns)}"  # noqa: S608 - names of Django and of callers


def run(statement: str, *values: Any) -> int:
    """How many rows it has changed. Times go through ``moment``."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return int(cursor.rowcount)


def moment(time: datetime) -> Any:
    """As the database stores it."""
    return connection.ops.adapt_datetimefield_value(time)
