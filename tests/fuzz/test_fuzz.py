"""Thousands of requests that are data: what is valid succeeds, what is not is refused in words and leaves no trace.

``FUZZ_CASES`` sets the number of cases; without it they are 1,000 on SQLite and 500 on PostgreSQL, or 10,000 with
``FULL=1``. They are the same in each run. A failure prints the case as Python.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from ocmconsole.kubeapi.storage import reader
from tests.fuzz import bodies, headers, patches, paths, protobufs, queries, world
from tests.fuzz.cases import Case
from tests.fuzz.judging import Judge
from tests.selection import FULL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.django_db(transaction=True)]

THEMES: dict[str, tuple[st.SearchStrategy[Case], int]] = {
    "bodies": (bodies.cases(), 3),
    "patches": (patches.cases(), 2),
    "queries": (queries.cases(), 2),
    "protobuf": (protobufs.cases(), 1),
    "headers": (headers.cases(), 1),
    "paths": (paths.cases(), 1),
}
PARTS = [(theme, part) for theme, (_, parts) in THEMES.items() for part in range(parts)]
ORDINARY = "1000" if connection.vendor == "sqlite" else "500"
CASES = int(os.environ.get("FUZZ_CASES", "10000" if FULL else ORDINARY)) // len(PARTS)


@pytest.fixture
def judge() -> Judge:
    return Judge(world.build())


@pytest.mark.contract("W2", "W8", "W10", "W19", "W20", "W174", "W183", "W184")
@pytest.mark.parametrize(("theme", "part"), PARTS, ids=str)
def test_what_is_valid_succeeds_and_what_is_not_is_refused_without_a_trace(theme: str, part: int, judge: Judge) -> None:
    _judged(judge.judge, THEMES[theme][0], part)
    assert judge.cases >= CASES
    assert judge.valid >= judge.cases / 4
    assert reader.check_wire()[1] == []
    assert world.work_off() == []


def _judged(judge: Callable[[Case], list[str]], cases: st.SearchStrategy[Case], part: int) -> None:
    @seed(part)
    @settings(
        max_examples=CASES, database=None, deadline=None, print_blob=False, suppress_health_check=list(HealthCheck)
    )
    @given(case=cases)
    def every_answer_is_right(case: Case) -> None:
        flaws = judge(case)
        assert not flaws, flaws[0]

    every_answer_is_right()
