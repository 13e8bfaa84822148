"""Several placements worked out on one look at the fleet: a bounded number of queries, however many there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.conf import settings

from clustersets import membership
from clustersets.membership import Membership
from clustersets.models import ManagedClusterSet, ManagedClusterSetBinding
from placements.controller import brakes, decisions, scheduling, snapshot
from placements.models import Placement, PlacementDecision, SteadyReference
from placements.scheduler.fleet import Cluster, Fleet
from placements.scheduler.pipeline import PlacementResult, Unfinished, schedule
from placements.scheduler.specification import PlacementSpec

KEEP = "keep"  # D14: the value of OCMCONSOLE_MISCONFIGURED_PLACEMENTS that keeps decisions
PAGE_SECONDS = 1.5  # CPU seconds of one page; what is left then is given as a number


@dataclass(frozen=True)
class Together:
    """``bound``: sets by namespace. ``present``: clusters that stored decisions name, by the key of the row.

    ``is_time_up``: whether ``PAGE_SECONDS`` have passed since the first placement was worked out.
    """

    fleet: Fleet
    bound: Mapping[str, Sequence[Membership]]
    present: Mapping[str, frozenset[str]]
    steady: Mapping[str, SteadyReference]
    now: datetime
    is_time_up: Callable[[], bool]

    @classmethod
    def read(cls, rows: Sequence[Placement], now: datetime) -> Together:
        """Seven queries, and what the snapshot has not followed yet."""
        bound = bound_sets({row.namespace for row in rows})
        sets = {each.name: each for found in bound.values() for each in found}
        fleet = snapshot.present.fleet(tuple(sets.values()), with_scores=True, with_decided=True)
        keys = {(row.namespace, row.name): row.pk for row in rows}
        stored = PlacementDecision.objects.filter(
            namespace__in={row.namespace for row in rows}, placement__in={row.name for row in rows}
        )
        present: defaultdict[str, set[str]] = defaultdict(set)
        for row in stored:
            if (pk := keys.get((row.namespace, row.placement))) is not None:
                present[pk].update(decisions.names_in(row.doc))
        steady = {each.placement_id: each for each in SteadyReference.objects.filter(placement__in=rows)}
        named = {pk: frozenset(names) for pk, names in present.items()}
        fleet = replace(fleet, brakes=brakes.standing())
        return cls(fleet, bound, named, steady, now, scheduling.timer(PAGE_SECONDS))

    def of(self, row: Placement) -> frozenset[str]:
        """Clusters that its stored decisions name."""
        return self.present.get(row.pk, frozenset())

    def schedule(self, row: Placement, changed: Mapping[str, Cluster] | None = None) -> PlacementResult | None:
        """What the scheduler would decide now, with clusters that are ``changed``; None when the time is up."""
        plan = PlacementSpec.of(row.doc)
        sets = self.bound.get(row.namespace, ())
        present = self.of(row)
        fleet = _with(self.fleet, sets, changed) if changed else self.fleet
        if self.is_time_up():
            return None
        try:
            return schedule(
                plan,
                fleet,
                bound=[each.name for each in sets],
                present=present,
                steady=self._steady(row, plan, present),
                now=self.now,
                is_time_up=self.is_time_up,
            )
        except Unfinished:
            return None

    def decided_by(self, row: Placement, result: PlacementResult) -> frozenset[str]:
        """Clusters that its decisions would name then. D14: a misconfigured one keeps those that it may choose."""
        if not result.plan.problem or settings.OCMCONSOLE_MISCONFIGURED_PLACEMENTS != KEEP:
            return frozenset(each.name for each in result.chosen)
        members = (result.scoring.fleet.members[name] for name in result.bound)
        return self.of(row) & {each.name for found in members for each in found if not each.is_being_deleted}

    def _steady(self, row: Placement, plan: PlacementSpec, present: Collection[str]) -> Collection[str] | None:
        """P16, as ``scheduling.steady_reference``."""
        return scheduling.steady_of(plan, self.steady.get(row.pk), present)


def bound_sets(namespaces: Collection[str]) -> Mapping[str, Sequence[Membership]]:
    """P3, for several namespaces: sets that are bound and exist, by name."""
    bindings = ManagedClusterSetBinding.objects.filter(namespace__in=namespaces)
    pairs = list(bindings.values_list("namespace", "cluster_set"))
    rows = ManagedClusterSet.objects.filter(name__in={name for _, name in pairs}).order_by("name")
    sets = {row.name: membership.membership_of(row.doc) for row in rows}
    found: defaultdict[str, list[Membership]] = defaultdict(list)
    for namespace, name in sorted(pairs):
        if name in sets:
            found[namespace].append(sets[name])
    return found


def _with(fleet: Fleet, sets: Sequence[Membership], changed: Mapping[str, Cluster]) -> Fleet:
    """Members of these sets anew: a cluster that is changed may be in another set."""
    members = {}
    for each in sets:
        kept = [one for one in fleet.members[each.name] if one.name not in changed]
        come = [one for one in changed.values() if each.includes(one.labels)]
        members[each.name] = sorted([*kept, *come], key=lambda one: one.name)
    return replace(fleet, members=members)
