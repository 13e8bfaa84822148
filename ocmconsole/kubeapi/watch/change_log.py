"""The change log as a table: what is read of it, and who is woken when it grows.

Invariant: entries are read before the cuts, so what was cut unread is always noticed. Read by the follower and the
streams of ``watch``, by the RBAC index, and by pages of exact lists.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import orjson
from django.conf import settings
from django.db import connection

from ocmconsole.kubeapi import clock, kinds
from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.kubeapi.models import Change, Compaction, Revision
from ocmconsole.kubeapi.storage import plain_sql
from ocmconsole.kubeapi.watch import redis_client
from ocmconsole.kubeapi.watch.notifier import Notifier

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from ocmconsole.kubeapi.errors import Doc

CHANNEL = "ocmconsole:changes"
BATCH = 1_000  # entries of one query
_COLUMNS = ("revision", "resource", "verb", "namespace", "name", "wire", "before")  # in the order of ``ChangeEntry``
_SINCE = """SELECT revision, resource, verb, namespace, name, wire, before FROM kubeapi_change
            WHERE resource IN ({marks}) AND revision > %s ORDER BY revision LIMIT %s"""
_CUT = "SELECT MAX(revision) FROM kubeapi_compaction WHERE resource IN ({marks}) AND revision > %s"
_NEWEST = "SELECT MAX(revision) FROM kubeapi_change WHERE resource = %s"
Columns = tuple[int, str, str, str, str, str, str]
BEFORE = "before"  # what the document before is bound to when it is encrypted, besides its change


@dataclass(frozen=True)
class ChangeEntry:
    """A change as watchers share it: decrypted and parsed at most once, rendered at most once for each form.

    ``wire`` and ``before`` are as the log has them, or of a commit of this process: not encrypted.
    """

    revision: int
    resource: str
    verb: str
    namespace: str
    name: str
    wire: str
    before: str

    @classmethod
    def read(cls, rows: QuerySet[Change]) -> list[ChangeEntry]:
        """Without a model for each row: a tail reads every commit back."""
        return [cls.stored(*row) for row in rows.values_list(*_COLUMNS)]

    @classmethod
    def stored(
        cls, revision: int, resource: str, verb: str, namespace: str, name: str, wire: str, before: str
    ) -> ChangeEntry:
        """Of a row of the log; what a commit hands over in memory is in clear, and believed."""
        if resource in kinds.confidential_resources:
            wire, before = stored_text.kept(wire), stored_text.kept(before)
        return cls(revision, resource, verb, namespace, name, wire, before)

    @property
    def columns(self) -> Columns:
        return self.revision, self.resource, self.verb, self.namespace, self.name, self.wire, self.before

    @cached_property
    def text(self) -> str:
        """The wire text. Raises Unreadable."""
        return stored_text.decrypt(self.wire, self.revision, self.namespace, self.name)

    @cached_property
    def doc(self) -> Doc:
        document: Doc = orjson.loads(self.text)
        return document

    @cached_property
    def doc_before(self) -> Doc:
        """What selectors saw before: the old document where it differs in their eyes."""
        if not self.before:
            return self.doc
        document: Doc = orjson.loads(stored_text.decrypt(self.before, self.revision, self.namespace, self.name, BEFORE))
        return document

    @cached_property
    def rendered(self) -> dict[object, bytes]:
        return {}

    @cached_property
    def seen(self) -> dict[object, tuple[bool, bool]]:
        """By selection: whether the object was seen before, and is seen after."""
        return {}


class CommittedChanges(NamedTuple):
    """What one transaction appended to the log: all numbers from ``first`` to ``last``, each with an entry.

    ``ended_rights`` is how often rights may have ended, by it too. ``entries`` makes them, for followers of any of
    ``resources``.
    """

    first: int
    last: int
    ended_rights: int
    resources: frozenset[str]
    entries: Callable[[], list[ChangeEntry]]


class Standing(NamedTuple):
    """Where the log ends, how often rights may have ended by then, and by resource up to where it was cut."""

    revision: int
    ended_rights: int
    cuts: dict[str, int]


def standing() -> Standing:
    """One query; cuts are few, one a resource at most."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT head.value, head.rights - head.rights_given, cut.resource, cut.revision FROM kubeapi_revision head "
            "LEFT JOIN kubeapi_compaction cut ON cut.revision > 0 WHERE head.id = 1"
        )
        rows = cursor.fetchall()
    if not rows:
        return Standing(1, 0, {})
    return Standing(rows[0][0], rows[0][1], {resource: revision for _, _, resource, revision in rows if resource})


class Head(NamedTuple):
    """Where log and audit end. Commits take turns, so nothing comes to be before it afterwards."""

    revision: int
    ended_rights: int  # ``RightsCounts.ended_rights``
    audit: int  # number of the newest audit entry


def head() -> Head:
    """One row by its key and the end of an index: asked for all the time."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT value, rights - rights_given, (SELECT COALESCE(MAX(id), 0) FROM kubeapi_auditevent) "
            "FROM kubeapi_revision WHERE id = 1"
        )
        row = cursor.fetchone()
    return Head(*row) if row else Head(1, 0, 0)


def between(
    after: int, upto: int, resources: Collection[str] | None = None
) -> tuple[list[ChangeEntry], int, dict[str, int]]:
    """Replay the log, of these resources only or of all, at most ``BATCH`` entries.

    Returns the entries, the revision up to which it was read, and by resource what was cut unread. Every number up to
    the head has an entry until it is cut, so there are cuts only where numbers are missing.
    """
    rows = Change.objects.filter(revision__gt=after, revision__lte=upto)
    read = rows if resources is None else rows.filter(resource__in=resources)
    entries = ChangeEntry.read(read.order_by("revision")[:BATCH])
    reached = entries[-1].revision if len(entries) == BATCH else upto
    if reached - after == len(entries):
        return entries, reached, {}
    cuts = dict(Compaction.objects.filter(revision__gt=after).values_list("resource", "revision"))
    if cuts and rows.filter(revision__lte=reached).count() == reached - after:
        cuts = {}  # nothing is missing but what nobody wants
    return entries, reached, cuts


def since(resources: Collection[str], after: int) -> tuple[list[ChangeEntry], int | None]:
    """Replay the log of some resources from after a revision: at most ``BATCH`` entries, and ``cut_before``."""
    names = sorted(resources)
    found = plain_sql.rows(_SINCE.format(marks=plain_sql.marks(names)), *names, after, BATCH)
    return [ChangeEntry.stored(*row) for row in found], cut_before(resources, after)


def deletions(resource: str, upto: int, seconds: float) -> list[ChangeEntry]:
    """What the log says to have been deleted lately, as of a revision."""
    found = Change.objects.filter(resource=resource, verb=Change.Verb.DELETED, revision__lte=upto)
    rows = found.filter(time__gt=clock.now() - timedelta(seconds=seconds)).order_by("revision")[:BATCH]
    return ChangeEntry.read(rows)


def cut_before(resources: Collection[str], after: int) -> int | None:
    """The oldest revision that the log of these may be followed from, when ``after`` lies before it; else None."""
    names = sorted(resources)
    cuts = plain_sql.rows(_CUT.format(marks=plain_sql.marks(names)), *names, after)
    return None if cuts[0][0] is None else int(cuts[0][0])


def newest_of_each() -> dict[str, int]:
    """By resource its newest change in the log, of those whose changes are kept as long as usual: not of leases."""
    found = {}
    for kind in kinds.all_kinds():
        if kind.retention_seconds >= kinds.USUAL_RETENTION:
            newest = plain_sql.rows(_NEWEST, kind.resource)[0][0]
            if newest is not None:
                found[kind.resource] = int(newest)
    return found


def newest_revision() -> int:
    """The newest committed revision."""
    return Revision.objects.values_list("value", flat=True).filter(pk=1).first() or 1


def rights() -> int:
    """How often rights or credentials have changed (``Revision.rights``).

    Read for each request, so without a queryset: one row by its key.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT rights FROM kubeapi_revision WHERE id = 1")
        row = cursor.fetchone()
    return int(row[0]) if row else 0


class RightsCounts(NamedTuple):
    """How often rights or credentials have changed (``Revision``)."""

    changes: int
    ended_rights: int  # changes by which a right or a credential may have ended: all that did not give alone
    ended_credentials: int  # changes by which a certificate may have ended: all that were not of objects alone


def rights_counts() -> RightsCounts:
    """One row by its key."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT rights, rights - rights_given, rights - rights_of_objects FROM kubeapi_revision WHERE id = 1"
        )
        row = cursor.fetchone()
    return RightsCounts(*row) if row else RightsCounts(0, 0, 0)


# ---------------------------------------------------------------- waking


wakers: set[Callable[[CommittedChanges | None], None]] = set()  # called in the thread that wrote


def wake(commit: CommittedChanges | None = None) -> None:
    """Wake the followers of the log: it has grown, by this commit where one is given, which they need not read then.

    To be called after the transaction only. Never fails a write that is committed already.
    """
    for waker in tuple(wakers):
        waker(commit)
    if settings.OCMCONSOLE_REDIS_URL:
        _others.request()


def own_mark() -> bytes:
    """What this process says of itself in ``CHANNEL``, so that it need not look at what it has written itself."""
    return f"{_PROGRAM}:{os.getpid()}".encode()


_PROGRAM = secrets.token_hex(8)  # forks of it differ by their number
_others = Notifier("wake", lambda: redis_client.publish(CHANNEL, own_mark()))
