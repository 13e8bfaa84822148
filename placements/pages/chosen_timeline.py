"""Who was chosen when in the last 24 hours: how many clusters a Placement had, and each that entered or left.

Worked out from the history of decisions and the decisions as they stand, and from nothing else: a stretch of which
these say nothing, or contradict each other, is unknown. Names stand in PlacementDecisions, so a caller has asked for
the right to list these.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.urls import reverse

from clusters import queries as clusters
from placements import queries
from placements.controller import history

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from placements.controller.history import RecentHistory
    from placements.models import Placement

DAY = timedelta(days=1)
AT_ONCE = timedelta(minutes=1)  # what a new Placement waits for its first decisions is no time without any
MOST_CLUSTERS = 12  # that have a row of their own, those that moved last; the others are counted
MOST_TIMES = 3  # stretches of one cluster that are put into words


@dataclass(frozen=True, slots=True)
class Stretch:
    """``chosen``: how many clusters were, of one cluster 0 or 1; None where that is unknown."""

    start: datetime
    end: datetime
    chosen: int | None


@dataclass(frozen=True)
class ChosenTimeline:
    """Of what ``found`` holds, up to ``now``. ``chosen``: the clusters that stand in the decisions.

    Runs divide the time. Each says what was before and after it, and what was last is what stands.
    """

    found: RecentHistory
    chosen: Collection[str]
    now: datetime

    def counts(self) -> list[Stretch]:
        """How many clusters were chosen."""
        said: list[set[int]] = [set() for _ in range(len(self.found.runs) + 1)]
        for index, run in enumerate(self.found.runs):
            said[index].add(run.had)
            said[index + 1].add(run.chosen)
        said[-1].add(len(self.chosen))
        return self._stretches(said)

    def of_cluster(self, name: str) -> list[Stretch]:
        """When it was chosen. A run that did not move it left it as it was."""
        said: list[set[int]] = [set() for _ in range(len(self.found.runs) + 1)]
        stayed = []
        for index, run in enumerate(self.found.runs):
            if name in run.entered or name in run.left:
                said[index].add(int(name in run.left))
                said[index + 1].add(int(name in run.entered))
            else:
                stayed.append(index)
        said[-1].add(int(name in self.chosen))
        for index in stayed:
            said[index + 1] = said[index + 1] or said[index]
        for index in reversed(stayed):
            said[index] = said[index] or said[index + 1]
        return self._stretches(said)

    def moved(self) -> list[str]:
        """Clusters that entered or left, those that did so last first, then by name."""
        last = {name: run.time for run in self.found.runs for name in run.entered | run.left}
        return sorted(last, key=lambda name: (-last[name].timestamp(), name))

    def _stretches(self, said: Sequence[Collection[int]]) -> list[Stretch]:
        """``said``: what is said of each time between two runs; of several numbers none is believed."""
        begin, now = self.found.since, self.now
        times = [begin, *(min(max(run.time, begin), now) for run in self.found.runs), now]
        joined: list[Stretch] = []
        for start, end, values in zip(times[:-1], times[1:], said, strict=True):
            chosen = next(iter(values)) if len(values) == 1 else None
            if start == end:
                continue
            if joined and joined[-1].chosen == chosen:
                joined[-1] = Stretch(joined[-1].start, end, chosen)
            else:
                joined.append(Stretch(start, end, chosen))
        return joined


def in_words(stretches: Sequence[Stretch], begin: datetime, now: datetime) -> str:
    """When a cluster was chosen, such as ``until 20:11, since 23:40``: UTC, of the last day; the newest last."""
    said = [_when(each, begin, now) for each in stretches if each.chosen != 0]
    if earlier := max(len(said) - MOST_TIMES, 0):
        said = [f"{earlier:,} time{'s' if earlier > 1 else ''} before", *said[-MOST_TIMES:]]
    return ", ".join(said) or "only for a moment"


def _when(each: Stretch, begin: datetime, now: datetime) -> str:
    start, end = f"{each.start:%H:%M}", f"{each.end:%H:%M}"
    if each.start == begin:
        when = "all the time" if each.end == now else f"until {end}"
    elif each.end == now:
        when = f"since {start}"
    else:
        when = f"{start} to {end}" if start != end else f"for a moment at {start}"
    return when if each.chosen else f"not known {when}"


# ---------------------------------------------------------------- for the page


def shown_timeline(actor: Actor, row: Placement, chosen: Collection[str], now: datetime) -> dict[str, Any]:
    """``chosen``: clusters in its decisions. At most four queries."""
    begin = max(now - DAY, now - settings.OCMCONSOLE_PLACEMENT_HISTORY, row.created)
    found = history.recent(row.uid, begin)
    if begin == row.created and found.runs and found.runs[0].time - begin < AT_ONCE:
        found = replace(found, since=found.runs[0].time)
    timeline = ChosenTimeline(found, chosen, now)
    counts, moved = timeline.counts(), timeline.moved()
    known = [each.chosen for each in counts if each.chosen is not None]
    return {
        "axis": (now - DAY, now),
        "since": found.since if found.since > now - DAY else None,
        "is_cut": found.is_cut,
        "counts": counts,
        "count": len(chosen),
        "least": min(known, default=None),
        "most": max(known, default=None),
        "is_known": len(known) == len(counts),
        "is_still": not moved and len(counts) == len(known) == 1,
        "stayed": len(set(chosen).difference(moved)),
        "entered": [(run.time, len(run.entered)) for run in found.runs],
        "left": [(run.time, len(run.left)) for run in found.runs],
        "entered_count": sum(len(run.entered) for run in found.runs),
        "left_count": sum(len(run.left) for run in found.runs),
        "held": queries.held_of(row, now),
        "clusters": _shown_clusters(actor, timeline, moved[:MOST_CLUSTERS]),
        "more": max(len(moved) - MOST_CLUSTERS, 0),
    }


def _shown_clusters(actor: Actor, timeline: ChosenTimeline, names: Collection[str]) -> list[dict[str, Any]]:
    """With a link where the actor sees the cluster."""
    rows = clusters.clusters_for(actor).filter(name__in=names)
    seen = set(rows.values_list("name", flat=True)) if names else set()
    shown = []
    for name in names:
        stretches = timeline.of_cluster(name)
        shown.append(
            {
                "name": name,
                "url": reverse("clusters:detail", args=[name]) if name in seen else "",
                "stretches": stretches,
                "words": in_words(stretches, timeline.found.since, timeline.now),
            }
        )
    return shown
