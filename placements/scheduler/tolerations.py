"""The taint step: which taints keep a cluster away from a Placement, and until when one is tolerated (P9-P13). Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter

from clusters.kinds import TaintEffect
from ocmconsole.kubeapi.errors import Doc
from placements.scheduler import brake
from placements.scheduler.brake import Brake, Hold
from placements.scheduler.fleet import Cluster, Taint, named

_name = attrgetter("name")
_PREFERRED, _IF_NEW = TaintEffect.PREFER_NO_SELECT.value, TaintEffect.NO_SELECT_IF_NEW.value


@dataclass(frozen=True, slots=True)
class Toleration:
    """Empty ``key`` or ``effect``: any. ``seconds``: for how long after a taint's ``timeAdded``; None: for ever."""

    key: str
    operator: str
    value: str
    effect: str
    seconds: int | None

    @classmethod
    def checked(cls, doc: Doc) -> Toleration:
        """Raises ValueError for one that makes no sense (P12), in upstream's words."""
        key, operator, value, effect = (str(doc.get(part) or "") for part in ("key", "operator", "value", "effect"))
        if not key and operator != "Exists":
            raise ValueError("If the key is empty, operator must be Exists.")
        if operator == "Exists" and value:
            raise ValueError("If the operator is Exists, the value should be empty.")
        return cls(key, operator or "Equal", value, effect, doc.get("tolerationSeconds"))

    def matches(self, taint: Taint) -> bool:
        """P9: whether effect, key, operator and value match, whatever the time is."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        return self.operator == "Exists" or (self.operator == "Equal" and self.value == taint.value)

    def ends(self, taint: Taint) -> datetime | None:
        """P11: when it ends: ``tolerationSeconds`` after the taint's ``timeAdded``. None: never."""
        if self.seconds is None:
            return None
        try:
            return taint.time_added + timedelta(seconds=self.seconds)
        except OverflowError:
            return None if self.seconds > 0 else taint.time_added


@dataclass(frozen=True, slots=True)
class TolerationResult:
    """On one taint. ``until``: when it stops being tolerated; None: not by the passing of time."""

    taint: Taint
    is_tolerated: bool
    until: datetime | None = None
    has_expired: bool = False


def judge(taint: Taint, tolerations: Sequence[Toleration], *, is_decided: bool, now: datetime) -> TolerationResult:
    """P9: whether a taint is tolerated; P10: an expired one does not end the search. ``is_decided``: already chosen."""
    if taint.effect == TaintEffect.NO_SELECT_IF_NEW and is_decided:
        return TolerationResult(taint, is_tolerated=True)
    has_expired = False
    for toleration in tolerations:
        if toleration.matches(taint):
            end = toleration.ends(taint)
            if end is None or now < end:
                return TolerationResult(taint, is_tolerated=True, until=end)
            has_expired = True
    return TolerationResult(taint, taint.effect == TaintEffect.PREFER_NO_SELECT, has_expired=has_expired)


def keeps_away(
    cluster: Cluster, tolerations: Sequence[Toleration], *, is_decided: bool, now: datetime
) -> list[TolerationResult]:
    """P9: verdicts on the taints because of which the cluster is not chosen."""
    found = (judge(taint, tolerations, is_decided=is_decided, now=now) for taint in cluster.taints)
    return [verdict for verdict in found if not verdict.is_tolerated]


class TaintFilter:
    """``keeps_away`` and ``is_unwanted`` for many clusters at one moment: whether, and not why.

    Which tolerations match a taint is found once for each key, value and effect.
    """

    def __init__(self, tolerations: Sequence[Toleration], now: datetime) -> None:
        self._tolerations, self._now = tolerations, now
        self._matching: dict[tuple[str, str, str], tuple[Toleration, ...]] = {}

    def keeps_away(self, cluster: Cluster, *, is_decided: bool) -> bool:
        """P9: whether any of its taints is not tolerated."""
        for taint in cluster.taints:
            effect = taint.effect
            if effect == _PREFERRED or (is_decided and effect == _IF_NEW):
                continue
            if not self._is_tolerated(taint):
                return True
        return False

    def is_unwanted(self, cluster: Cluster) -> bool:
        """D7: a PreferNoSelect taint that no toleration matches: chosen only when too few others are left."""
        return any(taint.effect == _PREFERRED and not self._is_tolerated(taint) for taint in cluster.taints)

    def _is_tolerated(self, taint: Taint) -> bool:
        found = self._matching.get(taint[:3])
        if found is None:
            found = tuple(each for each in self._tolerations if each.matches(taint))
            self._matching[taint[:3]] = found
        return any(each.seconds is None or (end := each.ends(taint)) is None or self._now < end for each in found)


def feasible(
    clusters: Iterable[Cluster],
    tolerations: Sequence[Toleration],
    present: Collection[str],
    brakes: Sequence[Brake],
    now: datetime,
) -> tuple[list[Cluster], dict[str, Hold]]:
    """P8, P9: clusters whose taints are all tolerated; D27: also chosen ones that a brake holds, by name."""
    taints, found, holds = TaintFilter(tolerations, now), [], {}
    for cluster in clusters:
        if cluster.taints:
            is_decided = cluster.name in present
            if taints.keeps_away(cluster, is_decided=is_decided):
                hold = _held(cluster, tolerations, brakes, now) if is_decided and brakes else None
                if hold is None:
                    continue
                holds[cluster.name] = hold
        found.append(cluster)
    return found, holds


def tolerated(tolerations: Sequence[Toleration], now: datetime, clusters: Iterable[Cluster]) -> list[Cluster]:
    """P9: those that may be chosen anew."""
    taints = TaintFilter(tolerations, now)
    return [each for each in clusters if not each.taints or not taints.keeps_away(each, is_decided=False)]


def with_decided(
    new: Sequence[Cluster],
    clusters: Sequence[Cluster],
    tolerations: Sequence[Toleration],
    present: Collection[str],
    brakes: Sequence[Brake],
    now: datetime,
) -> tuple[Sequence[Cluster], dict[str, Hold]]:
    """What ``feasible`` says of the clusters, of which ``new`` are ``tolerated``: some more stay that are chosen."""
    decided = (named(clusters, name) for name in sorted(present))
    doubtful = [each for each in decided if each is not None and each.taints and named(new, each.name) is None]
    stay, holds = feasible(doubtful, tolerations, present, brakes, now) if doubtful else ([], {})
    return (sorted([*new, *stay], key=_name) if stay else new), holds


def _held(cluster: Cluster, tolerations: Sequence[Toleration], brakes: Sequence[Brake], now: datetime) -> Hold | None:
    away = keeps_away(cluster, tolerations, is_decided=True, now=now)
    return brake.hold(cluster, [each.taint for each in away], brakes, now)


def next_end(
    cluster: Cluster, tolerations: Sequence[Toleration], *, is_decided: bool, now: datetime
) -> datetime | None:
    """P13: when the first toleration that counts now ends; None: never."""
    found = (judge(taint, tolerations, is_decided=is_decided, now=now).until for taint in cluster.taints)
    return min((end for end in found if end is not None), default=None)
