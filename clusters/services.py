"""Acts on clusters, made of verbs: what the API, the pages and the commands do alike, with the rights of who asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters import removal
from clusters.kinds import GROUP, MANAGED_CLUSTER
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.kinds import Key

if TYPE_CHECKING:
    from ocmconsole.kubeapi.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind


def detach_cluster(actor: Actor, name: str, *, reason: str) -> list[str]:
    """K29: give up what a deleted cluster waits for, because its agent will not come back to finish.

    Whatever its add-ons and works still hold is abandoned; nothing is undone on the cluster. Returns what was given up.
    Raises Conflict while the cluster is not being deleted, Forbidden without the right to patch what is in the way.
    """
    key = Key("", name)
    cluster = verbs.get(actor, MANAGED_CLUSTER, key)
    if not cluster["metadata"].get("deletionTimestamp"):
        text = "it is not being deleted: delete it first, and give its agent time to finish"
        raise errors.conflict(GROUP, MANAGED_CLUSTER.plural, name, text)
    held = _held(name)
    if not held:
        return []
    with verbs.batch(actor) as batch:
        for kind, place in held:
            batch.edit(kind, place, _let_go)
        batch.note(MANAGED_CLUSTER, key, "managedcluster:detach", reason)
    return [f"{kind.plural}/{place.name}" for kind, place in held]


def _held(name: str) -> list[tuple[Kind, Key]]:
    return [
        (kind, row.key)
        for kind in removal.cleaned_kinds()
        for row in kind.model.objects.filter(namespace=name).order_by("name")
        if row.doc["metadata"].get("finalizers")
    ]


def _let_go(doc: Doc) -> None:
    doc["metadata"].pop("finalizers", None)
