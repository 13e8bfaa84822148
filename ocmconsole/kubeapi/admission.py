"""Collects the defaulters and validators of all kinds and runs them, defaulters first, in the order of definition.

Rules are plain functions ``rule(actor, old, new)`` on stored documents; ``old`` is None at create, ``new`` is None at
delete. They read and raise (``errors``); they never write. First failure is reported (A7c). Rules for permissions skip
actors that are controllers of the hub themselves (K6).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from ocmconsole.kubeapi import request_cache

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from django.db.models import Model

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Key, Kind

Defaulter = Callable[["Actor", "Doc | None", "Doc"], None]
# Also those of ``reads_batch``, which take ``Earlier`` as well, and of ``reads_given``.
Validator = Callable[..., None]
DeleteValidator = Callable[["Actor", "Doc"], None]
# Documents as earlier writes of the same transaction leave them, by resource and key; None is deleted.
Earlier = Mapping[tuple[str, "Key"], "Doc | None"]
CreateValidator = Callable[["Kind", "Key", Earlier], None]
ActName = Callable[["Doc | None", "Doc | None"], "str | None"]
Record = Callable[..., "Iterable[Model]"]  # (actor, old, new), and ``given`` where ``reads_given`` marks it
Companion = Callable[[Any, "Doc | None", "Doc | None"], None]

Rule = TypeVar("Rule", bound=Callable[..., object])

ALONE: Earlier = {}  # a write that is a transaction of its own
_defaulters: dict[tuple[str, str], list[Defaulter]] = defaultdict(list)
_validators: dict[tuple[str, str], list[Validator]] = defaultdict(list)
_batch_readers: set[Validator] = set()
_given_readers: set[Callable[..., object]] = set()
_delete_validators: dict[str, list[DeleteValidator]] = defaultdict(list)
_create_validators: list[CreateValidator] = []
_acts: dict[str, list[ActName]] = defaultdict(list)
_records: dict[str, list[Record]] = defaultdict(list)
_companions: dict[str, list[Companion]] = defaultdict(list)
_warnings: ContextVar[list[str] | None] = ContextVar("admission_warnings", default=None)


def defaulter(kind: Kind, *, subresource: str = "") -> Callable[[Defaulter], Defaulter]:
    """The decorated rule edits the new document in place (mutating admission)."""

    def add(rule: Defaulter) -> Defaulter:
        _defaulters[kind.resource, subresource].append(rule)
        return rule

    return add


def validator(kind: Kind, *, subresource: str = "") -> Callable[[Validator], Validator]:
    """The decorated rule raises an ApiError when the new document may not be stored."""

    def add(rule: Validator) -> Validator:
        _validators[kind.resource, subresource].append(rule)
        return rule

    return add


def reads_batch(rule: Validator) -> Validator:
    """Marks a validator ``rule(actor, old, new, earlier)`` that depends on what is written with the object."""
    _batch_readers.add(rule)
    return rule


def reads_given(rule: Rule) -> Rule:
    """Marks a validator or a record with a keyword ``given``: what the act says besides its documents.

    It is ``Options.given`` of the write, or the argument of ``verbs.batch``; None where an entry point gives nothing.
    """
    _given_readers.add(rule)
    return rule


def delete_validator(kind: Kind) -> Callable[[DeleteValidator], DeleteValidator]:
    """The decorated ``rule(actor, old)`` raises an ApiError when the object may not be deleted."""

    def add(rule: DeleteValidator) -> DeleteValidator:
        _delete_validators[kind.resource].append(rule)
        return rule

    return add


def create_validator(rule: CreateValidator) -> CreateValidator:
    """A rule ``rule(kind, key, earlier)`` on the place of every new object, whatever its kind."""
    _create_validators.append(rule)
    return rule


def names_act(kind: Kind) -> Callable[[ActName], ActName]:
    """The decorated function gives a write its name in the audit, or None for the generic one."""

    def add(name: ActName) -> ActName:
        _acts[kind.resource].append(name)
        return name

    return add


def records(kind: Kind) -> Callable[[Record], Record]:
    """The decorated function gives the hub's own rows (facts) to save in the transaction of a write."""

    def add(record: Record) -> Record:
        _records[kind.resource].append(record)
        return record

    return add


def companion(kind: Kind) -> Callable[[Companion], Companion]:
    """The decorated ``rule(batch, old, new)`` adds writes to the commit of a write: what must not come a moment later.

    It runs for each write of the kind, before the commit, and again when that is tried again. ``batch`` is one of
    ``verbs``, of the one who writes; the hub's own writes are those of ``batch.acting_as(…)``.
    """

    def add(rule: Companion) -> Companion:
        _companions[kind.resource].append(rule)
        return rule

    return add


def run_companions(batch: Any, kind: Kind, old: Doc | None, new: Doc | None) -> None:
    for rule in _companions[kind.resource]:
        rule(batch, old, new)


def run_defaulters(actor: Actor, kind: Kind, old: Doc | None, new: Doc, subresource: str = "") -> None:
    for rule in _defaulters[kind.resource, subresource]:
        rule(actor, old, new)


def has_defaulters(kind: Kind, subresource: str = "") -> bool:
    return bool(_defaulters.get((kind.resource, subresource)))


def run_validators(
    actor: Actor,
    kind: Kind,
    old: Doc | None,
    new: Doc,
    subresource: str = "",
    *,
    earlier: Earlier = ALONE,
    given: object = None,
) -> None:
    """What several of them ask is read once, for they judge one moment; what must hold at the commit is a record's."""
    with request_cache.sharing():
        for rule in _validators[kind.resource, subresource]:
            if rule in _batch_readers:
                rule(actor, old, new, earlier)
            else:
                rule(actor, old, new, **_given_to(rule, given))


def run_delete_validators(actor: Actor, kind: Kind, old: Doc) -> None:
    for rule in _delete_validators[kind.resource]:
        rule(actor, old)


def run_create_validators(kind: Kind, key: Key, earlier: Earlier = ALONE) -> None:
    for rule in _create_validators:
        rule(kind, key, earlier)


def act(kind: Kind, verb: str, old: Doc | None, new: Doc | None) -> str:
    """``managedcluster:accept`` where a kind names it, else ``managedcluster:patch``."""
    for name in _acts[kind.resource]:
        if found := name(old, new):
            return found
    return f"{kind.kind.lower()}:{verb}"


def records_of(actor: Actor, kind: Kind, old: Doc | None, new: Doc | None, *, given: object = None) -> list[Model]:
    return [row for record in _records[kind.resource] for row in record(actor, old, new, **_given_to(record, given))]


def _given_to(function: Callable[..., object], given: object) -> dict[str, object]:
    return {"given": given} if function in _given_readers else {}


def warn(text: str) -> None:
    """Add a warning for the client: a ``Warning`` header of the API's response."""
    collected = _warnings.get()
    if collected is not None and text not in collected:
        collected.append(text)


@contextmanager
def collecting() -> Iterator[list[str]]:
    """Warnings given inside the block, in order."""
    collected: list[str] = []
    token = _warnings.set(collected)
    try:
        yield collected
    finally:
        _warnings.reset(token)
