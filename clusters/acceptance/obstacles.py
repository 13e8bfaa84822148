"""What elsewhere on the hub keeps a cluster of a name from being accepted: conditions on rows, by name.

The admission of each app registers its own and asks ``is_met``. Who reads a cluster in order to decide about it reads
them in the same query (``columns``, ``remember``), so that the checks of that decision need none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import Exists, OuterRef

from ocmconsole.kubeapi import request_cache

if TYPE_CHECKING:
    from django.db.models import QuerySet


class Obstacle(NamedTuple):
    """``rows`` of which one that holds the cluster's name in ``column`` is enough. ``label`` is an identifier."""

    label: str
    rows: QuerySet[Any]
    column: str


_registered: list[Obstacle] = []


def register(label: str, rows: QuerySet[Any], column: str) -> Obstacle:
    obstacle = Obstacle(label, rows, column)
    _registered.append(obstacle)
    return obstacle


def is_met(obstacle: Obstacle, name: str) -> bool:
    """Whether the obstacle stands in the way of the name."""
    rows = obstacle.rows.filter(**{obstacle.column: name})
    return request_cache.cached((obstacle.label, name), rows.exists)


def columns() -> dict[str, Exists]:
    """For a queryset of clusters: a column for each obstacle, by its label."""
    return {each.label: Exists(each.rows.filter(**{each.column: OuterRef("name")})) for each in _registered}


def remember(row: Any) -> None:
    """``row`` is a cluster with these columns."""
    for each in _registered:
        request_cache.remember((each.label, row.name), getattr(row, each.label))
