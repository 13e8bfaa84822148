"""pytest's side of `make mutants`, loaded with ``-p tests.mutants.plugin``.

``--mutant=NAME`` silences one subject before tests are imported, ``--contract=A1,A2`` keeps the tests that carry one of
the ids, ``--report=FILE`` writes down subjects and what became of each test. Tests of the same app come first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.mutants import subjects


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mutants")
    group.addoption("--mutant", default="", help="a rule, reconciler, authorizer or task that shall do nothing")
    group.addoption("--contract", default="", help="only tests that carry one of these ids, separated by commas")
    group.addoption("--report", type=Path, help="write subjects, tests, their ids and their outcomes to this file")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Run(config))


class Run:
    """One run of pytest, with at most one subject silenced."""

    def __init__(self, config: pytest.Config) -> None:
        self.mutant: str = config.getoption("mutant")
        self.wanted = set(filter(None, config.getoption("contract").split(",")))
        self.path: Path | None = config.getoption("report")
        self.tests: dict[str, dict[str, Any]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Django is set up and no test module imported yet."""
        self.subjects = subjects.subjects()
        if self.mutant:
            if self.mutant not in self.subjects:
                raise pytest.UsageError(f"there is no rule, reconciler, authorizer or task {self.mutant}")
            self.subjects[self.mutant].silence()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept = [item for item in items if not self.wanted or not self.wanted.isdisjoint(ids_of(item))]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        app = self.subjects[self.mutant].app if self.mutant else "/"
        items[:] = sorted(kept, key=lambda item: app not in item.nodeid)
        self.tests = {item.nodeid: {"ids": sorted(ids_of(item)), "seconds": 0.0} for item in items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self.tests[report.nodeid]
        test["seconds"] += report.duration
        if report.failed or "outcome" not in test:
            test["outcome"] = report.outcome

    def pytest_sessionfinish(self) -> None:
        if self.path is not None:
            named = {subject.name: subject.ids for subject in self.subjects.values()}
            self.path.write_text(json.dumps({"subjects": named, "tests": self.tests}))


def ids_of(item: pytest.Item) -> set[str]:
    return {str(name) for marker in item.iter_markers("contract") for name in marker.args}
