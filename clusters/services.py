"""Acts on clusters, made of verbs: what the API, the pages and the commands do alike, with the rights of who asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.acceptance import removal_progress, resource_cleanup
from clusters.kinds import GROUP, MANAGED_CLUSTER, TaintEffect, taints_of
from clusters.taints import edit_history, maintenance, taint_rules
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.storage import reader

if TYPE_CHECKING:
    from datetime import datetime

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind


def detach_cluster(actor: Actor, name: str, *, reason: str) -> list[str]:
    """K29: remove the finalizers of what a deleted cluster waits for, when its agent will not come back to finish.

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
        for kind in resource_cleanup.cleaned_kinds()
        for row in kind.model.objects.filter(namespace=name).order_by("name")
        if row.doc["metadata"].get("finalizers")
    ]


def _let_go(doc: Doc) -> None:
    doc["metadata"].pop("finalizers", None)


def remove_cluster(actor: Actor, name: str, *, revoke: bool = False) -> bool:
    """Delete a cluster: while finalizers hold it is marked (W18), and the hub clears up (H10, H27). True: gone at once.

    ``revoke`` ends its line of keys in the same transaction: every certificate that gives its rights is revoked (D19).
    Raises Forbidden, NotFound.
    """
    if not revoke:
        return verbs.delete(actor, MANAGED_CLUSTER, Key("", name)).doc is None
    certificates, gone = removal_progress.certificates(), [False]

    def remove(batch: verbs.Batch) -> None:
        gone[0] = batch.delete(MANAGED_CLUSTER, Key("", name), also=certificates.without_override)
        certificates.revoke(batch, name, "The cluster was removed.")

    verbs.together(actor, remove)
    return gone[0]


# ---------------------------------------------------------------- taints


def set_taint(actor: Actor, name: str, taint: Doc, *, instead: tuple[str, str] | None = None) -> None:
    """Add a taint, or put it in the place of another one, which ``instead`` names by key and effect.

    Raises Forbidden, NotFound, Invalid (form), Conflict (it is the hub's, it is there already, it is gone).
    """

    def change(doc: Doc) -> None:
        present = taints_of(doc)
        former = _standing(name, present, *instead) if instead else None
        other = taint_rules.find_taint(present, taint["key"], taint["effect"])
        if other is not None and other is not former:
            raise _conflict(name, f"it already has the taint {taint['key']} with the effect {taint['effect']}")
        taint_rules.write_taints(doc, taint_rules.put_taint(present, taint, former))

    _refuse_hub_taint(name, taint["key"])
    verbs.edit(actor, MANAGED_CLUSTER, Key("", name), change)


def remove_taint(actor: Actor, name: str, key: str, effect: str) -> None:
    """Raises Forbidden, NotFound, Conflict (it is the hub's, it is gone)."""

    def change(doc: Doc) -> None:
        present = taints_of(doc)
        _standing(name, present, key, effect)
        taint_rules.write_taints(doc, taint_rules.remove_taint(present, key, effect))

    _refuse_hub_taint(name, key)
    verbs.edit(actor, MANAGED_CLUSTER, Key("", name), change)


def _standing(name: str, present: list[Doc], key: str, effect: str) -> Doc:
    found = taint_rules.find_taint(present, key, effect)
    if found is None:
        raise _conflict(name, f"it no longer has the taint {key} with the effect {effect}")
    return found


def _refuse_hub_taint(name: str, key: str) -> None:
    """Raises Conflict for a taint that the hub sets and removes by itself (H21): an edit would be undone at once."""
    if key in taint_rules.HUB_KEYS:
        raise _conflict(name, f"the taint {key} is kept by the hub")


def start_maintenance(
    actor: Actor,
    name: str,
    *,
    reason: str,
    until: datetime | None = None,
    effect: str = TaintEffect.NO_SELECT_IF_NEW.value,
    replace: bool = True,
) -> None:
    """Set the maintenance taint, or with ``replace`` change why and how long it stands.

    Raises Forbidden, NotFound, and without ``replace`` Conflict for a cluster that is in maintenance.
    """

    def change(doc: Doc) -> None:
        if not replace and maintenance.notes_of(doc) is not None:
            raise _conflict(name, "it is in maintenance already, and keeps its reason and end")
        maintenance.begin_maintenance(doc, reason=reason, until=until, effect=effect)

    verbs.edit(actor, MANAGED_CLUSTER, Key("", name), change)


def end_maintenance(actor: Actor, name: str) -> None:
    """Nothing happens to a cluster that is in none. Raises Forbidden, NotFound."""
    verbs.edit(actor, MANAGED_CLUSTER, Key("", name), maintenance.end_maintenance)


# ---------------------------------------------------------------- labels


def set_label(actor: Actor, name: str, key: str, value: str, *, instead: str = "") -> None:
    """Add or change a label; ``instead`` is the one that it replaces. Raises Forbidden, NotFound, Invalid, Conflict."""

    def change(doc: Doc) -> None:
        labels = dict(doc["metadata"].get("labels") or {})
        if instead and instead not in labels:
            raise _conflict(name, f"it no longer has the label {instead}")
        if key != instead and key in labels:
            raise _conflict(name, f"it already has the label {key}")
        doc["metadata"]["labels"] = _replaced(labels, instead, key, value)

    verbs.edit(actor, MANAGED_CLUSTER, Key("", name), change)


def _replaced(labels: dict[str, str], former: str, key: str, value: str) -> dict[str, str]:
    """At the former's place, so that a list that people read does not jump."""
    if not former:
        return {**labels, key: value}
    return {
        (key if name == former else name): (value if name == former else present) for name, present in labels.items()
    }


def remove_label(actor: Actor, name: str, key: str) -> None:
    """Raises Forbidden, NotFound."""
    verbs.edit(actor, MANAGED_CLUSTER, Key("", name), lambda doc: (doc["metadata"].get("labels") or {}).pop(key, None))


# ---------------------------------------------------------------- taking back


def undo_edit(actor: Actor, name: str, entry: int) -> str:
    """Restore what a change of one's own replaced, while it is still as that change left it. Returns what it was.

    Raises Forbidden, NotFound, Conflict (too late, or somebody has changed it since).
    """
    row = reader.read_row(MANAGED_CLUSTER, Key("", name))
    found = edit_history.own_edit(actor, row.doc, entry) if row is not None else None
    if found is None:
        raise _conflict(name, "there is nothing of yours to undo, or it is too long ago")
    verbs.edit(actor, MANAGED_CLUSTER, Key("", name), lambda doc: _restore(name, doc, found))
    return found.what


def _restore(name: str, doc: Doc, edit: edit_history.Edit) -> None:
    if not edit.stands_in(doc):
        raise _conflict(name, "somebody has changed it since; nothing was undone")
    edit.take_back(doc)


def _conflict(name: str, text: str) -> errors.Conflict:
    return errors.conflict(GROUP, MANAGED_CLUSTER.plural, name, text)
