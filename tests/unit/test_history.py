"""Heartbeats as arithmetic: what is packed comes back, gaps are what is not heard, nobody is blamed for what is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from clusters.health import heartbeat_history
from clusters.health.heartbeat_history import CELL, CELLS, HOURS, NO_CELLS, NO_SKEWS, Cell, Level

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
levels = some.sampled_from(Level)
days = some.lists(levels, min_size=CELLS, max_size=CELLS)
runs = some.lists(levels, max_size=60)


def cells_of(found: Sequence[Level]) -> list[Cell]:
    return [Cell(NOON + index * CELL, level) for index, level in enumerate(found)]


@given(days)
def test_a_day_comes_back_as_it_was_packed(found: list[Level]) -> None:
    assert heartbeat_history.unpacked(heartbeat_history.packed(found)) == found
    assert len(heartbeat_history.packed(found)) == 72


@given(days, some.integers(0, CELLS - 1), levels)
def test_a_cell_only_gets_worse_and_others_stay(found: list[Level], index: int, seen: Level) -> None:
    after = heartbeat_history.unpacked(heartbeat_history.worsened(heartbeat_history.packed(found), index, seen))
    assert after[index] == max(found[index], seen)
    assert after[:index] + after[index + 1 :] == found[:index] + found[index + 1 :]


@given(some.dictionaries(some.integers(0, HOURS - 1), some.integers(-(10**10), 10**10)))
def test_the_first_sample_of_an_hour_stays(samples: dict[int, int]) -> None:
    skews = NO_SKEWS
    for hour, sample in samples.items():
        skews = heartbeat_history.sampled(skews, hour, sample)
        assert heartbeat_history.sampled(skews, hour, 0) is skews
    for hour, found in enumerate(heartbeat_history.seconds(skews)):
        wanted = samples.get(hour)
        limit = heartbeat_history.FURTHEST / 10
        assert found == (None if wanted is None else max(-limit, min(limit, round(wanted / 100_000) / 10)))


@given(runs)
def test_gaps_are_exactly_what_was_not_heard_in_full(found: list[Level]) -> None:
    cells = cells_of(found)
    gaps = heartbeat_history.heartbeat_gaps(cells)
    inside = {cell.start for cell in cells for gap in gaps if gap.start <= cell.start < gap.end}
    assert inside == {cell.start for cell in cells if cell.level is not Level.FULL}
    assert all(before.end <= after.start for before, after in pairwise(gaps))


@given(runs)
def test_a_gap_is_unknown_or_the_clusters_own_and_never_both(found: list[Level]) -> None:
    cells = cells_of(found)
    for gap in heartbeat_history.heartbeat_gaps(cells):
        inside = [cell.level for cell in cells if gap.start <= cell.start < gap.end]
        assert max(inside) is gap.worst
        if gap.worst is Level.UNKNOWN:
            assert set(inside) == {Level.UNKNOWN}
        else:  # what is unknown lies within a silence, and is said
            assert gap.unseen == inside.count(Level.UNKNOWN) * CELL
            assert Level.UNKNOWN not in {inside[0], inside[-1]}


@pytest.mark.contract("D17")
@given(runs)
def test_what_is_unknown_counts_neither_for_nor_against(found: list[Level]) -> None:
    known = [level for level in found if level is not Level.UNKNOWN]
    share = heartbeat_history.availability(cells_of(found))
    assert share == heartbeat_history.availability(cells_of(known))
    assert share == (pytest.approx(1 - known.count(Level.MISSED) / len(known)) if known else None)


def test_flaps_count_how_often_it_fell_silent() -> None:
    full, late, missed, unknown = Level.FULL, Level.LATE, Level.MISSED, Level.UNKNOWN
    assert heartbeat_history.flaps(cells_of([full, missed, missed, late, full, missed, unknown])) == 2
    assert heartbeat_history.flaps([]) == 0


@pytest.mark.contract("D17")
def test_a_silence_that_a_hub_restart_interrupts_is_one_silence() -> None:
    unknown, full, late, missed = Level
    cells = cells_of([full, late, missed, unknown, unknown, missed, full, late, unknown, full, unknown])
    found = [(gap.start, gap.length, gap.worst, gap.unseen) for gap in heartbeat_history.heartbeat_gaps(cells)]
    assert found == [
        (NOON + CELL, 5 * CELL, missed, 2 * CELL),
        (NOON + 7 * CELL, CELL, late, timedelta()),
        (NOON + 8 * CELL, CELL, unknown, timedelta()),
        (NOON + 10 * CELL, CELL, unknown, timedelta()),
    ]
    assert heartbeat_history.flaps(cells) == 1


@pytest.mark.contract("H16", "D17")
@pytest.mark.parametrize(
    ("heard_ago", "served_for", "found"),
    [
        (0, 9_999, Level.FULL),
        (120, 9_999, Level.FULL),
        (121, 9_999, Level.LATE),
        (299, 9_999, Level.LATE),
        (300, 9_999, Level.MISSED),
        (None, 9_999, Level.MISSED),
        (None, 300, Level.MISSED),
        (None, 299, Level.UNKNOWN),
        (400, 299, Level.UNKNOWN),
        (400, 300, Level.MISSED),
        (130, 140, Level.LATE),
    ],
)
def test_a_look_judges_only_by_the_time_in_which_the_hub_served(
    heard_ago: int | None, served_for: int, found: Level
) -> None:
    now = 100_000
    heard = None if heard_ago is None else now - heard_ago
    assert heartbeat_history.level(heard, now - served_for, now, 60) is found


def test_a_stretch_crosses_midnight_and_days_without_a_row_are_unknown() -> None:
    full_day = heartbeat_history.packed([Level.FULL] * CELLS)
    begin = datetime(2026, 11, 20, 23, 52, tzinfo=UTC)
    found = heartbeat_history.stretch({date(2026, 11, 20): full_day}, begin, begin + timedelta(minutes=14))
    assert [(f"{cell.start:%H:%M}", cell.level) for cell in found] == [
        ("23:50", Level.FULL),
        ("23:55", Level.FULL),
        ("00:00", Level.UNKNOWN),
        ("00:05", Level.UNKNOWN),
    ]
    assert heartbeat_history.stretch({}, begin, begin)[0].level is heartbeat_history.unpacked(NO_CELLS)[0]


def test_what_lasts_may_have_begun_before_and_may_go_on() -> None:
    begin, end = NOON, NOON + timedelta(hours=9)
    one, two, three = (NOON + timedelta(hours=hours) for hours in (1, 2, 3))
    assert heartbeat_history.lasting([(one, False), (two, True)], begin, end, now_on=True) == [(begin, one), (two, end)]
    assert heartbeat_history.lasting([(one, True), (three, False)], begin, end, now_on=False) == [(one, three)]
    assert heartbeat_history.lasting([], begin, end, now_on=True) == [(begin, end)]
    assert heartbeat_history.lasting([], begin, end, now_on=False) == []
