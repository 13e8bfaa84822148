"""What happened to a placement's decisions, or to a cluster in the decisions of placements; for pages. Newest first.

Reads only. A page shows names of clusters that its reader sees (D16), and counts the others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from ocmconsole.kubeapi.errors import Doc
from placements.models import DecisionMove, DecisionRun

PAGE = 20  # runs or moves of a page
MOST_MOVES = 5_000  # of one cluster that a page reads at once


@dataclass(frozen=True, slots=True)
class Move:
    """Clusters that entered or left for one reason. ``cause``: see ``causes.DecisionCause``, or empty."""

    row: DecisionMove

    @property
    def clusters(self) -> list[str]:
        return self.row.names.strip().split("\n")


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A run that changed decisions, with its moves. ``cause``: of the run as a whole."""

    run: DecisionRun
    moves: tuple[Move, ...]

    @property
    def cause(self) -> Doc:
        return dict(self.run.cause)


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """``older``: for ``before`` of the next page, None on the last."""

    entries: tuple[HistoryEntry, ...]
    older: int | None


def of_placement(namespace: str, name: str, *, before: int | None = None, most: int = PAGE) -> HistoryPage:
    """Runs that changed the decisions of a placement of that name, with everybody who entered and left."""
    found = DecisionRun.objects.filter(namespace=namespace, name=name).order_by("-id")
    if before is not None:
        found = found.filter(id__lt=before)
    runs = list(found.prefetch_related("moves")[: most + 1])
    entries = [
        HistoryEntry(run, tuple(map(Move, sorted(run.moves.all(), key=attrgetter("pk"))))) for run in runs[:most]
    ]
    return HistoryPage(tuple(entries), runs[most - 1].pk if len(runs) > most else None)


def of_cluster(
    cluster: str, *, namespaces: Collection[str] | None = None, before: int | None = None, most: int = PAGE
) -> HistoryPage:
    """Runs in which the cluster entered or left the decisions of a placement; each with the one move that names it.

    ``namespaces``: whose placements the reader may see; None for all. ``before`` counts moves here.
    """
    found = DecisionMove.objects.filter(first__lte=cluster, last__gte=cluster, names__contains=f"\n{cluster}\n")
    if namespaces is not None:
        found = found.filter(run__namespace__in=list(namespaces))
    if before is not None:
        found = found.filter(id__lt=before)
    rows = list(found.select_related("run").order_by("-id")[: most + 1])
    entries = [HistoryEntry(row.run, (Move(row),)) for row in rows[:most]]
    return HistoryPage(tuple(entries), rows[most - 1].pk if len(rows) > most else None)


@dataclass(frozen=True, slots=True)
class TimedMove:
    """That a cluster entered or left the decisions of a placement. ``key``: its namespace and name."""

    key: tuple[str, str]
    time: datetime
    entered: bool


def moves_since(cluster: str, since: datetime, *, namespaces: Collection[str] | None) -> list[TimedMove]:
    """Oldest first, at most ``MOST_MOVES``. ``namespaces``: as in ``of_cluster``."""
    found = DecisionMove.objects.filter(first__lte=cluster, last__gte=cluster, names__contains=f"\n{cluster}\n")
    found = found.filter(run__time__gte=since).order_by("id")
    if namespaces is not None:
        found = found.filter(run__namespace__in=list(namespaces))
    rows = found.values_list("run__namespace", "run__name", "run__time", "is_entered")[:MOST_MOVES]
    return [TimedMove((namespace, name), time, entered) for namespace, name, time, entered in rows]
