"""What visible clusters say or are labelled, counted by the database: names, their values, outliers, who says nothing.

A page asks for one name at a time; however many clusters there are, it costs the same few statements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Count, F

from clusters.models import ReportedClaim
from ocmconsole.kubeapi.storage.selector_sql import LabelValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet

MOST_NAMES = 200  # names on the page; more is no list that somebody reads
MOST_VALUES = 30  # values with counts, the most frequent
# A value is an outlier when at most one cluster in fifty has it and most have another.
RARE = 0.02
FEW_OUTLIERS = 12  # that a page shows, the most frequent
MOST = 0.5  # of the clusters that say something: others than these may be odd
# Of so many clusters, where nearly each has a value of its own: it tells them apart, and no value is odd.
LEAST_IDENTIFIED, IDENTIFYING = 10, 0.9


@dataclass(frozen=True, slots=True)
class Name:
    """A claim or a label key: how many clusters have it, and with how many values."""

    name: str
    clusters: int
    values: int


@dataclass(frozen=True, slots=True)
class Value:
    value: str
    count: int
    is_outlier: bool = False


@dataclass(frozen=True, slots=True)
class Distribution:
    """The most frequent values first, of all that there are (``distinct``)."""

    values: tuple[Value, ...]
    distinct: int
    having: int
    missing: int

    @property
    def is_identifier(self) -> bool:
        return self.having >= LEAST_IDENTIFIED and self.distinct >= self.having * IDENTIFYING

    @property
    def outliers(self) -> tuple[Value, ...]:
        return tuple(each for each in self.values if each.is_outlier)


def claim_names(clusters: QuerySet[Any]) -> list[Name]:
    """The most frequent first."""
    rows = _claims(clusters).values("name").annotate(having=Count("pk"), different=Count("value", distinct=True))
    return [
        Name(*row) for row in rows.order_by("-having", "name").values_list("name", "having", "different")[:MOST_NAMES]
    ]


def claim(clusters: QuerySet[Any], name: str) -> Distribution:
    rows = _claims(clusters).filter(name=name)
    return _distribution(rows, "value", clusters.count())


def _claims(clusters: QuerySet[Any]) -> QuerySet[Any]:
    if not clusters.query.where:  # all of them
        return ReportedClaim.objects.order_by()
    return ReportedClaim.objects.filter(cluster__in=clusters.order_by().values("pk")).order_by()


def label_names(clusters: QuerySet[Any]) -> list[Name]:
    """As ``claim_names``, for the keys of labels; a JSON object is a table to both databases."""
    each = "jsonb_each_text" if connection.vendor == "postgresql" else "json_each"
    try:
        visible, parameters = clusters.order_by().values("labels").query.sql_with_params()
    except EmptyResultSet:  # the person sees no cluster, which needs no database
        return []
    statement = (
        f"SELECT l.key, COUNT(*), COUNT(DISTINCT l.value) FROM ({visible}) c, {each}(c.labels) l"  # noqa: S608 - SQL of Django's own
        " GROUP BY l.key ORDER BY COUNT(*) DESC, l.key LIMIT %s"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [*parameters, MOST_NAMES])
        return [Name(*row) for row in cursor.fetchall()]


def label(clusters: QuerySet[Any], key: str) -> Distribution:
    rows = clusters.order_by().filter(labels__has_key=key).annotate(value=LabelValue(key))
    return _distribution(rows, "value", clusters.count())


def _distribution(rows: QuerySet[Any], column: str, total: int) -> Distribution:
    counted = rows.values(said=F(column)).annotate(count=Count("pk"))
    found: Sequence[dict[str, Any]] = list(counted.order_by("-count", "said")[:MOST_VALUES])
    whole = rows.aggregate(having=Count("pk"), distinct=Count(column, distinct=True))
    having = whole["having"]
    drawn = Distribution((), whole["distinct"], having, total - having)
    top = found[0]["count"] if found else 0
    odd = not drawn.is_identifier and top > having * MOST
    values = (Value(row["said"] or "", row["count"], odd and row["count"] <= having * RARE) for row in found)
    return Distribution(tuple(values), drawn.distinct, having, drawn.missing)
