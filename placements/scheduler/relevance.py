"""Which changes of a cluster or its scores can change what a Placement chooses. Pure.

A *part* names something of a cluster that placements read: one label, one value of it, its taints. ``reads`` says which
parts a Placement reads, ``changes`` which parts differ between two documents of a cluster. Parts are short texts of
one length class, so that work about them folds: a part of a name is its digest, and two names that share one only
cause a needless look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from clusters.claims import reported
from clusters.kinds import taints_of
from ocmconsole.kubeapi.errors import Doc
from placements.scheduler.prioritizers import RESOURCES

# Parts that every Placement reads: whether the cluster is there and in the set; its taints.
MEMBERS, TAINTS = "members", "taints"
EVERYTHING = "everything"  # more parts than are worth telling apart
EXPRESSION = "expression"  # a CEL expression may read any field of the cluster
ANY_SCORE = "scores"  # and any AddOnPlacementScore
ALWAYS = frozenset({MEMBERS, TAINTS, EVERYTHING})
MOST_PARTS = 20  # of one change; an agent's first report brings dozens of claims

# What every write moves, and no expression has reason to read.
_BOOKKEEPING = ("resourceVersion", "managedFields", "generation")


def label(key: str, value: str | None = None) -> str:
    """Whether it is there and what it says; with ``value``: whether it says this."""
    return f"label/{_digest(key, value)}"


def claim(name: str, value: str | None = None) -> str:
    return f"claim/{_digest(name, value)}"


def score(resource: str) -> str:
    """Of an AddOnPlacementScore by its name."""
    return f"score/{_digest(resource)}"


def resource(name: str) -> str:
    return f"resource/{name}"


def _digest(name: str, value: str | None = None) -> str:
    whole = name if value is None else f"{name}={value}"  # no name has the sign
    return sha256(whole.encode()).hexdigest()[:16]


def reads(spec: Doc) -> set[str]:
    """P1: parts that a Placement reads besides ``ALWAYS``. The spec fits its schema."""
    found: set[str] = set()
    for predicate in spec.get("predicates") or ():
        selector = predicate.get("requiredClusterSelector") or {}
        found.update(_selected(selector))
        for expression in (selector.get("celSelector") or {}).get("celExpressions") or ():
            found.add(EXPRESSION)
            if "scores" in expression:
                found.add(ANY_SCORE)
    strategy = (spec.get("decisionStrategy") or {}).get("groupStrategy") or {}
    for group in strategy.get("decisionGroups") or ():
        found.update(_selected(group.get("groupClusterSelector") or {}))
    for constraint in (spec.get("spreadPolicy") or {}).get("spreadConstraints") or ():
        found.add((claim if constraint["topologyKeyType"] == "Claim" else label)(constraint["topologyKey"]))
    for configuration in (spec.get("prioritizerPolicy") or {}).get("configurations") or ():
        coordinate = configuration.get("scoreCoordinate") or {}
        if (add_on := coordinate.get("addOn")) is not None:
            found.add(score(add_on["resourceName"]))
        if (name := RESOURCES.get(coordinate.get("builtIn") or "")) is not None:
            found.add(resource(name))
    return found


def _selected(selector: Doc) -> Iterator[str]:
    labels = selector.get("labelSelector") or {}
    yield from (label(key, value) for key, value in (labels.get("matchLabels") or {}).items())
    yield from _required(label, labels.get("matchExpressions") or ())
    claims = selector.get("claimSelector") or {}
    yield from _required(claim, claims.get("matchExpressions") or ())


def _required(part: Callable[..., str], requirements: Iterable[Doc]) -> Iterator[str]:
    for each in requirements:
        if each["operator"] == "In":
            yield from (part(each["key"], value) for value in each.get("values") or ())
        else:
            yield part(each["key"])


def changes(old: Doc | None, new: Doc | None) -> set[str]:
    """P1: parts of a cluster that a write moved; old or new is None where it came or went."""
    if old is None or new is None or _is_leaving(old) != _is_leaving(new):
        return {MEMBERS}
    if _content(old) == _content(new):
        return set()
    found = {EXPRESSION}
    found.update(_moved(label, _labels(old), _labels(new)))
    found.update(_moved(claim, reported(old), reported(new)))
    if taints_of(old) != taints_of(new):
        found.add(TAINTS)
    for name in RESOURCES.values():
        if _amounts(old, name) != _amounts(new, name):
            found.add(resource(name))
    return found if len(found) <= MOST_PARTS else {EVERYTHING}


def concerns(part: str, read: list[str]) -> bool:
    """P1: whether a Placement that reads these parts may choose otherwise when the part has changed."""
    return part in ALWAYS or part in read


def concerns_members(part: str, selector: Doc) -> bool:
    """P1: whether a set that selects by labels may have other members when the part has changed."""
    return part in {MEMBERS, EVERYTHING} or part in set(_selected(selector))


def _labels(doc: Doc) -> Mapping[str, str]:
    return doc["metadata"].get("labels") or {}


def _is_leaving(doc: Doc) -> bool:
    return bool(doc["metadata"].get("deletionTimestamp"))


def _content(doc: Doc) -> tuple[Any, ...]:
    metadata = {name: part for name, part in doc["metadata"].items() if name not in _BOOKKEEPING}
    return metadata, doc.get("spec"), doc.get("status")


def _moved(part: Callable[..., str], old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for name in {*old, *new}:
        if old.get(name) != new.get(name):
            yield part(name)
            yield from (part(name, values[name]) for values in (old, new) if name in values)


def _amounts(doc: Doc, name: str) -> tuple[Any, ...]:
    status = doc.get("status") or {}
    return tuple((status.get(part) or {}).get(name) for part in ("allocatable", "capacity"))
