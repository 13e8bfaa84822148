"""The health of one cluster over time, read for its page: cells, gaps with their causes, changes, days, its clock.

What others did at the same time is counted among the clusters that the person may see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from django.db.models import Count, Q

from clusters import queries
from clusters.health import heartbeat_history
from clusters.health.heartbeat_history import CELL, CELLS, DAY, HOURS, KEPT, Cell, Gap, Level, Span
from clusters.health.status import silence_grace
from clusters.models import ClusterFacts, FleetMinute, HeartbeatDay, ManagedCluster, Transition
from ocmconsole.environment.durations import span

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor

Turn = Transition.Turn
MOST_GAPS = 50  # the newest gaps that a page lists; more say nothing more
TURNS = {
    Turn.JOINED: ("log-in", "info", "Joined the hub"),
    Turn.CONNECTED: ("user-check", "info", "Accepted again"),
    Turn.DISCONNECTED: ("unplug", "warn", "Disconnected: the agent's rights were withdrawn"),
    Turn.SILENT: ("wifi-off", "danger", "Available became Unknown: the agent had stopped renewing its lease"),
    Turn.RECOVERED: ("circle-check", "ok", "Available became True: the agent reported that it is well"),
    Turn.UNHEALTHY: ("octagon-x", "danger", "Available became False: the agent reported an unwell API server"),
    Turn.CLOCK_OFF: ("clock-alert", "caution", "ClockSynced became False"),
    Turn.CLOCK_SYNCED: ("clock", "ok", "ClockSynced became True"),
    Turn.MAINTENANCE: ("wrench", "quiet", "Maintenance began"),
    Turn.MAINTENANCE_ENDED: ("wrench", "quiet", "Maintenance ended"),
}


@dataclass(frozen=True, slots=True)
class TimelineChange:
    """Something that the cluster became; ``number`` ties it to its mark."""

    number: int
    at: datetime
    icon: str
    tone: str
    text: str


@dataclass(frozen=True, slots=True)
class Explained:
    """A gap, and why it was."""

    gap: Gap
    cause: str
    goes_on: bool


@dataclass(frozen=True, slots=True)
class DayAvailability:
    day: date
    share: float | None


@dataclass
class Timeline:
    """Of a cluster that the actor may see. Four queries."""

    actor: Actor
    row: ManagedCluster
    known: ClusterFacts
    now: datetime
    days: dict[date, tuple[bytes, bytes]] = field(init=False)
    turns: list[Transition] = field(init=False)

    def __post_init__(self) -> None:
        """A cluster that was created anew under its name has none of the earlier one's history."""
        self.begin = max(self.now - KEPT, self.row.created)
        rows = HeartbeatDay.objects.filter(cluster=self.row.name, day__gte=self.begin.date())
        self.days = {
            day: (bytes(cells), bytes(skews)) for day, cells, skews in rows.values_list("day", "cells", "skews")
        }
        self.turns = list(Transition.objects.filter(cluster=self.row.name, at__gte=self.begin).order_by("at", "pk"))

    # ------------------------------------------------------------ cells

    def cells(self, begin: datetime) -> list[Cell]:
        """Up to now. What this very cell says is known a minute after it began."""
        found = heartbeat_history.stretch({day: cells for day, (cells, _) in self.days.items()}, begin, self.now)
        found = [cell if cell.start + CELL > self.row.created else Cell(cell.start, Level.UNKNOWN) for cell in found]
        return found[:-1] if found[-1].level is Level.UNKNOWN else found

    @cached_property
    def strip(self) -> list[Cell]:
        """The last 24 hours in full, whatever is known of them."""
        return self.cells(self.now - DAY - CELL)[-CELLS:]

    @cached_property
    def month(self) -> list[Cell]:
        return self.cells(self.begin)

    @cached_property
    def share_by_day(self) -> list[DayAvailability]:
        """Thirty days, oldest first."""
        known = {
            day: heartbeat_history.availability(cells) for day, cells in heartbeat_history.by_day(self.month).items()
        }
        wanted = [self.now.date() - index * DAY for index in range(KEPT // DAY - 1, -1, -1)]
        return [DayAvailability(day, known.get(day)) for day in wanted]

    @cached_property
    def skews(self) -> list[float | None]:
        """Seconds that the agent's clock was behind the hub's, for each of the last 24 hours, up to ``BOUND``.

        The sample of the hour in which the cluster was created may be that of an earlier one, and is left out.
        """
        read = {day: heartbeat_history.seconds(skews) for day, (_, skews) in self.days.items()}
        this = self.now.replace(minute=0, second=0, microsecond=0)
        hours = (this - timedelta(hours=back) for back in range(HOURS - 1, -1, -1))
        return [
            read[hour.date()][hour.hour] if hour >= self.row.created and hour.date() in read else None for hour in hours
        ]

    # ------------------------------------------------------------ changes

    @cached_property
    def changes(self) -> list[TimelineChange]:
        """Of the last 24 hours, as numbered marks."""
        recent = [turn for turn in self.turns if turn.at >= self.now - DAY and turn.turn in TURNS]
        return [TimelineChange(number, turn.at, *TURNS[Turn(turn.turn)]) for number, turn in enumerate(recent, start=1)]

    def _lasting(self, begins: Turn, ends: Turn, *, now_on: bool) -> list[Span]:
        moments = [(turn.at, turn.turn == begins) for turn in self.turns if turn.turn in {begins, ends}]
        return heartbeat_history.lasting(moments, self.begin, self.now, now_on=now_on)

    @cached_property
    def _maintenance(self) -> list[Span]:
        return self._lasting(Turn.MAINTENANCE, Turn.MAINTENANCE_ENDED, now_on=self.row.in_maintenance)

    @cached_property
    def _disconnected(self) -> list[Span]:
        is_out = bool(self.row.accepted) and not self.row.hub_accepts_client
        return self._lasting(Turn.DISCONNECTED, Turn.CONNECTED, now_on=is_out)

    # ------------------------------------------------------------ gaps

    def gaps(self, cells: Sequence[Cell]) -> tuple[list[Explained], int]:
        """The newest with their causes, newest first; and how many there are."""
        every = [gap for gap in heartbeat_history.heartbeat_gaps(cells) if gap.end > self.begin]
        found = every[-MOST_GAPS:]
        looked, together = self._looked(found), self._together(found)
        last = cells[-1].start + CELL if cells else self.now
        explained = [
            Explained(gap, self._cause(gap, looked=looked[index], others=together[index]), goes_on=gap.end >= last)
            for index, gap in enumerate(found)
        ]
        return explained[::-1], len(every)

    def _looked(self, gaps: Sequence[Gap]) -> list[int]:
        """How often the hub looked at all during what is unknown."""
        asked = {
            f"gap{index}": Count("pk", filter=Q(minute__gte=gap.start, minute__lt=gap.end))
            for index, gap in enumerate(gaps)
            if gap.worst is Level.UNKNOWN
        }
        found = FleetMinute.objects.filter(minute__gte=gaps[0].start).aggregate(**asked) if asked else {}
        return [found.get(f"gap{index}", 0) for index in range(len(gaps))]

    def _together(self, gaps: Sequence[Gap]) -> list[int]:
        """How many others fell silent with it."""
        asked = {
            f"gap{index}": Count("cluster", distinct=True, filter=Q(at__gte=gap.start, at__lt=gap.start + 3 * CELL))
            for index, gap in enumerate(gaps)
            if gap.worst is Level.MISSED
        }
        if not asked:
            return [0] * len(gaps)
        visible = queries.clusters_for(self.actor).exclude(name=self.row.name).order_by().values("name")
        silent = Transition.objects.filter(turn=Turn.SILENT, at__gte=gaps[0].start, cluster__in=visible)
        found = silent.aggregate(**asked)
        return [found.get(f"gap{index}", 0) for index in range(len(gaps))]

    def _cause(self, gap: Gap, *, looked: int, others: int) -> str:
        if gap.worst is Level.UNKNOWN:
            return self._why_unknown(gap, looked)
        limit = span(silence_grace(self.row.lease_duration_seconds))
        if gap.worst is Level.LATE:
            return f"Heartbeats came late, inside the limit of {limit}."
        ends, revoked = self.known.certificate_not_after, self.known.certificate_revoked_at
        if revoked is not None and revoked <= gap.start + CELL:
            by = f" by {self.known.certificate_revoked_by}" if self.known.certificate_revoked_by else ""
            return f"Its certificate had been revoked{by}, so the agent could not speak."
        if ends is not None and ends <= gap.start + CELL:
            return "Its certificate had ended, so the agent could not speak."
        while_in = " while in maintenance" if heartbeat_history.touches(gap, self._maintenance) else ""
        shared = (
            f" {others} other{'s' if others > 1 else ''} fell silent with it: one cause is likely." if others else ""
        )
        unseen = f" For {span(gap.unseen)} of it the hub was not serving or had just begun to." if gap.unseen else ""
        return f"The agent was silent{while_in}.{shared}{unseen}"

    def _why_unknown(self, gap: Gap, looked: int) -> str:
        if heartbeat_history.touches(gap, self._disconnected):
            return "Disconnected: no heartbeats were expected."
        if not any(cell.start < gap.start and cell.level is not Level.UNKNOWN for cell in self.month):
            return "It had not joined yet."
        if not looked:
            return "The hub was not serving, so it could hear nobody. Counts neither for nor against the cluster."
        return "The hub had just begun to serve and waited for its first heartbeat."
