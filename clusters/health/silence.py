"""Watchers of silence, which apps above register: called before clusters become Unknown, by each sweep that finds some.

A watcher gets the present, the names of clusters whose grace period is over (H16), and a query for all that miss
heartbeats, these among them. It runs before any of them becomes Unknown, so that what follows from silence can wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django.db.models import QuerySet

Late = Callable[[], "QuerySet[Any]"]
Watcher = Callable[[datetime, Collection[str], Late], None]

_watchers: list[Watcher] = []


def before_silence(watcher: Watcher) -> Watcher:
    """Register a watcher."""
    _watchers.append(watcher)
    return watcher


def announce(now: datetime, names: Collection[str], late: Late) -> None:
    """These clusters are about to become Unknown."""
    for watcher in _watchers:
        watcher(now, names, late)
