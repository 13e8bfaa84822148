"""How many clusters there are of what: one statement groups all that the actor may see, the rest is addition.

Each facet counts with its own filter lifted and all others applied, so that its numbers say what a click would show.
Called by the views of the list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import repeat
from operator import and_
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import Case, CharField, Count, Q, Value, When

from clusters import kinds
from clusters.fleet.filters import BUCKETS, FACETS, NO_SET, Filters
from clusters.health import fleet_counts, status_sql
from clusters.health.certificate_expiry import ExpiryBucket
from clusters.health.status import Word
from ocmconsole.kubeapi.storage.selector_sql import EVERYTHING

if TYPE_CHECKING:
    from clusters.fleet.listing import Listing

# What clusters of a group have in common.
ALIKE = ("rank", "clusterset", "kubernetes_version", "bucket", "in_sets", "narrowed")
MOST_SETS = 10  # chosen by labels, each with a count of its own


class FacetGroup(NamedTuple):
    """Clusters that are alike: how many, and how many of them each set chose by its labels."""

    word: Word
    clusterset: str
    version: str
    bucket: ExpiryBucket
    is_in_sets: bool
    is_narrowed: bool
    size: int
    chosen: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Census:
    """``groups`` count all clusters that the actor may see, whatever the filter is."""

    filters: Filters
    groups: list[FacetGroup]
    sets: tuple[str, ...]

    @property
    def total(self) -> int:
        return sum(group.size for group in self.groups)

    @property
    def troubled(self) -> int:
        return sum(group.size for group in self.groups if group.word in status_sql.TROUBLED)

    @property
    def expiring(self) -> int:
        return sum(
            group.size
            for group in self.groups
            if group.bucket in {ExpiryBucket.EXPIRED, ExpiryBucket.WEEK, ExpiryBucket.SOON}
        )

    @property
    def matching(self) -> int:
        return sum(group.size for group in self._passing(""))

    def words(self) -> list[tuple[Word, int]]:
        """Worst first; a state without clusters only while it is asked for."""
        found = _added((group.word, group.size) for group in self._passing("status"))
        return [
            (word, found[word]) for word in status_sql.WORST_FIRST if found[word] or self.filters.has("status", word)
        ]

    def buckets(self) -> list[tuple[ExpiryBucket, int]]:
        found = _added((group.bucket, group.size) for group in self._passing("certificate"))
        return [
            (bucket, found[bucket])
            for bucket in ExpiryBucket
            if found[bucket] or self.filters.has("certificate", bucket)
        ]

    def versions(self) -> list[tuple[str, int]]:
        """Newest first."""
        found = _added((group.version, group.size) for group in self._passing("version") if group.version)
        for version in self.filters.of("version"):
            found.setdefault(version, 0)
        return sorted(found.items(), key=lambda each: (-kinds.order_of(each[0]), each[0]))

    def clustersets(self) -> list[tuple[str, int]]:
        """The largest first."""
        found: Counter[str] = Counter()
        for group in self._passing("set"):
            found[group.clusterset or NO_SET] += group.size
            found.update(dict(zip(self.sets, group.chosen, strict=True)))
        for name in self.filters.of("set"):
            found.setdefault(name, 0)
        kept = {name: count for name, count in found.items() if count or self.filters.has("set", name)}
        return sorted(kept.items(), key=lambda each: (-each[1], each[0]))

    def _passing(self, lifted: str) -> Iterator[FacetGroup]:
        """Groups that pass every filter but one."""
        ranks, filters = self.filters.ranks(), self.filters
        for group in self.groups:
            passes = {
                "status": not filters.of("status") or status_sql.RANKS[group.word] in ranks,
                "set": group.is_in_sets,
                "version": not filters.of("version") or filters.has("version", group.version),
                "certificate": not filters.of("certificate") or filters.has("certificate", group.bucket),
            }
            if group.is_narrowed and all(passes[name] for name in FACETS if name != lifted):
                yield group


def _added(pairs: Iterable[tuple[Any, int]]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for key, size in pairs:
        found[key] += size
    return found


def census(listing: Listing) -> Census:
    """One statement over all that the actor may see; of what is as usual only an index is read (``fleet_counts``)."""
    conditions = listing.conditions()
    narrowing = [each for name, each in conditions.items() if name not in FACETS]
    choosing = listing.choosing[:MOST_SETS]
    whens = [When(each, then=Value(bucket)) for bucket, each in listing.buckets().items()]
    bucket, later = Case(*whens, output_field=CharField()), Value(ExpiryBucket.LATER.value, output_field=CharField())
    usual = fleet_counts.usual_of(listing.visible)
    unlike = usual.filter(name__in=fleet_counts.unlike_most(listing.now))
    unusual = fleet_counts.unusual_of(listing.visible, listing.now)
    parts = [
        rows.annotate(
            bucket=of,
            is_unlike=is_unlike,
            in_sets=_yes(conditions["set"]) if "set" in conditions else fleet_counts.YES,
            narrowed=_yes(reduce(and_, narrowing)) if narrowing else fleet_counts.YES,
        )
        .order_by()
        .values_list("is_usual", "is_unlike", *ALIKE)
        .annotate(
            size=Count("pk"), **{f"chosen_{n}": Count("pk", filter=each.condition()) for n, each in enumerate(choosing)}
        )
        for rows, of, is_unlike in (
            (usual, later, fleet_counts.NO),
            (unlike, bucket, fleet_counts.YES),
            (unusual, bucket, fleet_counts.NO),
        )
    ]
    found: dict[tuple[Any, ...], list[int]] = {}
    for is_usual, is_unlike, *row in parts[0].union(*parts[1:], all=True):
        key, numbers = tuple(row[: len(ALIKE)]), row[len(ALIKE) :]
        _add(found, key, numbers)
        if is_unlike:  # was counted as one of later
            _add(found, (*key[:3], later.value, *key[4:]), numbers, -1)
        if is_usual:  # was counted as healthy
            _add(found, (fleet_counts.HEALTHY, *key[1:]), numbers, -1)
    groups = [
        FacetGroup(
            status_sql.WORST_FIRST[rank],
            clusterset,
            version,
            BUCKETS[bucket],
            bool(in_sets),
            bool(narrowed),
            size,
            tuple(chosen),
        )
        for (rank, clusterset, version, bucket, in_sets, narrowed), (size, *chosen) in found.items()
        if size
    ]
    return Census(listing.filters, groups, tuple(each.name for each in choosing))


def _add(found: dict[tuple[Any, ...], list[int]], key: tuple[Any, ...], numbers: Iterable[int], sign: int = 1) -> None:
    known = found.get(key, repeat(0))
    found[key] = [old + sign * new for old, new in zip(known, numbers, strict=False)]


def _yes(condition: Q) -> Any:
    return Case(When(condition, then=Value(1)), default=Value(0))


def relaxed(listing: Listing) -> list[tuple[str, int]]:
    """How many would match without each of the filters that are on, the most first; again one statement."""
    conditions = listing.conditions()
    rows = status_sql.with_word(listing.visible, listing.now)
    counts = {
        f"without_{name}": Count(
            "pk", filter=reduce(and_, (each for other, each in conditions.items() if other != name), EVERYTHING)
        )
        for name in conditions
    }
    found = rows.aggregate(**counts)
    return sorted(((name, found[f"without_{name}"]) for name in conditions), key=lambda each: -each[1])
