"""A cluster's tab of sets, with placements: which have chosen it, which have not and why, when it entered and left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from clusters.cluster import impact
from clusters.cluster.page_frame import Opened, tab
from clusters.health.status import clock_time
from clustersets import queries as clustersets
from clustersets.membership import sets_of
from clustersets.models import ManagedClusterSetBinding
from clustersets.pages.cluster_tab import sets_of_cluster
from ocmconsole.kubeapi import clock
from placements import queries
from placements.controller import history
from placements.controller.together import Together
from placements.explaining import explanation, reasons
from placements.kinds import is_disabled
from placements.models import Placement
from placements.pages.happened import clusters_of_cause, said_cause
from placements.scheduler.fleet import Cluster

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from django.http import HttpRequest

    from ocmconsole.kubeapi.access.actor import Actor
    from placements.controller.history import HistoryEntry
    from placements.explaining.reasons import Why

MOST = 30  # placements that are worked out for one page
MOST_CHOSEN = 20  # of them, those that have chosen the cluster
ENTRIES = 12  # of the history
MOST_IN_GAP = 4  # placements that one gap names
SOON = timedelta(minutes=30)  # after a gap: a brake lasts 15 minutes, a toleration may end


@dataclass(frozen=True, slots=True)
class ForCluster:
    """What one Placement makes of the cluster. ``why``: None where it is chosen, or was not worked out."""

    key: str
    namespace: str
    name: str
    url: str
    is_known: bool
    why: Why | None
    note: str


@tab("sets", "Sets & placements", "placements/pages/of_cluster.html")
def sets_and_placements(request: HttpRequest, cluster: Opened) -> dict[str, Any]:  # noqa: ARG001 - the signature of tabs
    """A bounded number of queries: placements are worked out on one look at the fleet."""
    context = sets_of_cluster(cluster)
    listed = _Listed.read(cluster)
    found = _worked_out(cluster, [*listed.chosen, *listed.others])
    chosen = {row.pk for row in listed.chosen}
    return context | {
        "chosen_by": [each for each in found if each.key in chosen],
        "not_chosen_by": [each for each in found if each.key not in chosen],
        "chosen_count": listed.chosen_count,
        "hidden_count": listed.hidden_count,
        "not_chosen_count": listed.others_count,
        "more_placements": listed.chosen_count + listed.others_count - len(found),
        "happened": _happened(cluster),
        "playground_url": reverse("placements:playground"),
    }


@dataclass(frozen=True, slots=True)
class _Listed:
    """Placements that the user may list: those that have chosen the cluster, and others that may choose from its sets.

    ``hidden_count``: how many have chosen it that the user may not list.
    """

    chosen: list[Placement]
    chosen_count: int
    hidden_count: int
    others: list[Placement]
    others_count: int

    @classmethod
    def read(cls, cluster: Opened) -> _Listed:
        within = sets_of(cluster.row.labels, clustersets.all_memberships())
        namespaces = ManagedClusterSetBinding.objects.filter(cluster_set__in=within).values("namespace")
        deciding = queries.deciding([cluster.name])
        rows = queries.placements_for(cluster.actor).filter(deleted_at=None)
        chosen = rows.filter(pk__in=deciding)
        count = chosen.count() if deciding else 0
        first = list(chosen[:MOST_CHOSEN]) if count else []
        others = rows.filter(namespace__in=namespaces).exclude(pk__in=deciding)
        rest = list(others[: MOST - len(first)])
        return cls(first, count, len(deciding) - count, rest, others.count())


def _worked_out(cluster: Opened, rows: list[Placement]) -> list[ForCluster]:
    together = Together.read(rows, cluster.now)
    return [_for_cluster(cluster, row, together) for row in rows]


def _for_cluster(cluster: Opened, row: Placement, together: Together) -> ForCluster:
    is_chosen = cluster.name in together.of(row)
    url = reverse("placements:placement", args=[row.namespace, row.name])
    plain = ForCluster(row.pk, row.namespace, row.name, url, is_known=False, why=None, note="")
    if is_disabled(row.doc):
        return plain
    result = together.schedule(row)
    if result is None:
        return plain
    held = result.held.get(cluster.name)
    note = explanation.is_held(held, cluster.now) if held is not None else ""
    reason = result.reason(Cluster(cluster.doc))
    if is_chosen and reason is not None:
        note = "kept from the last good decisions" if result.plan.problem else f"leaves: {reasons.why(reason).text}"
    why = reasons.why(reason) if reason is not None and not is_chosen else None
    return ForCluster(row.pk, row.namespace, row.name, url, is_known=True, why=why, note=note)


def _happened(cluster: Opened) -> list[dict[str, Any]]:
    """When it entered and left, of placements that the user may list."""
    found = history.of_cluster(cluster.name, namespaces=queries.listable_namespaces(cluster.actor), most=ENTRIES)
    names = {each.run.name for each in found.entries}
    there = set(Placement.objects.filter(name__in=names).values_list("namespace", "name")) if names else set()
    return [_entry(cluster, each, there) for each in found.entries]


def _entry(cluster: Opened, entry: HistoryEntry, there: Collection[tuple[str, str]]) -> dict[str, Any]:
    """``there``: placements that exist, by namespace and name; others have no page."""
    move = entry.moves[0]
    cause = move.row.cause
    is_own = {cluster.name}.issuperset(clusters_of_cause(cause))
    key = (entry.run.namespace, entry.run.name)
    return {
        "time": entry.run.time,
        "namespace": entry.run.namespace,
        "name": entry.run.name,
        "url": reverse("placements:placement", args=key) if key in there else "",
        "entered": move.row.is_entered,
        "stage": move.row.stage,
        "reason": move.row.reason,
        "cause": said_cause(cause) if is_own else "another cluster changed",
    }


# ---------------------------------------------------------------- gaps of the health timeline


@impact.says_what_happened
def in_gaps(actor: Actor, cluster: str, spans: Sequence[tuple[datetime, datetime]]) -> list[list[str]]:
    """Which placements dropped it in a gap or soon after, and when they chose it again. One query."""
    now = clock.now()
    moves = history.moves_since(cluster, spans[0][0], namespaces=queries.listable_namespaces(actor))
    is_cut = len(moves) == history.MOST_MOVES
    ends = [*(start for start, _ in spans[1:]), None]
    found = []
    for (start, end), following in zip(spans, ends, strict=True):
        last = end + SOON if following is None else min(end + SOON, following)
        left = {move.key: move.time for move in moves if not move.entered and start <= move.time <= last}
        texts = []
        for key, at in sorted(left.items(), key=lambda each: each[1])[:MOST_IN_GAP]:
            back = next((m.time for m in moves if m.entered and m.key == key and m.time > at), None)
            again = f", chose it again at {clock_time(back, now)}" if back is not None else ", has not chosen it since"
            again = "" if is_cut and back is None else again
            texts.append(f"Placement {'/'.join(key)} dropped it at {clock_time(at, now)}{again}.")
        if len(left) > MOST_IN_GAP:
            more = len(left) - MOST_IN_GAP
            texts.append(f"{more:,} more placement{'s' if more > 1 else ''} dropped it.")
        found.append(texts)
    return found
