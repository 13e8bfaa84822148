"""Who passed a filter, remembered from run to run: of a fleet in which little has changed only that is looked at again.

A filter is pure: what it says of a cluster follows from the cluster alone, and a cluster that changes is another object
(``fleet``). So a remembered answer is never another one than a new answer would be. Called by ``pipeline``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from threading import Lock

from placements.scheduler.fleet import Cluster

FEW = 8  # a part of the clusters: with more changes it is quicker to look at all
MOST_KEPT = 2_000_000  # references to clusters, 8 bytes each

Clusters = Sequence[Cluster]
_name = attrgetter("name")


class Selections:
    """The clusters that each filter let pass, and out of which ones; those that were asked for last are kept."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._lock = Lock()
        self._known: OrderedDict[Hashable, tuple[Clusters, Clusters]] = OrderedDict()
        self._size = 0

    def passing(self, question: Hashable, clusters: Clusters, select: Callable[[Clusters], Clusters]) -> Clusters:
        """P5, P6: what ``select`` returns of clusters, which are in the order of their names. It is never changed.

        ``question``: stands for the filter. ``select`` keeps the order and decides on each cluster by itself.
        """
        with self._lock:
            known = self._known.get(question)
        if known is not None and known[0] is clusters:
            return known[1]
        found = select(clusters) if known is None else _after(*known, clusters, select)
        self._keep(question, clusters, found)
        return found

    def _keep(self, question: Hashable, clusters: Clusters, found: Clusters) -> None:
        with self._lock:
            before = self._known.pop(question, None)
            self._size += _references(clusters, found) - (_references(*before) if before is not None else 0)
            self._known[question] = clusters, found
            while self._size > self._most:
                self._size -= _references(*self._known.popitem(last=False)[1])


def _references(clusters: Clusters, found: Clusters) -> int:
    return len(clusters) + len(found)


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
