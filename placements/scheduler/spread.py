"""``spreadPolicy``: clusters chosen evenly from topologies, as the API's own comments describe it. Pure.

Upstream's scheduler ignores the field (K20). A Placement without it never comes here.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from ocmconsole.kubeapi.errors import Doc
from placements.scheduler.fleet import Cluster

Place = tuple[str, ...] | None
MOST_STEPS = 1_000_000  # places times clusters to choose: some seconds, during which other reconcilers wait


@dataclass(frozen=True, slots=True)
class Constraint:
    """``must``: DoNotSchedule. A cluster without the key is in no topology: then never chosen, else last."""

    key: str
    is_claim: bool
    most: int
    must: bool

    @classmethod
    def of(cls, doc: Doc) -> Constraint:
        must = doc.get("whenUnsatisfiable") == "DoNotSchedule"
        return cls(str(doc["topologyKey"]), doc["topologyKeyType"] == "Claim", int(doc.get("maxSkew", 1)), must)

    def topology(self, cluster: Cluster) -> str | None:
        return (cluster.claims if self.is_claim else cluster.labels).get(self.key)


def constraints_of(spec: Doc) -> list[Constraint]:
    """K20: the more important first."""
    return [Constraint.of(each) for each in (spec.get("spreadPolicy") or {}).get("spreadConstraints") or ()]


class _Topologies:
    """Of one constraint: how many clusters of each are there, and how many have been chosen."""

    def __init__(self, constraint: Constraint, clusters: Sequence[Cluster]) -> None:
        self._constraint = constraint
        self._sizes = Counter(found for each in clusters if (found := constraint.topology(each)) is not None)
        self._chosen = dict.fromkeys(self._sizes, 0)
        self._at = Counter({0: len(self._sizes)})  # how many topologies have how many chosen clusters
        self._least = 0

    def place(self, cluster: Cluster) -> Place:
        """What decides whether choosing the cluster breaks the constraint. All topologies that cannot are one."""
        topology = self._constraint.topology(cluster)
        if topology is None:
            return None
        return (topology,) if self._sizes[topology] > self._constraint.most else ()

    def is_broken(self, place: Place) -> bool:
        """K20: whether one more cluster would be more than ``most`` above the fewest of any topology."""
        if not place:
            return place is None
        return self._chosen[place[0]] >= self._least + self._constraint.most

    def choose(self, cluster: Cluster) -> None:
        topology = self._constraint.topology(cluster)
        if topology is None:
            return
        count = self._chosen[topology]
        self._chosen[topology] = count + 1
        self._at[count] -= 1
        self._at[count + 1] += 1
        if count == self._least and not self._at[count]:
            self._least += 1


def problem(clusters: Sequence[Cluster], constraints: Sequence[Constraint], most: int) -> str:
    """D12: why nobody can be chosen: more steps than others can wait for. Empty if there are fewer."""
    if _takes_all(clusters, constraints, most):
        return ""
    topologies = [_Topologies(each, clusters) for each in constraints]
    places = len({tuple(each.place(cluster) for each in topologies) for cluster in clusters})
    wanted = min(most, len(clusters))
    if places * wanted <= MOST_STEPS:
        return ""
    return f":spreadPolicy has too many topologies: {wanted:,} clusters of {places:,} cannot be chosen"


def _takes_all(clusters: Sequence[Cluster], constraints: Sequence[Constraint], most: int) -> bool:
    return most >= len(clusters) and not any(each.must for each in constraints)


def choose_spread(ordered: Sequence[Cluster], constraints: Sequence[Constraint], most: int) -> list[Cluster]:
    """K20: at most that many of the clusters, the best first within what the constraints permit.

    One after another: of the clusters whose choice breaks the fewest constraints (an earlier constraint weighs more
    than all later ones) the best. Nobody is chosen whose choice breaks one that must hold.
    """
    if _takes_all(ordered, constraints, most):
        return list(ordered)
    topologies = [_Topologies(each, ordered) for each in constraints]
    queues: dict[tuple[Place, ...], deque[tuple[int, Cluster]]] = {}
    for rank, cluster in enumerate(ordered):
        queues.setdefault(tuple(each.place(cluster) for each in topologies), deque()).append((rank, cluster))
    chosen: list[Cluster] = []
    while queues and len(chosen) < most:
        open_ = [
            (flaws, queue[0][0], place)
            for place, queue in queues.items()
            if (flaws := _flaws(place, constraints, topologies)) is not None
        ]
        if not open_:
            break
        _, _, best = min(open_, key=itemgetter(0, 1))
        _, cluster = queues[best].popleft()
        chosen.append(cluster)
        if not queues[best]:
            del queues[best]
        for each in topologies:
            each.choose(cluster)
    return chosen


def _flaws(
    place: tuple[Place, ...], constraints: Sequence[Constraint], topologies: Sequence[_Topologies]
) -> tuple[bool, ...] | None:
    """For each constraint whether one more cluster of this place breaks it; None when it must not."""
    flaws = []
    for constraint, found, one in zip(constraints, topologies, place, strict=True):
        is_broken = found.is_broken(one)
        if is_broken and constraint.must:
            return None
        flaws.append(is_broken)
    return tuple(flaws)
