"""The same act on many objects: some hundreds in one transaction, and none of them holds up another (D12).

``verbs.together`` commits all or nothing. Here each key is a part of its own: one that a rule refuses, that somebody
else has written meanwhile, or that fails, is left out and named, and the caller leaves it to its reconciler. The
counter is held for one chunk at a time, so that other writers have their turns. Reconcilers that count what all chunks
make wait for the last one (``controllers.Reconciler.folds``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence

from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.verbs import Batch

log = logging.getLogger(__name__)

AT_ONCE = 250  # keys of one transaction: the counter is held for about a tenth of a second
TRIES = 5  # of one chunk, each without those that were found to be too late

Read = Callable[[Batch, Collection[Key]], None]
Compose = Callable[[Batch, Key], None]


class LeftOut(Exception):
    """Raised by ``compose``: this key needs another look than one that many get together."""


def write_each(actor: Actor, keys: Sequence[Key], read: Read, compose: Compose) -> list[Key]:
    """Commit what ``compose`` adds to a batch for each key; returns the keys that were left out.

    ``read`` is called first for the keys of each transaction, so that rows are read by few queries (``Batch.read``).
    ``compose`` raises LeftOut, or an ApiError, for a key that is to be left out. It sees what it wrote for keys before.
    """
    starts = range(0, len(keys), AT_ONCE)
    left: list[Key] = []
    try:
        for start in starts:
            whole = Batch(actor, goes_on=start != starts[-1])
            left += _write_chunk(whole, keys[start : start + AT_ONCE], read, compose)
    finally:
        if len(starts) > 1:
            workqueue.end_fold()
    return left


def _write_chunk(whole: Batch, keys: Sequence[Key], read: Read, compose: Compose) -> Iterator[Key]:
    read(whole, keys)
    parts: dict[Key, Batch] = {}
    for key in keys:
        part = whole.part()
        try:
            compose(part, key)
            part.accompany()
        except LeftOut:
            yield key
        except errors.ApiError as error:
            log.info("%s is left to its reconciler: %s", key, error.message)
            yield key
        except Exception:
            log.exception("%s is left to its reconciler", key)
            yield key
        else:
            parts[key] = part
            whole.take(part)
    yield from _commit(whole, parts)


def _commit(whole: Batch, parts: dict[Key, Batch]) -> Iterator[Key]:
    """Commit the parts; yields the keys of those that were not."""
    for _ in range(TRIES):
        together = Batch(whole.actor, goes_on=whole.goes_on)
        for part in parts.values():
            together.take(part)
        try:
            together.store()
        except verbs.Stale as stale:
            late = _late(parts, stale)
            yield from (key for key in parts if key in late)
            parts = {key: part for key, part in parts.items() if key not in late}
        except Exception:  # whatever it is, it is not known of whom: each is tried alone
            log.exception("%d objects are left to their reconcilers", len(parts))
            break
        else:
            return
    yield from parts


def _late(parts: dict[Key, Batch], stale: verbs.Stale) -> set[Key]:
    """Keys of parts that hold a write which came too late, or one that continues such a write; all if none is named."""
    gone = {id(write) for write in stale.writes}
    late = set()
    for key, part in parts.items():
        if any(id(write) in gone or id(write.after) in gone for write in part.writes):
            late.add(key)
            gone |= {id(write) for write in part.writes}
    return late or set(parts)
