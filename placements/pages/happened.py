"""What happened to the decisions of a Placement, newest first: who entered, who left, at which stage and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from clusters import queries as clusters
from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.actor import OWN_PREFIX
from ocmconsole.kubeapi.models import AuditEvent, AuditPermission
from placements.controller import history
from placements.kinds import ADD_ON_PLACEMENT_SCORE, PLACEMENT, PLACEMENT_DECISION

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
    a cluster is like: they are shown where the actor sees each of the clusters that they are about (D16); that the
    Placement itself was changed is always said.
    """
    page = history.of_placement(row.namespace, row.name, before=before, most=most)
    moves = [move for entry in page.entries for move in entry.moves[:MOVES]]
    sees_all = clusters.sees_all(actor)
    named = {name for move in moves for name in (*move.clusters[:NAMES], *(() if sees_all else _about(move)))}
    there = set(clusters.clusters_for(actor).filter(name__in=named).values_list("name", flat=True)) if named else set()
    seen = None if sees_all else there
    users = _users(actor, moves)
    runs = [
        {
            "run": entry.run,
            "had": entry.run.chosen - entry.run.entered + entry.run.left,
            "moves": [_move(move, seen, there, users) for move in entry.moves[:MOVES]],
            "more": max(len(entry.moves) - MOVES, 0),
        }
        for entry in page.entries
    ]
    return runs, page.older


def _users(actor: Actor, moves: Iterable[Move]) -> Mapping[int, str]:
    """By the revision of a cause the user who made that change, as far as the actor may read it in the audit.

    Not of clusters that changed alike, each by a change of its own. The hub's own changes say themselves what they are.
    """
    revisions = set(filter(None, map(_revision, moves)))
    found = AuditEvent.objects.filter(revision__in=revisions).exclude(user__startswith=OWN_PREFIX)
    if not authorization.permitted(actor, AuditPermission.VIEW).allowed:
        found = found.filter(user=actor.user)
    return dict(found.values_list("revision", "user")) if revisions else {}


def _revision(move: Move) -> int:
    """Of the one change that is its cause, or 0."""
    cause = move.row.cause
    return int(cause.get("revision") or 0) if move.row.count == 1 or cause.get("name") else 0


def _about(move: Move) -> set[str]:
    """Clusters whose labels, taints or scores its reason or cause may say; of what somebody else wrote, none."""
    if move.row.cause.get("kind") == PLACEMENT_DECISION.kind and not move.row.stage:
        return set()
    return {*move.clusters, *clusters_of_cause(move.row.cause)}


def clusters_of_cause(cause: Doc) -> set[str]:
    """The cluster that a cause names by itself or by its score; a change of the clusters that moved names none."""
    place = {MANAGED_CLUSTER.kind: "name", ADD_ON_PLACEMENT_SCORE.kind: "namespace"}.get(cause.get("kind", ""), "")
    return set(filter(None, [cause.get(place, "")]))


def _move(move: Move, seen: Collection[str] | None, there: Collection[str], users: Mapping[int, str]) -> dict[str, Any]:
    is_seen = seen is None or _about(move).issubset(seen)
    says_cause = is_seen or move.row.cause.get("kind") == PLACEMENT.kind  # which is on this page
    cause = said_cause(move.row.cause)
    by = users.get(_revision(move), "")
    return {
        "is_entered": move.row.is_entered,
        "word": "Entered" if move.row.is_entered else "Left",
        "count": move.row.count,
        "names": [
            {"name": name, "url": reverse("clusters:detail", args=[name]) if name in there else ""}
            for name in move.clusters[:NAMES]
        ],
        "more": max(move.row.count - NAMES, 0),
        "stage": move.row.stage,
        "reason": move.row.reason if is_seen else "",
        "cause": ", by ".join(filter(None, (cause, by))) if says_cause and cause else "",
    }


def said_cause(cause: Doc) -> str:
    """Such as ``Placement p1: spec.numberOfClusters: 2 → 1``; without a name it is the clusters' own change."""
    if not cause:
        return ""
    place = "/".join(filter(None, (cause["namespace"], cause["name"])))
    if cause["kind"] and not place and cause["what"] in WHOLE:
        return f"{cause['kind']} {cause['what']}"
    return ": ".join(filter(None, (f"{cause['kind']} {place}".strip() if place else "", cause["what"])))
