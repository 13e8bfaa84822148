"""The history of heartbeats as arithmetic: cells packed into days, gaps, flaps, availability. No database, no clock.

A cell is five minutes of one cluster and holds the worst that a look at it found. What nobody looked at is unknown and
counts neither for nor against the cluster (D17).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import IntEnum
from itertools import groupby
from struct import pack_into, unpack_from

from clusters.health.status import GRACE_LEASES, LATE_LEASES

CELL = timedelta(minutes=5)  # the finest that a day's picture shows
DAY = timedelta(days=1)
CELLS = DAY // CELL
HOURS = 24  # of a day, each with its largest clock difference
KEPT = timedelta(days=30)  # of history; a row a cluster and day
NO_CELLS = bytes(CELLS // 4)
# Tenths of a second in two bytes; what is further off is kept as this far.
FURTHEST = 32_767
BOUND = timedelta(seconds=FURTHEST / 10)
NO_SKEW = -32_768  # the least of 16 bits: no clock difference is known
Span = tuple[datetime, datetime]
NO_SKEWS = NO_SKEW.to_bytes(2, "big", signed=True) * HOURS


class Level(IntEnum):
    """What a look finds; of several in one cell the worst stays."""

    UNKNOWN = 0
    FULL = 1
    LATE = 2
    MISSED = 3


def level(heard: int | None, since: int, now: int, lease: int) -> Level:
    """Of a cluster heard at that instant by a hub that has served ``since`` then; all in one unit of time.

    D17: before a hub has served for a full grace, not having heard a cluster says nothing.
    """
    if heard is not None and heard >= since:
        age = now - heard
        if age <= LATE_LEASES * lease:
            return Level.FULL
        return Level.LATE if age < GRACE_LEASES * lease else Level.MISSED
    return Level.MISSED if now - since >= GRACE_LEASES * lease else Level.UNKNOWN


# ---------------------------------------------------------------- one day in bytes


def cell_of(moment: datetime) -> tuple[date, int]:
    """The day, and which cell of it."""
    moment = moment.astimezone(UTC)
    return moment.date(), (moment.hour * 60 + moment.minute) // 5


def start_of(day: date, index: int = 0) -> datetime:
    return datetime.combine(day, time(), UTC) + index * CELL


def packed(levels: Sequence[Level]) -> bytes:
    """Four cells a byte, the first in the lowest bits."""
    return bytes(sum(cell << 2 * place for place, cell in enumerate(levels[at : at + 4])) for at in range(0, CELLS, 4))


def unpacked(cells: bytes) -> list[Level]:
    return [Level(byte >> shift & 3) for byte in cells for shift in (0, 2, 4, 6)]


def worsened(cells: bytes, index: int, found: Level) -> bytes:
    """The day with that cell at least so bad; the very same bytes when it is already."""
    at, shift = index // 4, index % 4 * 2
    if cells[at] >> shift & 3 >= found:
        return cells
    changed = bytearray(cells)
    changed[at] = cells[at] & ~(3 << shift) | found << shift
    return bytes(changed)


def sampled(skews: bytes, hour: int, microseconds: int) -> bytes:
    """The day with a sample for the hour, unless it has one."""
    if unpack_from(">h", skews, 2 * hour)[0] != NO_SKEW:
        return skews
    changed = bytearray(skews)
    pack_into(">h", changed, 2 * hour, max(-FURTHEST, min(FURTHEST, round(microseconds / 100_000))))
    return bytes(changed)


def seconds(skews: bytes) -> list[float | None]:
    """The sample of each hour: by how much the agent was behind the hub."""
    found = (unpack_from(">h", skews, 2 * hour)[0] for hour in range(HOURS))
    return [None if tenths == NO_SKEW else tenths / 10 for tenths in found]


# ---------------------------------------------------------------- a stretch of time


@dataclass(frozen=True, slots=True)
class Cell:
    start: datetime
    level: Level


@dataclass(frozen=True, slots=True)
class Gap:
    """Cells in a row that were not heard in full; ``worst`` is unknown only when all of them are.

    ``unseen`` is for how long of it, within a silence, the hub could not hear anybody.
    """

    start: datetime
    length: timedelta
    worst: Level
    unseen: timedelta = timedelta()

    @property
    def end(self) -> datetime:
        return self.start + self.length


def stretch(days: Mapping[date, bytes], begin: datetime, end: datetime) -> list[Cell]:
    """Every cell from the one that holds ``begin`` to the one that holds ``end``; days without a row are unknown."""
    read = {day: unpacked(cells) for day, cells in days.items()}
    start = start_of(*cell_of(begin))
    return [_cell(read, start + index * CELL) for index in range((end - start) // CELL + 1)]


def _cell(read: Mapping[date, Sequence[Level]], start: datetime) -> Cell:
    day, index = cell_of(start)
    return Cell(start, read[day][index] if day in read else Level.UNKNOWN)


def heartbeat_gaps(cells: Iterable[Cell]) -> list[Gap]:
    """Runs of unknown, and runs of late and missed, in the order of time. One silence is one gap."""
    return list(_gaps(cells))


def _gaps(cells: Iterable[Cell]) -> Iterator[Gap]:
    known = bridged(cells)
    for _, run in groupby(known, key=lambda pair: min(pair[1], Level.LATE)):
        found = list(run)
        worst = max(level for _, level in found)
        if worst is not Level.FULL:
            unseen = sum(cell.level is not level for cell, level in found)
            yield Gap(found[0][0].start, len(found) * CELL, worst, unseen * CELL)


def bridged(cells: Iterable[Cell]) -> list[tuple[Cell, Level]]:
    """Each cell with what it was: unknown between a cell that was not heard in full and a missed one is missed too.

    D17: a hub that restarts hears nobody for a while. Had a heartbeat come since, the cell after would not be missed.
    """
    found = [(cell, cell.level) for cell in cells]
    pending: list[int] = []
    before = Level.UNKNOWN
    for index, (_, level) in enumerate(found):
        if level is Level.UNKNOWN:
            pending.append(index)
            continue
        if level is Level.MISSED and before in {Level.LATE, Level.MISSED}:
            for each in pending:
                found[each] = (found[each][0], Level.MISSED)
        pending, before = [], level
    return found


def lasting(turns: Iterable[tuple[datetime, bool]], begin: datetime, end: datetime, *, now_on: bool) -> list[Span]:
    """From when to when something held that began (True) and ended (False) at these moments, in the order of time."""
    found, since, is_known = [], begin, False
    for moment, begins in turns:
        if begins:
            since, is_known = moment, True
        else:
            found.append((since, moment))
            is_known = False
    if now_on:
        found.append((since if is_known else begin, end))
    return found


def touches(gap: Gap, spans: Iterable[Span]) -> bool:
    return any(start < gap.end and gap.start < end for start, end in spans)


def by_day(cells: Iterable[Cell]) -> dict[date, list[Cell]]:
    return {day: list(found) for day, found in groupby(cells, key=lambda cell: cell.start.date())}


def flaps(cells: Iterable[Cell]) -> int:
    """How often it fell silent."""
    levels = [level for _, level in bridged(cells)]
    return sum(
        now is Level.MISSED and before is not Level.MISSED
        for before, now in zip([Level.UNKNOWN, *levels], levels, strict=False)
    )


def availability(cells: Iterable[Cell]) -> float | None:
    """The share of known cells in which it was not silent; None when nothing is known."""
    known = [cell.level for cell in cells if cell.level is not Level.UNKNOWN]
    return sum(found is not Level.MISSED for found in known) / len(known) if known else None


def longest(found: Iterable[Gap]) -> Gap | None:
    """Of the gaps that were the cluster's."""
    return max((gap for gap in found if gap.worst is not Level.UNKNOWN), key=lambda gap: gap.length, default=None)
