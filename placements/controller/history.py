"""What happened to a placement's decisions, or to a cluster in the decisions of placements; for pages. Newest first.

Reads only. A page shows names of clusters that its reader sees (D16), and counts the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, pairwise, takewhile
from operator import attrgetter

from ocmconsole.kubeapi.errors import Doc
from placements.models import DecisionMove, DecisionRun

PAGE = 20  # runs or moves of a page
MOST_MOVES = 5_000  # of one cluster that a page reads at once
# Of one placement, runs that are searched for its clusters: a few at first, since most clusters moved lately or never.
SEARCHED = (0, PAGE, 200, 1_000)
MOST_RUNS = 500  # of one placement's last day that are read: fewer than are kept, so that a missing one is noticed
MOST_NAMES = 20_000  # that entered or left in these: 400 KB, and a fleet of 10,000 once there and back


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


@dataclass(frozen=True, slots=True)
class ChosenSince:
    """When a chosen cluster last entered the decisions: at this time, or earlier where ``is_before``."""

    time: datetime
    is_before: bool = False


def chosen_since(uid: str, clusters: Collection[str]) -> dict[str, ChosenSince]:
    """Of clusters that stand in the decisions of a Placement; nothing where it has no history.

    What is not in the history entered before its oldest run. At most six queries.
    """
    found: dict[str, ChosenSince] = {}
    wanted, oldest = set(clusters), None
    if not wanted:
        return found
    for runs in _runs_of(uid):
        oldest = runs[-1][1]
        moves = DecisionMove.objects.filter(
            run__in=[pk for pk, _ in runs], first__lte=max(wanted), last__gte=min(wanted)
        )
        times = dict(runs)
        for run, is_entered, names in moves.order_by("-run", "-id").values_list("run", "is_entered", "names"):
            known = wanted.intersection(names.split("\n"))
            wanted -= known
            found |= dict.fromkeys(known, ChosenSince(times[run])) if is_entered else {}
        if not wanted:
            break
    if oldest is not None:
        found |= dict.fromkeys(wanted, ChosenSince(oldest, is_before=True))
    return found


def _runs_of(uid: str) -> Iterator[list[tuple[int, datetime]]]:
    """Newest first, in parts."""
    runs = DecisionRun.objects.filter(uid=uid).order_by("-id").values_list("pk", "time")
    for start, end in pairwise(SEARCHED):
        if not (part := list(runs[start:end])):
            return
        yield part


@dataclass(frozen=True, slots=True)
class RecentRun:
    """``chosen``: how many clusters the Placement has since; the names of those that entered and left."""

    time: datetime
    chosen: int
    entered: frozenset[str]
    left: frozenset[str]

    @property
    def had(self) -> int:
        return self.chosen - len(self.entered) + len(self.left)


@dataclass(frozen=True, slots=True)
class RecentHistory:
    """What is known of a Placement's decisions from ``since`` on, oldest first.

    ``is_cut``: what came before was too much to read.
    """

    since: datetime
    is_cut: bool
    runs: tuple[RecentRun, ...]


def recent(uid: str, since: datetime) -> RecentHistory:
    """Of a Placement, at most ``MOST_RUNS`` runs and about ``MOST_NAMES`` moves of clusters. Two queries."""
    columns = ("pk", "time", "chosen", "entered", "left")
    newest = DecisionRun.objects.filter(uid=uid).order_by("-id").values_list(*columns)[: MOST_RUNS + 1]
    found = list(takewhile(lambda run: run[1] >= since, newest))
    moved = accumulate(entered + left for *_, entered, left in found)
    read = [run for run, total in zip(found, moved, strict=True) if total <= MOST_NAMES][:MOST_RUNS] or found[:1]
    is_cut = len(read) < len(found)
    names = _names_of([run[0] for run in read])
    runs = [RecentRun(time, chosen, names[pk, True], names[pk, False]) for pk, time, chosen, *_ in reversed(read)]
    return RecentHistory(runs[0].time if is_cut else since, is_cut, tuple(runs))


def _names_of(runs: Collection[int]) -> Mapping[tuple[int, bool], frozenset[str]]:
    """By run, those that entered and those that left."""
    found: defaultdict[tuple[int, bool], frozenset[str]] = defaultdict(frozenset)
    moves = DecisionMove.objects.filter(run__in=runs).order_by()
    for run, is_entered, names in moves.values_list("run", "is_entered", "names"):
        found[run, is_entered] |= frozenset(names.strip().split("\n"))
    return found
