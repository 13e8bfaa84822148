"""What stands beside each clause of a draft: what it passes alone, what it was in the stored Placement, its flaw. Pure.

A clause alone is a Placement of that clause, worked out by the scheduler's own pipeline on the fleet of the draft.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from placements.playground.rows import CEL, CLAIM, IS, Row, Rows, selector_of
from placements.scheduler import prioritizers, tolerations
from placements.scheduler.pipeline import PlacementResult, Unfinished, schedule
from placements.scheduler.specification import PlacementSpec
from placements.scheduler.spread import Constraint

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

MOST_COUNTS = 8  # of groups or topologies in one sentence
# What identifies a row among those of its kind, and what is compared of it.
IDENTITY = {
    "predicates": ("number", "part", "key"),
    "tolerations": ("key",),
    "weights": ("name",),
    "groups": ("name",),
    "spread": ("part", "key"),
}
NEW = "new"


@dataclass(frozen=True, slots=True)
class Mark:
    """``passes``: what it passes alone, or does. ``was``: what is stored. ``flaw``: why it is misconfigured."""

    passes: str = ""
    was: str = ""
    flaw: str = ""


def marks_of(
    rows: Rows, stored: Rows | None, result: PlacementResult, is_time_up: Callable[[], bool]
) -> dict[str, list[Mark]]:
    """By kind of row, one mark for each row. ``is_time_up`` ends the counting; the rest says so."""
    counts = _Counts(result, is_time_up)
    say: dict[str, Callable[[Row], tuple[str, str]]] = {
        "predicates": counts.predicate,
        "tolerations": counts.toleration,
        "weights": lambda _: ("", ""),
        "groups": counts.group,
        "spread": counts.spread,
    }
    found = {}
    for kind, identity in IDENTITY.items():
        present: Sequence[Row] = getattr(rows, kind) or ()
        before = _differences(kind, present, getattr(stored, kind) or () if stored else None, identity)
        said = [say[kind](row) for row in present]
        found[kind] = [
            Mark(passes, was, flaw) for (passes, flaw), was in zip(said, before, strict=True)
        ]  # fmt: skip
    return found


# ---------------------------------------------------------------- what it passes alone


class _Counts:
    def __init__(self, result: PlacementResult, is_time_up: Callable[[], bool]) -> None:
        self.result = result
        self.is_time_up = is_time_up
        self.untolerated: int | None = None

    def _alone(self, part: Doc) -> PlacementResult | None:
        """None where the time is up."""
        result = self.result
        plan = PlacementSpec.of({"metadata": {}, "spec": {"clusterSets": list(result.plan.sets), **part}})
        if self.is_time_up():
            return None
        try:
            return schedule(
                plan,
                result.scoring.fleet,
                bound=result.bound,
                present=result.scoring.present,
                now=result.scoring.now,
                is_time_up=self.is_time_up,
            )
        except Unfinished:
            return None

    def predicate(self, row: Row) -> tuple[str, str]:
        found = self._alone({"predicates": [{"requiredClusterSelector": selector_of([row])}]})
        if found is None:
            return "alone: not counted, it takes too long", ""
        if found.plan.problem:
            return "", found.plan.problem.partition(":")[2]
        after = "; only the agent can change a claim" if row["part"] == CLAIM else ""
        return f"alone: {len(found.matching):,} pass{after}", ""

    def toleration(self, row: Row) -> tuple[str, str]:
        """Of the clusters that pass the predicates."""
        doc = {name: row[name] for name in ("key", "operator", "value", "effect") if row[name]}
        try:
            one = tolerations.Toleration.checked(doc | {"tolerationSeconds": row["seconds"]})
        except ValueError as error:
            return "", str(error)
        scoring = self.result.scoring

        def passing(given: Sequence[tolerations.Toleration]) -> int:
            return sum(
                not each.taints
                or not tolerations.keeps_away(each, given, is_decided=each.name in scoring.present, now=scoring.now)
                for each in self.result.matching
            )

        if self.untolerated is None:
            self.untolerated = passing(())
        count = passing((one,))
        return f"alone: {count:,} pass, {count - self.untolerated:,} of them because of it", ""

    def group(self, row: Row) -> tuple[str, str]:
        counts = [each.count for each in self.result.groups if each.name == row["name"]]
        return (f"takes {_listed(counts)}" if counts else "takes none of those chosen"), ""

    def spread(self, row: Row) -> tuple[str, str]:
        wire = {"topologyKey": row["key"], "topologyKeyType": row.get("part") or "Label"}
        constraint = Constraint.of(wire)
        found = [constraint.topology(each) for each in self.result.feasible]
        values, without = len({each for each in found if each is not None}), found.count(None)
        lacking = f"; {without:,} without it" if without else ""
        return f"{values:,} value{'' if values == 1 else 's'} among those that pass{lacking}", ""


def groups_say(result: PlacementResult) -> str:
    """The sizes of the groups, in their order."""
    counts = [each.count for each in result.groups]
    return f"{len(counts):,} group{'' if len(counts) == 1 else 's'} of {_listed(counts)}"


def _listed(counts: Sequence[int]) -> str:
    more = f" and {len(counts) - MOST_COUNTS:,} more" if len(counts) > MOST_COUNTS else ""
    return ", ".join(f"{each:,}" for each in counts[:MOST_COUNTS]) + more


# ---------------------------------------------------------------- what it was


def _differences(
    kind: str, present: Sequence[Row], stored: Sequence[Row] | None, identity: tuple[str, ...]
) -> list[str]:
    """For each row how it differs from the stored one; nothing where nothing is stored."""
    if stored is None:
        return [""] * len(present)
    known = _by_identity(stored, identity)
    found = []
    for row in present:
        same = known.get(_identity(row, identity))
        if not same:
            found.append(NEW)
            continue
        before = same.pop(0)
        changed = [name for name in before if name not in identity and _plain(before[name]) != _plain(row.get(name))]
        found.append(f"was {', '.join(_said(kind, before, name) for name in changed)}" if changed else "")
    return found


def removed(rows: Rows, stored: Rows | None) -> dict[str, list[str]]:
    """By kind, stored rows that the draft has no longer, in words."""
    found = {}
    for kind, identity in IDENTITY.items():
        known = _by_identity((getattr(stored, kind) or ()) if stored else (), identity)
        for row in getattr(rows, kind) or ():
            if same := known.get(_identity(row, identity)):
                same.pop(0)
        found[kind] = [_worded(kind, row) for left in known.values() for row in left]
    return found


def _identity(row: Row, identity: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row.get(name) or "" for name in identity)


def _plain(value: Any) -> Any:
    """An empty field of a form is text, in a specification it is missing."""
    return "" if value is None else value


def _by_identity(rows: Sequence[Row], identity: tuple[str, ...]) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(_identity(row, identity), []).append(row)
    return found


_EMPTY = {
    "operator": "Equal",
    "effect": "any effect",
    "seconds": "for ever",
    "weight": "1",
    "most": "1",
    "must": "ScheduleAnyway",
    "labels": "no labels",
    "value": "no value",
    "values": "no values",
}


def _said(kind: str, row: Row, name: str) -> str:
    value = row[name]
    if name == "operator" and kind == "predicates":
        return "is" if value == IS else str(value)
    return _EMPTY.get(name, "empty") if value in {None, ""} else str(value)


def _worded(kind: str, row: Row) -> str:
    if kind == "predicates":
        text = row["values"] if row["part"] == CEL else f"{row['key']} {_said(kind, row, 'operator')} {row['values']}"
        return f"{'CEL' if row['part'] == CEL else row['part']} {text}".strip()
    return str(row["key" if kind in {"tolerations", "spread"} else "name"] or "any key")


def whole_was(rows: Rows, stored: Rows | None) -> dict[str, str]:
    """By field of what stands once, what it was where it differs."""
    if stored is None:
        return {}
    defaults = {"number": "all", "size": "100%", "mode": prioritizers.ADDITIVE, "sort": "ClusterName"}
    found = {}
    for name, default in defaults.items():
        before, now = (default if _plain(each.whole.get(name)) == "" else each.whole[name] for each in (stored, rows))
        if before != now:
            found[name] = f"was {before}"
    return found


def count_changes(rows: Rows, stored: Rows | None) -> int:
    """In how many places the draft differs from what is stored."""
    if stored is None:
        return 0
    differing = sum(
        bool(each)
        for kind, identity in IDENTITY.items()
        for each in _differences(kind, getattr(rows, kind) or (), getattr(stored, kind) or (), identity)
    )
    gone = sum(map(len, removed(rows, stored).values()))
    return differing + gone + len(whole_was(rows, stored)) + len(set(rows.sets) ^ set(stored.sets))
