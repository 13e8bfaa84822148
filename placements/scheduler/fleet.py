"""What the scheduler knows of clusters, bound sets, scores and decisions; made of documents. Pure and immutable."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import orjson

from clusters.claims import reported
from clusters.kinds import is_accepted, taints_of
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.schema.quantities import parse_quantity
from ocmconsole.kubeapi.schema.times import time_of

if TYPE_CHECKING:
    from placements.scheduler.brake import Brake

# A taint or score without a readable time counts as old: its toleration has expired, its score has too.
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Of one cluster's document, 100 bytes each: of so many Placements with expressions, each evaluated once.
MOST_ANSWERS = 500
_name = attrgetter("name")


class Taint(NamedTuple):
    key: str
    value: str
    effect: str
    time_added: datetime

    @classmethod
    def of(cls, doc: Doc) -> Taint:
        return cls(
            str(doc.get("key") or ""),
            str(doc.get("value") or ""),
            str(doc.get("effect") or ""),
            time_of(doc.get("timeAdded")) or EPOCH,
        )

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


class Cluster:
    """A ManagedCluster's document with the parts that the pipeline reads, each computed once.

    ``answers``: what predicates with expressions, by their digest, say of this document, and of which scores.
    """

    def __init__(self, doc: Doc) -> None:
        self.doc = doc
        self.name: str = doc["metadata"]["name"]
        self.answers: dict[str, tuple[object, bool]] = {}
        self._allocatable: dict[str, float | None] = {}

    def __repr__(self) -> str:
        return f"Cluster({self.name})"

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """P6: ``metadata.labels``."""
        return self.doc["metadata"].get("labels") or {}

    @cached_property
    def claims(self) -> Mapping[str, str]:
        """P6: values of ``status.clusterClaims`` by name."""
        return reported(self.doc)

    @cached_property
    def taints(self) -> tuple[Taint, ...]:
        """P9: of its spec, those of the hub among them."""
        return tuple(map(Taint.of, taints_of(self.doc)))

    @cached_property
    def is_being_deleted(self) -> bool:
        """P5: whether it has a deletionTimestamp."""
        return bool(self.doc["metadata"].get("deletionTimestamp"))

    @cached_property
    def is_accepted(self) -> bool:
        """D27: a brake counts accepted clusters."""
        return is_accepted(self.doc)

    @cached_property
    def size(self) -> int:
        """Of its document, in bytes of JSON."""
        return len(orjson.dumps(self.doc))

    def allocatable(self, resource: str) -> float | None:
        """P17: an amount (cores, bytes); None unless the cluster reports it as allocatable and as capacity."""
        if resource not in self._allocatable:
            status = self.doc.get("status") or {}
            amount, capacity = (
                parse_quantity((status.get(part) or {}).get(resource)) for part in ("allocatable", "capacity")
            )
            self._allocatable[resource] = None if amount is None or capacity is None else float(amount)
        return self._allocatable[resource]

    def answer(self, question: str, scores: object, find: Callable[[], bool]) -> bool:
        """What ``find`` says; called once for a question as long as ``scores`` are equal."""
        known = self.answers.get(question)
        if known is None or known[0] != scores:
            known = scores, find()
            while len(self.answers) >= MOST_ANSWERS:
                self.answers.pop(next(iter(self.answers)), None)
            self.answers[question] = known
        return known[1]

    def view(self) -> Doc:
        """P7: the object as CEL expressions read it, which is what upstream's typed object shows (observed)."""
        doc = self.doc
        seen = {part: doc.get(part) or {} for part in ("metadata", "spec", "status")}
        return seen | {"status": {"version": {}} | seen["status"]}


class ClusterList(list[Cluster]):
    """Clusters in the order of their names, which is never changed: what scores read of all of them is read once."""

    @cached_property
    def names(self) -> list[str]:
        return list(map(_name, self))

    @cached_property
    def _amounts(self) -> dict[str, list[float | None]]:
        return {}

    def allocatable(self, resource: str) -> list[float | None]:
        """P17: of each in turn."""
        if resource not in self._amounts:
            self._amounts[resource] = [each.allocatable(resource) for each in self]
        return self._amounts[resource]

    def place(self, name: str) -> int | None:
        """Where the one of that name stands."""
        place = bisect_left(self.names, name)
        return place if place < len(self) and self.names[place] == name else None


@dataclass(frozen=True)
class AddOnScore:
    """An AddOnPlacementScore's status (1.9)."""

    values: Mapping[str, int]
    valid_until: datetime | None = None

    @classmethod
    def of(cls, doc: Doc) -> AddOnScore:
        status = doc.get("status") or {}
        values = {str(each["name"]): int(each["value"]) for each in status.get("scores") or ()}
        until = status.get("validUntil")
        return cls(values, None if until is None else time_of(until) or EPOCH)

    def is_expired(self, now: datetime) -> bool:
        """P18: from the moment after ``validUntil``."""
        return self.valid_until is not None and now > self.valid_until


@dataclass(frozen=True)
class Fleet:
    """``members``: clusters by set, in the order of their names. ``scores``: by cluster and AddOnPlacementScore name.

    ``decided``: in how many PlacementDecisions of the whole hub a cluster stands (P15). ``revision``: of the hub, that
    all of it is no older than. ``brakes``: on evictions (D27).
    """

    members: Mapping[str, Sequence[Cluster]]
    scores: Mapping[tuple[str, str], AddOnScore] = field(default_factory=dict)
    decided: Mapping[str, int] = field(default_factory=dict)
    revision: int = 0
    brakes: Sequence[Brake] = ()

    def member(self, name: str) -> Cluster | None:
        """The cluster of that name, if any of the sets has it."""
        return next(filter(None, (named(clusters, name) for clusters in self.members.values())), None)


def named(clusters: Sequence[Cluster], name: str) -> Cluster | None:
    """The one of that name; they are in the order of their names."""
    if isinstance(clusters, ClusterList):  # in a third of the time
        found = clusters.place(name)
        return clusters[found] if found is not None else None
    place = bisect_left(clusters, name, key=_name)
    return clusters[place] if place < len(clusters) and clusters[place].name == name else None
