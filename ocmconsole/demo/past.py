"""The history of heartbeats that agents of a story leave: rows as the looks of a hub would have written them.

A look a minute for thirty days is more than anybody waits for, so the cells are made from the outages themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from itertools import accumulate
from random import Random
from typing import Any

from clusters.health import heartbeat_history, heartbeat_sampling, uptime
from clusters.health.heartbeat_history import CELL, CELLS, HOURS, KEPT, NO_SKEWS, Level
from clusters.kinds import microseconds
from clusters.models import FleetMinute, HeartbeatDay
from ocmconsole.demo.agents import Agent

MINUTE = timedelta(minutes=1)
LATE_AFTER, MISSED_AFTER = 2 * MINUTE, 5 * MINUTE
# How long ago the hub itself was away, and for how long.
RESTARTS = ((timedelta(hours=14), timedelta(minutes=19)), (timedelta(days=9), timedelta(minutes=50)))


def write_history(agents: Sequence[Agent], now: datetime, random: Random) -> None:
    """Days of every cluster and minutes of the whole fleet."""
    begin = now - KEPT
    members = [agent for agent in agents if agent.joined is not None]
    heartbeat_sampling.store_readings([row for agent in members for row in _days(agent, begin, now, random)])
    rows = [row for row in _minutes(members, begin, now) if not _is_away(row.minute, now)]
    FleetMinute.objects.bulk_create(rows, batch_size=heartbeat_sampling.MOST_AT_ONCE, ignore_conflicts=True)


def served(now: datetime) -> dict[str, Any]:
    """Columns of ``Serving``: away in the restarts, and before the first of them nothing is known."""
    away = [(now - ago, now - ago + length) for ago, length in sorted(RESTARTS, reverse=True)]
    gaps = [(microseconds(begin), microseconds(end)) for begin, end in away]
    return {"since": away[-1][1], "gaps": [(uptime.BEGINNING, gaps[0][1]), *gaps[1:]]}


def _is_away(moment: datetime, now: datetime) -> bool:
    return any(now - ago <= moment < now - ago + length for ago, length in RESTARTS)


def _span(agent: Agent, begin: datetime, now: datetime) -> tuple[datetime, datetime]:
    """From when to when heartbeats of it were expected."""
    assert agent.joined is not None
    return max(agent.joined, begin), min(agent.expected_until or now, now)


# ---------------------------------------------------------------- a cluster


def _days(agent: Agent, begin: datetime, now: datetime, random: Random) -> Iterator[HeartbeatDay]:
    first, last = _span(agent, begin, now)
    levels = dict.fromkeys(_cells(first, last), Level.FULL)
    for outage in agent.outages:
        end = min(outage.end or last, last)
        for after, until, found in (
            (LATE_AFTER, outage.begin + MISSED_AFTER, Level.LATE),
            (MISSED_AFTER, end, Level.MISSED),
        ):
            for start in _cells(max(outage.begin + after, first), min(until, end)):
                levels[start] = max(levels.get(start, Level.FULL), found)
    for ago, length in RESTARTS:
        for start in _cells(now - ago, now - ago + length):
            if now - ago <= start <= now - ago + length - CELL:  # in the others the hub looked
                levels.pop(start, None)
    by_day: dict[date, list[Level]] = {}
    for start, found in levels.items():
        day, index = heartbeat_history.cell_of(start)
        by_day.setdefault(day, [Level.UNKNOWN] * CELLS)[index] = found
    for day, found_levels in by_day.items():
        skews = _skews(agent, day, found_levels, random)
        yield HeartbeatDay(cluster=agent.name, day=day, cells=heartbeat_history.packed(found_levels), skews=skews)


def _cells(begin: datetime, end: datetime) -> Iterator[datetime]:
    """Starts of the cells that the time touches."""
    start = heartbeat_history.start_of(*heartbeat_history.cell_of(begin))
    while start < end:
        yield start
        start += CELL


def _skews(agent: Agent, day: date, levels: Sequence[Level], random: Random) -> bytes:
    skews = NO_SKEWS
    for hour in range(HOURS):
        if Level.FULL not in levels[hour * 12 : hour * 12 + 12]:
            continue
        since = agent.skewed_since
        is_off = since is not None and heartbeat_history.start_of(day, hour * 12) >= since
        skew = agent.skew if is_off else timedelta()
        skews = heartbeat_history.sampled(
            skews, hour, int((skew.total_seconds() + random.gauss(0.2, 0.15)) * 1_000_000)
        )
    return skews


# ---------------------------------------------------------------- all of them


def _minutes(agents: Sequence[Agent], begin: datetime, now: datetime) -> Iterator[FleetMinute]:
    begin = begin.replace(second=0, microsecond=0)
    count = (now - begin) // MINUTE
    expected, troubled = [0] * (count + 2), [0] * (count + 2)

    def add(to: list[int], start: datetime, end: datetime) -> None:
        if end > start:
            to[min(max((start - begin) // MINUTE + 1, 0), count + 1)] += 1
            to[min(max((end - begin) // MINUTE + 1, 0), count + 1)] -= 1

    for agent in agents:
        first, last = _span(agent, begin, now)
        add(expected, first, last + MINUTE)
        for outage in agent.outages:
            add(troubled, max(outage.begin + LATE_AFTER, first), min(outage.end or last + MINUTE, last + MINUTE))
    totals = zip(accumulate(expected), accumulate(troubled), strict=True)
    for index, (wanted, missing) in enumerate(totals):
        if index <= count:
            yield FleetMinute(minute=begin + index * MINUTE, heard=max(wanted - missing, 0), expected=wanted)
