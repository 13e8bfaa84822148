"""No statement of a hub that only reads changes its database: a newer incarnation has begun (D28), or a person says so.

Invariant: each statement of each connection passes ``_refuse_writes``. The store, the queue of writers and the pages
refuse before that; what is written beside a read (denials, times of last use, sessions) asks ``is_set``
and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

# By their first word. What is not named writes.
READS = frozenset({
    "SELECT", "VALUES", "SHOW", "SET", "BEGIN", "START", "SAVEPOINT", "RELEASE", "ROLLBACK", "COMMIT", "PRAGMA",
    "DECLARE", "FETCH", "CLOSE", "LISTEN", "UNLISTEN",
})  # fmt: skip
WRITES = re.compile(r"\b(INSERT\s+INTO|UPDATE\s+(?!SKIP|NOWAIT)\S+\s|DELETE\s+FROM)", re.IGNORECASE)  # after WITH
_FIRST_WORD = re.compile(r"[\s(]*([A-Za-z]+)")


class OnlyReads(OperationalError):
    """A statement that writes. Its text is what pages show."""


@dataclass
class OnlyReadsState:
    """Of this process: why it only reads, or empty.

    ``superseded`` is set by ``backup.succession`` through ``outages.state``, ``read_only`` from what a person has said.
    """

    superseded: str = ""
    read_only: str = ""

    @property
    def why(self) -> str:
        return self.superseded or self.read_only


state = OnlyReadsState()


def is_set() -> bool:
    return bool(state.why)


def install() -> None:
    """On every connection that this process opens from now on."""
    connection_created.connect(_watch, dispatch_uid=__name__)


def _watch(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if _refuse_writes not in connection.execute_wrappers:
        connection.execute_wrappers.append(_refuse_writes)


def _refuse_writes(execute: Callable[..., Any], sql: Any, params: Any, many: Any, context: Any) -> Any:
    """Raises OnlyReads."""
    if state.why and not _only_reads(str(sql)):
        raise OnlyReads(state.why)
    return execute(sql, params, many, context)


def _only_reads(sql: str) -> bool:
    found = _FIRST_WORD.match(sql)
    word = found[1].upper() if found else ""
    return word in READS or (word == "WITH" and not WRITES.search(sql))
