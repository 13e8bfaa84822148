"""Garbage collection by owner references (W18, W180, W181).

Dependents whose last owner is gone are deleted. An owner deleted with Orphan or Foreground is held by a finalizer until
its dependents are released or gone. An owner of a kind that the hub does not serve counts as present.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ocmconsole.kubeapi import errors, kinds, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.control import controllers
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.kubeapi.models import Owner
from ocmconsole.kubeapi.writes.proposals import CASCADES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocmconsole.kubeapi.errors import Doc

FOREGROUND, ORPHAN = CASCADES["Foreground"], CASCADES["Orphan"]
# They go by the hundred and nothing ever hangs on them.
OWN_NOTHING = frozenset({"Event"})

collector = Actor.controller("garbage-collector")


class Dependent(NamedTuple):
    kind: Kind
    key: Key
    doc: Doc

    @property
    def references(self) -> list[Doc]:
        return self.doc["metadata"].get("ownerReferences") or []

    @property
    def is_leaving(self) -> bool:
        return bool(self.doc["metadata"].get("deletionTimestamp"))


# ---------------------------------------------------------------- owners that are gone


def owners_in_question(old: Doc | None, new: Doc | None, key: Key) -> Iterator[Key]:  # noqa: ARG001 - the signature of Keys
    """The uid that went, or those that a new reference names (its owner may be gone already)."""
    if new is None:
        assert old is not None
        if old["kind"] not in OWN_NOTHING:
            yield Key("", old["metadata"]["uid"])
        return
    references = new["metadata"].get("ownerReferences")
    if references and (old is None or old["metadata"].get("ownerReferences") != references):
        yield from (Key("", reference["uid"]) for reference in references if len(reference["uid"]) <= Owner.LONGEST_UID)


@controllers.reconciler(None, keys=owners_in_question)
def reconcile_dependents(key: Key) -> None:
    """W18, W181: delete the dependents of a uid that is gone; those with another owner only lose the reference.

    1. Owner there: nothing is done.
    2. Owner gone, another owner left: the reference to the missing one is removed.
    3. Owner gone, no other: the dependent is deleted.
    """
    for dependent in _dependents(key.name):
        missing = [reference for reference in dependent.references if _is_gone(reference, dependent.key.namespace)]
        if key.name not in {reference["uid"] for reference in missing}:
            if _is_known(dependent, key.name):
                return
            continue
        if len(missing) < len(dependent.references):
            _release(dependent, {reference["uid"] for reference in missing})
        elif not dependent.is_leaving:
            _collect(dependent)


def _is_known(dependent: Dependent, uid: str) -> bool:
    return any(ref["uid"] == uid and kinds.by_owner(ref["apiVersion"], ref["kind"]) for ref in dependent.references)


# ---------------------------------------------------------------- owners that wait


def waiting_owners(old: Doc | None, new: Doc | None, key: Key) -> Iterator[Key]:  # noqa: ARG001 - the signature of Keys
    """An owner being deleted under one of our finalizers, itself or because a dependent that blocked it went."""
    if new is not None:
        finalizers = new["metadata"].get("finalizers")
        if finalizers and new["metadata"].get("deletionTimestamp") and not {FOREGROUND, ORPHAN}.isdisjoint(finalizers):
            yield from _owner_key(new["apiVersion"], new["kind"], new["metadata"]["uid"])
        return
    assert old is not None
    for reference in old["metadata"].get("ownerReferences") or []:
        if reference.get("blockOwnerDeletion"):
            yield from _owner_key(reference["apiVersion"], reference["kind"], reference["uid"])


def _owner_key(api_version: str, kind: str, uid: str) -> Iterator[Key]:
    found = kinds.by_owner(api_version, kind)
    if found is not None and len(uid) <= Owner.LONGEST_UID:
        yield Key("", f"{found.resource}/{uid}")


@controllers.reconciler(None, keys=waiting_owners)
def reconcile_waiting_owner(key: Key) -> None:
    """W180: remove ``orphan`` and ``foregroundDeletion`` from an owner: dependents are released, or none blocks it.

    1. ``orphan``: references of all dependents to the owner are removed, then the finalizer.
    2. ``foregroundDeletion``: dependents with another owner lose the reference, the others are deleted.
    3. Once no dependent with ``blockOwnerDeletion`` is left, that finalizer is removed too.
    """
    resource, _, uid = key.name.partition("/")
    kind = kinds.by_resource(resource)
    row: Any = kind.model.objects.filter(uid=uid).exclude(deleted_at=None).first()
    finalizers = (row.doc["metadata"].get("finalizers") or []) if row else []
    if ORPHAN in finalizers:
        for dependent in _dependents(uid):
            _release(dependent, {uid})
        _take_off(kind, row.key, ORPHAN)
    elif FOREGROUND in finalizers:
        for dependent in _dependents(uid):
            others = [
                ref for ref in dependent.references if ref["uid"] != uid and not _is_gone(ref, dependent.key.namespace)
            ]
            if others:
                _release(dependent, {uid})
            elif not dependent.is_leaving:
                _collect(dependent)
        if not any(_blocks(dependent, uid) for dependent in _dependents(uid)):
            _take_off(kind, row.key, FOREGROUND)


def _blocks(dependent: Dependent, uid: str) -> bool:
    return any(ref["uid"] == uid and ref.get("blockOwnerDeletion") for ref in dependent.references)


# ---------------------------------------------------------------- one dependent


def _dependents(uid: str) -> Iterator[Dependent]:
    for entry in Owner.objects.filter(owner_uid=uid):
        kind = kinds.by_resource(entry.resource)
        row: Any = kind.model.objects.filter(uid=entry.uid).first()
        if row is not None:
            yield Dependent(kind, row.key, row.doc)


def _is_gone(reference: Doc, namespace: str) -> bool:
    kind = kinds.by_owner(reference["apiVersion"], reference["kind"])
    if kind is None:
        return False
    found: Any = kind.model.objects.filter(uid=reference["uid"], namespace__in=("", namespace))
    return not found.exists()


def _release(dependent: Dependent, uids: set[str]) -> None:
    def forget(doc: Doc) -> None:
        kept = [ref for ref in doc["metadata"].get("ownerReferences") or [] if ref["uid"] not in uids]
        doc["metadata"]["ownerReferences"] = kept

    with suppress(errors.NotFound):
        verbs.edit(collector, dependent.kind, dependent.key, forget)


def _collect(dependent: Dependent) -> None:
    """Delete exactly what was looked at: an object that changed meanwhile may have found an owner."""
    metadata = dependent.doc["metadata"]
    options = verbs.Options(uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    with suppress(errors.NotFound):
        verbs.delete(collector, dependent.kind, dependent.key, options=options)


def _take_off(kind: Kind, key: Key, finalizer: str) -> None:
    def let_go(doc: Doc) -> None:
        finalizers = doc["metadata"].get("finalizers") or []
        doc["metadata"]["finalizers"] = [name for name in finalizers if name != finalizer]

    with suppress(errors.NotFound):
        verbs.edit(collector, kind, key, let_go)
