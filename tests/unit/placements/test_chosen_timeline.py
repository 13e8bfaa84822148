"""Who was chosen when, from any history: what is said of a moment is what was so, and nothing that is known is left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.templatetags import chosen_timeline as drawing
from placements.controller.history import RecentHistory, RecentRun
from placements.pages.chosen_timeline import ChosenTimeline, Stretch, in_words

pytestmark = pytest.mark.contract("K43")

NOW = datetime(2026, 3, 4, 14, 30, tzinfo=UTC)
BEGIN = NOW - timedelta(hours=24)
NAMES = ("a", "b", "c", "d")
CHOSEN = st.frozensets(st.sampled_from(NAMES))


def at(hour: float) -> datetime:
    return BEGIN + timedelta(hours=hour)


Past = tuple[frozenset[str], dict[int, frozenset[str]]]


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    """What was chosen before the day began, and what from some hours of it on."""
    hours = draw(st.lists(st.integers(1, 23), unique=True, max_size=8).map(sorted))
    return draw(CHOSEN), {hour: draw(CHOSEN) for hour in hours}


def kept(before: frozenset[str], past: dict[int, frozenset[str]]) -> ChosenTimeline:
    """As the hub keeps it: a run that changed nothing leaves no entry."""
    runs, present = [], before
    for hour, names in past.items():
        if names != present:
            runs.append(RecentRun(at(hour), len(names), names - present, present - names))
        present = names
    return ChosenTimeline(RecentHistory(BEGIN, is_cut=False, runs=tuple(runs)), present, NOW)


def truth(before: frozenset[str], past: dict[int, frozenset[str]]) -> list[frozenset[str]]:
    """Of each hour of the day."""
    found = [before]
    for hour in range(1, 24):
        found.append(past.get(hour, found[-1]))
    return found


def hourly(stretches: list[Stretch]) -> list[int | None]:
    """What is said of each hour, and that the stretches leave no gap and follow each other with other numbers."""
    assert (stretches[0].start, stretches[-1].end) == (BEGIN, NOW)
    assert all(one.end == two.start and one.chosen != two.chosen for one, two in pairwise(stretches))
    return [next(e.chosen for e in stretches if e.start <= at(hour + 0.5) < e.end) for hour in range(24)]


@given(pasts())
def test_each_hour_of_each_cluster_is_known(past: Past) -> None:
    timeline, was = kept(*past), truth(*past)
    assert hourly(timeline.counts()) == [len(names) for names in was]
    for name in NAMES:
        assert hourly(timeline.of_cluster(name)) == [int(name in names) for names in was]


@given(pasts(), st.integers(1, 8))
def test_a_history_that_begins_later_says_the_same_of_what_it_has(past: Past, dropped: int) -> None:
    whole, was = kept(*past), truth(*past)
    if not (runs := whole.found.runs[dropped:]):
        return
    cut = ChosenTimeline(RecentHistory(runs[0].time, is_cut=True, runs=runs), whole.chosen, NOW)
    begin = int((runs[0].time - BEGIN) / timedelta(hours=1))
    for hour in range(begin, 24):
        [count] = [each.chosen for each in cut.counts() if each.start <= at(hour + 0.5) < each.end]
        assert count == len(was[hour])


def test_numbers_that_contradict_each_other_are_not_believed() -> None:
    runs = (
        RecentRun(at(4), 2, frozenset("ab"), frozenset()),
        RecentRun(at(8), 2, frozenset("a"), frozenset()),  # b was lost without an entry
    )
    timeline = ChosenTimeline(RecentHistory(BEGIN, is_cut=False, runs=runs), {"a", "c"}, NOW)
    assert [each.chosen for each in timeline.counts()] == [0, None, 2]
    assert [each.chosen for each in timeline.of_cluster("a")] == [0, None, 1]


def test_those_that_moved_last_come_first() -> None:
    runs = (
        RecentRun(at(4), 3, frozenset("abd"), frozenset()),
        RecentRun(at(8), 2, frozenset(), frozenset("b")),
    )
    timeline = ChosenTimeline(RecentHistory(BEGIN, is_cut=False, runs=runs), {"a", "d"}, NOW)
    assert timeline.moved() == ["b", "a", "d"]


@pytest.mark.parametrize(
    ("stretches", "words"),
    [
        ([(0, 6, 1), (6, 24, 0)], "until 20:30"),
        ([(0, 12, 0), (12, 24, 1)], "since 02:30"),
        ([(0, 12, 0), (12, 13, 1), (13, 24, 0)], "02:30 to 03:30"),
        ([(0, 12, 0), (12, 12.01, 1), (12.01, 24, 0)], "for a moment at 02:30"),
        ([(0, 1, 1), (1, 12, 0), (12, 24, 1)], "until 15:30, since 02:30"),
        ([(0, 10, None), (10, 24, 1)], "not known until 00:30, since 00:30"),
        ([(0, 24, None)], "not known all the time"),
        ([(0, 24, 0)], "only for a moment"),
        (
            [(0, 12, 0), (12, 13, 1), (13, 14, 0), (14, 15, 1), (15, 16, 0), (16, 17, 1), (17, 18, 0), (18, 24, 1)],
            "1 time before, 04:30 to 05:30, 06:30 to 07:30, since 08:30",
        ),
    ],
)
def test_a_cluster_in_words(stretches: list[tuple[float, float, int | None]], words: str) -> None:
    assert in_words([Stretch(at(start), at(end), chosen) for start, end, chosen in stretches], BEGIN, NOW) == words


# ---------------------------------------------------------------- as it is drawn

AXIS = (BEGIN, NOW)


def test_a_bar_stands_where_the_cluster_was_chosen_and_a_hatch_where_nobody_knows() -> None:
    drawn = drawing.chosen_when(
        [Stretch(at(0), at(6), None), Stretch(at(6), at(18), 1), Stretch(at(18), at(24), 0)], AXIS
    )
    assert '<rect x="0.00%" width="25.00%" y="8" height="12" fill="url(#oc-hatch)"/>' in drawn
    assert '<rect class="oc-got" x="25.00%" width="50.00%"' in drawn
    assert '<rect class="oc-away" x="75.00%" width="25.00%"' in drawn


def test_a_number_stands_in_its_block_where_it_fits_and_in_a_wide_window_alone_where_only_that_has_room() -> None:
    drawn = drawing.chosen_counts(
        [Stretch(at(0), at(1), 7), Stretch(at(1), at(3), 59), Stretch(at(3), at(24), 10_000)], AXIS
    )
    assert ">7<" in drawn
    assert '<text class="is-wide" x="4.17%" dx="7" y="18">59</text>' in drawn
    assert '<text class="" x="12.50%" dx="7" y="18">10,000</text>' in drawn


def test_moves_are_added_up_within_two_hours_and_within_four_in_a_narrow_window() -> None:
    drawn = drawing.chosen_moves([(at(0.5), 1), (at(1.5), 2), (at(2.5), 4), (at(24), 8)], AXIS, "+", "accent")
    wide, narrow = drawn.split('<g class="is-narrow')
    assert [text in wide for text in (">+3<", ">+4<", ">+8<")] == [True] * 3
    assert [text in narrow for text in (">+7<", ">+8<")] == [True] * 2


def test_the_axis_has_whole_hours_the_date_at_midnight_and_the_present() -> None:
    drawn = drawing.chosen_axis(AXIS)
    assert [text for text in ("16:00", "20:00", "4 Mar", "04:00", "08:00", "12:00") if f">{text}<" not in drawn] == []
    assert ">now<" in drawn
    near = NOW.replace(hour=12, minute=20)
    assert ">12:00<" not in drawing.chosen_axis((near - timedelta(days=1), near))  # it would stand in the way
