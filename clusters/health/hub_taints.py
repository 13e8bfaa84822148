"""The taints that the hub sets and removes by itself (H21): which one a cluster should have, and setting it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.kinds import (
    UNAVAILABLE_TAINT,
    UNREACHABLE_TAINT,
    ConditionType,
    conditions_of,
    is_deleting,
    is_hub_taint,
    is_same_taint,
    taints_of,
)
from ocmconsole.kubeapi.schema import conditions

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc


def available(doc: Doc) -> str:
    return conditions.status_of(conditions_of(doc), ConditionType.AVAILABLE)


def called_for(doc: Doc) -> list[Doc]:
    """Others' taints stay, in their order."""
    wanted = {"True": None, "False": UNAVAILABLE_TAINT}.get(available(doc), UNREACHABLE_TAINT)
    kept = [taint for taint in taints_of(doc) if not is_hub_taint(taint) or (wanted and is_same_taint(taint, wanted))]
    if wanted is not None and not any(is_same_taint(taint, wanted) for taint in kept):
        kept.append(dict(wanted))
    return kept


def set_taint(doc: Doc) -> None:
    """One that is being deleted is left as it is."""
    wanted = called_for(doc)
    if is_deleting(doc) or wanted == taints_of(doc):
        return
    if wanted:
        doc.setdefault("spec", {})["taints"] = wanted
    else:
        doc["spec"].pop("taints")
