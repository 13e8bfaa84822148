"""Edits of taints and labels, read from the audit: which one the user may still undo, and how. Reads only.

Invariant: an edit is taken back only while the cluster is still as it left it, so nobody else's work is lost. Callers
are ``services.undo_edit`` and the pages that offer it or show the history of labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from clusters.kinds import MANAGED_CLUSTER, taints_of
from clusters.object_writer import CONTROLLER
from clusters.taints import taint_rules
from clusters.taints.maintenance import NOTES
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import AuditEvent

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc

PATIENCE = timedelta(minutes=10)  # in which an edit can be undone
TAINTS = "spec.taints"
LABELS, ANNOTATIONS = "metadata.labels", "metadata.annotations"
LOOKED_AT = 200  # the newest writes of a cluster that are searched


@dataclass(frozen=True, slots=True)
class ReplacedValue:
    """One value that a change replaced; None is absent. A key names an entry of a map, "" the whole map or list."""

    field: str
    key: str
    old: Any
    new: Any

    def now(self, doc: Doc) -> Any:
        if self.field == TAINTS:
            return taints_of(doc) or None
        found = doc["metadata"].get(self.field.rpartition(".")[2]) or None
        return found.get(self.key) if self.key and found else found

    def restore(self, doc: Doc) -> None:
        if self.field == TAINTS:
            taint_rules.write_taints(doc, taint_rules.restored_taints(taints_of(doc), self.old or []))
            return
        name = self.field.rpartition(".")[2]
        kept = dict(doc["metadata"].get(name) or {})
        if not self.key:
            kept = dict(self.old or {})
        elif self.old is None:
            kept.pop(self.key, None)
        else:
            kept[self.key] = self.old
        doc["metadata"][name] = kept


@dataclass(frozen=True, slots=True)
class Edit:
    """One write of somebody's that touched nothing but taints, labels and notes of maintenance."""

    entry: AuditEvent
    parts: tuple[ReplacedValue, ...]

    @property
    def what(self) -> str:
        """In words that fit behind "changed" and "your change of"."""
        fields = {part.field for part in self.parts}
        if ANNOTATIONS in fields:
            return "the maintenance"
        return "the taints" if fields == {TAINTS} else "the labels" if fields == {LABELS} else "the taints and labels"

    @property
    def ends(self) -> datetime:
        return self.entry.time + PATIENCE

    def stands_in(self, doc: Doc) -> bool:
        return all(part.now(doc) == part.new for part in self.parts)

    def take_back(self, doc: Doc) -> None:
        for part in self.parts:
            part.restore(doc)


def undoable_edit(actor: Actor, doc: Doc) -> Edit | None:
    """The edit that the actor may undo now: their last write to the cluster, if it was an edit that still stands."""
    entry = _own(actor, doc).first()
    change = _read(entry) if entry is not None else None
    return change if change is not None and change.stands_in(doc) else None


def own_edit(actor: Actor, doc: Doc, entry: int) -> Edit | None:
    found = _own(actor, doc).filter(pk=entry).first()
    return _read(found) if found is not None else None


def _own(actor: Actor, doc: Doc) -> QuerySet[AuditEvent]:
    return _writes(doc).filter(user=actor.user, impersonator=actor.impersonator, time__gt=clock.now() - PATIENCE)


def _writes(doc: Doc) -> QuerySet[AuditEvent]:
    """Of this very cluster, not of another that had its name.

    Neither an agent's reports nor the taints that the hub sets because of them: these would be most of them.
    """
    metadata = doc["metadata"]
    place = {"resource": MANAGED_CLUSTER.resource, "namespace": "", "name": metadata["name"], "uid": metadata["uid"]}
    written = AuditEvent.objects.filter(**place, outcome=AuditEvent.Outcome.ALLOWED)
    written = written.exclude(diff__0__path__startswith="status").exclude(user=CONTROLLER.user, diff__0__path=TAINTS)
    return written.order_by("-time", "-pk")


def _read(entry: AuditEvent) -> Edit | None:
    """None when it did more than can be taken back here."""
    parts = [_part(each) for each in entry.diff]
    if entry.verb not in {"patch", "update"} or not parts or None in parts:
        return None
    return Edit(entry, tuple(part for part in parts if part is not None))


def _part(difference: Doc) -> ReplacedValue | None:
    path, old, new = difference["path"], difference.get("old"), difference.get("new")
    for field in (TAINTS, LABELS, ANNOTATIONS):
        if path != field and not path.startswith(f"{field}."):
            continue
        key = path.removeprefix(field).removeprefix(".")
        touched = [key] if key else [*(old or ()), *(new or ())]
        if field == ANNOTATIONS and not set(touched) <= set(NOTES):
            return None
        if field == TAINTS and (key or not _is_list(old) or not _is_list(new)):
            return None
        return ReplacedValue(field, key, old, new)
    return None


def _is_list(value: Any) -> bool:
    """The audit shortens what is very long to a text."""
    return value is None or isinstance(value, list)


# ---------------------------------------------------------------- who set a taint


def owners_of_taints(doc: Doc) -> dict[tuple[str, str], str]:
    """Who added each taint, by key and effect, as far as the last writes tell."""
    owners: dict[tuple[str, str], str] = {}
    for entry in _writes(doc).exclude(verb="delete")[:LOOKED_AT]:
        for difference in entry.diff:
            for taint in _added_taints(difference):
                owners.setdefault(taint, entry.user)
    return owners


def _added_taints(difference: Doc) -> list[tuple[str, str]]:
    """The audit of a new object holds its whole spec."""
    old, new = difference.get("old"), difference.get("new")
    if difference["path"] == "spec":
        old, new = (side.get("taints") if isinstance(side, dict) else None for side in (old, new))
    elif difference["path"] != TAINTS:
        return []
    before, after = (side if isinstance(side, list) else [] for side in (old, new))
    return [(taint["key"], taint["effect"]) for taint in after if taint not in before]


# ---------------------------------------------------------------- history of labels


@dataclass(frozen=True, slots=True)
class LabelChange:
    at: datetime
    user: str
    key: str
    old: str | None
    new: str | None


def of_labels(doc: Doc) -> list[LabelChange]:
    """What happened to a cluster's labels, newest first, as far as its last writes tell."""
    found = []
    for entry in _writes(doc).exclude(verb="delete")[:LOOKED_AT]:
        for difference in entry.diff:
            found += [LabelChange(entry.time, entry.user, *change) for change in _labels_in(difference)]
    return found


def _labels_in(difference: Doc) -> list[tuple[str, str | None, str | None]]:
    """A map that was added or removed is in the audit as a whole; so is the metadata of a new object."""
    path, old, new = difference["path"], difference.get("old"), difference.get("new")
    if path.startswith(f"{LABELS}."):
        return [(path.removeprefix(f"{LABELS}."), old, new)]
    if path == "metadata":
        old, new = ((side or {}).get("labels") if isinstance(side, dict) else None for side in (old, new))
    elif path != LABELS:
        return []
    before, after = (side if isinstance(side, dict) else {} for side in (old, new))
    return [(key, before.get(key), after.get(key)) for key in {**before, **after} if before.get(key) != after.get(key)]
