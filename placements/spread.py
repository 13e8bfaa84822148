"""``spreadPolicy``: clusters chosen evenly from topologies, as the API's own comments describe it. Pure.

Upstream's scheduler ignores the field (K20). A Placement without it never comes here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ocmconsole.kubeapi.errors import Doc
from placements.fleet import Cluster


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
    """The more important first."""
    return [Constraint.of(each) for each in (spec.get("spreadPolicy") or {}).get("spreadConstraints") or ()]


def choose_spread(ordered: Sequence[Cluster], constraints: Sequence[Constraint], most: int) -> list[Cluster]:
    """At most that many of the clusters, the best first within what the constraints permit.

    One after another: of the clusters whose choice breaks the fewest constraints (an earlier constraint weighs more
    than all later ones) the best. Nobody is chosen whose choice breaks one that must hold.
    """
    queues: dict[tuple[str | None, ...], deque[tuple[int, Cluster]]] = {}
    for rank, cluster in enumerate(ordered):
        queues.setdefault(tuple(each.topology(cluster) for each in constraints), deque()).append((rank, cluster))
    counts = [
        dict.fromkeys((place[index] for place in queues if place[index] is not None), 0)
        for index in range(len(constraints))
    ]
    chosen: list[Cluster] = []
    while queues and len(chosen) < most:
        broken = {place: _broken(place, constraints, counts) for place in queues}
        open_ = {place: flaws for place, flaws in broken.items() if flaws is not None}
        if not open_:
            break
        best = min(open_, key=lambda place: (open_[place], queues[place][0][0]))
        chosen.append(queues[best].popleft()[1])
        if not queues[best]:
            del queues[best]
        for count, topology in zip(counts, best, strict=True):
            if topology is not None:
                count[topology] += 1
    return chosen


def _broken(
    place: tuple[str | None, ...], constraints: Sequence[Constraint], counts: Sequence[dict[str | None, int]]
) -> tuple[bool, ...] | None:
    """For each constraint whether one more cluster of this place breaks it; None when it must not."""
    flaws = []
    for constraint, count, topology in zip(constraints, counts, place, strict=True):
        is_broken = topology is None or count[topology] + 1 - _least(count, topology) > constraint.most
        if is_broken and constraint.must:
            return None
        flaws.append(is_broken)
    return tuple(flaws)


def _least(count: dict[str | None, int], topology: str) -> int:
    """The fewest of a topology once one more of this one is chosen."""
    others = min((number for name, number in count.items() if name != topology), default=count[topology] + 1)
    return min(others, count[topology] + 1)
