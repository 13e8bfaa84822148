"""What sets consist of: how many clusters of each state, counted by the database among those that a person may see.

Called by the pages of sets and namespaces. Never a list of members, which may be ten thousand.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from django.db.models import Count, Q

from clusters.health.fleet_counts import counted
from clusters.health.status import Word
from clusters.health.status_sql import WORST_FIRST, with_word

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from clustersets.membership import Membership

# Each set that chooses by labels is one more expression of a statement, and databases bound what one may hold.
SELECTORS_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class StateCount:
    word: Word
    count: int


@dataclass(frozen=True, slots=True)
class Composition:
    """Worst first, so that trouble is where one looks first."""

    total: int
    parts: tuple[StateCount, ...]

    @classmethod
    def of(cls, counts: Mapping[Word, int]) -> Composition:
        parts = tuple(StateCount(word, counts[word]) for word in WORST_FIRST if counts.get(word))
        return cls(sum(part.count for part in parts), parts)

    @property
    def segments(self) -> list[tuple[str, int]]:
        """Tone and length, for a bar."""
        return [(part.word.tone, part.count) for part in self.parts]


def of_clusters(clusters: QuerySet[Any], now: datetime) -> Composition:
    """One query."""
    return Composition.of({WORST_FIRST[rank]: count for (rank,), count in counted(clusters, now).items()})


def of_any(clusters: QuerySet[Any], sets: Sequence[Membership], now: datetime) -> Composition:
    """Of the clusters that are in at least one of the sets, each counted once; a query for every twenty selectors."""
    if any(each.takes_everything for each in sets):
        return of_clusters(clusters, now)
    states = with_word(clusters, now).order_by()
    conditions = [Q(clusterset__in=[each.name for each in sets if each.is_exclusive])]
    conditions += [each.condition() for each in sets if not each.is_exclusive]
    ranks: dict[Any, int] = {}
    for first in range(0, len(conditions), SELECTORS_AT_ONCE):
        chosen = reduce(or_, conditions[first : first + SELECTORS_AT_ONCE])
        ranks.update(states.filter(chosen).values_list("pk", "rank"))
    return Composition.of(Counter(WORST_FIRST[rank] for rank in ranks.values()))


def of_sets(clusters: QuerySet[Any], sets: Sequence[Membership], now: datetime) -> dict[str, Composition]:
    """By name of set: one query for all exclusive sets and those of all, one for every twenty with selectors."""
    counts: dict[str, Counter[Word]] = defaultdict(Counter)
    states = with_word(clusters, now).order_by()
    exclusive = [each.name for each in sets if each.is_exclusive]
    whole = [each.name for each in sets if each.takes_everything]
    if exclusive or whole:
        rows = clusters if whole else clusters.filter(clusterset__in=exclusive)
        for (rank, clusterset), count in counted(rows, now, "clusterset").items():
            for name in (*whole, *([clusterset] if clusterset in exclusive else ())):
                counts[name][WORST_FIRST[rank]] += count
    choosing = [each for each in sets if not (each.is_exclusive or each.takes_everything)]
    for first in range(0, len(choosing), SELECTORS_AT_ONCE):
        _count(counts, states, choosing[first : first + SELECTORS_AT_ONCE])
    return {each.name: Composition.of(counts[each.name]) for each in sets}


def _count(counts: dict[str, Counter[Word]], states: QuerySet[Any], sets: Sequence[Membership]) -> None:
    columns = {f"in_{number}": Count("pk", filter=each.condition()) for number, each in enumerate(sets)}
    for row in states.values("rank").annotate(**columns):
        for number, each in enumerate(sets):
            counts[each.name][WORST_FIRST[row["rank"]]] += row[f"in_{number}"]
