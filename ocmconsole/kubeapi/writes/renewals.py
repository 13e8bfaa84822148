"""Renewals: many objects of one kind, each with a new text of the same form, in one transaction by plain SQL.

Leases are renewed as often as all else together is written. What ``store.commit`` does for any write is done here for
those that neither rules nor reconcilers nor the audit look at: the counter first, then compare and set of each row,
then the change log, whose readers are woken. Numbers have no gaps: a transaction in which a row proves to be stale, or
a caller not permitted any more, is rolled back and done without that one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from django.db import connection

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import Change
from ocmconsole.kubeapi.storage import plain_sql
from ocmconsole.kubeapi.watch.change_log import ChangeEntry
from ocmconsole.kubeapi.writes import store

if TYPE_CHECKING:
    from ocmconsole.kubeapi.kinds import Key, Kind

SEPARATOR, _SEPARATOR_IN_SQL = (
    "\x1f",
    "E'\\x1f'",
)  # of texts in one argument; JSON and names never hold it: it is written as an escape


@dataclass(slots=True, eq=False)
class Renewal:
    """One object's step from its ``old`` revision. ``head`` and ``tail`` are the text around its resourceVersion.

    ``columns`` are integers, in the order of ``commit``'s own. ``revision`` and ``text`` are set by the commit.
    """

    key: Key
    uid: str
    old: int
    head: str
    tail: str
    columns: tuple[int, ...]
    revision: int = 0

    @property
    def text(self) -> str:
        return f"{self.head}{self.revision}{self.tail}"


Refused = Callable[[int, Sequence[Renewal]], Sequence[Renewal]]


class _Again(Exception):
    """Nothing was written: these must stay out."""

    def __init__(self, out: Sequence[Renewal]) -> None:
        super().__init__()
        self.out = out


def commit(kind: Kind, columns: tuple[str, ...], renewals: Sequence[Renewal], refused: Refused) -> list[Renewal]:
    """Write all that can be, durably; returns those that were, of which each object may be there once.

    ``refused`` is asked under the counter's lock: it gets how often rights may have ended, and what is about to be
    written, and returns what must not be. Raises what the database does, after which nobody knows what was written.
    """
    left = list(renewals)
    while left:
        try:
            with store.numbered(len(left), kind.resource, partial(_entries, kind, left)) as taken:
                if out := refused(taken.ended_rights, left):
                    raise _Again(out)  # noqa: TRY301 - rolls the transaction back
                for number, renewal in enumerate(left, start=taken.last - len(left) + 1):
                    renewal.revision = number
                _write(kind, columns, left)
        except _Again as again:
            gone = set(again.out)
            left = [renewal for renewal in left if renewal not in gone]
        else:
            return left
    return left


def _entries(kind: Kind, renewals: Sequence[Renewal]) -> list[ChangeEntry]:
    """As ``_write`` appends them to the log."""
    verb = Change.Verb.MODIFIED.value
    return [
        ChangeEntry(each.revision, kind.resource, verb, each.key.namespace, each.key.name, each.text, "")
        for each in renewals
    ]


def _write(kind: Kind, columns: tuple[str, ...], renewals: Sequence[Renewal]) -> None:
    """Raises _Again with the stale ones."""
    if connection.vendor == "postgresql":
        _write_at_once(kind, columns, renewals)
        return
    update, insert = _statements(kind.model._meta.db_table, columns)  # noqa: SLF001 - Django's documented name
    now = plain_sql.moment(clock.now())
    texts = [renewal.text for renewal in renewals]
    with connection.cursor() as cursor:
        cursor.executemany(
            update,
            [
                (each.revision, text, *each.columns, each.uid, each.old)
                for each, text in zip(renewals, texts, strict=True)
            ],
        )
        if cursor.rowcount != len(renewals):
            raise _Again(_stale(cursor, kind, renewals))
        cursor.executemany(
            insert,
            [
                (each.revision, kind.resource, each.key.namespace, each.key.name, now, text, len(text.encode()))
                for each, text in zip(renewals, texts, strict=True)
            ],
        )


def _stale(cursor: Any, kind: Kind, renewals: Sequence[Renewal]) -> list[Renewal]:
    """Those whose row has not the number that was just given to it."""
    table = connection.ops.quote_name(kind.model._meta.db_table)  # noqa: SLF001 - Django's documented name
    places = ", ".join(["%s"] * len(renewals))
    cursor.execute(
        f"SELECT uid, resource_version FROM {table} WHERE uid IN ({places})",  # noqa: S608 - Django's own name
        [renewal.uid for renewal in renewals],
    )
    found = dict(cursor.fetchall())
    return [renewal for renewal in renewals if found.get(renewal.uid) != renewal.revision]


@cache
def _statements(table: str, columns: tuple[str, ...]) -> tuple[str, str]:
    """SQLite: a statement for each row, prepared once."""
    quote = connection.ops.quote_name
    sets = ", ".join(f"{quote(name)} = %s" for name in ("resource_version", "wire", *columns))
    log = quote(Change._meta.db_table)  # noqa: SLF001 - Django's documented name
    update = f"UPDATE {quote(table)} SET {sets} WHERE uid = %s AND resource_version = %s"  # noqa: S608 - Django's own names
    insert = (
        f"INSERT INTO {log} (revision, resource, verb, namespace, name, time, wire, before, size) "  # noqa: S608 - as above
        f"VALUES (%s, %s, '{Change.Verb.MODIFIED.value}', %s, %s, %s, %s, '', %s)"
    )
    return update, insert


def _write_at_once(kind: Kind, columns: tuple[str, ...], renewals: Sequence[Renewal]) -> None:
    """PostgreSQL: one statement. Lists travel as one text each: psycopg adapts lists of a row in 70 µs."""
    texts = (
        [renewal.uid for renewal in renewals],
        [renewal.head for renewal in renewals],
        [renewal.tail for renewal in renewals],
    )
    numbers = (
        [renewal.old for renewal in renewals],
        [renewal.revision for renewal in renewals],
        *([renewal.columns[at] for renewal in renewals] for at in range(len(columns))),
    )
    arguments = [SEPARATOR.join(each) for each in texts] + [",".join(map(str, each)) for each in numbers]
    with connection.cursor() as cursor:
        cursor.execute(
            _statement_for_all(kind.model._meta.db_table, columns),  # noqa: SLF001 - Django's documented name
            [*arguments, kind.resource, clock.now()],
        )
        written = {revision for (revision,) in cursor.fetchall()}
    if len(written) != len(renewals):
        raise _Again([renewal for renewal in renewals if renewal.revision not in written])


@cache
def _statement_for_all(table: str, columns: tuple[str, ...]) -> str:
    quote = connection.ops.quote_name
    texts = ", ".join([f"string_to_array(%s, {_SEPARATOR_IN_SQL})"] * 3)
    numbers = ", ".join(["string_to_array(%s, ',')::bigint[]"] * (2 + len(columns)))
    names = ", ".join(quote(name) for name in columns)
    sets = ", ".join(f"{quote(name)} = given.{quote(name)}" for name in columns)
    log = quote(Change._meta.db_table)  # noqa: SLF001 - Django's documented name
    return (
        f"WITH given AS (SELECT * FROM unnest({texts}, {numbers}) "  # noqa: S608 - Django's own names
        f"AS given(uid, head, tail, old, revision, {names})), "
        f"renewed AS (UPDATE {quote(table)} AS present SET resource_version = given.revision, "
        f"wire = given.head || given.revision::text || given.tail, {sets} "
        "FROM given WHERE present.uid = given.uid AND present.resource_version = given.old "
        "RETURNING given.revision, present.namespace, present.name, present.wire) "
        f"INSERT INTO {log} (revision, resource, verb, namespace, name, time, wire, before, size) "
        f"SELECT revision, %s, '{Change.Verb.MODIFIED.value}', namespace, name, %s, wire, '', octet_length(wire) "
        "FROM renewed RETURNING revision"
    )
