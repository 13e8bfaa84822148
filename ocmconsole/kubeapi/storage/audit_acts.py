"""Audited acts: the name that the audit stores (``<kind>:<act>``) and the sentence that pages show for it.

Invariant: ``audit.entry_of`` refuses an act that has no sentence, so an entry is never shown as something it is not.
Writes of a registered kind need no declaration; every other act is declared once, with the kinds of its app. Called by
``audit`` and by the pages that list its entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ocmconsole.kubeapi import kinds

# What the generic verbs of a kind have done.
VERBS = {
    "create": "Created",
    "update": "Changed",
    "patch": "Changed",
    "delete": "Deleted",
    "deletecollection": "Deleted",
}


@dataclass(frozen=True, slots=True)
class AuditAct:
    """``done`` is the sentence of an entry with outcome allowed, ``refused`` of one with outcome denied."""

    name: str
    done: str
    refused: str


_declared: dict[str, AuditAct] = {}


def declare(name: str, done: str, *, refused: str = "") -> str:
    """Register ``<kind>:<act>`` with its sentences; returns the name. Raises ValueError for a second meaning."""
    act = AuditAct(name, done, refused or f"Refused: {name.partition(':')[2].replace('-', ' ')}")
    if _declared.setdefault(name, act) != act:
        raise ValueError(f"the audit act {name} is declared with two sentences")
    return name


def declared() -> dict[str, AuditAct]:
    """Acts with a sentence of their own, by name; without the generic verbs of kinds."""
    return dict(_declared)


def done_sentence(name: str) -> str | None:
    """The sentence for an act that happened, or None for an unknown act."""
    if name in _declared:
        return _declared[name].done
    kind, _, verb = name.partition(":")
    return VERBS.get(verb) if kind in {each.kind.lower() for each in kinds.all_kinds()} else None


def refusal_sentence(name: str, verb: str) -> str:
    """The sentence for an act that was refused. Authorisation refuses any verb on any path, so none is unknown."""
    return _declared[name].refused if name in _declared else f"Refused: {verb}"


@cache
def require_act(name: str) -> str:
    """The name itself. Raises LookupError for an act without a sentence."""
    if done_sentence(name) is None:
        raise LookupError(f"the audit act {name} has no sentence: declare it with acts.declare")
    return name
