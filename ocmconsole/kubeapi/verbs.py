"""The verbs: the one way in for every entry point. The life of a write is ``_step``; one screen, no hidden hooks.

A verb asks *may you?*, reads what is there, takes the proposed document, prunes, defaults and checks it, and hands the
result to ``store.commit``. Documents in and out are in the stored version unless ``Options.version`` names another.
"""

from __future__ import annotations

import uuid
from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from django.conf import settings

from ocmconsole.kubeapi import admission, clock, errors, steps, store
from ocmconsole.kubeapi.access import authorization, request_limits
from ocmconsole.kubeapi.health import limit_records
from ocmconsole.kubeapi.kinds import Key, Kind, Version
from ocmconsole.kubeapi.schema import times, values
from ocmconsole.kubeapi.storage import audit, plain_sql, reader
from ocmconsole.kubeapi.store import Write

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.access.authorization import AccessDecision
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.models import Resource

# So often a write is decided optimistically, then once more while nobody else may write. More tries than one keep
# the counter free where two writers meet by chance; fewer than five waste less where many meet all the time.
OPTIMISTIC_TRIES = 2
Stale = store.Stale  # what a batch raises when an object moved after it was read; a new decision may succeed
NAME_TRIES = 5  # for generated names, as upstream
UNNUMBERED = "unnumbered"  # stands for the resourceVersion that an object gets when its batch is committed
ONLY_DELETING = "only objects that are being deleted are permitted"
# By propagation policy, the finalizer that the garbage collector takes off again (W180).
CASCADES = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}

# For writers of people, rights and tokens, which are no resources.
changing_rights = store.changing_rights
while_permitted = store.while_permitted
with_present_rights = store.with_present_rights
# For writers of what ``controllers.reconciler(is_wanted=…)`` looks at.

Propose = Callable[["Doc | None"], "Doc"]
Edit = Callable[["Doc"], None]


@dataclass(frozen=True, slots=True)
class Options:
    """How a write is meant. ``unknown`` is what strict decoding found: ``ignore``, ``warn``, ``strict``.

    ``decision`` is the answer when the entry point has authorized already, and ``asked`` what it authorized.
    ``applies``: server-side apply keeps its own fields. ``alone``: decided while nobody else may write, for what must
    not be done twice.
    ``uid`` and ``resource_version`` are preconditions of a delete. ``batch`` is what the write is a part of.
    ``given`` is what the act says besides documents, for rules that ``admission.reads_given`` marks.
    """

    version: Version | None = None
    dry_run: bool = False
    manager: str = "ocmconsole"
    unknown: str = "ignore"
    decision: AccessDecision | None = None
    asked: authorization.Attributes | None = None
    applies: bool = False
    alone: bool = False
    uid: str | None = None
    resource_version: str | None = None
    propagation: str = "Background"
    batch: Batch | None = None
    given: object = None


@dataclass(frozen=True, slots=True)
class Result:
    """``doc`` as stored; None after a delete that removed it (``gone`` is what it was)."""

    doc: Doc | None
    created: bool = False
    gone: Doc | None = None


DEFAULT = Options()


# ---------------------------------------------------------------- reads


def get(actor: Actor, kind: Kind, key: Key) -> Doc:
    """One object. Raises Forbidden, NotFound."""
    return covered(actor, kind, key, authorization.require(actor, attributes(kind, "get", key)))


def covered(actor: Actor, kind: Kind, key: Key, decision: AccessDecision) -> Doc:
    """One object, as far as the decision covers it. Raises Forbidden, NotFound."""
    doc: Doc = existing(kind, key).doc
    if not decision.covers(doc):
        authorization.refuse(actor, attributes(kind, "get", key), ONLY_DELETING)
    return doc


def find(kind: Kind, key: Key) -> Doc | None:
    """One object for the hub's own eyes: no permission asked."""
    row = reader.read_row(kind, key)
    return row.doc if row else None


def existing(kind: Kind, key: Key) -> Any:
    row = reader.read_row(kind, key)
    if row is None:
        raise errors.not_found(kind.group, kind.plural, key.name)
    return row


def attributes(
    kind: Kind, verb: str, key: Key, subresource: str = "", version: Version | None = None
) -> authorization.Attributes:
    served = version or kind.storage
    return authorization.Attributes(
        verb=verb,
        group=served.group,
        version=served.version,
        resource=kind.plural,
        subresource=subresource,
        namespace=key.namespace,
        name=key.name,
    )


# ---------------------------------------------------------------- writes


def create(actor: Actor, kind: Kind, doc: Doc, *, namespace: str = "", options: Options = DEFAULT) -> Result:
    """Store a new object. Raises Forbidden, AlreadyExists, BadRequest, Invalid, NotFound (its namespace)."""
    decision = options.decision or authorization.require(
        actor, attributes(kind, "create", Key(namespace, ""), version=options.version)
    )
    for attempt in range(NAME_TRIES):
        named = steps.named(kind, doc)
        key = Key(namespace, named["metadata"]["name"])
        try:
            with _denial_is_recorded(actor):
                write = _step(actor, "create", kind, key, partial(_copy_of, named), decision, options)
            return _finish(write, options, created=True)
        except errors.AlreadyExists as error:
            if not steps.is_generated(doc):
                raise _with_its_state(kind, key, error) from error
            if attempt == NAME_TRIES - 1:
                error.message += ", the server was not able to generate a unique name for the object"
                raise _with_its_state(kind, key, error) from error
    raise AssertionError


def update(
    actor: Actor, kind: Kind, key: Key, doc: Doc, *, subresource: str = "", options: Options = DEFAULT
) -> Result:
    """Replace an object (PUT). Raises Conflict when its resourceVersion is not the current one (W14)."""
    decision = options.decision or authorization.require(
        actor, attributes(kind, "update", key, subresource, options.version)
    )
    try:
        return _rewrite(actor, "update", kind, key, partial(_copy_of, doc), decision, subresource, options)
    except errors.NotFound:
        if not kind.create_on_update or subresource:
            raise
    doc = steps.for_missing(kind, key, doc)
    return create(actor, kind, doc, namespace=key.namespace, options=replace(options, decision=None, asked=None))


def _copy_of(doc: Doc, old: Doc | None) -> Doc:  # noqa: ARG001 - the signature of Propose
    """What is proposed whole, whatever is there."""
    copy: Doc = values.copied(doc)
    return copy


def _with_its_state(kind: Kind, key: Key, error: errors.AlreadyExists) -> errors.AlreadyExists:
    """Who waits for an object to go learns that it is going."""
    row = reader.read_row(kind, key)
    if row is not None and row.deleted_at is not None:
        error.message = f"object is being deleted: {error.message}"
    return error


def patch(
    actor: Actor, kind: Kind, key: Key, propose: Propose, *, subresource: str = "", options: Options = DEFAULT
) -> Result:
    """Change what is there: ``propose`` gets the present document and returns the wanted one.

    Decided again when somebody else wrote in between, so that it never fails for that reason unless the proposal
    carries its own resourceVersion (W15).
    """
    decision = options.decision or authorization.require(
        actor, attributes(kind, "patch", key, subresource, options.version)
    )
    return _rewrite(actor, "patch", kind, key, propose, decision, subresource, options)


def apply_(actor: Actor, kind: Kind, key: Key, propose: Propose, *, options: Options = DEFAULT) -> Result:
    """Server-side apply: as patch, and creates what is missing (W141)."""
    decision = options.decision or authorization.require(actor, attributes(kind, "patch", key, version=options.version))
    options = replace(options, applies=True)
    if reader.read_row(kind, key) is None:
        authorization.require(actor, attributes(kind, "create", Key(key.namespace, ""), version=options.version))
        try:
            new = lambda old: steps.for_missing(kind, key, propose(old))  # noqa: E731 - one use
            with _denial_is_recorded(actor):
                write = _step(actor, "create", kind, key, new, decision, replace(options, asked=None))
            return _finish(write, options, created=True)
        except errors.AlreadyExists:
            pass
    return _rewrite(actor, "patch", kind, key, propose, decision, "", options)


def edit(
    actor: Actor, kind: Kind, key: Key, change: Edit, *, subresource: str = "", options: Options = DEFAULT
) -> Result:
    """Change a document in place, for entry points and reconcilers in Python."""
    return patch(actor, kind, key, _changed_by(change), subresource=subresource, options=options)


def delete(actor: Actor, kind: Kind, key: Key, *, options: Options = DEFAULT) -> Result:
    """Remove, or mark for removal while finalizers hold (W18). Raises NotFound, Conflict on a precondition."""
    decision = options.decision or authorization.require(
        actor, attributes(kind, "delete", key, version=options.version)
    )
    return _decided(lambda: _deletion(actor, kind, key, decision, options), options)


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
        with _denial_is_recorded(actor):
            write = _step(actor, verb, kind, key, _changed_by(change), decision, self.options, subresource)
        if expect and write.row is not None and write.row.resource_version != int(expect):
            raise errors.conflict(kind.group, kind.plural, key.name)
        self._add(write)

    def create(self, kind: Kind, doc: Doc, *, namespace: str = "", by: Actor | None = None) -> None:
        """As ``verbs.create``, for an object that has a name. Raises AlreadyExists here or at the commit."""
        actor = by or self.actor
        decision = authorization.require(actor, attributes(kind, "create", Key(namespace, "")))
        doc = steps.named(kind, doc)
        key = Key(namespace, doc["metadata"]["name"])
        after = self._last.get((kind.resource, key))
        if after is not None and after.new is not None:
            raise errors.already_exists(kind.group, kind.plural, key.name)
        with _denial_is_recorded(actor):
            self._add(_step(actor, "create", kind, key, partial(_copy_of, doc), decision, self.options))

    def delete(self, kind: Kind, key: Key, also: Edit | None = None, *, by: Actor | None = None) -> bool:
        """As ``verbs.delete``; True when the object goes at once. ``also`` changes, as the hub, what stays."""
        actor = by or self.actor
        decision = authorization.require(actor, attributes(kind, "delete", key))
        write = _deletion(actor, kind, key, decision, self.options)
        if also is not None and write.new is not None:
            also(write.new)
        self._add(write)
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

    def find(self, kind: Kind, key: Key) -> Doc | None:
        """One object as the writes so far leave it, without asking for a permission."""
        after = self._last.get((kind.resource, key))
        if after is not None:
            return values.copied_plain(after.new) if after.new is not None else None
        known: Any = self._read.get((kind.resource, key)) or reader.read_row(kind, key)
        doc: Doc | None = known.doc if known is not None else None
        return doc

    def part(self) -> Batch:
        """A batch with a request id of its own that sees what this one has read and written so far (``take``)."""
        actor = replace(self.actor, request_id=str(uuid.uuid4()))
        seen = ChainMap({}, self._last)
        return Batch(actor, given=self.given, _read=self._read, _last=seen)

    def take(self, part: Batch) -> None:
        """Commit what the part holds with all else, or not at all."""
        self.writes += part.writes
        self.records += part.records
        self.rights += part.rights
        self.settled |= part.settled
        self._last.update({(write.kind.resource, write.key): write for write in part.writes})

    @property
    def options(self) -> Options:
        return Options(batch=self, given=self.given)

    @property
    def earlier(self) -> admission.Earlier:
        return _Earlier(self._last, self._read)

    def _add(self, write: Write) -> None:
        if _is_change(write):
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
            return (row, None, row.doc) if row is not None else _stored(kind, key)
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

    def __iter__(self) -> Iterator[tuple[str, Key]]:
        return iter({**self._read, **self._last})

    def __len__(self) -> int:
        return len({**self._read, **self._last})


# ---------------------------------------------------------------- the life of a write


def _rewrite(actor: Actor, verb: str, kind: Kind, key: Key, propose: Propose, decision: AccessDecision,
             subresource: str, options: Options) -> Result:  # fmt: skip
    with _denial_is_recorded(actor):
        return _decided(lambda: _step(actor, verb, kind, key, propose, decision, options, subresource), options)


def _decided(decide: Callable[[], Write], options: Options) -> Result:
    """Commit what ``decide`` makes of the present document; it decides again when others have written meanwhile.

    Who has lost its optimistic tries decides while nobody else may write, in this process or another.
    """
    for _ in range(0 if options.alone else OPTIMISTIC_TRIES):
        write = decide()
        try:
            return _finish(write, options)
        except store.Stale:
            continue
    with store.turn() as commit:
        return _finish(decide(), options, commit=commit)


class _Denial(Exception):
    """A rule has refused a write: the error for the client, and what was asked for the audit."""

    def __init__(self, error: errors.Forbidden, asked: authorization.Attributes) -> None:
        super().__init__(error.message)
        self.error, self.asked = error, asked


@contextmanager
def _denial_is_recorded(actor: Actor) -> Iterator[None]:
    """D11, D23: record a denial, or that a limit refused, after the transaction that it rolls back."""
    try:
        yield
    except _Denial as denial:
        audit.record_denial(actor, denial.asked, denial.error.message)
        raise denial.error from None
    except (request_limits.OverSizeError, request_limits.HeldBackError) as error:
        limit_records.record(actor, error.limit)
        raise


def _stored(kind: Kind, key: Key) -> tuple[Resource | None, None, Doc | None]:
    row = reader.read_row(kind, key)
    return row, None, row.doc if row is not None else None


def _step(actor: Actor, verb: str, kind: Kind, key: Key, propose: Propose, decision: AccessDecision, options: Options,
          subresource: str = "") -> Write:  # fmt: skip
    """The write pipeline from old document to checked new one, in the order of W20. Writes nothing."""
    now = clock.now()
    version = options.version or kind.storage
    batch = options.batch
    earlier = batch.earlier if batch is not None else admission.ALONE
    row, after, old = None, None, None
    if verb == "create":
        admission.run_create_validators(kind, key, earlier)
    else:
        row, after, old = batch.present(kind, key) if batch is not None else _stored(kind, key)
        if old is None:
            raise errors.not_found(kind.group, kind.plural, key.name)
    proposed = propose(version.from_storage(values.copied_plain(old)) if old else None)
    steps.check_preconditions(kind, key, old, proposed, verb)
    shown = version.from_storage(old) if old else None
    # What is written as it is stored was pruned and defaulted then, unless it is in another version now, or mixed.
    known = old if version is kind.storage and kind.merge is None else None
    new = steps.decoded(kind, version, proposed, options.unknown, known)
    new = steps.without_doubles(new, patched=verb == "patch" or options.applies)
    new = steps.permitted_part(kind, subresource, shown, new, applies=options.applies)
    new = steps.stored(kind, version, old, new)
    steps.stamp(kind, key, old, new, now)
    new = kind.storage.schema.default(new, known)
    # Before the rules add to it: rights limited to some fields are about this. The hub's own are not limited.
    asked = new if actor.is_controller else values.copied(new)
    admission.run_defaulters(actor, kind, old, new, subresource)
    new = kind.storage.schema.default(new, known)
    steps.validate(kind, old, new)
    try:
        _check_size(actor, kind, key, old, new)
        admission.run_validators(actor, kind, old, new, subresource, earlier=earlier, given=options.given)
        _within(actor, kind, key, verb, subresource, decision, old, asked)
    except errors.Forbidden as error:
        raise _Denial(error, attributes(kind, verb, key, subresource)) from error
    if not options.applies:
        moment = times.timestamp(now)
        steps.bookkeep(kind, version, old, new, manager=options.manager, subresource=subresource, now=moment)
    gone = bool(new["metadata"].get("deletionTimestamp")) and not steps.is_held(kind, new)
    act = admission.act(kind, verb, old, new)

    def ask_again(present: Actor) -> None:
        place = Key(key.namespace, "") if verb == "create" else key
        found = _required(present, options.asked or attributes(kind, verb, place, subresource, options.version))
        admission.run_validators(present, kind, old, new, subresource, earlier=earlier, given=options.given)
        _within(present, kind, key, verb, subresource, found, old, asked)

    return Write(
        kind, key, row, old, None if gone else new, actor, verb, act, decision.reason, ask_again, after, options.given
    )


def _required(actor: Actor, asked: authorization.Attributes) -> AccessDecision:
    """As ``authorization.require`` for a caller that records the refusal itself."""
    decision = authorization.authorize(actor, asked)
    if not decision.allowed:
        raise authorization.forbidden_error(actor, asked)
    return decision


def _check_size(actor: Actor, kind: Kind, key: Key, old: Doc | None, new: Doc) -> None:
    """D23: the size of a status is limited, because every list and watch of its kind reads it. Raises OverSizeError."""
    status, most = new.get("status"), settings.OCMCONSOLE_LIMIT_STATUS_SIZE
    if not status or not most or actor.is_controller or (old is not None and old.get("status") == status):
        return
    if (size := len(orjson.dumps(status))) > most:
        text = f'{kind.resource} "{key.name}": status is too large: {size} bytes, limit is {most}'
        raise request_limits.OverSizeError(request_limits.STATUS_SIZE, text)


def _finish(write: Write, options: Options, *, created: bool = False, commit: store.Commit = store.commit) -> Result:
    """Commit a step unless it changes nothing (W16) or is a dry run."""
    if write.new is None:
        gone = write.old
        if not options.dry_run:
            _commit(write, options, commit)
        return Result(None, gone=gone)
    if not _is_change(write):
        return Result(write.old)
    if options.dry_run:
        metadata = write.new["metadata"]
        if write.old:
            metadata["resourceVersion"] = write.old["metadata"]["resourceVersion"]
        elif reader.read_row(write.kind, write.key):
            raise errors.already_exists(write.kind.group, write.kind.plural, write.key.name)
    else:
        _commit(write, options, commit)
    return Result(write.new, created=created)


def _commit(write: Write, options: Options, commit: store.Commit) -> None:
    alone = Batch(write.actor, given=options.given)
    alone._add(write)  # noqa: SLF001 - of this module
    alone.commit(commit)


def _is_change(write: Write) -> bool:
    return write.new is None or write.old is None or write.new != write.old


def _is_in(path: str, field: str) -> bool:
    """Keys of labels and annotations may hold dots: one is not below another."""
    is_key = field.startswith(("metadata.labels.", "metadata.annotations."))
    return path == field or (not is_key and path.startswith(f"{field}."))


def _within(actor: Actor, kind: Kind, key: Key, verb: str, subresource: str, decision: AccessDecision,
            old: Doc | None, new: Doc) -> None:  # fmt: skip
    """A right that is limited to some fields, or to objects that are being deleted, allows no other change.

    What rules add to ``new`` is the hub's.
    """
    if not decision.covers(old or new):
        raise authorization.forbidden_error(actor, attributes(kind, verb, key, subresource), ONLY_DELETING)
    if decision.fields is None:
        return
    for path in steps.changed_paths("", old or {}, new):
        if not any(_is_in(path, field) for field in decision.fields):
            asked = attributes(kind, verb, key, subresource)
            raise authorization.forbidden_error(
                actor, asked, f"{decision.reason} allows changing {', '.join(sorted(decision.fields))} only"
            )


# ---------------------------------------------------------------- deletion


def _deletion(actor: Actor, kind: Kind, key: Key, decision: AccessDecision, options: Options) -> Write:
    row, after, old = options.batch.present(kind, key) if options.batch is not None else _stored(kind, key)
    if old is None:
        raise errors.not_found(kind.group, kind.plural, key.name)
    steps.check_delete_preconditions(kind, key, old, uid=options.uid, resource_version=options.resource_version)
    admission.run_delete_validators(actor, kind, old)
    act = admission.act(kind, "delete", old, None)
    new: Doc | None = values.copied(old)
    assert new is not None
    if not new["metadata"].get("deletionTimestamp"):
        _add_cascade(new, options.propagation)
        if steps.is_held(kind, new) or kind.mark_deleted:
            steps.mark_deleted(kind, new)
    if not steps.is_held(kind, new):
        new = None

    def ask_again(present: Actor) -> None:
        _required(present, options.asked or attributes(kind, "delete", key, version=options.version))
        admission.run_delete_validators(present, kind, old)

    return Write(kind, key, row, old, new, actor, "delete", act, decision.reason, ask_again, after)


def _add_cascade(new: Doc, propagation: str) -> None:
    """Foreground and Orphan hold the object until the collector has seen to its dependents."""
    finalizer = CASCADES.get(propagation)
    finalizers = new["metadata"].get("finalizers") or []
    if finalizer and finalizer not in finalizers and reader.has_dependents(new["metadata"]["uid"]):
        new["metadata"]["finalizers"] = [*finalizers, finalizer]


def _changed_by(change: Edit) -> Propose:
    def propose(old: Doc | None) -> Doc:
        assert old is not None
        change(old)
        return old

    return propose
