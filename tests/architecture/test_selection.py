"""Which database a test runs on is decided in one table, and the table names what there is."""

from __future__ import annotations

from tests.selection import PLACES, TESTS


def test_each_folder_of_tests_says_on_which_databases_it_runs() -> None:
    folders = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")}
    assert folders == {place for place in PLACES if "/" not in place}


def test_each_exception_is_there_and_differs_from_its_folder() -> None:
    for place, runs in PLACES.items():
        assert (TESTS / place).exists(), place
        above = place.rpartition("/")[0]
        while above and above not in PLACES:
            above = above.rpartition("/")[0]
        assert not above or PLACES[above] is not runs, place
