"""Which database a test runs on is decided in one table, and the table names what there is."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests import selection
from tests.selection import DEALT, PLACES, TESTS, Runs


class Case(NamedTuple):
    """What ``dealt`` reads of a test."""

    path: Path
    originalname: str
    number: int


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


def test_what_is_dealt_out_runs_on_both_databases() -> None:
    for place in DEALT:
        assert (TESTS / place).exists(), place
        below = {name for name, where in PLACES.items() if where is Runs.BOTH and f"{name}/".startswith(f"{place}/")}
        assert below or selection.runs(TESTS / place) is Runs.BOTH, place


def test_each_test_that_is_dealt_out_runs_on_one_database_and_each_function_of_many_on_both(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, path = request.config, TESTS / "api" / "test_kinds.py"
    monkeypatch.setattr(selection, "FULL", False)
    monkeypatch.setattr(config.option, "deal", True)
    items = [Case(path, name, number) for name in ("create", "list", "watch") for number in range(7)]
    run: dict[str, list[Case]] = {}
    for database in ("sqlite", "postgres"):
        monkeypatch.setattr(config.option, "database", database)
        run[database] = selection.dealt(items, config)
    assert sorted([*run["sqlite"], *run["postgres"]]) == sorted(items)
    assert (
        {name for _, name, _ in run["postgres"]}
        == {name for _, name, _ in run["sqlite"]}
        == {"create", "list", "watch"}
    )
    assert {number for _, _, number in run["postgres"]} == {*range(7)}


def test_each_case_that_a_test_goes_through_is_dealt_to_one_database(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, cases = request.config, [*range(7)]
    monkeypatch.setattr(selection, "FULL", False)
    monkeypatch.setattr(config.option, "deal", True)
    run: dict[str, list[int]] = {}
    for database in ("sqlite", "postgres"):
        monkeypatch.setattr(config.option, "database", database)
        run[database] = selection.dealt_cases(cases, config)
    assert sorted([*run["sqlite"], *run["postgres"]]) == cases
    assert run["postgres"] == [0, 3, 6]
    monkeypatch.setattr(config.option, "deal", False)
    assert selection.dealt_cases(cases, config) == cases
