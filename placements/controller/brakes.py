"""D27, brakes on evictions: when one begins and ends, and which stand. The rule is ``scheduler.brake``.

``begin_due`` runs in each sweep that finds silent clusters, before one of them becomes Unknown. Agents renew their
leases at different moments, so that the first clusters of a hub that is cut off would be evicted before most are
silent: clusters that miss heartbeats count with the silent ones. If most do not fall silent within a grace period the
brake ends.
Rows are written in commits of ``verbs``, with an audit entry each.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import Max

from clusters.health import silence
from clusters.health.status import silence_grace
from clusters.models import ManagedCluster
from clustersets import membership
from clustersets.models import ManagedClusterSet
from ocmconsole.kubeapi import clock, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.storage import audit
from placements.kinds import BRAKE_BEGUN, BRAKE_ENDED, PLACEMENT
from placements.models import EvictionBrake, Placement
from placements.scheduler import brake
from placements.scheduler.brake import Brake

if TYPE_CHECKING:
    from django.db.models import Model, QuerySet

    from clustersets.membership import Membership

log = logging.getLogger(__name__)

CONTROLLER = Actor.controller("placements")
Ending = EvictionBrake.Ending
SECOND = timedelta(seconds=1)  # conditions and taints carry whole seconds


def standing() -> tuple[Brake, ...]:
    """Brakes that have not ended. One query without any."""
    rows = list(EvictionBrake.objects.filter(ended=None))
    sets = _memberships(row.scope for row in rows)
    return tuple(Brake(sets.get(row.scope), row.since, row.until) for row in rows if not row.scope or row.scope in sets)


def _memberships(names: Iterable[str]) -> Mapping[str, Membership]:
    wanted = {name for name in names if name}
    rows = ManagedClusterSet.objects.filter(name__in=wanted) if wanted else ()
    return {row.name: membership.membership_of(row.doc) for row in rows}


def _accepted() -> QuerySet[Any]:
    return ManagedCluster.objects.filter(hub_accepts_client=True, deleted_at=None).order_by()


def fallen(since: datetime, scope: Membership | None) -> QuerySet[Any]:
    """Accepted clusters that are silent since then; one that never joined has not been heard and falls silent never."""
    rows = _accepted().filter(joined="True", available="Unknown", available_since__gte=since)
    return rows if scope is None else rows.filter(scope.condition())


def silent_now(row: EvictionBrake) -> int:
    """How many clusters are silent now whose silence the brake is about."""
    sets = _memberships([row.scope])
    if row.scope and row.scope not in sets:
        return 0
    return int(fallen(row.since - SECOND, sets.get(row.scope)).count())


@dataclass(slots=True)
class BrakeReach:
    """How many clusters are silent whose silence a brake is about; ``kept`` of them, others are about as well."""

    silent: int = 0
    kept: int = 0
    others: set[int] = field(default_factory=set)  # of these brakes their places in the list


def reach_of(rows: Sequence[EvictionBrake]) -> list[BrakeReach]:
    """Of each brake; of several in one look at all silent clusters, as there may be as many brakes as sets."""
    if len(rows) < 2:  # noqa: PLR2004 - nothing to compare
        return [BrakeReach(silent_now(row)) for row in rows]
    sets = _memberships(row.scope for row in rows)
    exclusive = {
        each.name: place for place, row in enumerate(rows) if (each := sets.get(row.scope)) and each.is_exclusive
    }
    selecting = [
        (place, each) for place, row in enumerate(rows) if (each := sets.get(row.scope)) and not each.is_exclusive
    ]
    of_hub = [place for place, row in enumerate(rows) if not row.scope]
    found = [BrakeReach() for _ in rows]
    columns = ["clusterset", "available_since", *(["labels"] if selecting else [])]
    for clusterset, at, *labels in fallen(min(row.since for row in rows) - SECOND, None).values_list(*columns):
        about = [place for place, each in selecting if each.includes(labels[0])] + of_hub
        about += [exclusive[clusterset]] if clusterset in exclusive else []
        about = [place for place in about if at >= rows[place].since - SECOND]
        for place in about:
            found[place].silent += 1
            found[place].kept += len(about) > 1
            found[place].others.update(about)
    for place, reach in enumerate(found):
        reach.others.discard(place)
    return found


# ---------------------------------------------------------------- how one begins


@dataclass(frozen=True, slots=True)
class _Sign:
    """A cluster that is silent since ``at``, or misses heartbeats (None)."""

    labels: Mapping[str, str]
    clusterset: str
    at: datetime | None


@silence.before_silence
def begin_due(now: datetime, names: Collection[str], late: silence.Late) -> None:
    """Begin a brake where most are silent or late; for the whole hub, else for sets."""
    if settings.OCMCONSOLE_EVICTION_BRAKE == "off":
        return
    stand = set(EvictionBrake.objects.filter(ended=None).values_list("scope", flat=True))
    if "" in stand or not Placement.objects.exists():
        return
    longest = ManagedCluster.objects.filter(name__in=names).aggregate(most=Max("lease_duration_seconds"))["most"]
    window = silence_grace(longest or 0)
    signs = _signs(now - window, late().filter(hub_accepts_client=True, deleted_at=None, joined="True").order_by())
    over = dict(
        EvictionBrake.objects.filter(ended__gt=now - window).order_by().values_list("scope").annotate(last=Max("ended"))
    )
    if _begin(None, _after(signs, over.get("")), _accepted(), now, window):
        return
    most = Counter(each.clusterset for each in signs)
    least = brake.LEAST_OF_A_SET // 2
    for row in ManagedClusterSet.objects.filter(deleted_at=None).exclude(name__in=stand).order_by("name"):
        found = membership.membership_of(row.doc)
        if len(signs) <= least or (found.is_exclusive and most[found.name] <= least):
            continue
        inside = [each for each in _after(signs, over.get(row.name)) if found.includes(each.labels)]
        _begin(found, inside, _accepted().filter(found.condition()), now, window)


def _signs(since: datetime, late: QuerySet[Any]) -> list[_Sign]:
    columns = ("labels", "clusterset")
    silent = [_Sign(*row) for row in fallen(since, None).values_list(*columns, "available_since")]
    return silent + [_Sign(labels, clusterset, None) for labels, clusterset in late.values_list(*columns)]


def _after(signs: Sequence[_Sign], ended: datetime | None) -> Sequence[_Sign]:
    """After the end of a brake only those count that fell silent since."""
    return signs if ended is None else [each for each in signs if each.at is not None and each.at > ended]


def _begin(
    scope: Membership | None, signs: Sequence[_Sign], members: QuerySet[Any], now: datetime, window: timedelta
) -> bool:
    """Whether one was begun, by this process or another."""
    count = members.count() if signs else 0
    if not brake.is_most(len(signs), count, is_set=scope is not None):
        return False
    silent = sum(each.at is not None for each in signs)
    row = EvictionBrake(
        scope=scope.name if scope is not None else "",
        since=now - window,
        begun=now,
        until=now + brake.WAIT,
        silent=silent,
        late=len(signs) - silent,
        members=count,
    )

    def begin() -> Iterator[Model]:
        if not EvictionBrake.objects.filter(scope=row.scope, ended=None).exists():
            yield row
            yield entry(CONTROLLER, BRAKE_BEGUN, row)

    with verbs.batch(CONTROLLER) as batch:
        batch.records.append(begin)
    log.warning("%d of %d clusters are silent or late at once: %s are held", len(signs), count, row)
    return True


def entry(actor: Actor, act: str, row: EvictionBrake, reason: str = "") -> Model:
    """For the audit: about the set, or all clusters."""
    of = f"set {row.scope}" if row.scope else "all clusters"
    text = f"{of}: {row.silent + row.late} of {row.members} silent or late{f'; {reason}' if reason else ''}"
    place = {"resource": PLACEMENT.resource, "namespace": "", "name": ""}
    return audit.entry_of(actor, act, verb="update", reason=text, diff=[], **place)


# ---------------------------------------------------------------- how one ends


def end_due(now: datetime) -> None:
    """By the clock: brakes are confirmed, and end by time, by the return of the clusters, or unconfirmed."""
    for row in EvictionBrake.objects.filter(ended=None):
        if row.until is not None and row.until <= now:
            end(CONTROLLER, row, Ending.TIME, now)
            continue
        silent = silent_now(row)
        if not row.is_confirmed and brake.is_most(silent, row.members, is_set=bool(row.scope)):
            EvictionBrake.objects.filter(pk=row.pk, ended=None).update(is_confirmed=True)
        elif row.is_confirmed and not silent:
            end(CONTROLLER, row, Ending.RETURNED, now)
        elif not row.is_confirmed and not row.held_by and now - row.begun > row.begun - row.since:
            end(CONTROLLER, row, Ending.UNCONFIRMED, now)


def end(actor: Actor, row: EvictionBrake, why: EvictionBrake.Ending, now: datetime) -> None:
    """Evictions that it held are carried out, and all placements look again. Nothing happens to one that has ended."""
    with verbs.batch(actor) as batch:
        end_in(batch, row, why, now)
    wake(now)


def end_in(batch: verbs.Batch, row: EvictionBrake, why: EvictionBrake.Ending, now: datetime) -> None:
    def finish() -> Iterator[Model]:
        found = EvictionBrake.objects.filter(pk=row.pk, ended=None).first()
        if found is not None:
            found.ended, found.ended_why, found.ended_by = now, why, batch.actor.user[:320]
            yield found
            yield entry(batch.actor, BRAKE_ENDED, found, why.label.lower())

    batch.records.append(finish)


def wake(now: datetime | None = None) -> None:
    """A run that read a brake before it ended may hold on to it: everybody looks again."""
    found = Placement.objects.filter(deleted_at=None).values_list("namespace", "name")
    workqueue.put({("placement", Key(namespace, name)) for namespace, name in found}, now or clock.now())
    workqueue.poke()
