"""Object writer of the reconcilers: idempotent creates, updates and deletes of what belongs to clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.kinds import CLUSTER_LABEL, LEASE, LEASE_NAME, MANAGED_CLUSTER, conditions_of
from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema import conditions, times
from ocmconsole.kubeapi.schema.conditions import Condition

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind
    from ocmconsole.kubeapi.verbs import Batch, Edit

CONTROLLER = Actor.controller("registration")


def set_condition(condition: Condition) -> Edit:
    def change(doc: Doc) -> None:
        now = times.timestamp(clock.now())
        doc.setdefault("status", {})["conditions"] = conditions.set_condition(conditions_of(doc), condition, now)

    return change


def report_condition(cluster: str, condition: Condition) -> None:
    """Set a condition of a cluster; nothing is written when it says so already."""
    verbs.edit(CONTROLLER, MANAGED_CLUSTER, Key("", cluster), set_condition(condition), subresource="status")


def say(batch: Batch, cluster: str, condition: Condition) -> None:
    """As ``report``, in a batch."""
    batch.edit(MANAGED_CLUSTER, Key("", cluster), set_condition(condition), subresource="status", verb="patch")


def with_finalizer(finalizer: str, *, first: bool = False) -> Edit:
    def add(doc: Doc) -> None:
        present = doc["metadata"].get("finalizers") or []
        if finalizer not in present:
            doc["metadata"]["finalizers"] = [finalizer, *present] if first else [*present, finalizer]

    return add


def without_finalizer(finalizer: str) -> Edit:
    def drop(doc: Doc) -> None:
        present = doc["metadata"].pop("finalizers", None) or []
        if kept := [each for each in present if each != finalizer]:
            doc["metadata"]["finalizers"] = kept

    return drop


def drop_finalizer(kind: Kind, key: Key, finalizer: str) -> None:
    """An object that is being deleted goes with its last one; one that is gone already is fine."""
    try:
        verbs.edit(CONTROLLER, kind, key, without_finalizer(finalizer))
    except errors.NotFound:
        return


def delete_object(kind: Kind, key: Key) -> None:
    """Once is enough, and never is fine too."""
    present = verbs.find(kind, key)
    if present is not None and not present["metadata"].get("deletionTimestamp"):
        try:
            verbs.delete(CONTROLLER, kind, key)
        except errors.NotFound:
            return


def ensure_object(batch: Batch, kind: Kind, wanted: Doc, *, namespace: str = "") -> bool:
    """Create an object, or make its labels include and its other parts equal the wanted ones.

    Returns whether it is created. A binding that points elsewhere cannot be changed: it is made anew. Raises what the
    rules of the kind raise; the batch then holds nothing, or the removal, of it.
    """
    key = Key(namespace, wanted["metadata"]["name"])
    present = batch.find(kind, key)
    if present is not None and not _can_become(present, wanted):
        present = _removed(batch, kind, key, present, wanted)
    if present is None:
        batch.create(kind, document(kind, wanted), namespace=namespace)
        return True
    if _differs(present, wanted):
        batch.edit(kind, key, lambda doc: _become(doc, wanted))
    return False


def _removed(batch: Batch, kind: Kind, key: Key, present: Doc, wanted: Doc) -> Doc | None:
    """What is left of it: somebody else's finalizer may hold it."""
    for finalizer in wanted["metadata"].get("finalizers", ()):
        batch.edit(kind, key, without_finalizer(finalizer))
    if not present["metadata"].get("deletionTimestamp"):
        batch.delete(kind, key)
    return batch.find(kind, key)


def document(kind: Kind, parts: Doc) -> Doc:
    return {"apiVersion": kind.storage.api_version, "kind": kind.kind, **parts}


def new_lease(cluster: str) -> Doc:
    """H15: the lease in which the agent of the cluster says that it lives; as if it had just said so."""
    return document(
        LEASE,
        {
            "metadata": {"name": LEASE_NAME, "labels": {CLUSTER_LABEL: cluster}},
            "spec": {"holderIdentity": LEASE_NAME, "renewTime": times.micro_timestamp(clock.now())},
        },
    )


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
