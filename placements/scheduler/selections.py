"""Who passed a filter, remembered from run to run: of a fleet in which little has changed only that is looked at again.

A filter is pure: what it says of a cluster follows from the cluster alone, and a cluster that changes is another object
(``fleet``). So a remembered answer is never another one than a new answer would be. Called by ``pipeline``.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from threading import Lock
from typing import NamedTuple

from placements.scheduler.fleet import Cluster, ClusterList

FEW = 8  # a part of the clusters: with more changes it is quicker to look at all
MOST_KEPT = 2_000_000  # references to clusters, 8 bytes each, and as many again to their names and amounts
# Seconds; twice as long as until every stored Placement is scheduled again. What is not asked for any more, as a draft
# is not, holds clusters as they were, some kilobytes each.
LONGEST_KEPT = 3_600.0

Clusters = Sequence[Cluster]
_name = attrgetter("name")


class _Kept(NamedTuple):
    """``found`` of ``clusters``, worked out at ``since``."""

    clusters: Clusters
    found: Clusters
    since: float

    @property
    def size(self) -> int:
        """References to clusters."""
        return len(self.clusters) + len(self.found)


class Selections:
    """The clusters that each filter let pass, and out of which ones; those that were asked for last are kept."""

    def __init__(self, most: int = MOST_KEPT, seconds: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds = most, seconds
        self._lock = Lock()
        self._known: OrderedDict[Hashable, _Kept] = OrderedDict()  # what was worked out last is the last
        self._size = 0

    def passing(self, question: Hashable, clusters: Clusters, select: Callable[[Clusters], Clusters]) -> Clusters:
        """P5, P6: what ``select`` returns of clusters, which are in the order of their names. It is never changed.

        ``question``: stands for the filter. ``select`` keeps the order and decides on each cluster by itself.
        """
        with self._lock:
            known = self._known.get(question)
        if known is not None and known.clusters is clusters:
            return known.found
        found = ClusterList(
            select(clusters) if known is None else _after(known.clusters, known.found, clusters, select)
        )
        self._keep(question, clusters, found)
        return found

    def _keep(self, question: Hashable, clusters: Clusters, found: Clusters) -> None:
        kept = _Kept(clusters, found, self._seconds())
        with self._lock:
            before = self._known.pop(question, None)
            self._size += kept.size - (before.size if before is not None else 0)
            self._known[question] = kept
            while self._known and (self._size > self._most or self._oldest.since < kept.since - LONGEST_KEPT):
                self._size -= self._known.popitem(last=False)[1].size

    @property
    def _oldest(self) -> _Kept:
        return next(iter(self._known.values()))


def _after(before: Clusters, found: Clusters, clusters: Clusters, select: Callable[[Clusters], Clusters]) -> Clusters:
    """P6: ``found`` of ``before``, as it is of ``clusters``."""
    then, now = frozenset(before), frozenset(clusters)
    came, went = now - then, then - now
    if (len(came) + len(went)) * FEW > len(clusters):
        return select(clusters)
    moved = list(found)
    for each in went:
        place = bisect_left(moved, each.name, key=_name)
        if place < len(moved) and moved[place] is each:
            del moved[place]
    for each in select(sorted(came, key=_name)):
        moved.insert(bisect_left(moved, each.name, key=_name), each)
    return moved
