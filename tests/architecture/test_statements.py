"""docs/statements.md is what a run in which all tests pass writes: every statement has its row, and no row its test lost."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from tests.architecture.test_repository import ROOT
from tests.statements import page
from tests.statements.verdicts import AGENT, AGENT_FILE, DECIDED, IDS, SHOWN_BY_THE_AGENT


def named(function: ast.FunctionDef) -> Iterator[str]:
    """Ids that its marks carry."""
    for mark in function.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.contract":
            yield from (ast.literal_eval(argument) for argument in mark.args)


def written() -> dict[str, dict[str, bool]]:
    """By statement, the tests that name it."""
    tests: defaultdict[str, dict[str, bool]] = defaultdict(dict)
    for path in page.FOLDER.glob("test_*.py"):
        for function in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(function, ast.FunctionDef):
                for name in named(function):
                    tests[name][f"{path.name}::{function.name}"] = True
    return tests


def test_the_page_is_as_a_run_writes_it() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.render(written())


def test_no_statement_is_without_a_row_and_none_is_missing_or_fails() -> None:
    rows = [line.split(" | ") for line in page.PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| S")]
    assert [row[0].removeprefix("| ") for row in rows if row[0] != "| statement"] == IDS
    assert {row[1] for row in rows} <= {"verdict", "pass", "decided", "agent"}


def test_what_happens_on_the_managed_cluster_is_shown_by_a_test_of_the_agent_that_names_it() -> None:
    assert SHOWN_BY_THE_AGENT.keys() == AGENT.keys()
    functions = {
        each.name: {*named(each)}
        for each in ast.parse((ROOT / AGENT_FILE).read_text(encoding="utf-8")).body
        if isinstance(each, ast.FunctionDef)
    }
    assert [name for name, test in SHOWN_BY_THE_AGENT.items() if name not in functions.get(test, ())] == []


def test_what_is_no_matter_of_the_hub_alone_is_said_once() -> None:
    others = [*AGENT, *DECIDED]
    assert len(others) == len(set(others))
    assert set(others) <= set(IDS)
