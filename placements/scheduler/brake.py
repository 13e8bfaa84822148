"""D27, the brake on evictions: when most of a fleet or set falls silent at once, the hub was likelier cut off. Pure.

While a brake stands, a chosen cluster stays although it has the hub's taint ``unreachable``, if it fell silent since
``Brake.since``. Nothing else is held: not other taints, not clusters that are not chosen, no other step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from clusters.kinds import UNREACHABLE_TAINT

if TYPE_CHECKING:
    from clustersets.membership import Membership
    from placements.scheduler.fleet import Cluster, Taint

WAIT = timedelta(minutes=15)  # D27: so long evictions wait for a person
LEAST_OF_A_SET = 10  # clusters: in a smaller set a few that die are no sign of a hub that is cut off


def is_most(silent: int, members: int, *, is_set: bool) -> bool:
    """D27: more than half of the accepted clusters, or of a set with at least ``LEAST_OF_A_SET``."""
    return 2 * silent > members and (not is_set or members >= LEAST_OF_A_SET)


def still_waits(until: datetime | None, now: datetime) -> bool:
    """D27: whether what waits until then does so now. ``until``: None for as long as a person wants."""
    return until is None or now < until


@dataclass(frozen=True, slots=True)
class Brake:
    """``scope``: the set, or None for the whole hub. ``since``: clusters that fell silent from then on are held.

    ``until``: when it ends; None: when a person releases it.
    """

    scope: Membership | None
    since: datetime
    until: datetime | None

    def stands(self, now: datetime) -> bool:
        return still_waits(self.until, now)

    def covers(self, cluster: Cluster, taint: Taint) -> bool:
        """D27: whether the taint is the hub's for a silence that the brake is about."""
        is_member = self.scope is None or self.scope.includes(cluster.labels)
        return _is_silence(taint) and taint.time_added >= self.since and is_member


def would_begin(before: Sequence[Cluster], after: Sequence[Cluster], sets: Sequence[Membership]) -> list[Brake]:
    """D27: brakes that would begin if the clusters fell silent that are so only in ``after``; both in one order."""
    silent = [new for old, new in zip(before, after, strict=True) if new is not old and is_silent(new) > is_silent(old)]
    found = []
    for scope in (None, *sets):
        inside = sum(scope is None or scope.includes(each.labels) for each in silent)
        members = sum(each.is_accepted and (scope is None or scope.includes(each.labels)) for each in after)
        if inside and is_most(inside, members, is_set=scope is not None):
            times = [each.time_added for one in silent for each in one.taints if _is_silence(each)]
            found.append(Brake(scope, min(times), max(times) + WAIT))
    return found


def is_silent(cluster: Cluster) -> bool:
    """D27: whether it has the hub's taint for silence."""
    return any(map(_is_silence, cluster.taints))


def _is_silence(taint: Taint) -> bool:
    return taint.key == UNREACHABLE_TAINT["key"] and taint.effect == UNREACHABLE_TAINT["effect"]


@dataclass(frozen=True, slots=True)
class Hold:
    """That the eviction of a cluster waits. ``until``: None for as long as a person wants."""

    until: datetime | None


def hold(cluster: Cluster, taints: Sequence[Taint], brakes: Sequence[Brake], now: datetime) -> Hold | None:
    """D27: of a chosen cluster that these taints keep away; None where one of them is not held."""
    ends: list[datetime | None] = []
    for taint in taints:
        standing = [each.until for each in brakes if each.stands(now) and each.covers(cluster, taint)]
        if not standing:
            return None
        ends += standing
    return Hold(last_end(ends)) if ends else None


def last_end(ends: Iterable[datetime | None]) -> datetime | None:
    """D27: the end of the longest of several brakes or holds. None: one lasts as long as a person wants, or none."""
    found = [*ends]
    return None if None in found else max((end for end in found if end is not None), default=None)
