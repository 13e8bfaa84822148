"""The rows of a hub from one kind of database into the other: of an SQLite file, or of a dump of PostgreSQL.

Both sides have the tables of this version. Rows travel as model instances and are written as they were read: no
default, rule or time of their own is applied. Called by ``restore`` in a process of its own, on a database that nobody
sees yet.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from django.apps import apps
from django.core.management.color import no_style
from django.db import connection, connections, transaction
from django.db.models import BinaryField, JSONField, sql

from ocmconsole.backup.encryption import BackupError

if TYPE_CHECKING:
    from django.db.models import Field, Model

OLD = "old"  # the alias of the SQLite file
AT_ONCE = 100  # rows in one statement; a row may hold a MiB
COPY = re.compile(r'COPY (?:public\.)?"?(\w+)"? \((.+)\) FROM stdin;')
END, NULL = "\\.\n", "\\N"
ESCAPED = re.compile(r"\\(.)", re.DOTALL)
ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}  # of COPY's text; others mean themselves


def carry(source: Path) -> None:
    """Replace every row of the database, also what migrations have put there. Raises BackupError."""
    models = [each for each in apps.get_models(include_auto_created=True) if _has_table(each)]
    tables = [connection.ops.quote_name(each._meta.db_table) for each in models]  # noqa: SLF001 - Django's documented API
    rows = _of_dump(source, models) if connection.vendor == "sqlite" else _of_file(source, models)
    with transaction.atomic(), connection.cursor() as cursor:  # foreign keys are checked at its end
        if connection.vendor == "sqlite":
            for table in tables:
                cursor.execute(f"DELETE FROM {table}")  # noqa: S608 - Django's own name
        else:
            cursor.execute(f"TRUNCATE {', '.join(tables)}")
        for model, some in rows:
            query = sql.InsertQuery(model)
            query.insert_values(model._meta.local_concrete_fields, some, raw=True)  # noqa: SLF001 - as above
            query.get_compiler("default").execute_sql()
        for statement in connection.ops.sequence_reset_sql(no_style(), models):
            cursor.execute(statement)


def _has_table(model: type[Model]) -> bool:
    options = model._meta  # noqa: SLF001 - Django's documented API
    return options.managed and not options.proxy


Rows = Iterator[tuple["type[Model]", "list[Model]"]]


def _of_file(file: Path, models: Iterable[type[Model]]) -> Rows:
    options: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(file), "OPTIONS": {}}
    connections.databases[OLD] = {**connections.databases["default"], **options}
    try:
        for model in models:
            rows = model._base_manager.using(OLD).order_by("pk")  # noqa: SLF001 - Django's documented API
            for some in _parts(rows.iterator(chunk_size=AT_ONCE)):
                yield model, some
    finally:
        connections[OLD].close()


def _of_dump(dump: Path, models: Iterable[type[Model]]) -> Rows:
    """As ``pg_restore`` writes them; it needs no server for that."""
    by_table = {each._meta.db_table: each for each in models}  # noqa: SLF001 - Django's documented API
    command = ["pg_restore", "--data-only", "--file=-", str(dump)]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:  # noqa: S603 - its arguments are ours
            assert process.stdout is not None
            for line in process.stdout:
                if (found := COPY.fullmatch(line.rstrip("\n"))) is not None:
                    yield from _of_table(process.stdout, by_table.get(found[1]), found[2].split(", "))
    except FileNotFoundError as error:
        raise BackupError("the program pg_restore is not on the path: install PostgreSQL's client programs") from error
    if process.returncode:
        raise BackupError("pg_restore cannot read the backup: use another copy of it, or an older one")


def _of_table(dump: IO[str], model: type[Model] | None, columns: Iterable[str]) -> Rows:
    """Up to the end of what one COPY holds; nothing of a table without a model."""
    lines = _lines(dump)
    if model is None:
        for _ in lines:
            pass
        return
    known = {field.column: field for field in model._meta.local_concrete_fields}  # noqa: SLF001 - Django's documented API
    fields = [known[name.strip('"')] for name in columns]
    for some in _parts(_instance(model, fields, line) for line in lines):
        yield model, some


def _lines(dump: IO[str]) -> Iterator[str]:
    while (line := dump.readline()) not in {END, ""}:
        yield line.removesuffix("\n")


def _instance(model: type[Model], fields: Iterable[Field[Any, Any]], line: str) -> Model:
    values = zip(fields, line.split("\t"), strict=True)
    return model(**{field.attname: _value(field, text) for field, text in values})


def _value(field: Field[Any, Any], text: str) -> Any:
    if text == NULL:
        return None
    plain = ESCAPED.sub(lambda found: ESCAPES.get(found[1], found[1]), text)
    if isinstance(field, JSONField):
        return json.loads(plain)
    if isinstance(field, BinaryField):
        return bytes.fromhex(plain.removeprefix("\\x"))
    return field.to_python(plain)


def _parts(rows: Iterable[Model]) -> Iterator[list[Model]]:
    left = iter(rows)
    while some := list(islice(left, AT_ONCE)):
        yield some
