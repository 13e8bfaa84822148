"""Tests name what they show, and rules what they keep: no rule of the contract is left without either."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.test_repository import ROOT, tracked
from tests.entry_points.admission.table import CASES
from tests.entry_points.test_admission_table import ids_of
from tests.mutants.subjects import scheduler_modules, subjects
from tests.statements.verdicts import IDS

TESTS = Path(__file__).resolve().parents[1]

ADMISSION = [*(f"A{number}" for number in range(13)), "A4a", "A4b", "A7b", "A7c", "A7d"]
CONTROLLERS = [f"H{number}" for number in range(1, 47)]
# Of the traps, those of clusters, sets and registration. The others are about placements, works, and clients.
TRAPS = [*range(1, 16), "8b", *range(23, 27), *range(28, 32), 34, 35, 36, 40, 41, *range(43, 49)]
# What a client sees of the protocol, and the checklist of three levels.
WIRE = [*range(1, 31), *range(101, 127), *range(130, 167), *range(170, 191)]

NAMED = re.compile(r"(?<![\w%./#:+-])[WTAHGPCSKDI](?:0|[1-9]\d{0,2})[a-z]?(?![\w-])")
NO_ID = re.compile(r"# noqa.*|(?:d|path)=f?\"[^\"]*\"|\bS256\b")  # rules of ruff, paths of SVG, a method of OAuth
LINE = re.compile(r"^- \*\*(\w+)\*\*: \S.+\.$", re.MULTILINE)


def ids_named(*patterns: str) -> dict[str, str]:
    """Contract ids that committed text files name, each with one of these files."""
    named: dict[str, str] = {}
    for path in tracked(*patterns):
        for found in NAMED.findall(NO_ID.sub("", path.read_text(encoding="utf-8"))):
            named[found] = str(path.relative_to(ROOT))
    return named


def lines_of_the_contract() -> list[str]:
    """The ids of docs/contract.md in the order of the page."""
    return LINE.findall((ROOT / "docs" / "contract.md").read_text(encoding="utf-8"))


def named_in_tests(folder: Path = TESTS) -> set[str]:
    """The arguments of every ``contract(…)``, wherever a mark may stand."""
    return {name for path in folder.rglob("*.py") for name in _named(path)}


@cache
def _named(path: Path) -> frozenset[str]:
    code = path.read_text()
    calls = [each for each in ast.walk(ast.parse(code)) if isinstance(each, ast.Call)] if "contract(" in code else []
    marks = [each for each in calls if isinstance(each.func, ast.Attribute) and each.func.attr == "contract"]
    return frozenset(str(each.value) for mark in marks for each in mark.args if isinstance(each, ast.Constant))


@pytest.mark.parametrize(
    "rules", [ADMISSION, CONTROLLERS, [f"K{number}" for number in TRAPS]], ids=["admission", "controllers", "traps"]
)
def test_each_rule_is_named_by_a_test(rules: list[str]) -> None:
    in_rows = {name for row, _ in CASES for name in ids_of(row)}  # the table of admission names them as data
    assert sorted(set(rules) - named_in_tests() - in_rows) == []


def test_conformance_names_each_rule_of_the_wire() -> None:
    assert sorted({f"W{number}" for number in WIRE} - named_in_tests(TESTS / "conformance")) == []


def test_conformance_asks_the_api_and_nothing_else() -> None:
    """It may be pointed at somebody else's hub: no settings, no database, no manage.py."""
    folder = TESTS / "conformance"
    for path in [*folder.glob("wire/*.py"), *(folder / f"{name}.py" for name in ("cluster", "commands", "conftest"))]:
        text = path.read_text()
        assert [
            words for words in ("ocmconsole", "tests.hub", ".manage(", "start_hub", ".reading(") if words in text
        ] == []


def test_each_rule_reconciler_authorizer_and_task_says_what_it_keeps() -> None:
    assert [name for name, subject in subjects().items() if not subject.ids] == []


def test_each_module_of_the_scheduler_has_a_step_that_make_mutants_silences() -> None:
    names = list(subjects())
    modules = [each.__name__ for each in scheduler_modules()]
    assert [module for module in modules if not any(name.startswith(f"{module}.") for name in names)] == []


def test_make_mutants_leaves_the_import_of_plugins_to_pytest() -> None:
    """Which ends with an error where one that it rewrites is there already."""
    code = "import sys, tests.mutants.__main__, tests.mutants.plugin; print('xdist' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    assert printed == "False\n"


def test_the_contract_has_one_sentence_for_each_id() -> None:
    lines = lines_of_the_contract()
    assert sorted({name for name in lines if lines.count(name) > 1}) == []


def test_each_id_that_code_tests_or_documents_name_has_its_line_in_the_contract() -> None:
    named = ids_named("*.py", "*.md", "*.html", "*.js", "*.yaml")
    assert sorted({(name, named[name]) for name in set(named) - {*lines_of_the_contract(), *IDS}}) == []


def test_each_line_of_the_contract_is_named_by_code_or_a_test() -> None:
    in_rows = {name for row, _ in CASES for name in ids_of(row)}
    named = {*ids_named("*.py", "*.html", "*.js", "*.yaml"), *named_in_tests(), *in_rows}
    assert sorted(set(lines_of_the_contract()) - named) == []
