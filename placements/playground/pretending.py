"""What if: clusters with labels, taints and health that they do not have, sets that are not bound, a later time.

Only clusters that the user sees are changed. Raises ValueError, with a text for the field, for what cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.core.exceptions import ImproperlyConfigured

from clusters.kinds import UNAVAILABLE_TAINT, UNREACHABLE_TAINT, TaintEffect, is_hub_taint, taints_of
from ocmconsole.environment.durations import parse_duration
from ocmconsole.kubeapi.schema import times
from ocmconsole.kubeapi.schema.names import key_flaws, value_flaws
from placements.scheduler.fleet import Cluster

if TYPE_CHECKING:
    from clustersets.membership import Membership
    from ocmconsole.kubeapi.errors import Doc
    from placements.playground.drafts import Pretence

LABEL, TAINT, HEALTH, BINDING, TIME = "label", "taint", "health", "binding", "time"
KINDS = ((LABEL, "Label"), (TAINT, "Taint"), (HEALTH, "Health"), (BINDING, "Binding"), (TIME, "Time"))
EVERYTHING = "*"
# What the hub makes of a cluster's health (H21).
STATES: dict[str, Doc | None] = {"heard": None, "silent": UNREACHABLE_TAINT, "unhealthy": UNAVAILABLE_TAINT}
FURTHEST = timedelta(days=366)  # into the future
EFFECTS = frozenset(each.value for each in TaintEffect)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """``later``: how much the clock is put forward; ``bound``: names of sets."""

    pretences: Sequence[Pretence]
    sets: Sequence[Membership]
    now: datetime
    later: timedelta = timedelta()
    bound: tuple[str, ...] = ()
    changes: tuple[Pretence, ...] = field(default=())

    @classmethod
    def of(cls, pretences: Sequence[Pretence], sets: Sequence[Membership], now: datetime) -> WhatIf:
        """``sets``: those that the user sees."""
        for each in pretences:
            check(each, sets)
        later = sum((_time(each.value) for each in pretences if each.what == TIME), timedelta())
        if later > FURTHEST:
            raise ValueError("no more than a year ahead")
        bound = tuple(each.where for each in pretences if each.what == BINDING)
        changes = tuple(each for each in pretences if each.what in {LABEL, TAINT, HEALTH})
        return cls(pretences, sets, now, later, bound, changes)

    def clusters(self, everyone: Sequence[Cluster], seen: frozenset[str]) -> Sequence[Cluster]:
        """Those that are changed are new ones, all others the same."""
        return [self._changed(each) if each.name in seen else each for each in everyone]

    def _changed(self, cluster: Cluster) -> Cluster:
        for each in self.changes:
            if self._concerns(each, cluster):
                cluster = Cluster(_with(cluster.doc, each, self.now))
        return cluster

    def _concerns(self, each: Pretence, cluster: Cluster) -> bool:
        if each.where in {EVERYTHING, cluster.name}:
            return True
        return any(one.name == each.where and one.includes(cluster.labels) for one in self.sets)

    def missing(self, names: Iterable[str]) -> list[str]:
        """Places that are no set and no cluster of these names."""
        known = {EVERYTHING, *names, *(each.name for each in self.sets)}
        return [each.where for each in self.changes if each.where not in known]


def check(pretence: Pretence, sets: Sequence[Membership]) -> None:
    value = pretence.value
    match pretence.what:
        case "label":
            _label(value)
        case "taint":
            _taint(value)
        case "health":
            if value not in STATES:
                raise ValueError(f"health is one of {', '.join(STATES)}")
        case "binding":
            if pretence.where not in {each.name for each in sets}:
                raise ValueError("you see no set of this name")
        case "time":
            _time(value)
        case _:
            raise ValueError("this cannot be pretended")
    if pretence.what not in {BINDING, TIME} and not pretence.where:
        raise ValueError("name a cluster or a set, or * for all")


def _time(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ImproperlyConfigured as error:
        raise ValueError("write a time as 30m, 2h or 7d") from error


def _label(text: str) -> tuple[str, str | None]:
    """``env=prod``, or ``env-`` for none."""
    key, mark, value = text.partition("=")
    if not mark and text.endswith("-"):
        key, found = text[:-1], None
    elif mark:
        found = value
    else:
        raise ValueError("write a label as key=value, or key- to take it off")
    if flaws := [*key_flaws(key), *value_flaws(found or "")]:
        raise ValueError(flaws[0])
    return key, found


def _taint(text: str) -> tuple[str, str, str]:
    """``key=value:Effect`` or ``key:Effect``; ``key-`` takes every taint of the key off: no effect."""
    if text.endswith("-") and ":" not in text:
        return text[:-1], "", ""
    rest, mark, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    if not mark or effect not in EFFECTS:
        raise ValueError(
            f"write a taint as key=value:Effect with one of {', '.join(sorted(EFFECTS))}, or key- to take it off"
        )
    if flaws := list(key_flaws(key)):
        raise ValueError(flaws[0])
    return key, value, effect


def _with(doc: Doc, pretence: Pretence, now: datetime) -> Doc:
    metadata, spec = dict(doc["metadata"]), dict(doc.get("spec") or {})
    if pretence.what == LABEL:
        key, value = _label(pretence.value)
        labels = {name: one for name, one in (metadata.get("labels") or {}).items() if name != key}
        metadata["labels"] = labels | ({} if value is None else {key: value})
    elif pretence.what == TAINT:
        key, value, effect = _taint(pretence.value)
        kept = [each for each in taints_of(doc) if each.get("key") != key or (effect and each.get("effect") != effect)]
        added = {"key": key, "value": value, "effect": effect, "timeAdded": times.timestamp(now)}
        spec["taints"] = [*kept, *([added] if effect else [])]
    else:
        wanted = STATES[pretence.value]
        present = [each for each in taints_of(doc) if wanted is not None and _is(each, wanted)]
        added = {**wanted, "timeAdded": times.timestamp(now)} if wanted is not None else {}
        kept = [each for each in taints_of(doc) if not is_hub_taint(each)]
        spec["taints"] = [*kept, *(present or ([added] if added else []))]
    return {**doc, "metadata": metadata, "spec": spec}


def _is(taint: Doc, other: Doc) -> bool:
    return (taint.get("key"), taint.get("effect")) == (other["key"], other["effect"])
