"""Several writes in one transaction: everything or nothing."""

from __future__ import annotations

import uuid
from collections import ChainMap, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ocmconsole.kubeapi import admission, errors, steps
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.kubeapi.schema import values
from ocmconsole.kubeapi.storage import audit, plain_sql, reader
from ocmconsole.kubeapi.writes import amendments, proposals, store
from ocmconsole.kubeapi.writes.proposals import Options, attributes
from ocmconsole.kubeapi.writes.store import Write

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.models import Resource
    from ocmconsole.kubeapi.writes.proposals import Edit

# So often a write is decided optimistically, then once more while nobody else may write. More tries than one keep
# the counter free where two writers meet by chance; fewer than five waste less where many meet all the time.
OPTIMISTIC_TRIES = 2
UNNUMBERED = "unnumbered"  # stands for the resourceVersion that an object gets when its batch is committed


@contextmanager
def batch(actor: Actor, *, request_id: str = "", given: object = None) -> Iterator[Batch]:
    """Several writes, one transaction: everything inside the block or nothing. ``given`` is as in ``Options``."""
    collected = _batch(actor, request_id)
    collected.given = given
    yield collected
    collected.commit()


def together(actor: Actor, compose: Callable[[Batch], None]) -> None:
    """As ``batch``, for writes that name no version: composed again when others have written meanwhile.

    ``compose`` fills the batch; it may run several times, so it has no other effects.
    """
    for _ in range(OPTIMISTIC_TRIES):
        collected = _batch(actor)
        compose(collected)
        try:
            collected.commit()
        except (store.Stale, errors.AlreadyExists):  # or created what this creates
            continue
        return
    with store.turn() as commit:
        collected = _batch(actor)
        compose(collected)
        collected.commit(commit)


def _batch(actor: Actor, request_id: str = "") -> Batch:
    return Batch(replace(actor, request_id=request_id or actor.request_id or str(uuid.uuid4())))


@dataclass
class Batch:
    """Creates, edits and deletes for one transaction, in their order; each sees what those before it leave.

    ``records`` make the hub's own rows to save with them. ``settled`` are reconcilers with keys that these writes give
    no reason to look again. ``given`` is what the act says besides the documents of its writes. ``goes_on``: other
    transactions of the same act follow, for whose end some work waits. An object that is written twice has two
    revisions, changes and audit entries.
    """

    actor: Actor
    writes: list[Write] = field(default_factory=list)
    records: list[store.Record] = field(default_factory=list)
    rights: list[store.Need] = field(default_factory=list)
    settled: set[store.Work] = field(default_factory=set)
    given: object = None
    goes_on: bool = False
    _read: dict[tuple[str, Key], Resource] = field(default_factory=dict)
    _absent: set[tuple[str, Key]] = field(default_factory=set)
    _last: MutableMapping[tuple[str, Key], Write] = field(default_factory=dict)

    def needs(self, asked: authorization.Attributes, require: Callable[[Actor], object]) -> None:
        """A right that the act takes, for acts that write records only.

        ``require`` raises Forbidden: now, and at the commit where rights have changed meanwhile. ``asked`` is what the
        audit says of the second refusal.
        """
        require(self.actor)
        self.rights.append(store.Need(self.actor, asked, require))

    def edit(
        self,
        kind: Kind,
        key: Key,
        change: Edit,
        *,
        subresource: str = "",
        expect: str = "",
        by: Actor | None = None,
        verb: str = "",
        fields: frozenset[str] = frozenset(),
    ) -> None:
        """As ``verbs.edit``; ``expect`` is the resourceVersion that the person has seen (Conflict when it is gone).

        ``by`` is who writes, if not the actor: a reconciler, for what is the hub's own. ``verb`` is what is asked for
        and audited, unless ``update`` of a subresource and ``patch`` of the rest. ``fields`` are all that ``change``
        changes, if known: then a right that is limited to them is enough (``authorization.authorize``).
        """
        verb, actor = verb or ("update" if subresource else "patch"), by or self.actor
        decision = authorization.require(actor, attributes(kind, verb, key, subresource), fields=fields)
        with proposals.denial_is_recorded(actor):
            write = proposals.decided(
                actor, verb, kind, key, proposals.changed_by(change), decision, self.options, subresource
            )
        self._require_version(write, expect)
        self.add(write)

    def amend(
        self, kind: Kind, key: Key, change: Edit, fields: Collection[amendments.Field], *, expect: str = ""
    ) -> bool:
        """As ``edit`` by a controller, in the status and outside it by one write; ``change`` changes ``fields`` alone.

        Returns whether that could be; if not, nothing is added, and ``edit`` is the way (``amendments.amended``).
        """
        write = amendments.amended(self.actor, kind, key, self.present(kind, key), change, fields, self.earlier)
        if write is None:
            return False
        self._require_version(write, expect)
        self.add(write)
        return True

    def create(
        self,
        kind: Kind,
        doc: Doc,
        *,
        namespace: str = "",
        by: Actor | None = None,
        alike: amendments.Alike | None = None,
    ) -> None:
        """As ``verbs.create``, for an object that has a name. Raises AlreadyExists here or at the commit.

        ``alike``: others like it were created, or will be, for which less has to be asked.
        """
        actor = by or self.actor
        decision = authorization.require(actor, attributes(kind, "create", Key(namespace, "")))
        doc = steps.named(kind, doc)
        key = Key(namespace, doc["metadata"]["name"])
        after = self._last.get((kind.resource, key))
        if after is not None and after.new is not None:
            raise errors.already_exists(kind.group, kind.plural, key.name)
        if alike is not None and (write := alike.create(actor, kind, key, doc, decision.reason, self.earlier)):
            self.add(write)
            return
        with proposals.denial_is_recorded(actor):
            write = proposals.decided(actor, "create", kind, key, partial(proposals.whole, doc), decision, self.options)
        self.add(write)
        if alike is not None:
            alike.remember(doc, write)

    def delete(self, kind: Kind, key: Key, also: Edit | None = None, *, by: Actor | None = None) -> bool:
        """As ``verbs.delete``; True when the object goes at once. ``also`` changes, as the hub, what stays."""
        actor = by or self.actor
        decision = authorization.require(actor, attributes(kind, "delete", key))
        write = proposals.deletion(actor, kind, key, decision, self.options)
        if also is not None and write.new is not None:
            also(write.new)
        self.add(write)
        return write.new is None

    def acting_as(self, actor: Actor) -> Batch:
        """The same transaction, for writes of another actor."""
        return replace(self, actor=replace(actor, request_id=self.actor.request_id))

    def has_read(self, kind: Kind, row: Resource) -> None:
        """Writes to the object start from this row, which the caller has read. A newer one is a Conflict at commit."""
        self._read[kind.resource, row.key] = row

    def read(self, kind: Kind, keys: Collection[Key]) -> dict[Key, Any]:
        """Rows of the objects with these keys that are there, read by one query, with ``has_read``."""
        column, wanted = "namespace" if kind.namespaced else "name", set(keys)
        rows: list[Resource] = plain_sql.rows_at(
            kind.model.objects, column, sorted({getattr(key, column) for key in wanted})
        )
        found = {row.key: row for row in rows if row.key in wanted}
        for row in found.values():
            self.has_read(kind, row)
        return found

    def look_up(self, kind: Kind, keys: Collection[Key]) -> None:
        """As ``read``, for few of the objects in a namespace; ``find`` remembers which of them are missing."""
        names: defaultdict[str, list[str]] = defaultdict(list)
        for key in keys:
            names[key.namespace].append(key.name)
        places = " OR ".join(f"(namespace = %s AND name IN ({plain_sql.marks(some)}))" for some in names.values())
        wanted = [each for namespace, some in names.items() for each in (namespace, *some)]
        found = plain_sql.rows_where(kind.model.objects, places, *wanted) if wanted else []
        for row in found:
            self.has_read(kind, row)
        self._absent |= {(kind.resource, key) for key in {*keys}.difference(row.key for row in found)}

    def find(self, kind: Kind, key: Key) -> Doc | None:
        """One object as the writes so far leave it, without asking for a permission."""
        place = kind.resource, key
        after = self._last.get(place)
        if after is not None:
            return values.copied_plain(after.new) if after.new is not None else None
        if place in self._absent:
            return None
        known: Any = self._read.get(place) or reader.read_row(kind, key)
        doc: Doc | None = known.doc if known is not None else None
        return doc

    def part(self) -> Batch:
        """A batch with a request id of its own that sees what this one has read and written so far (``take``)."""
        actor = replace(self.actor, request_id=str(uuid.uuid4()))
        seen = ChainMap({}, self._last)
        return Batch(actor, given=self.given, _read=self._read, _absent=self._absent, _last=seen)

    def take(self, part: Batch) -> None:
        """Commit what the part holds with all else, or not at all."""
        self.writes += part.writes
        self.records += part.records
        self.rights += part.rights
        self.settled |= part.settled
        self._last.update({(write.kind.resource, write.key): write for write in part.writes})

    def _require_version(self, write: Write, expect: str) -> None:
        if expect and write.row is not None and write.row.resource_version != int(expect):
            raise errors.conflict(write.kind.group, write.kind.plural, write.key.name)

    @property
    def options(self) -> Options:
        return Options(batch=self, given=self.given)

    @property
    def earlier(self) -> admission.Earlier:
        return _Earlier(self._last, self._read)

    def add(self, write: Write) -> None:
        """A decided write, unless it changes nothing (W16)."""
        if proposals.is_change(write):
            self.writes.append(write)
            self._last[write.kind.resource, write.key] = write

    def note(self, kind: Kind, key: Key, act: str, reason: str, diff: Sequence[Doc] = ()) -> None:
        """An audit entry for an act that changes no resource."""
        place = {"resource": kind.resource, "namespace": key.namespace, "name": key.name}
        entry = audit.entry_of(self.actor, act, verb="update", reason=reason, diff=list(diff), **place)
        self.records.append(lambda: entry)

    def accompany(self) -> None:
        """Add what the hub writes because of these writes, and at once (``admission.companion``)."""
        for write in tuple(self.writes):
            admission.run_companions(self, write.kind, write.old, write.new)

    def commit(self, commit: store.Commit = store.commit) -> None:
        """With the companions of all writes."""
        self.accompany()
        self.store(commit)

    def store(self, commit: store.Commit = store.commit) -> None:
        """For who has accompanied the writes."""
        if self.writes or self.records:
            commit(self.writes, records=self.records, needs=self.rights, settled=self.settled, goes_on=self.goes_on)

    def present(self, kind: Kind, key: Key) -> tuple[Resource | None, Write | None, Doc | None]:
        """What a write to the object replaces: the stored row, or the earlier write; and its document."""
        after = self._last.get((kind.resource, key))
        if after is None:
            row = self._read.get((kind.resource, key))
            return (row, None, row.doc) if row is not None else proposals.stored(kind, key)
        if after.new is None:
            return None, after, None
        doc = values.copied_plain(after.new)
        doc["metadata"].setdefault("resourceVersion", UNNUMBERED)  # an object that this batch creates has no number yet
        return None, after, doc


class _Earlier(admission.Earlier):
    """Documents as a batch leaves them, and of objects that it has read as they are."""

    def __init__(self, last: Mapping[tuple[str, Key], Write], read: Mapping[tuple[str, Key], Resource]) -> None:
        self._last, self._read = last, read

    def __getitem__(self, place: tuple[str, Key]) -> Doc | None:
        after = self._last.get(place)
        return after.new if after is not None else self._read[place].doc

    def __contains__(self, place: object) -> bool:  # without reading the document
        return place in self._last or place in self._read

    def __iter__(self) -> Iterator[tuple[str, Key]]:
        return iter({**self._read, **self._last})

    def __len__(self) -> int:
        return len({**self._read, **self._last})
