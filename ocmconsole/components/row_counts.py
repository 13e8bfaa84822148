"""How many rows a list has, and how many of them a filter lets through, for the line below it. Called by pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django.db.models import QuerySet


@dataclass(frozen=True, slots=True)
class Counted:
    """``of`` are all rows that the person may see, ``matching`` those that fit; equal where nothing is filtered."""

    of: int
    matching: int
    is_filtered: bool


def counted(of: int, matching: QuerySet[Any] | None = None) -> Counted:
    """``matching`` are the rows that the filter lets through on all pages, None without a filter. At most one query."""
    return Counted(of, of if matching is None else matching.count(), matching is not None)
