"""The last changes of each resource that somebody follows, in memory, so that a watch that comes back reads no log.

Invariant: of a resource that is kept, all changes after its ``floor`` up to the follower's revision are here. Bounded
in entries and bytes; the oldest go first. Lives on the follower's event loop, which alone fills it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from sys import getsizeof
from typing import TYPE_CHECKING

from ocmconsole.kubeapi.watch.change_log import ChangeEntry, Columns

if TYPE_CHECKING:
    from ocmconsole.kubeapi.watch.follower import Topic

MOST_ENTRIES = 10_000  # of one resource; the log keeps as many of each kind
MOST_BYTES = 32 * 1024 * 1024  # of all resources together: more than a minute of changes of a large hub
ENTRY_BYTES = 400  # of an entry besides its documents, about
NAMESPACE, NAME, WIRE, BEFORE = 3, 4, 5, 6  # places in ``Columns``
SPARE_PART = 4  # of what is there: how much goes at once, so that it does not go one by one


@dataclass(slots=True)
class _KeptChanges:
    """``columns`` are those of entries: what readers parse and render is not kept here."""

    floor: int
    revisions: list[int] = field(default_factory=list)
    columns: list[Columns] = field(default_factory=list)
    size: int = 0


class RecentChanges:
    """Of one follower."""

    def __init__(self) -> None:
        self._kept: dict[str, _KeptChanges] = {}
        self.size = 0

    def begin(self, resource: str, revision: int) -> None:
        """Keep what is changed after this revision; nothing where it is kept already."""
        if resource not in self._kept:
            self._kept[resource] = _KeptChanges(revision)

    def end(self, resource: str) -> None:
        if (kept := self._kept.pop(resource, None)) is not None:
            self.size -= kept.size

    def begin_again(self, resource: str, revision: int) -> None:
        """What was up to this revision has gaps."""
        if resource in self._kept:
            self.end(resource)
            self.begin(resource, revision)

    def add(self, entries: Iterable[ChangeEntry]) -> None:
        """In the order of their revisions."""
        for entry in entries:
            kept = self._kept.get(entry.resource)
            if kept is None or entry.revision <= kept.floor:
                continue
            kept.revisions.append(entry.revision)
            kept.columns.append(entry.columns)
            size = _size(entry.columns)
            kept.size += size
            self.size += size
            if len(kept.revisions) > MOST_ENTRIES:
                self._drop_oldest(kept)
        while self.size > MOST_BYTES:
            self._drop_oldest(max(self._kept.values(), key=lambda kept: kept.size))

    def after(self, topic: Topic, revision: int) -> list[ChangeEntry] | None:
        """What the topic had after a revision, up to the follower's; None where not all of it is here."""
        kept = self._kept.get(topic.resource)
        if kept is None or revision < kept.floor:
            return None
        found = kept.columns[bisect_right(kept.revisions, revision) :]
        return [
            ChangeEntry(*columns)
            for columns in found
            if topic.namespace in {"", columns[NAMESPACE]} and topic.name in {"", columns[NAME]}
        ]

    def _drop_oldest(self, kept: _KeptChanges) -> None:
        count = max(1, len(kept.revisions) // SPARE_PART)
        freed = sum(_size(columns) for columns in kept.columns[:count])
        kept.floor = kept.revisions[count - 1]
        del kept.revisions[:count], kept.columns[:count]
        kept.size -= freed
        self.size -= freed


def _size(columns: Columns) -> int:
    return ENTRY_BYTES + getsizeof(columns[WIRE]) + getsizeof(columns[BEFORE])
