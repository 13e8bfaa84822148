"""Registry of reconcilers, and which of them must look again because of some writes.

A reconciler is an idempotent function of a key. It compares what is with what should be and corrects it through verbs;
run twice it writes nothing. It may run late, twice or after a crash.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from ocmconsole.kubeapi.kinds import Key, Kind

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.writes.store import Write

Reconcile = Callable[[Key], "timedelta | None"]
# From a write on a watched kind to the keys to look at again; old or new is None at create and delete.
Keys = Callable[["Doc | None", "Doc | None", Key], Iterable[Key]]
Together = Callable[[Sequence[Key]], Mapping[Key, "timedelta | None"]]
Among = Callable[[Collection[Key]], Iterable[Key]]


def itself(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    return (key,)


def changed(*parts: Callable[[Doc], object], only: Callable[[Doc], bool] | None = None) -> Keys:
    """The object itself when it came, went, or one of these parts of its document moved.

    ``only`` says of what is written whether the reconciler would do anything about such an object at all.
    """

    def keys(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:
        if new is not None and only is not None and not only(new):
            return ()
        if old is None or new is None:
            return (key,)
        for part in parts:  # as ``any``, in half the time: each write asks a dozen reconcilers
            if part(old) != part(new):
                return (key,)
        return ()

    return keys


def changed_in(*parts: Callable[[Doc], object]) -> Keys:
    """As ``changed``, but an object that came or went is left out where all these parts of it are empty."""

    def keys(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:
        before, after = (
            tuple((part(doc) or None) if doc is not None else None for part in parts) for doc in (old, new)
        )
        return (key,) if before != after else ()

    return keys


@dataclass(frozen=True, slots=True)
class Reconciler:
    """``reconcile(key)`` returns when to look again by the clock, or None.

    ``is_wanted`` says in the transaction of the writes whether it has anything to do on this hub at all, and ``among``
    for which of the keys. A worker runs it for one key once in ``pause`` at most: for what counts many objects, each of
    which asks for it. With ``folds`` it waits for an act that writes many objects in several transactions to end.
    ``together`` does the same for several keys at less cost; it leaves out a key that needs a run of its own.
    """

    name: str
    reconcile: Reconcile
    is_wanted: Callable[[], bool] | None = None
    pause: timedelta = timedelta()
    among: Among | None = None
    folds: bool = False
    together: Together | None = None


EVERY = ""  # stands for every kind among the watched resources
_reconcilers: dict[str, Reconciler] = {}
_watchers: dict[str, list[tuple[str, Keys]]] = defaultdict(list)


def reconciler(
    kind: Kind | None,
    *,
    keys: Keys = itself,
    also: Mapping[Kind | None, Keys] | None = None,
    is_wanted: Callable[[], bool] | None = None,
    pause: timedelta = timedelta(),
    among: Among | None = None,
    folds: bool = False,
    together: Together | None = None,
) -> Callable[[Reconcile], Reconcile]:
    """Register the decorated function; it is named by itself without ``reconcile_``. No kind is every kind.

    ``is_wanted`` and ``among`` are called under the counter's lock, once a commit at most, and only where there are
    keys.
    """

    def add(reconcile: Reconcile) -> Reconcile:
        _register(reconcile, is_wanted, pause, among, folds=folds, together=together)
        for watched, find in ((kind, keys), *(also or {}).items()):
            _watchers[watched.resource if watched else EVERY].append((_name(reconcile), find))
        return reconcile

    return add


def on_request(reconcile: Reconcile) -> Reconcile:
    """Register one that no write asks for: who wants it puts it into the queue."""
    _register(reconcile)
    return reconcile


def _register(
    reconcile: Reconcile,
    is_wanted: Callable[[], bool] | None = None,
    pause: timedelta = timedelta(),
    among: Among | None = None,
    *,
    folds: bool = False,
    together: Together | None = None,
) -> None:
    name = _name(reconcile)
    if name in _reconcilers:
        msg = f"two reconcilers are called {name}"
        raise ValueError(msg)
    _reconcilers[name] = Reconciler(name, reconcile, is_wanted, pause, among, folds, together)


def _name(reconcile: Reconcile) -> str:
    return reconcile.__name__.removeprefix("reconcile_")


def find_reconciler(name: str) -> Reconciler | None:
    return _reconcilers.get(name)


def pause_of(name: str) -> timedelta:
    return _reconcilers[name].pause if name in _reconcilers else timedelta()


def does_together(name: str) -> bool:
    return name in _reconcilers and _reconcilers[name].together is not None


def names() -> list[str]:
    return list(_reconcilers)


def folding() -> frozenset[str]:
    """Names of those that wait for the end of an act on many objects (``Reconciler.folds``)."""
    return frozenset(each.name for each in _reconcilers.values() if each.folds)


def caused_by(writes: Iterable[Write]) -> set[tuple[str, Key]]:
    """Pairs of reconciler and key that the writes give reason to look at."""
    found: set[tuple[str, Key]] = set()
    watchers: dict[str, list[tuple[str, Keys]]] = {}
    for write in writes:
        resource = write.kind.resource
        if resource not in watchers:
            watchers[resource] = [*_watchers[resource], *_watchers[EVERY]]
        for name, keys in watchers[resource]:
            for key in keys(write.old, write.new, write.key):
                found.add((name, key))
    return found


def wanted(work: Iterable[tuple[str, Key]]) -> set[tuple[str, Key]]:
    """The work without that of reconcilers which have nothing to do on this hub, or for these keys."""
    keys: defaultdict[str, set[Key]] = defaultdict(set)
    for name, key in work:
        keys[name].add(key)
    return {(name, key) for name, its_keys in keys.items() for key in _wanted_keys(_reconcilers[name], its_keys)}


def _wanted_keys(asked: Reconciler, keys: Collection[Key]) -> Iterable[Key]:
    if asked.is_wanted is not None and not asked.is_wanted():
        return ()
    return keys if asked.among is None else asked.among(keys)
