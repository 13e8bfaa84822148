"""From a proposed document to a checked write: ``decided`` is the life of a write; one screen, no hidden hooks.

Reads what is there, takes the proposed document, prunes, defaults and checks it, and asks whether the right that was
found allows this change. Stores nothing: ``verbs`` and ``batches`` hand the result to ``store.commit``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson
from django.conf import settings

from ocmconsole.kubeapi import admission, clock, errors, steps
from ocmconsole.kubeapi.access import authorization, request_limits
from ocmconsole.kubeapi.health import limit_records
from ocmconsole.kubeapi.kinds import Key, Kind, Version
from ocmconsole.kubeapi.schema import times, values
from ocmconsole.kubeapi.storage import audit, reader
from ocmconsole.kubeapi.writes.store import Write

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.access.authorization import AccessDecision
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.models import Resource
    from ocmconsole.kubeapi.writes.batches import Batch

ONLY_DELETING = "only objects that are being deleted are permitted"
# By propagation policy, the finalizer that the garbage collector takes off again (W180).
CASCADES = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}

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


DEFAULT = Options()


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


def whole(doc: Doc, old: Doc | None) -> Doc:  # noqa: ARG001 - the signature of Propose
    """What is proposed whole, whatever is there."""
    copy: Doc = values.copied(doc)
    return copy


def changed_by(change: Edit) -> Propose:
    def propose(old: Doc | None) -> Doc:
        assert old is not None
        change(old)
        return old

    return propose


class _Denial(Exception):
    """A rule has refused a write: the error for the client, and what was asked for the audit."""

    def __init__(self, error: errors.Forbidden, asked: authorization.Attributes) -> None:
        super().__init__(error.message)
        self.error, self.asked = error, asked


@contextmanager
def denial_is_recorded(actor: Actor) -> Iterator[None]:
    """D11, D23: record a denial, or that a limit refused, after the transaction that it rolls back."""
    try:
        yield
    except _Denial as denial:
        audit.record_denial(actor, denial.asked, denial.error.message)
        raise denial.error from None
    except (request_limits.OverSizeError, request_limits.HeldBackError) as error:
        limit_records.record(actor, error.limit)
        raise


def stored(kind: Kind, key: Key) -> tuple[Resource | None, None, Doc | None]:
    row = reader.read_row(kind, key)
    return row, None, row.doc if row is not None else None


def decided(actor: Actor, verb: str, kind: Kind, key: Key, propose: Propose, decision: AccessDecision, options: Options,
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
        row, after, old = batch.present(kind, key) if batch is not None else stored(kind, key)
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


def is_change(write: Write) -> bool:
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


def deletion(actor: Actor, kind: Kind, key: Key, decision: AccessDecision, options: Options) -> Write:
    row, after, old = options.batch.present(kind, key) if options.batch is not None else stored(kind, key)
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
