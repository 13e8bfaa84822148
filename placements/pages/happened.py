"""What happened to the decisions of a Placement, newest first: who entered, who left, at which stage and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters import queries as clusters
from clusters.kinds import MANAGED_CLUSTER
from placements.controller import history
from placements.kinds import ADD_ON_PLACEMENT_SCORE, PLACEMENT_DECISION

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from placements.controller.history import Move
    from placements.models import Placement

RUNS = 5  # on the page of a Placement
MOVES = 6  # of one run
NAMES = 5  # of one move
WHOLE = {"created", "is being deleted", "deleted"}  # changes that are of an object and of no part of it


def happened(
    actor: Actor, row: Placement, *, before: int | None = None, most: int = RUNS
) -> tuple[list[dict[str, Any]], int | None]:
    """The newest runs that changed something, and ``before`` of the next page; None on the last.

    Names stand in PlacementDecisions, so the caller has asked for the right to list these. Reasons and causes say what
    a cluster is like: they are shown where the actor sees each of the clusters that they are about (D16).
    """
    page = history.of_placement(row.namespace, row.name, before=before, most=most)
    named = {name for entry in page.entries for move in entry.moves[:MOVES] for name in _about(move)}
    seen = (
        None
        if clusters.sees_all(actor)
        else set(clusters.clusters_for(actor).filter(name__in=named).values_list("name", flat=True))
    )
    runs = [
        {
            "run": entry.run,
            "had": entry.run.chosen - entry.run.entered + entry.run.left,
            "moves": [_move(move, is_seen=seen is None or seen >= _about(move)) for move in entry.moves[:MOVES]],
            "more": max(len(entry.moves) - MOVES, 0),
        }
        for entry in page.entries
    ]
    return runs, page.older


def _about(move: Move) -> set[str]:
    """Clusters whose labels, taints or scores its reason or cause may say; of what somebody else wrote, none."""
    if move.row.cause.get("kind") == PLACEMENT_DECISION.kind and not move.row.stage:
        return set()
    return {*move.clusters, *clusters_of_cause(move.row.cause)}


def clusters_of_cause(cause: Doc) -> set[str]:
    """The cluster that a cause names by itself or by its score; a change of the clusters that moved names none."""
    place = {MANAGED_CLUSTER.kind: "name", ADD_ON_PLACEMENT_SCORE.kind: "namespace"}.get(cause.get("kind", ""), "")
    return set(filter(None, [cause.get(place, "")]))


def _move(move: Move, *, is_seen: bool) -> dict[str, Any]:
    return {
        "is_entered": move.row.is_entered,
        "word": "Entered" if move.row.is_entered else "Left",
        "count": move.row.count,
        "names": move.clusters[:NAMES],
        "more": max(move.row.count - NAMES, 0),
        "stage": move.row.stage,
        "reason": move.row.reason if is_seen else "",
        "cause": said_cause(move.row.cause) if is_seen else "",
    }


def said_cause(cause: Doc) -> str:
    """Such as ``Placement p1: spec.numberOfClusters: 2 → 1``; without a name it is the clusters' own change."""
    if not cause:
        return ""
    place = "/".join(filter(None, (cause["namespace"], cause["name"])))
    if cause["kind"] and not place and cause["what"] in WHOLE:
        return f"{cause['kind']} {cause['what']}"
    return ": ".join(filter(None, (f"{cause['kind']} {place}".strip() if place else "", cause["what"])))
