"""The cluster list at any size: a page of it, how many there are of what, and all of it for an export.

Invariants: whatever is asked begins with the clusters that the actor may see; a page, its counts and an export cost a
number of statements that does not grow with the clusters; a page continues from the values of its last row, so that
rows that come and go in between neither repeat nor hide another (docs/adr/0013). Called by the views of the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from django.db.models import F, Prefetch, Q, Value
from django.db.models.functions import Coalesce, NullIf
from django.db.models.lookups import In

from clusters import queries
from clusters.fleet.filters import NO_SET, SPANS, Filters
from clusters.health import certificate_expiry, status_sql
from clusters.health.certificate_expiry import ExpiryBucket
from clusters.kinds import microseconds, parse_instant
from clusters.models import ClusterTaint, ManagedCluster, ReportedClaim
from ocmconsole.kubeapi.storage.selector_sql import NOTHING, LabelValue

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from clusters.claims import ClaimFilter
    from clusters.queries import Observed
    from ocmconsole.kubeapi.access.actor import Actor

PAGE = 50  # rows
CHUNK = 1000  # of an export
BY_WORD = frozenset({"status", "for"})  # filters of what only ``status_sql.with_word`` knows
# Stand for what is not known, so that it comes last in either direction.
FIRST = datetime(1, 1, 2, tzinfo=UTC)
LAST = datetime(9999, 12, 30, tzinfo=UTC)
LEAST, MOST = -(2**62), 2**62  # beyond every number that a column holds, and within 64 bits


# ---------------------------------------------------------------- order and place


@dataclass(frozen=True, slots=True)
class Order:
    """``key`` is what rows are ordered by before their names; ``falls`` when the largest comes first."""

    name: str
    key: Any = None
    falls: bool = False
    is_time: bool = False
    by_word: bool = False
    by_beat: bool = False

    def turned(self) -> Order:
        return replace(self, falls=not self.falls)

    @property
    def place(self) -> Any:
        """The key of every row, known or not."""
        limits = (FIRST, LAST) if self.is_time else (LEAST, MOST)
        return Coalesce(self.key, Value(limits[0] if self.falls else limits[1])) if self.key is not None else None

    def columns(self, *, back: bool) -> list[str]:
        """What to order by. Names rise among equal keys; backwards everything turns round."""
        way = "-" if self.falls is not back else ""
        return [f"{way}name"] if self.key is None else [f"{way}place", "-name" if back else "name"]


# As the columns read: the shortest time in a state first is the latest change first.
ORDERS = {
    "name": Order("name"),
    "status": Order("status", F("rank"), by_word=True),
    "since": Order("since", F("since"), falls=True, is_time=True, by_word=True),
    "heard": Order("heard", F("heard"), falls=True, by_beat=True),
    "certificate": Order("certificate", F("facts__certificate_not_after"), is_time=True),
    "version": Order("version", NullIf("kubernetes_order", Value(0))),
    "age": Order("age", F("created"), falls=True, is_time=True),
}


def order_of(text: str) -> tuple[str, Order]:
    """``since``, or ``-since`` for the other way round; anything else is by name."""
    name = text.removeprefix("-")
    if name not in ORDERS:
        return "name", ORDERS["name"]
    return (text, ORDERS[name].turned()) if text.startswith("-") else (text, ORDERS[name])


@dataclass(frozen=True, slots=True)
class PageCursor:
    """Between two rows: the key and the name of the one before, or after when ``back``."""

    key: Any
    name: str
    back: bool = False

    @classmethod
    def read(cls, text: str, order: Order, *, back: bool) -> PageCursor | None:
        """None for what no page has said."""
        key, mark, name = text.partition("~")
        if not mark or not name or "\0" in name:
            return None
        if order.key is None:
            return cls(None, name, back)
        try:
            number = int(key)
            return cls(parse_instant(number) if order.is_time else number, name, back) if abs(number) <= MOST else None
        except (ValueError, OverflowError):
            return None

    def __str__(self) -> str:
        key = microseconds(self.key) if isinstance(self.key, datetime) else self.key
        return f"{'' if key is None else key}~{self.name}"

    def beyond(self, order: Order) -> Q:
        """The rows on the far side."""
        rises = order.falls is self.back
        if order.key is None:
            return Q(name__gt=self.name) if rises else Q(name__lt=self.name)
        names = Q(name__lt=self.name) if self.back else Q(name__gt=self.name)
        return (Q(place__gt=self.key) if rises else Q(place__lt=self.key)) | (Q(place=self.key) & names)


# ---------------------------------------------------------------- a page


@dataclass(frozen=True, slots=True)
class ClusterPage:
    rows: list[Observed]
    previous: PageCursor | None = None
    next: PageCursor | None = None


class Listing:
    """What one person asks of the list at one moment."""

    def __init__(self, actor: Actor, filters: Filters, now: datetime) -> None:
        self.actor = actor
        self.filters = filters
        self.now = now
        self.sets = queries.named_sets(actor)
        # Those that chose some by their labels. One that takes in everything says nothing about a cluster.
        self.choosing = [each for each in self.sets if not each.is_exclusive and not each.takes_everything]
        self.visible = queries.clusters_for(actor).order_by()

    def page(
        self, order: Order, place: PageCursor | None = None, *, claims: Sequence[str] = (), size: int = PAGE
    ) -> ClusterPage:
        """Two statements for the rows, and one each for their taints and claims."""
        rows = self._matching(by_word=order.by_word, by_beat=order.by_beat)
        back = place is not None and place.back
        if order.place is not None:
            rows = rows.annotate(place=order.place)
        if place is not None:
            rows = rows.filter(place.beyond(order))
        columns = ("pk", "name") if order.key is None else ("pk", "name", "place")
        found = list(rows.order_by(*order.columns(back=back)).values_list(*columns)[: size + 1])
        goes_on = len(found) > size
        found = found[:size][:: -1 if back else 1]
        if not found:
            return ClusterPage([])
        before, after = (PageCursor(row[2] if len(row) > 2 else None, row[1]) for row in (found[0], found[-1]))  # noqa: PLR2004 - the third column
        return ClusterPage(
            self._observed([row[0] for row in found], claims),
            replace(before, back=True) if (goes_on if back else place is not None) else None,
            after if back or goes_on else None,
        )

    def everything(self, claims: Sequence[str] = ()) -> Iterator[Observed]:
        """Every row by name, a chunk in memory at a time."""
        order, place = ORDERS["name"], None
        while True:
            page = self.page(order, place, claims=claims, size=CHUNK)
            yield from page.rows
            if page.next is None:
                return
            place = page.next

    def names(self) -> list[str]:
        """The names of all clusters that the filters let through, in their order; one statement."""
        rows = self._matching(by_word=False, by_beat=False)
        return list(rows.order_by("name").values_list("name", flat=True))

    def sets_of(self, row: ManagedCluster) -> list[str]:
        """The set it was put into first, then those that chose it by its labels."""
        chosen = [each.name for each in self.choosing if each.includes(row.labels)]
        return [row.clusterset, *chosen] if row.clusterset else chosen

    def _observed(self, pks: list[str], claims: Sequence[str]) -> list[Observed]:
        rows = ManagedCluster.objects.filter(pk__in=pks).defer("wire")
        parts: list[Prefetch[Any, Any, Any]] = [Prefetch("taints", ClusterTaint.objects.order_by("pk"))]
        if claims:
            parts.append(Prefetch("claims", ReportedClaim.objects.filter(name__in=claims)))
        places = {pk: place for place, pk in enumerate(pks)}
        return sorted(
            queries.observe_clusters(rows.prefetch_related(*parts), self.now), key=lambda each: places[each.row.pk]
        )

    # ------------------------------------------------------------ conditions

    def _matching(self, *, by_word: bool, by_beat: bool) -> QuerySet[Any]:
        conditions = self.conditions()
        rows = self.visible
        if by_word or not BY_WORD.isdisjoint(conditions):
            rows = status_sql.with_word(rows, self.now)
        elif by_beat:
            rows = status_sql.with_heard(rows)
        return rows.filter(*conditions.values())

    def conditions(self) -> dict[str, Q]:
        """One for each filter that is on; those of states ask for ``status_sql.with_word``."""
        asked = {
            "q": self._named,
            "status": lambda: Q(rank__in=self.filters.ranks()),
            "for": self._in_state_for,
            "set": self._in_sets,
            "version": lambda: Q(kubernetes_version__in=self.filters.of("version")),
            "certificate": self._in_buckets,
            "claim": lambda: reduce(and_, map(queries.claiming, self.filters.wanted("claim"))),
            "label": lambda: reduce(and_, map(_labelled, self.filters.wanted("label"))),
            "taint": lambda: reduce(and_, map(_tainted, self.filters.wanted("taint"))),
            "accepted": self._accepted,
        }
        return {name: asked[name]() for name in self.filters.values}

    def _named(self) -> Q:
        return reduce(or_, (Q(name__contains=text.lower()) for text in self.filters.of("q")))

    def _in_state_for(self) -> Q:
        """Since the longest of the times that are asked for; a time that is none matches nothing."""
        asked = [SPANS[value][1] for value in self.filters.of("for") if value in SPANS]
        return Q(since__lt=self.now - max(asked)) if asked else NOTHING

    def _in_sets(self) -> Q:
        asked = self.filters.of("set")
        by_labels = (each.condition() for each in self.sets if not each.is_exclusive and each.name in asked)
        named = Q(clusterset__in=[*asked, ""] if NO_SET in asked else asked)
        return reduce(or_, by_labels, named)

    def _in_buckets(self) -> Q:
        buckets = {bucket.value: each for bucket, each in self.buckets().items()}
        return reduce(or_, (buckets.get(value, NOTHING) for value in self.filters.of("certificate")))

    def buckets(self) -> dict[ExpiryBucket, Q]:
        return certificate_expiry.bucket_conditions(self.now)

    def _accepted(self) -> Q:
        meant = {"yes": Q(hub_accepts_client=True), "no": Q(hub_accepts_client=False)}
        return reduce(or_, (meant.get(value, NOTHING) for value in self.filters.of("accepted")))


def _labelled(wanted: ClaimFilter) -> Q:
    if not wanted.is_possible:
        return NOTHING
    if wanted.value is None:
        return Q(labels__has_key=wanted.name)
    return Q(In(LabelValue(wanted.name), [wanted.value]))


def _tainted(wanted: ClaimFilter) -> Q:
    rows = ClusterTaint.objects.filter(key=wanted.name)
    return Q(pk__in=(rows if wanted.value is None else rows.filter(value=wanted.value)).values("cluster"))
