"""The rows of an SQLite file into an empty database of PostgreSQL, as a hub grows from one to the other.

Both have the tables of this version. Rows travel as model instances and are written as they were read: no default, rule
or time of their own is applied. Called by ``restore`` in a process of its own, on a database that nobody sees yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core.management.color import no_style
from django.db import connection, connections, transaction
from django.db.models import sql

if TYPE_CHECKING:
    from django.db.models import Model

OLD = "old"  # the alias of the file
AT_ONCE = 100  # rows in one statement; a row may hold a MiB


def carry(file: Path) -> int:
    """How many rows there were. What the migrations have put into the new database is replaced too."""
    options: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(file), "OPTIONS": {}}
    connections.databases[OLD] = {**connections.databases["default"], **options}
    models = [each for each in apps.get_models(include_auto_created=True) if _has_table(each)]
    quoted = connection.ops.quote_name
    tables = ", ".join(quoted(each._meta.db_table) for each in models)  # noqa: SLF001 - Django's documented API
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"TRUNCATE {tables}")
            count = sum(_carry_table(each) for each in models)  # foreign keys are checked at the end
            for statement in connection.ops.sequence_reset_sql(no_style(), models):
                cursor.execute(statement)
    finally:
        connections[OLD].close()
    return count


def _has_table(model: type[Model]) -> bool:
    options = model._meta  # noqa: SLF001 - Django's documented API
    return options.managed and not options.proxy


def _carry_table(model: type[Model]) -> int:
    count = 0
    fields = model._meta.local_concrete_fields  # noqa: SLF001 - Django's documented API
    rows = model._base_manager.using(OLD).order_by("pk")  # noqa: SLF001 - as above
    for some in _parts(rows.iterator(chunk_size=AT_ONCE)):
        query = sql.InsertQuery(model)
        query.insert_values(fields, some, raw=True)
        query.get_compiler("default").execute_sql()
        count += len(some)
    return count


def _parts(rows: Iterable[Model]) -> Iterator[list[Model]]:
    left = iter(rows)
    while some := list(islice(left, AT_ONCE)):
        yield some
