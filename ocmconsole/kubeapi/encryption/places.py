"""Where encrypted texts are: columns of rows and of the change log, and what apps declare.

Rows say by the text itself which key they need, so what is left to encrypt anew is asked of the database and never
remembered. SQL that both databases know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from django.db import connection

from ocmconsole.kubeapi.encryption import stored_text

_START, _LENGTH = len(stored_text.PREFIX) + 1, len(stored_text.PREFIX) + stored_text.ID_LENGTH


class Place(Protocol):
    @property
    def name(self) -> str:
        """As people read it."""

    @property
    def table(self) -> str:
        """Where they are."""

    def by_key(self) -> Counter[str]:
        """How many texts each key has, by its id; "" are those that are not encrypted."""

    def encrypt_some(self, key: str, most: int) -> int:
        """Encrypt so many of the texts that this key has not, in the caller's transaction; returns how many."""


@dataclass(frozen=True)
class Column:
    """Texts of one column. ``whose`` are columns that they are bound to, ``more`` what stands before or after those."""

    name: str
    table: str
    key: str
    text: str
    whose: tuple[str, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()  # of the change log

    def _where(self) -> tuple[str, list[str]]:
        quoted = f"{self.text} <> ''"
        if not self.resources:
            return quoted, []
        return f"{quoted} AND resource IN ({', '.join(['%s'] * len(self.resources))})", [*self.resources]

    def by_key(self) -> Counter[str]:
        where, values = self._where()
        text, start = self.text, _START - 1
        found = f"CASE WHEN substr({text}, 1, {start}) = %s THEN substr({text}, {_START}, %s) ELSE '' END"
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT found, COUNT(*) FROM (SELECT {found} AS found FROM {self.table} WHERE {where}) texts "  # noqa: S608 - names of models
                "GROUP BY found",
                [stored_text.PREFIX, stored_text.ID_LENGTH, *values],
            )
            return Counter(dict(cursor.fetchall()))

    def encrypt_some(self, key: str, most: int) -> int:
        where, values = self._where()
        columns = ", ".join((self.key, self.text, *self.whose))
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {columns} FROM {self.table} "  # noqa: S608 - names of models
                f"WHERE {where} AND substr({self.text}, 1, {_LENGTH}) <> %s ORDER BY {self.key} LIMIT %s",
                [*values, f"{stored_text.PREFIX}{key}", most],
            )
            found = cursor.fetchall()
            for row, text, *columns_of_row in found:
                whose = (*self.before, *columns_of_row, *self.after)
                new = stored_text.encrypt(stored_text.decrypt(stored_text.kept(text), *whose), *whose)
                cursor.execute(
                    f"UPDATE {self.table} SET {self.text} = %s WHERE {self.key} = %s AND {self.text} = %s",  # noqa: S608 - as above
                    [new, row, text],
                )
        return len(found)


_declared: list[Callable[[], Sequence[Place]]] = []


def declare(places: Callable[[], Sequence[Place]]) -> None:
    """Apps say where texts of theirs are. Declaring it again changes nothing."""
    if places not in _declared:
        _declared.append(places)


def all_places() -> Iterator[Place]:
    for places in _declared:
        yield from places()


def by_key() -> dict[str, Counter[str]]:
    """By the name of the place, how many texts each key has."""
    return {place.name: place.by_key() for place in all_places()}


def is_anything_encrypted() -> bool:
    return any(key for counts in by_key().values() for key in counts)
