"""What moving clusters between sets would do, computed from current data before anybody moves anything (A2, A6).

Invariant: it names only clusters, sets and namespaces that the person may see. Called by pages; ``services`` moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusters import cluster_rights
from clusters import queries as clusters
from clusters.kinds import CLUSTERSET_LABEL
from clustersets import membership, queries
from clustersets.rights import reach, set_rights, visible_bindings
from ocmconsole.components.links import explain_url
from ocmconsole.kubeapi.control import bulk_jobs

if TYPE_CHECKING:
    from clustersets.rights.reach import Shift
    from ocmconsole.kubeapi.access.actor import Actor

LACKS = "you may not {what} {name}"


@dataclass(frozen=True, slots=True)
class MoveStep:
    """One cluster of a plan: where it is, and why it cannot move, if it cannot."""

    cluster: str
    before: str
    obstacle: str = ""
    explain_url: str = ""

    @property
    def is_possible(self) -> bool:
        return not self.obstacle


@dataclass(frozen=True, slots=True)
class MovePlan:
    """What would happen to everybody.

    ``leaves`` and ``enters`` are all sets that change, those that choose by labels included; ``lost`` and ``won`` are
    (namespace, set) whose placements lose and win the clusters.
    """

    to: str
    steps: tuple[MoveStep, ...]
    leaves: tuple[str, ...]
    enters: tuple[str, ...]
    lost: tuple[tuple[str, str], ...]
    won: tuple[tuple[str, str], ...]
    shift: Shift

    @property
    def possible(self) -> tuple[MoveStep, ...]:
        return tuple(step for step in self.steps if step.is_possible)

    @property
    def must_be_typed(self) -> bool:
        return len(self.possible) > bulk_jobs.TYPED_ABOVE


def plan_move(actor: Actor, names: Iterable[str], to: str) -> MovePlan:
    """For the clusters among ``names`` that the actor sees; a bounded number of queries."""
    rows = list(clusters.clusters_for(actor).filter(name__in=list(names)).only("name", "labels", "clusterset"))
    steps = tuple(_steps(actor, rows, to))
    moving = [row for row, step in zip(rows, steps, strict=True) if step.is_possible]
    leaves, enters = _changes(moving, to)
    shown = set(queries.sets_for(actor).values_list("name", flat=True))
    places = visible_bindings.bindings_for(actor).filter(cluster_set__in=(leaves | enters) & shown)
    bound = list(places.values_list("namespace", "cluster_set"))
    return MovePlan(
        to=to,
        steps=steps,
        leaves=tuple(sorted(leaves & shown)),
        enters=tuple(sorted(enters & shown)),
        lost=tuple(each for each in bound if each[1] in leaves),
        won=tuple(each for each in bound if each[1] in enters),
        shift=reach.shift(leaves & shown, enters & shown),
    )


def _steps(actor: Actor, rows: Sequence[Any], to: str) -> Iterable[MoveStep]:
    may_join = set_rights.joinable(actor, {to, *(row.clusterset for row in rows if row.clusterset)})
    may_move = set_rights.movable(actor, rows)
    for row in rows:
        before = row.clusterset
        if before == to:
            yield MoveStep(row.name, before, f"it is in set {to} already")
        elif row.name not in may_move:
            url = explain_url("patch", cluster_rights.RESOURCE, name=row.name)
            yield MoveStep(row.name, before, LACKS.format(what="change", name=row.name), url)
        elif before and before not in may_join:
            yield MoveStep(
                row.name, before, LACKS.format(what="take clusters out of set", name=before), _join_url(before)
            )
        elif to not in may_join:
            yield MoveStep(row.name, before, LACKS.format(what="add clusters to set", name=to), _join_url(to))
        else:
            yield MoveStep(row.name, before)


def _join_url(name: str) -> str:
    return explain_url("create", set_rights.JOIN_RESOURCE, name=name)


def _changes(rows: Sequence[Any], to: str) -> tuple[set[str], set[str]]:
    """A set that chooses by labels may look at the same label (T6)."""
    sets = queries.all_memberships()
    leaves: set[str] = set()
    enters: set[str] = set()
    for row in rows:
        before = set(membership.sets_of(row.labels, sets))
        after = set(membership.sets_of({**row.labels, CLUSTERSET_LABEL: to}, sets))
        leaves |= before - after
        enters |= after - before
    return leaves, enters
