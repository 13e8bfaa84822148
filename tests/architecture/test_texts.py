"""How the product speaks of its users: what people read calls nobody he."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.test_documents import DOCUMENTS, PACKAGES
from tests.architecture.test_repository import ROOT, tracked

GENDERED = re.compile(r"\b(?:s?he|his|him(?:self)?|hers?(?:elf)?)\b", re.IGNORECASE)
READ_BY_PEOPLE = [
    *tracked("templates/*.html", "templates/*.txt", "templates/**/*.html", "templates/**/*.txt", *DOCUMENTS),
]
INSTALLATION = ROOT / "ocmconsole" / "environment" / "installation.py"
MODULES = [path for path in tracked(*(f"{package}/*.py" for package in PACKAGES)) if "migrations" not in path.parts]


def test_pages_and_documents_call_no_user_he() -> None:
    read = [(str(path.relative_to(ROOT)), number, line) for path in READ_BY_PEOPLE for number, line in _lines(path)]
    assert read
    assert [each for each in read if GENDERED.search(each[-1])] == []


def test_messages_of_pages_api_and_commands_call_no_user_he() -> None:
    found = [
        (str(path.relative_to(ROOT)), line, value)
        for path in MODULES
        for line, value in _texts(path)
        if GENDERED.search(value)
    ]
    assert found == []


def test_pages_and_messages_name_the_command_line_as_it_is_installed() -> None:
    """In a wheel it is called ocmconsole: ``environment.installation.PROGRAM``, in templates ``program``."""
    said = [
        *((path, number, line) for path in READ_BY_PEOPLE if path.suffix != ".md" for number, line in _lines(path)),
        *((path, number, text) for path in MODULES if path != INSTALLATION for number, text in _texts(path)),
    ]
    assert [(str(path.relative_to(ROOT)), number) for path, number, text in said if "manage.py" in text] == []


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    yield from enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """String literals with their lines, docstrings left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    with_docstring = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, with_docstring) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value
