"""What has changed about a cluster or a score, in parts that placements read and in words. Pure.

The snapshot keeps the latest of these for each object, so that a decision that changes finds its cause in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.schema import times
from placements.scheduler import relevance
from placements.scheduler.fleet import Cluster
from placements.scheduler.prioritizers import RESOURCES

MOST_CHARACTERS = 200  # of what has changed, in words
MOST_KEPT = 4  # of the latest changes of one object: more within one run of a placement are rare


@dataclass(frozen=True, slots=True)
class DecisionCause:
    """The change of an object because of which a decision changed. ``what``: in words, such as ``label env: a → b``.

    ``kind`` is empty where it was no object but the time. ``revision``: of the hub, by which the audit finds it, or 0.
    """

    kind: str
    namespace: str
    name: str
    what: str
    revision: int
    time: datetime

    def to_row(self) -> Doc:
        return {**asdict(self), "what": shortened(self.what), "time": times.timestamp(self.time)}


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """``parts``: as ``relevance`` names them, each with what has changed in words."""

    revision: int
    time: datetime
    parts: Mapping[str, str]

    def what(self, read: Collection[str]) -> str:
        """Of the parts that are read, in words; empty when none is."""
        found = dict.fromkeys(text for part, text in self.parts.items() if part in relevance.ALWAYS or part in read)
        return ", ".join(found)


def change_of(old: Cluster | None, new: Cluster | None, revision: int, time: datetime) -> ClusterChange | None:
    """None where nothing has changed that is worth a word."""
    parts = dict(_parts(old, new))
    return ClusterChange(revision, time, parts) if parts else None


def _parts(old: Cluster | None, new: Cluster | None) -> Iterator[tuple[str, str]]:
    if old is None or new is None:
        yield relevance.MEMBERS, "created" if old is None else "deleted"
        return
    if new.is_being_deleted and not old.is_being_deleted:
        yield relevance.MEMBERS, "is being deleted"
    for word, part, before, after in (
        ("label", relevance.label, old.labels, new.labels),
        ("claim", relevance.claim, old.claims, new.claims),
    ):
        for key, text in _moved(before, after):
            words = f"{word} {key}{text}"
            yield part(key), words
            yield from ((part(key, values[key]), words) for values in (before, after) if key in values)
            yield relevance.EXPRESSION, words
    gone, come = ([each for each in one.taints if each not in other.taints] for one, other in ((old, new), (new, old)))
    texts = [*(f"taint {each} removed" for each in gone), *(f"taint {each} added" for each in come)]
    if texts:
        yield relevance.TAINTS, ", ".join(texts)
        yield relevance.EXPRESSION, ", ".join(texts)
    for resource in RESOURCES.values():
        if old.allocatable(resource) != new.allocatable(resource):
            yield relevance.resource(resource), f"allocatable {resource} changed"
            yield relevance.EXPRESSION, f"allocatable {resource} changed"


def _moved(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if old == new:
        return
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if before != after:
            if before is None:
                yield key, f"={after} added"
            else:
                yield key, f"={before} removed" if after is None else f": {before} → {after}"


def score_change(resource: str, revision: int, time: datetime) -> ClusterChange:
    """Of an AddOnPlacementScore by its name."""
    what = "scores changed"
    return ClusterChange(revision, time, {relevance.score(resource): what, relevance.ANY_SCORE: what})


def latest(known: Sequence[ClusterChange], change: ClusterChange) -> tuple[ClusterChange, ...]:
    """The newest last."""
    return (*known, change)[-MOST_KEPT:]


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def differences(diff: Sequence[Mapping[str, Any]], below: str) -> str:
    """What an audit entry says has changed below a field, in words; empty when nothing there did."""
    found = [entry for entry in diff if entry["path"] == below or str(entry["path"]).startswith(f"{below}.")]
    return shortened(", ".join(map(_difference, found)))


def _difference(entry: Mapping[str, Any]) -> str:
    if isinstance(entry.get("old"), list | dict) or isinstance(entry.get("new"), list | dict):
        return f"{entry['path']} changed"
    if "old" not in entry or "new" not in entry:
        return f"{entry['path']} {'set' if 'new' in entry else 'removed'}"
    return f"{entry['path']}: {entry['old']} → {entry['new']}"
