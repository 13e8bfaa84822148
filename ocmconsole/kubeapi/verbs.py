"""The verbs: the one way in for every entry point.

A verb asks *may you?*, lets ``proposals`` decide the write, and hands it to ``store.commit``. Documents in and out are
in the stored version unless ``Options.version`` names another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ocmconsole.kubeapi import errors, steps
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.kubeapi.storage import reader
from ocmconsole.kubeapi.writes import proposals, store
from ocmconsole.kubeapi.writes.batches import OPTIMISTIC_TRIES, Batch, batch, together
from ocmconsole.kubeapi.writes.proposals import DEFAULT, Edit, Options, Propose, attributes
from ocmconsole.kubeapi.writes.store import Write

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.access.authorization import AccessDecision
    from ocmconsole.kubeapi.errors import Doc

__all__ = [
    "Batch",
    "Edit",
    "Options",
    "Result",
    "Stale",
    "apply_",
    "attributes",
    "batch",
    "changing_rights",
    "covered",
    "create",
    "delete",
    "edit",
    "existing",
    "find",
    "get",
    "patch",
    "together",
    "update",
    "while_permitted",
    "with_present_rights",
]

NAME_TRIES = 5  # for generated names, as upstream
Stale = store.Stale  # what a batch raises when an object moved after it was read; a new decision may succeed

# For writers of people, rights and tokens, which are no resources.
changing_rights = store.changing_rights
while_permitted = store.while_permitted
with_present_rights = store.with_present_rights


@dataclass(frozen=True, slots=True)
class Result:
    """``doc`` as stored; None after a delete that removed it (``gone`` is what it was)."""

    doc: Doc | None
    created: bool = False
    gone: Doc | None = None


# ---------------------------------------------------------------- reads


def get(actor: Actor, kind: Kind, key: Key) -> Doc:
    """One object. Raises Forbidden, NotFound."""
    return covered(actor, kind, key, authorization.require(actor, attributes(kind, "get", key)))


def covered(actor: Actor, kind: Kind, key: Key, decision: AccessDecision) -> Doc:
    """One object, as far as the decision covers it. Raises Forbidden, NotFound."""
    doc: Doc = existing(kind, key).doc
    if not decision.covers(doc):
        authorization.refuse(actor, attributes(kind, "get", key), proposals.ONLY_DELETING)
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
            with proposals.denial_is_recorded(actor):
                write = proposals.decided(
                    actor, "create", kind, key, partial(proposals.whole, named), decision, options
                )
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
        return _rewrite(actor, "update", kind, key, partial(proposals.whole, doc), decision, subresource, options)
    except errors.NotFound:
        if not kind.create_on_update or subresource:
            raise
    doc = steps.for_missing(kind, key, doc)
    return create(actor, kind, doc, namespace=key.namespace, options=replace(options, decision=None, asked=None))


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
            with proposals.denial_is_recorded(actor):
                write = proposals.decided(actor, "create", kind, key, new, decision, replace(options, asked=None))
            return _finish(write, options, created=True)
        except errors.AlreadyExists:
            pass
    return _rewrite(actor, "patch", kind, key, propose, decision, "", options)


def edit(
    actor: Actor, kind: Kind, key: Key, change: Edit, *, subresource: str = "", options: Options = DEFAULT
) -> Result:
    """Change a document in place, for entry points and reconcilers in Python."""
    return patch(actor, kind, key, proposals.changed_by(change), subresource=subresource, options=options)


def delete(actor: Actor, kind: Kind, key: Key, *, options: Options = DEFAULT) -> Result:
    """Remove, or mark for removal while finalizers hold (W18). Raises NotFound, Conflict on a precondition."""
    decision = options.decision or authorization.require(
        actor, attributes(kind, "delete", key, version=options.version)
    )
    return _committed(lambda: proposals.deletion(actor, kind, key, decision, options), options)


# ---------------------------------------------------------------- how a write is committed


def _rewrite(actor: Actor, verb: str, kind: Kind, key: Key, propose: Propose, decision: AccessDecision,
             subresource: str, options: Options) -> Result:  # fmt: skip
    with proposals.denial_is_recorded(actor):
        return _committed(
            lambda: proposals.decided(actor, verb, kind, key, propose, decision, options, subresource), options
        )


def _committed(decide: Callable[[], Write], options: Options) -> Result:
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


def _finish(write: Write, options: Options, *, created: bool = False, commit: store.Commit = store.commit) -> Result:
    """Commit a step unless it changes nothing (W16) or is a dry run."""
    if write.new is None:
        gone = write.old
        if not options.dry_run:
            _commit(write, options, commit)
        return Result(None, gone=gone)
    if not proposals.is_change(write):
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
    alone.add(write)
    alone.commit(commit)
