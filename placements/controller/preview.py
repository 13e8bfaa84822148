"""A Placement worked out as the scheduler would, for pages: by the same pipeline, on the same snapshot of the fleet.

Reads only. Which clusters may be named is for the caller to decide: ``seen`` are those that the actor sees (D16), all
others are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from django.conf import settings

from clusters import queries as clusters
from clustersets.membership import Membership
from ocmconsole.kubeapi.storage.selectors import EVERYTHING
from placements.controller import scheduling, snapshot
from placements.explaining.explanation import PlacementExplanation
from placements.scheduler import brake
from placements.scheduler.brake import Brake
from placements.scheduler.fleet import Cluster, Fleet
from placements.scheduler.pipeline import PlacementResult, schedule
from placements.scheduler.specification import PlacementSpec

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Key

# Every cluster of the hub, as a set; no set has an empty name.
WHOLE_FLEET = Membership("", EVERYTHING)

# Clusters and the names of those that the actor sees.
Change = Callable[[Sequence[Cluster], frozenset[str]], Sequence[Cluster]]


@dataclass(frozen=True)
class PlacementPreview:
    """``present``: clusters that the stored PlacementDecisions name. ``seen``: names that the actor may read."""

    explanation: PlacementExplanation
    present: frozenset[str]
    seen: frozenset[str]
    now: datetime

    @property
    def result(self) -> PlacementResult:
        return self.explanation.result

    @cached_property
    def by_name(self) -> Mapping[str, Cluster]:
        return {each.name: each for each in self.explanation.everyone}

    @cached_property
    def chosen(self) -> frozenset[str]:
        return frozenset(each.name for each in self.result.chosen)


def preview(
    actor: Actor,
    namespace: str,
    spec: Doc,
    *,
    present: Collection[str],
    key: Key | None = None,
    now: datetime,
    also_bound: Sequence[Membership] = (),
    pretend: Change | None = None,
) -> PlacementPreview:
    """``key``: of the stored Placement that it is about. ``also_bound``: sets that are pretended to be bound.

    ``pretend`` changes clusters that the actor sees.

    Raises Unfinished where expressions take longer than ``scheduling.PATIENCE``; another call gets further.
    """
    plan = PlacementSpec.of({"metadata": {}, "spec": spec})
    bound = snapshot.bound_sets(namespace).sets
    extra = tuple(each for each in also_bound if each.name not in {one.name for one in bound})
    fleet = scheduling.fleet_for(plan, (*bound, *extra, WHOLE_FLEET))
    everyone = fleet.members[WHOLE_FLEET.name]
    seen = _seen(actor, everyone)
    fleet = _only_seen(fleet, [each.name for each in extra], seen)
    if pretend is not None:
        changed = pretend(everyone, seen)
        fleet = _pretended(fleet, (*bound, *extra), changed, {each.name for each in extra}, seen)
        fleet = replace(fleet, brakes=(*fleet.brakes, *_brakes(everyone, changed, (*bound, *extra))))
        everyone = changed
    result = schedule(
        plan,
        fleet,
        bound=[each.name for each in (*bound, *extra)],
        present=present,
        steady=scheduling.steady_reference(plan, key, present) if key is not None else None,
        now=now,
        is_time_up=scheduling.timer(scheduling.PATIENCE),
    )
    return PlacementPreview(PlacementExplanation(result, everyone, namespace), frozenset(present), seen, now)


def _seen(actor: Actor, everyone: Sequence[Cluster]) -> frozenset[str]:
    if clusters.sees_all(actor):
        return frozenset(each.name for each in everyone)
    return frozenset(clusters.clusters_for(actor).values_list("name", flat=True))


def _only_seen(fleet: Fleet, extra: Sequence[str], seen: frozenset[str]) -> Fleet:
    """Of a set that is not bound, a person could not learn anything about clusters that they do not see."""
    members = {name: [each for each in fleet.members[name] if each.name in seen] for name in extra}
    return replace(fleet, members={**fleet.members, **members})


def _brakes(everyone: Sequence[Cluster], changed: Sequence[Cluster], sets: Sequence[Membership]) -> list[Brake]:
    """D27: those that would begin with a silence that is pretended."""
    return brake.would_begin(everyone, changed, sets) if settings.OCMCONSOLE_EVICTION_BRAKE == "on" else []


def _pretended(
    fleet: Fleet, sets: Sequence[Membership], everyone: Sequence[Cluster], extra: Collection[str], seen: frozenset[str]
) -> Fleet:
    """Members anew: a label that is pretended may bring a cluster into a set."""
    members: dict[str, Sequence[Cluster]] = {WHOLE_FLEET.name: everyone}
    for each in sets:
        candidates = [one for one in everyone if one.name in seen] if each.name in extra else everyone
        members[each.name] = [one for one in candidates if each.includes(one.labels)]
    return replace(fleet, members=members)
