"""Object writer of the reconcilers: idempotent creates, updates and deletes of what belongs to clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone

from clusters.kinds import MANAGED_CLUSTER, conditions_of
from ocmconsole.kubeapi import conditions, errors, times, verbs
from ocmconsole.kubeapi.actor import Actor
from ocmconsole.kubeapi.conditions import Condition
from ocmconsole.kubeapi.kinds import Key

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind
    from ocmconsole.kubeapi.verbs import Edit

CONTROLLER = Actor.controller("registration")


def set_condition(condition: Condition) -> Edit:
    def change(doc: Doc) -> None:
        now = times.timestamp(timezone.now())
        doc.setdefault("status", {})["conditions"] = conditions.set_condition(conditions_of(doc), condition, now)

    return change


def report(cluster: str, condition: Condition) -> None:
    """Set a condition of a cluster; nothing is written when it says so already."""
    verbs.edit(CONTROLLER, MANAGED_CLUSTER, Key("", cluster), set_condition(condition), subresource="status")


def add_finalizer(kind: Kind, key: Key, finalizer: str, *, first: bool = False) -> None:
    def add(doc: Doc) -> None:
        present = doc["metadata"].get("finalizers") or []
        if finalizer not in present:
            doc["metadata"]["finalizers"] = [finalizer, *present] if first else [*present, finalizer]

    verbs.edit(CONTROLLER, kind, key, add)


def drop_finalizer(kind: Kind, key: Key, finalizer: str) -> None:
    """An object that is being deleted goes with its last one; one that is gone already is fine."""

    def drop(doc: Doc) -> None:
        present = doc["metadata"].pop("finalizers", None) or []
        if kept := [each for each in present if each != finalizer]:
            doc["metadata"]["finalizers"] = kept

    try:
        verbs.edit(CONTROLLER, kind, key, drop)
    except errors.NotFound:
        return


def delete(kind: Kind, key: Key) -> None:
    """Once is enough, and never is fine too."""
    present = verbs.find(kind, key)
    if present is not None and not present["metadata"].get("deletionTimestamp"):
        try:
            verbs.delete(CONTROLLER, kind, key)
        except errors.NotFound:
            return


def ensure(kind: Kind, wanted: Doc, *, namespace: str = "") -> None:
    """Create an object, or make its labels include and its other parts equal the wanted ones.

    A binding that points elsewhere cannot be changed: it is made anew.
    """
    key = Key(namespace, wanted["metadata"]["name"])
    present = verbs.find(kind, key)
    if present is not None and not _can_become(present, wanted):
        for finalizer in wanted["metadata"].get("finalizers", ()):
            drop_finalizer(kind, key, finalizer)
        delete(kind, key)
        present = verbs.find(kind, key)  # somebody else's finalizer may hold it
    if present is None:
        _create(kind, wanted, namespace)
    elif _differs(present, wanted):
        verbs.edit(CONTROLLER, kind, key, lambda doc: _become(doc, wanted))


def _create(kind: Kind, wanted: Doc, namespace: str) -> None:
    """Another worker may write the same cluster first; that is a lost race, and no failure to report."""
    doc = {"apiVersion": kind.storage.api_version, "kind": kind.kind, **wanted}
    try:
        verbs.create(CONTROLLER, kind, doc, namespace=namespace)
    except errors.AlreadyExists as error:
        raise errors.Conflict(error.message) from error


def _can_become(present: Doc, wanted: Doc) -> bool:
    return not present["metadata"].get("deletionTimestamp") and present.get("roleRef") == wanted.get("roleRef")


def _differs(present: Doc, wanted: Doc) -> bool:
    metadata, parts = wanted["metadata"], {name: part for name, part in wanted.items() if name != "metadata"}
    labels = present["metadata"].get("labels") or {}
    finalizers = present["metadata"].get("finalizers") or ()
    return (
        any(present.get(name) != part for name, part in parts.items())
        or not metadata.get("labels", {}).items() <= labels.items()
        or not set(metadata.get("finalizers", ())) <= set(finalizers)
    )


def _become(doc: Doc, wanted: Doc) -> None:
    metadata = doc["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), **wanted["metadata"].get("labels", {})}
    missing = [
        each for each in wanted["metadata"].get("finalizers", ()) if each not in (metadata.get("finalizers") or ())
    ]
    if missing:
        metadata["finalizers"] = [*(metadata.get("finalizers") or ()), *missing]
    doc.update({name: part for name, part in wanted.items() if name != "metadata"})
