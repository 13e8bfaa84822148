"""A consistent copy of the hub's database while the hub runs, and the way back into an empty one.

SQLite: its online backup, a file. PostgreSQL: ``pg_dump`` and ``pg_restore`` in the custom format, of one snapshot.
"""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from django.db import Error as DatabaseFailure
from django.db import connection, transaction
from psycopg import sql

from ocmconsole.backup.encryption import BackupError
from ocmconsole.environment.installation import PROGRAM
from ocmconsole.kubeapi.health import outages

SQLITE = "sqlite"
POSTGRESQL = "postgresql"
# Name of the copy in the archive, by kind of database.
FILES = {SQLITE: "database.sqlite3", POSTGRESQL: "database.pgdump"}
HUB_FILE = "hub.sqlite3"
RESTORING = int.from_bytes(b"ocmr")  # an advisory lock in the database that every server has
FACTS = "SELECT COALESCE((SELECT value FROM kubeapi_revision WHERE id = 1), 1)"
MIGRATIONS = "SELECT app || '.' || name FROM django_migrations ORDER BY app, name"
LATEST = "SELECT COALESCE((SELECT uid FROM kubeapi_incarnation ORDER BY number DESC LIMIT 1), '')"


@dataclass(frozen=True)
class CopyFacts:
    """What a copy says of itself."""

    revision: int
    migrations: tuple[str, ...]
    incarnation: str


def copy(target: Path) -> CopyFacts:
    """Write a copy of the database as of one moment; writers go on meanwhile. Raises BackupError."""
    if connection.vendor == SQLITE:
        return _copy_sqlite(target)
    return _dump_postgresql(target)


def holds_hub() -> bool:
    """Whether a hub has written to the database that the settings name, or it is damaged. To ask makes no file."""
    if connection.vendor == SQLITE and not Path(str(connection.settings_dict["NAME"])).exists():
        return False
    try:
        if "kubeapi_revision" not in connection.introspection.table_names():
            return False
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM kubeapi_revision")
            return bool(cursor.fetchone()[0])
    except DatabaseFailure as error:
        if outages.cause_of(error) == outages.DAMAGED:
            return True
        raise


def take_place(new: str, aside: str) -> None:
    """Give a database of the PostgreSQL server the name of the hub's, which is kept as ``aside``: both or neither."""
    name = str(connection.settings_dict["NAME"])
    rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
    try:
        with psycopg.connect(**_server()) as server:
            server.execute(rename.format(sql.Identifier(name), sql.Identifier(aside)))
            server.execute(rename.format(sql.Identifier(new), sql.Identifier(name)))
    except psycopg.Error as error:
        said = " ".join(str(error).split())
        raise BackupError(f"the database {name} cannot be replaced ({said}): stop everything that uses it") from error


def size() -> int:
    """Bytes that the database takes, about."""
    with connection.cursor() as cursor:
        if connection.vendor == POSTGRESQL:
            cursor.execute("SELECT pg_database_size(current_database())")
        else:
            cursor.execute("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
        return int(cursor.fetchone()[0])


def _copy_sqlite(target: Path) -> CopyFacts:
    source = Path(str(connection.settings_dict["NAME"]))
    try:
        with (
            closing(sqlite3.connect(f"file:{source}?mode=rw", uri=True)) as hub,
            closing(sqlite3.connect(target)) as made,
        ):
            hub.backup(made)
            made.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
            return facts_of(made)
    except sqlite3.Error as error:
        raise BackupError(f"the database {source} cannot be copied ({error}): run {PROGRAM} doctor") from error


def facts_of(database: sqlite3.Connection) -> CopyFacts:
    def column(statement: str) -> list[Any]:
        return [row[0] for row in database.execute(statement)]

    return CopyFacts(int(column(FACTS)[0]), tuple(column(MIGRATIONS)), str(column(LATEST)[0]))


def _dump_postgresql(target: Path) -> CopyFacts:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute("SET LOCAL statement_timeout = 0")
        cursor.execute("SELECT pg_export_snapshot()")
        snapshot = cursor.fetchone()[0]
        facts = []
        for statement in (FACTS, MIGRATIONS, LATEST):
            cursor.execute(statement)
            facts.append([row[0] for row in cursor.fetchall()])
        options = ["--format=custom", "--no-owner", "--no-privileges", "--compress=0"]  # the archive is compressed
        name = str(connection.settings_dict["NAME"])
        _program("pg_dump", name, *options, f"--snapshot={snapshot}", f"--file={target}")
    return CopyFacts(int(facts[0][0]), tuple(facts[1]), str(facts[2][0]))


def _program(name: str, database: str, *options: str) -> None:
    """Run a program of PostgreSQL on a database of the hub's server; the password does not show in its arguments."""
    settings = connection.settings_dict
    places = {"PGHOST": "HOST", "PGPORT": "PORT", "PGUSER": "USER", "PGPASSWORD": "PASSWORD"}
    environment = os.environ | {variable: str(settings[key]) for variable, key in places.items() if settings.get(key)}
    for option in ("sslmode", "sslrootcert", "sslcert", "sslkey"):
        if value := settings.get("OPTIONS", {}).get(option):
            environment[f"PG{option.upper()}"] = str(value)
    environment["PGDATABASE"] = database
    place = ["--dbname", database] if name == "pg_restore" else []
    try:
        done = subprocess.run(  # noqa: S603 - its arguments are ours
            [name, *place, *options], env=environment, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise BackupError(
            f"the program {name} is not on the path: install the PostgreSQL client programs of the server's version"
        ) from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        said = next((line for line in lines if "error: " in line), lines[-1])
        raise BackupError(f"{name} failed ({said}): see to that and try again")


@contextmanager
def scratch(name: str) -> Iterator[str]:
    """An empty database beside the hub's on the same PostgreSQL server, dropped afterwards; its name."""
    with psycopg.connect(**_server(), autocommit=True) as server:
        found = sql.Identifier(name)
        try:
            server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(found))
            server.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(found))
        except psycopg.Error as error:
            raise BackupError(
                f"no database {name} can be made on the PostgreSQL server ({error}): give its user the right CREATEDB"
            ) from error
        try:
            yield name
        finally:
            server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(found))


@contextmanager
def restored_alone() -> Iterator[None]:
    """No other restore, from whatever home, makes a hub for this PostgreSQL database meanwhile. Raises BackupError."""
    name = str(connection.settings_dict["NAME"])
    with psycopg.connect(**_server(), autocommit=True) as server:  # the lock ends with its session
        found = server.execute("SELECT pg_try_advisory_lock(%s, hashtext(%s))", [RESTORING, name]).fetchone()
        if found != (True,):
            raise BackupError(f"another restore into the database {name} is under way: wait until it has ended")
        yield


def drop_left(purpose: str) -> None:
    """Drop databases that ``scratch`` made for a process that was killed. Called by one process at a time."""
    ours = f"^{re.escape(str(connection.settings_dict['NAME']))}_{purpose}_[0-9a-f]{{8}}$"
    with psycopg.connect(**_server(), autocommit=True) as server:
        for (name,) in server.execute("SELECT datname FROM pg_database WHERE datname ~ %s", [ours]).fetchall():
            server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _server() -> dict[str, Any]:
    """The database that every server has: those of hubs are made, renamed and dropped from there."""
    parameters: dict[str, Any] = dict(connection.get_connection_params())
    kept = {name: value for name, value in parameters.items() if name not in {"cursor_factory", "context", "options"}}
    return kept | {"dbname": "postgres"}


def load_postgresql(dump: Path, database: str) -> None:
    """Into an empty database. Raises BackupError."""
    _program("pg_restore", database, "--no-owner", "--no-privileges", "--exit-on-error", str(dump))


def url_of(database: str) -> str:
    """For a child process: the URL of another database on the hub's server."""
    settings = connection.settings_dict
    who = quote(str(settings["USER"]), safe="")
    if settings.get("PASSWORD"):
        who += ":" + quote(str(settings["PASSWORD"]), safe="")
    host, port = str(settings.get("HOST") or ""), settings.get("PORT")
    place = quote(host, safe="") + (f":{port}" if port else "")
    kept = {name: value for name, value in settings.get("OPTIONS", {}).items() if name.startswith("ssl")}
    return f"postgres://{who}@{place}/{quote(database, safe='')}" + (f"?{urlencode(kept)}" if kept else "")
