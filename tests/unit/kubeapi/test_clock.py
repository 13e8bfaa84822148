from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Thread

import pytest

from ocmconsole.kubeapi import clock

PAST = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_a_demonstration_sees_a_moment_of_the_past_that_goes_on() -> None:
    with clock.at(PAST):
        first = clock.now()
        second = clock.now()
    assert PAST <= first <= second < PAST + 300 * SECOND
    assert clock.now() > datetime(2026, 6, 1, tzinfo=UTC)


def test_nobody_else_sees_it() -> None:
    seen: list[datetime] = []
    with clock.at(PAST):
        other = Thread(target=lambda: seen.append(clock.now()))
        other.start()
        other.join()
    assert seen[0] > datetime(2026, 6, 1, tzinfo=UTC)


def test_an_error_inside_brings_the_present_back() -> None:
    with pytest.raises(ZeroDivisionError), clock.at(PAST):
        assert 1 / 0
    assert clock.now() > datetime(2026, 6, 1, tzinfo=UTC)
