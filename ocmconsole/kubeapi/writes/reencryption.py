"""Encrypting anew what the database holds: under the counter's lock, some at a time, so that writers get in between.

What is done is seen in the rows alone, so it may be killed and begun again anywhere, and done by several at once.
Called by ``manage.py encryption``; the check of the hub's health asks it how far that is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import Error as DatabaseFailure
from django.db import connection

from ocmconsole.kubeapi import clock, kinds, request_cache
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.encryption import places, stored_text
from ocmconsole.kubeapi.encryption.places import Column
from ocmconsole.kubeapi.models import Change
from ocmconsole.kubeapi.storage import audit, audit_acts, incarnations
from ocmconsole.kubeapi.watch import change_log
from ocmconsole.kubeapi.writes import store

AT_ONCE = 50  # texts in one transaction; a few milliseconds
GRACE = timedelta(minutes=10)  # from a new key to the end of the old: longer than any request that began before
ADDED = audit_acts.declare("hub:add-encryption-key", "New key encrypts what the database holds")
SETTLED = audit_acts.declare("hub:settle-encryption", "Texts in clear are refused from now on")
RETIRED = audit_acts.declare("hub:retire-encryption-key", "Old encryption keys forgotten")
NO_RIGHT = "42501"  # PostgreSQL's code: insufficient_privilege
OPERATOR = Actor.controller("encryption")
_WHOSE = ("namespace", "name")


def of_resources() -> Sequence[Column]:
    """Rows of confidential kinds, and their documents in the change log."""
    kept = [kind for kind in kinds.all_kinds() if kind.confidential]
    log = Change._meta.db_table  # noqa: SLF001 - Django's documented name
    names, whose = tuple(kind.resource for kind in kept), ("revision", *_WHOSE)
    after = (change_log.BEFORE,)
    return [
        *(
            Column(kind.resource, kind.model._meta.db_table, "uid", "wire", ("resource_version", *_WHOSE))  # noqa: SLF001 - as above
            for kind in kept
        ),
        Column("change log", log, "revision", "wire", whose, resources=names),
        Column("change log, before", log, "revision", "before", whose, after=after, resources=names),
    ]


places.declare(of_resources)


@dataclass(frozen=True)
class TextCounts:
    """How many texts each key has, by the name of the place; one look at all tables for all questions."""

    by_key: dict[str, Counter[str]]

    def left(self) -> Counter[str]:
        """How many texts of each place are not encrypted with the newest key. Raises Unreadable."""
        keys = stored_text.known_keys()
        newest = keys[0].id if keys else "none"
        found = {name: counts.total() - counts[newest] for name, counts in self.by_key.items()}
        return Counter({name: count for name, count in found.items() if count})

    def missing_keys(self) -> list[str]:
        """Ids of keys that something in the database needs and nobody has. Raises Unreadable."""
        known = {key.id for key in stored_text.known_keys()}
        needed = {key for counts in self.by_key.values() for key in counts if key}
        return sorted(needed - known)

    def in_clear(self) -> Counter[str]:
        """How many of each place are in clear, or not bound to whose they are, although nothing was left once."""
        if not incarnations.is_all_encrypted():
            return Counter()
        return Counter({name: counts[""] for name, counts in self.by_key.items() if counts[""]})


def count_texts() -> TextCounts:
    """Of now; for one request that reads, once."""
    return request_cache.cached("encrypted texts", lambda: TextCounts(places.by_key()))


def encrypt_anew() -> Iterator[tuple[str, int]]:
    """Encrypt with the newest key what is not; yields place and number after each transaction. Raises Unreadable."""
    for place in places.all_places():
        while True:
            with store.while_permitted(None):
                done = place.encrypt_some(stored_text.newest().id, AT_ONCE)
            if not done:
                break
            yield place.name, done


def settle() -> bool:
    """Where nothing is left, no text in clear is believed from now on; returns whether that is so. Raises Unreadable.

    Durable, and a backup carries it. No server writes such a text in clear, so none comes while this looks.
    """
    with store.while_permitted(None):
        if count_texts().left():
            return False
        if incarnations.note_all_encrypted():
            _note(SETTLED, stored_text.newest().id)
        return True


def note_added() -> None:
    """For the audit."""
    _note(ADDED, stored_text.newest().id)


def retire(forget: Callable[[Collection[str]], None]) -> tuple[list[str], list[str]]:
    """Have the keys forgotten that nothing needs any more; returns those, and the older ones that stay.

    A text is encrypted under the counter's lock, or within ``GRACE``, so none comes to need them meanwhile.
    """
    with store.while_permitted(None):
        newest, *older = stored_text.known_keys()
        used = {key for counts in places.by_key().values() for key in counts}
        is_settled = clock.now() - newest.made > GRACE
        gone = [key.id for key in older if key.id not in used and is_settled]
        if gone:
            _note(RETIRED, ", ".join(gone))
            forget(gone)
        return gone, [key.id for key in older if key.id not in gone]


def _note(act: str, name: str) -> None:
    entry = audit.entry_of(
        OPERATOR, act, verb="update", resource="encryptionkeys", namespace="", name=name, reason="", diff=[]
    )
    entry.save()


def scrub() -> bool:
    """Write the files of the tables anew, without what was overwritten or deleted. Others wait meanwhile.

    False where the old files go with PostgreSQL's next checkpoint, since its user has no right to ask for one.
    """
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return True
        for table in sorted({place.table for place in places.all_places()}):
            cursor.execute(f"VACUUM FULL {table}")
        try:
            cursor.execute("CHECKPOINT")
        except DatabaseFailure as error:
            if getattr(error.__cause__, "sqlstate", "") != NO_RIGHT:
                raise
            return False
    return True
