"""Writes docs/statements.md from a run of this folder: one row for each statement of the concept documents.

A pytest plugin, registered by tests/conftest.py. Under pytest-xdist the workers say which statements a test names and
the first process gathers. Nothing is written unless every test of the folder ran; then a statement that fails, or that
nothing shows, fails the run. That the page is committed as a run writes it is looked after in tests/architecture.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.statements.verdicts import AGENT_FILE, IDS, OTHERWISE, SHOWN_BY_THE_AGENT

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER.parents[1] / "docs" / "statements.md"
MARK, WHOLE = "statements", "statements_whole"
HEAD = """# Statements of the concept documents

Every statement, command and YAML block of Open Cluster Management's concept documents about clusters, sets, bindings and claims, by its number in the
contract, and the test in `tests/statements` that shows it. `make test` writes this page and fails when a row says `fail` or is missing. `pass` means
that it holds here as written, `decided` that this hub does something else on purpose, and `agent` that it happens on the managed cluster alone. A test
beside one of the last two shows the hub's part; one of `tests/agent` shows the managed cluster's, with this project's registration agent.

| statement | verdict | shown by |
|---|---|---|
"""


def verdict(name: str, outcomes: Iterable[bool]) -> str:
    """``outcomes`` are those of the tests that name the statement."""
    found = list(outcomes)
    wanted, _ = OTHERWISE.get(name, ("pass", ""))
    if not all(found):
        return "fail"
    return wanted if found or wanted == "agent" else "missing"


def render(tests: Mapping[str, Mapping[str, bool]]) -> str:
    """``tests`` are, by statement, the tests that name it and whether they passed."""
    return HEAD + "".join(_row(name, tests.get(name, {})) for name in IDS)


def _row(name: str, tests: Mapping[str, bool]) -> str:
    _, why = OTHERWISE.get(name, ("", ""))
    of_agent = [f"{AGENT_FILE}::{SHOWN_BY_THE_AGENT[name]}"] if name in SHOWN_BY_THE_AGENT else []
    shown = ", ".join(f"`{test}`" for test in [*sorted(tests), *of_agent])
    return f"| {name} | {verdict(name, tests.values())} | {'; '.join(filter(None, (shown, why)))} |\n"


class Statements:
    """One a process: in a worker it marks and looks whether all is there, in the first it gathers and writes."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.is_worker = hasattr(config, "workerinput")
        self.whole = False
        self.left_out = False
        self.tests: defaultdict[str, dict[str, bool]] = defaultdict(dict)
        self.problems: list[str] = []

    # ------------------------------------------------------------------------------------------ where tests are chosen

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if FOLDER in item.path.parents:
                named = [name for marker in item.iter_markers("contract") for name in marker.args if name in IDS]
                item.user_properties.append((MARK, named))

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.left_out = self.left_out or any(FOLDER in item.path.parents for item in items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        files = {item.path for item in session.items}
        parts = any("::" in argument for argument in self.config.args)
        runs = not parts and not self.left_out and not self.config.option.collectonly
        self.whole = runs and files.issuperset(FOLDER.glob("test_*.py"))

    # ------------------------------------------------------------------------------------------ where reports arrive

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        self.whole = self.whole or bool(getattr(node, "workeroutput", {}).get(WHOLE))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties: dict[str, Any] = dict(report.user_properties)
        if MARK not in properties:
            return
        self.left_out = self.left_out or report.skipped
        test = report.nodeid.partition("[")[0].removeprefix("tests/statements/")
        for name in properties[MARK]:
            self.tests[name][test] = self.tests[name].get(test, True) and not report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        finished = exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED} and bool(self.tests)
        if self.is_worker:
            self.config.workeroutput[WHOLE] = self.whole  # type: ignore[attr-defined]  # xdist adds it
        elif finished and self.whole and not self.left_out and not session.shouldfail and not session.shouldstop:
            self._write(session)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.problems:
            terminalreporter.write_line(f"docs/statements.md: {', '.join(self.problems)}", red=True)

    def _write(self, session: pytest.Session) -> None:
        PAGE.write_text(render(self.tests), encoding="utf-8")
        for name in IDS:
            said = verdict(name, self.tests[name].values())
            self.problems += [f"{name} is {said}"] if said in {"fail", "missing"} else []
        if self.problems:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
