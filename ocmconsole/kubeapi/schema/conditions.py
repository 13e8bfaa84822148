"""Conditions of a status as plain lists (T2).

Invariant: ``lastTransitionTime`` moves only when ``status`` does, and a condition keeps its place in the list. Callers
are the reconcilers and every page that words a status; nothing here changes its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ocmconsole.kubeapi.errors import Doc


@dataclass(frozen=True, slots=True)
class Condition:
    """What a controller found; ``status`` is True, False or Unknown."""

    type: str
    status: str
    reason: str
    message: str = ""


def find_condition(conditions: Iterable[Doc], type: str) -> Doc | None:  # noqa: A002 - the field's name on the wire
    for condition in conditions:
        if condition.get("type") == type:
            return condition
    return None


def status_of(conditions: Iterable[Doc], type: str) -> str:  # noqa: A002 - the field's name on the wire
    """``True``, ``False`` or ``Unknown``; empty when nobody has set the condition."""
    found = find_condition(conditions, type)
    return str(found.get("status", "")) if found else ""


def set_condition(conditions: list[Doc], condition: Condition, now: str) -> list[Doc]:
    """A new list in which ``condition`` stands once, at its first place or at the end."""
    old = find_condition(conditions, condition.type)
    if old is None:
        return [*conditions, _wire(condition, now)]
    steady = old.get("status") == condition.status and old.get("lastTransitionTime")
    new = _wire(condition, old["lastTransitionTime"] if steady else now)
    return [new if item is old else item for item in conditions if item is old or item.get("type") != condition.type]


def _wire(condition: Condition, since: str) -> Doc:
    # An observedGeneration of an earlier writer is not carried over: it would vouch for a finding it never made.
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": since,
    }
