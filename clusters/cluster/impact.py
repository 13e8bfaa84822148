"""What a change of clusters would do to placements, and what they did in a gap: for pages; worked out by an app above.

An app registers ``works_out_impact``; without it pages say nothing of placements. Reads only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc

# Makes of a cluster's document what it would be.
ClusterEdit = Callable[["Doc"], "Doc"]


@dataclass(frozen=True, slots=True)
class PlacementLink:
    """One that the user may see."""

    namespace: str
    name: str
    url: str


@dataclass(frozen=True, slots=True)
class Affected:
    """Placements that would do the same. ``hidden``: how many of them the user may not see; ``more``: not listed.

    ``others``: how many other clusters they would choose in addition, each counted once.
    """

    count: int
    hidden: int
    listed: tuple[PlacementLink, ...]
    others: int = 0

    @property
    def more(self) -> int:
        return self.count - self.hidden - len(self.listed)


@dataclass(frozen=True, slots=True)
class PlacementImpact:
    """``drop``, ``keep`` and ``gain`` clusters in question; ``unknown``: how many placements were not worked out.

    ``elsewhere``: how many that have one of them another scheduler decides (P2).
    """

    drop: Affected
    keep: Affected
    gain: Affected
    unknown: int
    elsewhere: int = 0


Work = Callable[["Actor", Collection[str], ClusterEdit, datetime], PlacementImpact]
_works: list[Work] = []


def works_out_impact(work: Work) -> Work:
    """Register the one that does."""
    _works.append(work)
    return work


def impact_of(actor: Actor, names: Collection[str], edit: ClusterEdit, now: datetime) -> PlacementImpact | None:
    """None where no app has placements."""
    return _works[0](actor, names, edit, now) if _works else None


# ---------------------------------------------------------------- what they did during gaps


# Actor, cluster, and spans of time, oldest first -> for each span, sentences.
Meanwhile = Callable[["Actor", str, Sequence[tuple[datetime, datetime]]], list[list[str]]]
_meanwhile: list[Meanwhile] = []


def says_what_happened(say: Meanwhile) -> Meanwhile:
    """Register the one that knows the history of decisions."""
    _meanwhile.append(say)
    return say


def meanwhile(actor: Actor, cluster: str, spans: Sequence[tuple[datetime, datetime]]) -> list[list[str]]:
    """What placements did with the cluster in each span, and when they chose it again; a list for each span."""
    return _meanwhile[0](actor, cluster, spans) if _meanwhile and spans else [[] for _ in spans]
