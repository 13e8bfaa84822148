"""Taints as people edit them: which ones the hub keeps, what an effect means, a list with one of them changed. Pure.

A taint is identified by key and effect, as in Kubernetes; its value is more about it. Callers are services and pages.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from clusters.kinds import MAINTENANCE_TAINT, UNAVAILABLE_TAINT, UNREACHABLE_TAINT, TaintEffect, taints_of
from ocmconsole.kubeapi.schema import times

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ocmconsole.kubeapi.errors import Doc

# H21: why and when, by the key of a taint that the hub sets and removes. Pages edit no taint of these keys.
HUB_KEYS = {
    UNREACHABLE_TAINT["key"]: (
        "The hub adds it while the agent is not heard or was never heard, and takes it off again."
    ),
    UNAVAILABLE_TAINT["key"]: "The hub adds it while the cluster's API server is not well, and takes it off again.",
}
EFFECTS = {
    TaintEffect.NO_SELECT.value: (
        "Placements that do not tolerate it cannot choose this cluster, and those that chose it drop it."
    ),
    TaintEffect.NO_SELECT_IF_NEW.value: (
        "Placements that do not tolerate it skip this cluster when they choose anew; those that chose it keep it."
    ),
    TaintEffect.PREFER_NO_SELECT.value: (
        "Placements that do not tolerate it choose it only when too few others are left."
    ),
}


def owner_of(key: str) -> str:
    """Who answers for a taint: ``hub``, ``maintenance`` or a ``person``."""
    if key in HUB_KEYS:
        return "hub"
    return "maintenance" if key == MAINTENANCE_TAINT else "person"


def find_taint(present: list[Doc], key: str, effect: str) -> Doc | None:
    return next((taint for taint in present if (taint["key"], taint["effect"]) == (key, effect)), None)


def remove_taint(present: list[Doc], key: str, effect: str = "") -> list[Doc]:
    """All others; no effect is any."""
    return [taint for taint in present if taint["key"] != key or effect not in {"", taint["effect"]}]


def put_taint(present: list[Doc], wanted: Doc, instead: Doc | None = None) -> list[Doc]:
    """The list with ``wanted`` at the place of ``instead``, or at its end. What stays as it is keeps its time (A1)."""
    same = instead is not None and (instead.get("value") or "", instead["effect"], instead["key"]) == (
        wanted.get("value") or "",
        wanted["effect"],
        wanted["key"],
    )
    if instead is None:
        return [*present, wanted]
    return [(taint if same else wanted) if taint is instead else taint for taint in present]


def restored_taints(present: list[Doc], former: list[Doc]) -> list[Doc]:
    """A former list to write again: only what is still there may keep the time when it was added (A1)."""
    return [taint if taint in present else {**taint, "timeAdded": None} for taint in former]


def taint_commands(found: Mapping[str, list[Doc]], wanted: Doc) -> list[str]:
    """What one would type to give the taint to clusters that have these; one line for all whose patch is the same."""
    alike: dict[str, list[str]] = {}
    for name, present in found.items():
        alike.setdefault(json.dumps([_step(present, wanted)], ensure_ascii=False), []).append(name)
    return [
        f"kubectl patch managedclusters {' '.join(names)} --type=json -p {shlex.quote(patch)}"
        for patch, names in alike.items()
    ]


def _step(present: list[Doc], wanted: Doc) -> Doc:
    """JSON patch adds to a list only where there is one. A maintenance has one taint, whatever its effect."""
    effects = {wanted["effect"]} if wanted["key"] != MAINTENANCE_TAINT else set(EFFECTS)
    for place, taint in enumerate(present):
        if taint["key"] == wanted["key"] and taint["effect"] in effects:
            return {"op": "replace", "path": f"/spec/taints/{place}", "value": wanted}
    if not present:
        return {"op": "add", "path": "/spec/taints", "value": [wanted]}
    return {"op": "add", "path": "/spec/taints/-", "value": wanted}


def write_taints(doc: Doc, wanted: list[Doc]) -> None:
    spec = doc.setdefault("spec", {})
    if wanted:
        spec["taints"] = [{name: part for name, part in taint.items() if part is not None} for taint in wanted]
    else:
        spec.pop("taints", None)


def stamped(doc: Doc, now: datetime) -> Doc:
    """A document that is not stored, with the time that a write would give its new taints (A1)."""
    for taint in taints_of(doc):
        taint.setdefault("timeAdded", times.timestamp(now))
    return doc
