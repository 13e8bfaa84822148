"""Durations as pages show them: never nothing while a smaller unit still says something."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.environment.durations import in_words, span


@pytest.mark.parametrize(
    ("length", "rough", "fine", "words"),
    [
        (timedelta(days=47, hours=3), "47 d", "47 d 3 h", "47 days 3 hours"),
        (timedelta(days=365), "365 d", "365 d", "365 days"),
        (timedelta(hours=23, minutes=59), "23 h", "23 h 59 min", "23 hours 59 minutes"),
        (timedelta(minutes=90), "1 h", "1 h 30 min", "1 hour 30 minutes"),
        (timedelta(hours=1, seconds=5), "1 h", "1 h", "1 hour"),
        (timedelta(seconds=59.9), "59 s", "59 s", "59 seconds"),
        (timedelta(seconds=-5), "0 s", "0 s", "0 seconds"),
    ],
)
def test_a_length_of_time_is_shown_in_its_largest_units(length: timedelta, rough: str, fine: str, words: str) -> None:
    assert (span(length, units=1), span(length), in_words(length)) == (rough, fine, words)


@given(st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=100_000)))
def test_what_lasts_is_never_shown_as_nothing(length: timedelta) -> None:
    for shown in (span(length, units=1), span(length), in_words(length)):
        assert not shown.startswith("0")
