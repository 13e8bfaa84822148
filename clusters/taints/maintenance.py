"""Maintenance: our taint, why it is there, by whom and until when. What it is, how it starts and ends.

Invariant: a cluster is in maintenance while it has the taint. Notes about it are annotations; they name the user who
set it and never outlive it, through whichever entry point. Read by ``queries`` and pages, written by ``services``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from clusters.kinds import MAINTENANCE_TAINT, MANAGED_CLUSTER, maintenance_taint, taints_of
from clusters.object_writer import CONTROLLER
from clusters.taints import taint_rules
from ocmconsole.kubeapi import admission, clock, errors, verbs
from ocmconsole.kubeapi.control import controllers
from ocmconsole.kubeapi.schema import times

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Key

BY = "ocmconsole.io/maintenance-by"
REASON = "ocmconsole.io/maintenance-reason"
UNTIL = "ocmconsole.io/maintenance-until"
NOTES = (BY, REASON, UNTIL)


@dataclass(frozen=True, slots=True)
class Notes:
    """``until`` is None when it lasts until somebody ends it."""

    by: str
    reason: str
    since: datetime | None
    until: datetime | None
    effect: str


def notes_of(doc: Doc) -> Notes | None:
    """None when the cluster is not in maintenance."""
    taint = maintenance_taint(doc)
    if taint is None:
        return None
    annotations = _annotations(doc)
    return Notes(
        by=annotations.get(BY, ""),
        reason=annotations.get(REASON) or taint.get("value") or "",  # kubectl taints with a value
        since=times.time_of(taint.get("timeAdded")),
        until=times.time_of(annotations.get(UNTIL)),  # anybody may write an annotation
        effect=taint["effect"],
    )


def begin_maintenance(doc: Doc, *, reason: str, until: datetime | None, effect: str) -> None:
    """Start it, or say anew why and how long. Who does so is noted by the rule below."""
    present = taints_of(doc)
    standing = maintenance_taint(doc)
    wanted = {"key": MAINTENANCE_TAINT, "effect": effect}
    if standing is not None and standing.get("value"):
        wanted["value"] = standing["value"]
    taint_rules.write_taints(doc, taint_rules.put_taint(present, wanted, standing))
    noted = {REASON: reason, UNTIL: times.timestamp(until) if until else ""}
    annotations = {**_annotations(doc), **noted}
    doc["metadata"]["annotations"] = {name: text for name, text in annotations.items() if text or name not in noted}


def maintenance_commands(found: Mapping[str, Doc], *, effect: str, reason: str) -> list[str]:
    """What one would type instead of starting it here: the reason is the taint's value."""
    wanted = {"key": MAINTENANCE_TAINT, "effect": effect, **({"value": reason} if reason else {})}
    return taint_rules.taint_commands({name: taints_of(doc) for name, doc in found.items()}, wanted)


def end_maintenance(doc: Doc) -> None:
    """The notes go with it."""
    taint_rules.write_taints(doc, taint_rules.remove_taint(taints_of(doc), MAINTENANCE_TAINT))


def _annotations(doc: Doc) -> dict[str, str]:
    return dict(doc["metadata"].get("annotations") or {})


# ---------------------------------------------------------------- who set it


@admission.defaulter(MANAGED_CLUSTER)
def maintenance_names_its_person(actor: Actor, old: Doc | None, new: Doc) -> None:
    """S75: only the hub says who set a cluster into maintenance, and forgets it with the taint."""
    metadata = new["metadata"]
    noted = metadata.get("annotations")
    if not _is_tainted(new):
        if isinstance(noted, dict) and not noted.keys().isdisjoint(NOTES):
            metadata["annotations"] = {name: text for name, text in noted.items() if name not in NOTES}
            if not metadata["annotations"]:  # the step that leaves out empty maps was before the defaulters
                del metadata["annotations"]
        return
    if not isinstance(noted, dict | None):
        return  # for the schema to refuse
    same = old is not None and _is_tainted(old) and _noted_parts(old) == _noted_parts(new)
    by = _annotations(old).get(BY) if same and old is not None else actor.user
    if (noted or {}).get(BY) != by and by:
        metadata["annotations"] = {**(noted or {}), BY: by}


def _is_tainted(doc: Doc) -> bool:
    """Before the schema has been checked."""
    spec = doc.get("spec")
    listed = spec.get("taints") if isinstance(spec, dict) else None
    return any(
        isinstance(taint, dict) and taint.get("key") == MAINTENANCE_TAINT
        for taint in (listed if isinstance(listed, list) else ())
    )


def _noted_parts(doc: Doc) -> list[object]:
    annotations = doc["metadata"].get("annotations") or {}
    return [annotations.get(name) for name in (REASON, UNTIL)]


# ---------------------------------------------------------------- its end


def _ends(doc: Doc) -> object:
    notes = notes_of(doc)
    return notes and notes.until


@controllers.reconciler(MANAGED_CLUSTER, keys=controllers.changed_in(_ends))
def reconcile_maintenance(key: Key) -> timedelta | None:
    """S75: maintenance ends by itself at the time that its person has set.

    1. A cluster without maintenance, or with one that has no end, is left as it is.
    2. Before the end nothing is written; returns how long it is until then.
    3. Then taint and annotations are removed.
    """
    doc = verbs.find(MANAGED_CLUSTER, key)
    notes = notes_of(doc) if doc is not None else None
    if notes is None or notes.until is None:
        return None
    if (left := notes.until - clock.now()) > timedelta():
        return left
    try:
        verbs.edit(CONTROLLER, MANAGED_CLUSTER, key, _end_when_over)
    except errors.NotFound:
        return None
    return None


def _end_when_over(doc: Doc) -> None:
    """Somebody may have extended it since it was looked at."""
    notes = notes_of(doc)
    if notes is not None and notes.until is not None and notes.until <= clock.now():
        end_maintenance(doc)
