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
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import F, Prefetch, Q, Value
from django.db.models.functions import Coalesce, NullIf
from django.db.models.lookups import In

from clusters import queries
from clusters.fleet.filters import ENDING_CREDENTIALS, NO_SET, SPANS, Filters
from clusters.health import certificate_expiry, fleet_counts, status_sql
from clusters.health.certificate_expiry import ExpiryBucket
from clusters.kinds import LEASE_NAME, microseconds, parse_instant
from clusters.models import ClusterFacts, ClusterTaint, Lease, ManagedCluster, ReportedClaim
from ocmconsole.kubeapi.storage.selector_sql import NOTHING, LabelValue

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from clusters.claims import ClaimFilter
    from clusters.queries import Observed
    from ocmconsole.kubeapi.access.actor import Actor

PAGE = 50  # rows
NEAR = 500  # heartbeats that are looked at for a page in their order; of others a filter has left out too many
CHUNK = 1000  # of an export
MINGLED = frozenset({"since"})  # orders in which parts of the list are no ranges
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
        return Coalesce(self.key, Value(self.unknown)) if self.key is not None else None

    @property
    def unknown(self) -> Any:
        """The place of rows without one: the end."""
        limits = (FIRST, LAST) if self.is_time else (LEAST, MOST)
        return limits[0] if self.falls else limits[1]

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
        names = self.names_beyond()
        if rises:  # in two parts, of which the first is a range of an index
            return Q(place__gte=self.key) & (Q(place__gt=self.key) | names)
        return Q(place__lte=self.key) & (Q(place__lt=self.key) | names)

    def names_beyond(self) -> Q:
        """Of rows with the same key."""
        return Q(name__lt=self.name) if self.back else Q(name__gt=self.name)


# ---------------------------------------------------------------- a page


class ListPart(NamedTuple):
    """Rows that an index has in the order of the list: by ``place``, or by name where all have the place ``same``."""

    rows: QuerySet[Any]
    place: Any = None
    same: Any = None

    def read(self, order: Order, cursor: PageCursor | None, size: int, *, back: bool) -> list[tuple[str, str, Any]]:
        """Keys, names and places of so many rows beyond a cursor. One query."""
        rows, columns = self.rows, order.columns(back=back)
        if self.place is not None:
            rows = rows.annotate(place=self.place)
            rows = rows.filter(cursor.beyond(order)) if cursor is not None else rows
            return list(rows.order_by(*columns).values_list("pk", "name", "place")[:size])
        if cursor is not None and cursor.key == self.same:
            rows = rows.filter(cursor.names_beyond() if order.key is not None else cursor.beyond(order))
        elif cursor is not None and (self.same > cursor.key) is (order.falls is not back):
            return []
        return [(*row, self.same) for row in rows.order_by(columns[-1]).values_list("pk", "name")[:size]]


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
        back = place is not None and place.back
        found = self._found(order, place, size + 1, back=back)
        goes_on = len(found) > size
        found = found[:size][:: -1 if back else 1]
        if not found:
            return ClusterPage([])
        before, after = (PageCursor(at, name) for _, name, at in (found[0], found[-1]))
        return ClusterPage(
            self._observed([row[0] for row in found], claims),
            replace(before, back=True) if (goes_on if back else place is not None) else None,
            after if back or goes_on else None,
        )

    def _found(self, order: Order, place: PageCursor | None, size: int, *, back: bool) -> list[tuple[str, str, Any]]:
        """So many rows of all parts, in their common order."""
        if order.by_beat and (near := self._near_by_beat(order, place, back=back)) is not None:
            found = ListPart(near, order.place).read(order, place, size, back=back)
            if len(found) == size:
                return found
        parts, found = self._parts(order), list[tuple[str, str, Any]]()
        follow = order.name not in MINGLED
        for part in reversed(parts) if back else parts:
            if not follow or len(found) < size:
                found += part.read(order, place, size, back=back)
        if len(parts) > 1:
            found.sort(key=lambda row: row[1], reverse=back)
            found.sort(key=lambda row: row[2], reverse=order.falls is not back)
        return found[:size]

    def _near_by_beat(self, order: Order, place: PageCursor | None, *, back: bool) -> QuerySet[Any] | None:
        """Rows of the heartbeats that come next, more than a page has; None for a hub with fewer.

        No index has them in order, which each heartbeat would have to keep; so one look at all leases finds a bound.
        """
        way, sign = ("gte", "") if order.falls is back else ("lte", "-")
        beats = Lease.objects.filter(name=LEASE_NAME, skew__isnull=False, renew_time__isnull=False)
        if place is not None:
            beats = beats.filter(**{f"renew_time__{way}": place.key})
        bound = beats.order_by(f"{sign}renew_time").values_list("renew_time", flat=True)[NEAR : NEAR + 1].first()
        if bound is None:
            return None
        near = beats.filter(**{f"renew_time__{'gte' if way == 'lte' else 'lte'}": bound}).values("namespace")
        return self._matching(by_word=False, by_beat=True).filter(name__in=near, heard__isnull=False)

    def _parts(self, order: Order) -> list[ListPart]:
        """What is asked for, as parts that follow each other in the order, or are MINGLED in it."""
        if order.by_word:
            return self._parts_by_word(order)
        rows = self._matching(by_word=False, by_beat=order.by_beat)
        if order.name == "certificate":
            none = Q(facts__certificate_not_after=None)
            return [ListPart(rows.filter(~none), order.key), ListPart(rows.filter(none), same=order.unknown)]
        if order.name == "version":
            known, unknown = rows.filter(kubernetes_order__gt=0), rows.filter(kubernetes_order=0)
            return [ListPart(known, F("kubernetes_order")), ListPart(unknown, same=order.unknown)]
        return [ListPart(rows, order.key if order.name == "age" else order.place)]

    def _parts_by_word(self, order: Order) -> list[ListPart]:
        """Those that may not be healthy; and the rest, by an index, until there are enough."""
        conditions = self.conditions().values()
        healthy = Q(rank=fleet_counts.HEALTHY)  # no condition that an index of its own has: the order is to have one
        if order.is_time:
            healthy &= Q(available_since__isnull=False)
        unusual = fleet_counts.unusual_of(self.visible, self.now).filter(~healthy, *conditions)
        rest = status_sql.with_word(self.visible, self.now).filter(healthy, *conditions)
        if order.is_time:
            parts = [ListPart(unusual, order.place), ListPart(rest, F("available_since"))]
        else:
            parts = [ListPart(unusual, order.key), ListPart(rest, same=fleet_counts.HEALTHY)]
        if self._lacks_healthy():
            return parts[:1]
        return parts[:: -1 if order.falls and not order.is_time else 1]

    def _lacks_healthy(self) -> bool:
        """Whether states are asked for, and none of them is Healthy."""
        return bool(self.filters.of("status")) and fleet_counts.HEALTHY not in self.filters.ranks()

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
        if self._lacks_healthy():
            rows = fleet_counts.unusual_of(rows, self.now)
        elif by_word or not BY_WORD.isdisjoint(conditions):
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
            "credentials": self._credentials,
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

    def _credentials(self) -> Q:
        if not self.filters.has("credentials", ENDING_CREDENTIALS):
            return NOTHING
        return Q(name__in=ClusterFacts.objects.filter(certificate_expiry.needs_somebody(self.now)).values("cluster"))

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
