"""Who watches what now, in this process, for pages that say who follows an object. Nothing of it is stored.

A watch is noted while its stream runs (``streams.Stream.events``). Other processes of the hub know their own alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind
    from ocmconsole.kubeapi.watch.streams import WatchScope


class Watcher(NamedTuple):
    """``user``: as authenticated. ``program``: what the client says of itself. ``since``: when the watch was opened."""

    user: str
    program: str
    since: datetime


_numbers = itertools.count()
_open: dict[int, tuple[WatchScope, Watcher]] = {}


@contextmanager
def noted(scope: WatchScope, watcher: Watcher | None) -> Iterator[None]:
    """While a watch is open; of None nothing is noted."""
    if watcher is None:
        yield
        return
    forget = note(scope, watcher)
    try:
        yield
    finally:
        forget()


def note(scope: WatchScope, watcher: Watcher) -> Callable[[], object]:
    """As ``noted``, until what is returned is called."""
    number = next(_numbers)
    _open[number] = scope, watcher
    return partial(_open.pop, number)


def watchers_of(kind: Kind, docs: Sequence[Doc]) -> list[Watcher]:
    """Those whose watches see any of the objects, which are in the stored version; by user and program.

    Of several watches of the same user and program the oldest.
    """
    found: dict[tuple[str, str], Watcher] = {}
    for each in _seeing(kind, docs):
        key = each.user, each.program
        found[key] = min(found.get(key, each), each, key=lambda one: one.since)
    return [found[key] for key in sorted(found)]


def _seeing(kind: Kind, docs: Sequence[Doc]) -> Iterable[Watcher]:
    for scope, watcher in tuple(_open.values()):
        if scope.served.kind is kind and any(map(scope.sees, docs)):
            yield watcher
