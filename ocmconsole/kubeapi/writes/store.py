"""Storage of resources: ``commit``, the only code that writes them, but for ``renewals``, which writes leases alone.

Invariant: one transaction holds the revision numbers, the rows, the change log, the audit and the work for reconcilers.
The counter is taken by its first statement, so commits are serial and commit order is revision order. Nothing is locked
before it; a row is written only ``WHERE resource_version`` is what was read, else Conflict. ``turn`` takes the counter
before the document is read, for a writer that has lost too many optimistic tries. No write is committed after a right
or credential that it needs was taken away: that takes the counter too, and a commit which finds that rights have
changed since its actor was examined asks again, under the counter. Commits that wait for each other share a
transaction (``group_commit``), each as if it were alone in it.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import orjson
from django.db import connection, models, transaction

from ocmconsole.kubeapi import abandoned_requests, admission, clock, errors, request_cache, spans, write_queue
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.control import controllers, workqueue
from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.kubeapi.health import outages
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.kubeapi.models import AuditEvent, Change, Resource, Revision, TakenCounter, writing
from ocmconsole.kubeapi.storage import audit, plain_sql, row_writes
from ocmconsole.kubeapi.storage.row_writes import RowChange
from ocmconsole.kubeapi.watch import change_log
from ocmconsole.kubeapi.writes import group_commit

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

# Stands for the resourceVersion in text that is rendered before the number is known; cannot occur in a client's text.
_PLACEHOLDER = f"rv-{secrets.token_hex(16)}"
# What in metadata decides whether a watch sees an object, apart from its name.
SELECTING = ("labels", "deletionTimestamp")
TRIES = 5  # of an act that others' changes of rights overtake
T = TypeVar("T")

# Makes one row of the hub's own, or several in the order in which they are saved.
Record = Callable[[], "models.Model | Iterable[models.Model]"]
# The name of a reconciler and a key for it.
Work = tuple[str, Key]


@dataclass(slots=True)
class Write:
    """One object's step from ``old`` to ``new``; either may be absent (create, delete).

    ``row`` is what was read, None for a create. ``after`` is an earlier write of the same commit to the same object,
    which this one continues: the row is written once, as the last leaves it. ``given`` is what the act says besides
    documents, for records. ``stored`` and ``stored_before`` are the texts as the database gets them.
    """

    kind: Kind
    key: Key
    row: Resource | None
    old: Doc | None
    new: Doc | None
    actor: Actor
    verb: str
    act: str
    reason: str = ""
    # Raises Forbidden, or what the rules raise, when the actor of now may not.
    ask_again: Callable[[Actor], None] | None = None
    after: Write | None = None
    given: object = None
    text: str = field(default="", init=False)
    before: str = field(default="", init=False)
    stored: str = field(default="", init=False)
    stored_before: str = field(default="", init=False)
    audit: AuditEvent | None = field(default=None, init=False)
    revision: int = field(default=0, init=False)


class Need(NamedTuple):
    """A right that an act takes beside those of its writes. ``require`` raises Forbidden for an actor without it."""

    actor: Actor
    asked: Attributes
    require: Callable[[Actor], object]


# ---------------------------------------------------------------- the one write


def commit(
    writes: Sequence[Write],
    *,
    records: Iterable[Record] = (),
    needs: Iterable[Need] = (),
    settled: Collection[Work] = (),
    goes_on: bool = False,
) -> int:
    """Write everything or nothing; returns the last revision.

    ``settled`` are reconcilers with keys that need not look again because of these writes: what they would compare is
    what these writes make. ``goes_on``: other commits of the same act follow, for whose end some work waits
    (``workqueue.put_folded``). ``records`` make the hub's own rows (facts, audit notes), under the counter's lock, to
    be saved with the writes. ``needs`` are looked at again as each write's own right is.
    Raises Conflict when a row is not what the caller read, AlreadyExists when a create came second,
    InsufficientStorage for what would grow while only the reserve of the disk is left, Unauthorized and Forbidden when
    what the actor needs was taken away since it was examined, Timeout for a client that has gone away.
    """
    act = _act(writes, records, needs, settled, goes_on=goes_on)
    with spans.span("commit", _span_of(writes)), _recording_refusals():
        return group_commit.commit(act)


def _span_of(writes: Sequence[Write]) -> spans.Attributes:
    """To a trace: what the first is of."""
    first = {"ocmconsole.verb": writes[0].verb, "ocmconsole.resource": writes[0].kind.resource} if writes else {}
    return {"ocmconsole.writes": len(writes), **first}


class Commit(Protocol):
    """As ``commit``."""

    def __call__(
        self,
        writes: Sequence[Write],
        *,
        records: Iterable[Record] = (),
        needs: Iterable[Need] = (),
        settled: Collection[Work] = (),
        goes_on: bool = False,
    ) -> int: ...


@contextmanager
def turn() -> Iterator[Commit]:
    """Nobody else commits inside the block; yields the ``commit`` to use there. What is read there cannot be Stale.

    Keep it short: it holds up every writer of the hub. It must not write by itself: an error rolls everything back.
    """
    with _recording_refusals(), write_queue.turn(), transaction.atomic(durable=True):
        Revision.take(0)  # locked and left as it is: readers of the head see no number without a change
        yield lambda writes, *, records=(), needs=(), settled=(), goes_on=False: group_commit.alone(
            _act(writes, records, needs, settled, goes_on=goes_on)
        )


@contextmanager
def numbered(count: int, resource: str, entries: Callable[[], list[change_log.ChangeEntry]]) -> Iterator[TakenCounter]:
    """A transaction of ``renewals``, which writes ``count`` rows of a resource by SQL of its own.

    As every commit it takes the counter first. ``entries`` makes what it has appended to the log; it is called after
    the commit, if anybody follows the resource.
    """
    with write_queue.turn(), transaction.atomic(durable=True):
        taken = Revision.take(count)
        yield taken
        first, ended = taken.last - count + 1, taken.ended_rights
        _announce(change_log.CommittedChanges(first, taken.last, ended, frozenset((resource,)), entries))


def _announce(commit: change_log.CommittedChanges) -> None:
    """To the followers of the log in this process, once the present transaction is committed."""
    transaction.on_commit(lambda: change_log.wake(commit))


def _act(
    writes: Sequence[Write],
    records: Iterable[Record],
    needs: Iterable[Need],
    settled: Collection[Work],
    *,
    goes_on: bool,
) -> _Act:
    """Raises InsufficientStorage, and ServiceUnavailable in a hub of which a newer incarnation has begun."""
    outages.require_writing_hub()
    if any(_grows(write) for write in writes):
        outages.require_space()
    now = clock.now()
    for write in writes:
        _prepare(write, now)
    return _Act(writes, records, tuple(needs), controllers.caused_by(writes).difference(settled), now, goes_on)


@dataclass(slots=True)
class _Act:
    """One commit, prepared: writes with their texts and audit entries, the work that they cause, and their time.

    It runs on the thread that leads the transaction, so nothing here holds a connection or a cursor.
    """

    writes: Sequence[Write]
    records: Iterable[Record]
    needs: Sequence[Need]
    work: set[Work]
    now: datetime
    goes_on: bool
    ended_rights: int = 0  # how often some may have ended before

    @property
    def count(self) -> int:
        return len(self.writes)

    def check(self, taken: TakenCounter) -> None:
        """Now that nobody else can come in between: is the client there, and may the actors still? Raises _Ended."""
        self.ended_rights = taken.ended_rights
        abandoned_requests.require_client()
        asked = [
            Need(each.actor, _asked_by(each), each.ask_again) for each in self.writes if each.ask_again is not None
        ]
        for need in (*asked, *self.needs):
            if not need.actor.is_outdated(taken.rights):
                continue
            try:
                with request_cache.forgetting():
                    need.require(need.actor.renewed())
            except (errors.Forbidden, errors.Unauthorized) as error:
                raise _Ended(need, error) from error

    def write(self, last: int) -> bool:
        with writing():
            for number, write in enumerate(self.writes, start=last - len(self.writes) + 1):
                _number(write, number)
            _write_rows(self.writes)
            _append(self.writes, self.now)
            of_rights = [write for write in self.writes if write.kind.is_right]
            ends_permission = any(write.kind.has_permissions and write.new is None for write in self.writes)
            ends_credential = False
            entries = [write.audit for write in self.writes if write.audit is not None]
            saved_last: defaultdict[type[models.Model], list[models.Model]] = defaultdict(list)
            with request_cache.forgetting():  # read under the counter's lock: two commits may concern the same fact
                for fact in _records_of(self.writes, self.records):
                    if isinstance(fact, AuditEvent):
                        entries.append(fact)
                    elif getattr(fact, "is_saved_last", False):
                        saved_last[type(fact)].append(fact)
                    else:
                        fact.save()
                    ends_credential |= getattr(fact, "is_right", False)
            for rows in saved_last.values():
                plain_sql.put(rows)
            plain_sql.insert(entries)
            ends_some = ends_credential or any(write.old is not None for write in of_rights)
            if changes_rights := bool(of_rights) or ends_credential or ends_permission:
                _count_rights(of_objects=not ends_credential, given=not ends_some)
            work = controllers.wanted(self.work)
            waiting = controllers.folding() if self.goes_on else frozenset()
            folded = {each for each in work if each[0] in waiting}
            workqueue.put(work - folded, self.now)
            workqueue.put_folded(folded, self.now)
            _announce(_handed_over(self.writes, last, self.ended_rights + ends_some))
            if work:
                transaction.on_commit(workqueue.poke)
        return changes_rights


def _records_of(writes: Sequence[Write], records: Iterable[Record]) -> Iterator[models.Model]:
    """Each is saved before the next is made, but for entries of the audit and what says that it is saved last."""
    for write in writes:
        yield from admission.records_of(write.actor, write.kind, write.old, write.new, given=write.given)
    for record in records:
        made = record()
        yield from (made,) if isinstance(made, models.Model) else made


def _grows(write: Write) -> bool:
    """Deletes, their finalizers and what beats go on when the disk is full: the database uses freed space again."""
    if write.new is None or "deletionTimestamp" in write.new["metadata"]:
        return False
    return write.old is None or write.kind.audited


# ---------------------------------------------------------------- rights that end


@contextmanager
def while_permitted(actor: Actor | None) -> Iterator[None]:
    """A transaction that writes rows of the hub's own, which no commit writes, for an actor who may.

    It takes the counter first, as a commit does, so that no right ends between the decision and the write; it sees
    every commit before it, and every commit after it sees what it writes. Raises Outdated, with nothing written, where
    rights have changed since ``actor`` was examined.
    """
    with _recording_refusals(), write_queue.turn(), transaction.atomic():
        taken = Revision.take(0)
        if actor is not None and actor.is_outdated(taken.rights):
            raise Outdated
        yield


@contextmanager
def changing_rights(actor: Actor | None = None) -> Iterator[None]:
    """A transaction that changes rights or credentials beside the resources: people, permissions, tokens, sessions.

    As ``while_permitted``; when it has ended, no commit of anybody whom it concerns is still to come.
    """
    with while_permitted(actor):
        _count_rights(of_objects=False, given=False)
        yield


def with_present_rights(actor: Actor, act: Callable[[Actor], T]) -> T:
    """Call ``act`` until nothing came in between: it examines the actor, then writes in one of the two above.

    Raises TooManyRequests where that does not happen, and what ``act`` raises.
    """
    for _ in range(TRIES):
        try:
            return act(actor)
        except Outdated:
            actor = actor.renewed()
    raise errors.TooManyRequests("Rights are being changed faster than this could be decided; try again.")


class Outdated(Exception):
    """Rights have changed since the actor was examined."""


def _count_rights(*, of_objects: bool, given: bool) -> None:
    """As ``Revision`` has them: no credential of the hub's own rows ended by it; nor did a right of others."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE kubeapi_revision SET rights = rights + 1, rights_of_objects = rights_of_objects + %s, "
            "rights_given = rights_given + %s WHERE id = 1",
            [int(of_objects), int(given)],
        )


def _asked_by(write: Write) -> Attributes:
    kind, key = write.kind, write.key
    return Attributes(write.verb, kind.group, kind.plural, namespace=key.namespace, name=key.name)


class _Ended(Exception):
    def __init__(self, need: Need, error: errors.ApiError) -> None:
        super().__init__()
        self.need, self.error = need, error


@contextmanager
def _recording_refusals() -> Iterator[None]:
    """A refusal inside of the transaction is recorded after it, or it would be rolled back with it (D11).

    So is what such a refusal leaves behind (``errors.Deferred``).
    """
    try:
        yield
    except _Ended as ended:
        audit.record_denial(ended.need.actor, ended.need.asked, ended.error.message)
        raise ended.error from None
    except errors.Deferred as deferred:
        raise deferred.settle() from None


def _prepare(write: Write, now: datetime) -> None:
    """Everything that needs no lock: text, what it replaces, the audit entry."""
    document = write.new if write.new is not None else write.old
    assert document is not None
    document["metadata"]["resourceVersion"] = _PLACEHOLDER
    write.text = orjson.dumps(document).decode()
    if write.row is not None and _selection_moved(write):
        write.before = write.row.text
    if write.kind.audited:
        write.audit = audit.entry_of(
            write.actor,
            write.act,
            time=now,
            verb=write.verb,
            resource=write.kind.resource,
            namespace=write.key.namespace,
            name=write.key.name,
            uid=document["metadata"].get("uid", ""),
            reason=write.reason,
            diff=audit.diff(write.old, write.new, write.kind.secret_fields, write.kind.manifests),
        )


def _selection_moved(write: Write) -> bool:
    """Whether a selector, or a right that reaches only some objects, may have seen only one of the two documents."""
    if write.new is None or write.old is None:
        return False
    if any(write.old["metadata"].get(each) != write.new["metadata"].get(each) for each in SELECTING):
        return True
    return any(
        value(version.from_storage(write.old)) != value(version.from_storage(write.new))
        for version in write.kind.versions
        for value in version.fields.values()
    )


def _number(write: Write, number: int) -> None:
    document = write.new if write.new is not None else write.old
    assert document is not None
    write.revision = number
    document["metadata"]["resourceVersion"] = str(number)
    write.text = write.text.replace(_PLACEHOLDER, str(number), 1)
    if write.after is not None and _selection_moved(write):
        write.before = write.after.text
    write.stored, write.stored_before = write.text, write.before
    if write.kind.confidential:
        whose = number, write.key.namespace, write.key.name
        write.stored = stored_text.encrypt(write.text, *whose)
        if write.before:
            write.stored_before = stored_text.encrypt(write.before, *whose, change_log.BEFORE)
    if write.audit is not None:
        write.audit.revision = number


def _write_rows(writes: Sequence[Write]) -> None:
    """Each object's row once, whatever many steps the commit takes with it. Raises Stale, AlreadyExists."""
    changes: dict[int, RowChange] = {}
    first: dict[int, Write] = {}
    for write in writes:
        change = (
            changes[id(write.after)]
            if write.after is not None
            else RowChange(write.kind, write.key, write.row, write.old)
        )
        change.new, change.text, change.revision = write.new, write.stored, write.revision
        changes[id(write)] = change
        first.setdefault(id(change), write)
    try:
        row_writes.write([*{id(change): change for change in changes.values()}.values()])
    except row_writes.Moved as moved:
        raise Stale.of([first[id(change)] for change in moved.changes]) from None
    except row_writes.Taken as taken:
        raise errors.already_exists(taken.change.kind.group, taken.change.kind.plural, taken.change.key.name) from taken


def _append(writes: Sequence[Write], now: datetime) -> None:
    plain_sql.insert(
        [
            Change(
                revision=write.revision,
                resource=write.kind.resource,
                verb=_log_verb(write),
                namespace=write.key.namespace,
                name=write.key.name,
                time=now,
                wire=write.stored,
                before=write.stored_before,
                size=len(write.stored.encode()) + len(write.stored_before.encode()),
            )
            for write in writes
        ]
    )


def _handed_over(writes: Sequence[Write], last: int, ended_rights: int) -> change_log.CommittedChanges:
    """What ``_append`` has appended, for those who follow the log in memory."""

    def entries() -> list[change_log.ChangeEntry]:
        return [
            change_log.ChangeEntry(
                write.revision,
                write.kind.resource,
                _log_verb(write).value,
                write.key.namespace,
                write.key.name,
                write.text,
                write.before,
            )
            for write in writes
        ]

    resources = frozenset(write.kind.resource for write in writes)
    return change_log.CommittedChanges(last - len(writes) + 1, last, ended_rights, resources, entries)


def _log_verb(write: Write) -> Change.Verb:
    if write.new is None:
        return Change.Verb.DELETED
    return Change.Verb.ADDED if write.old is None else Change.Verb.MODIFIED


class Stale(errors.Conflict):
    """Rows moved between reading and writing; a patch without a resourceVersion is tried again.

    ``writes`` are the first of each object that came too late, where the store has found it out.
    """

    writes: Sequence[Write] = ()

    @classmethod
    def of(cls, writes: Sequence[Write]) -> Stale:
        write = writes[0]
        conflict = errors.conflict(write.kind.group, write.kind.plural, write.key.name)
        stale = cls(conflict.message, details=conflict.details)
        stale.writes = writes
        return stale
