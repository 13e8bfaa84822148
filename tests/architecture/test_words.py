"""Words that were retired (docs/glossary.md, "Formerly") do not come back into code, pages and documents."""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture.test_documents import DOCUMENTS, PACKAGES
from tests.architecture.test_repository import ROOT, tracked

# Also as a part of a name: door_of, the_door, DOORS, HandOff.
RETIRED = ("doors?", "lanes?", "authz", "handoff", "whoever", "glosse?s?")
IN_TESTS = re.compile(rf"(?<![a-z])(?:{'|'.join(RETIRED)})(?![a-z])|\b(?:he|his|him|himself)\b", re.IGNORECASE)
PATTERN = re.compile(rf"{IN_TESTS.pattern}|(?<![a-z])told(?![a-z])", re.IGNORECASE)
TEXTS = [
    path
    for path in tracked(
        *(f"{package}/*.py" for package in PACKAGES),
        "templates/*.html",
        "static/css/*.css",
        "static/js/*.js",
        *DOCUMENTS,
        "Makefile",
        "pyproject.toml",
    )
    if "migrations" not in path.parts and path.name != "CHANGELOG.md"
]
TESTS = [
    path
    for path in tracked("tests/*.py", "tests/*.js")
    if path.name not in {"test_words.py", "test_texts.py", "walk.py"}
]
# What is stored, or was given to others, keeps its name.
KEPT = {
    "ocmconsole/kubeapi/models.py": ("door",),  # a column
    "ocmconsole/kubeapi/storage/audit_chain.py": ("door",),  # sealed and exported
    "registration/certificates/certificate_pages.py": ("lane",),  # in links
}


def words_of(path: Path) -> str:
    """The text of a file, without the glossary's table of retired words."""
    text = path.read_text(encoding="utf-8")
    return text.partition("\n## Formerly")[0] if path == ROOT / "docs" / "glossary.md" else text


def test_retired_words_are_not_used() -> None:
    assert len(TEXTS) > 400
    found = {
        str(path.relative_to(ROOT)): {match.lower() for match in PATTERN.findall(words_of(path))} for path in TEXTS
    }
    assert {name: words - {*KEPT.get(name, ())} for name, words in found.items() if words - {*KEPT.get(name, ())}} == {}


def test_tests_do_not_use_them_either() -> None:
    found = {str(path.relative_to(ROOT)): set(IN_TESTS.findall(words_of(path))) for path in TESTS}
    assert {name: words for name, words in found.items() if words} == {}


def test_the_glossary_says_what_became_of_each_retired_word() -> None:
    _, _, formerly = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("\n## Formerly")
    for word in ("door", "lane", "authz", "handoff", "told", "glosses"):
        assert re.search(rf"^\|[^|]*\b{word}\b[^|]*\|[^|]+\|$", formerly, re.MULTILINE), word
