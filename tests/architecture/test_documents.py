"""What the documents name exists, and what exists is in them: files, commands, status words, decisions, links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path, PurePosixPath

import pytest
from django.core.management import get_commands

from clusters.health.status import Word
from tests.architecture.test_repository import ROOT, tracked

PACKAGES = ("ocmconsole", "clusters", "clustersets", "placements", "registration")
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "THREAT_MODEL.md", "CHANGELOG.md", "docs/*.md", "docs/*/*.md")
COMMAND = re.compile(r"^\| `([\w-]+)", re.MULTILINE)
FILE = re.compile(r"\S*[./]\S*|LICENSE|Makefile")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#:\s]+)(?:#[^)]*)?\)")
IS_A_PAGE = re.compile(r"_(?:pages|tab)\.py$")  # says by its name what it is; the tree may leave it out
LONGEST_ARCHITECTURE = 440  # of which the tree of rooms and modules is a half


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def named_in_the_tree() -> Iterator[str]:
    """Paths in the fenced tree: the names with which each line begins, below the folders above it."""
    tree = re.search(r"^```\n(.*?)^```", text("docs/architecture.md"), re.DOTALL | re.MULTILINE)
    assert tree
    folders: list[str] = []
    for line in tree[1].splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        names = list(takewhile(FILE.fullmatch, re.split(r" {2,}", line.strip())))
        for name in names:
            yield "".join(folders[:depth]) + name
        folders[depth:] = names[:1]


def modules() -> set[str]:
    """Python files of the packages that hold something, as they are committed."""
    paths = [path.relative_to(ROOT) for path in tracked(*(f"{package}/*.py" for package in PACKAGES))]
    return {str(path) for path in paths if path.name != "__init__.py" and "migrations" not in path.parts}


def test_the_tree_names_every_module() -> None:
    named = {name for name in named_in_the_tree() if name.endswith(".py")}
    assert sorted(name for name in modules() - named if not IS_A_PAGE.search(name)) == []


def test_the_tree_names_every_entry_of_the_repository() -> None:
    entries = {path.relative_to(ROOT).parts[0] for path in tracked()}
    assert sorted(entries - {name.split("/")[0] for name in named_in_the_tree()}) == []


def test_the_tree_names_nothing_that_does_not_exist() -> None:
    assert [name for name in named_in_the_tree() if not (ROOT / name).exists()] == []


def test_the_page_about_the_architecture_stays_short() -> None:
    assert len(text("docs/architecture.md").splitlines()) <= LONGEST_ARCHITECTURE


@pytest.mark.parametrize(
    "row", re.findall(r"^\| (?:Where|Who|How|Why|What) .*", text("docs/architecture.md"), re.MULTILINE)
)
def test_where_is_names_functions_that_are_there(row: str) -> None:
    """Each function that a row names is defined in the file before it, in the same folder if only the file is named."""
    folder, code = PurePosixPath(), ""
    for named in re.findall(r"`([^`]+)`", row):
        if named.endswith(".py"):
            folder = PurePosixPath(named).parent if "/" in named else folder
            code = (ROOT / folder / PurePosixPath(named).name).read_text()
        else:
            assert re.search(rf"^ *(?:async )?def {named}\(", code, re.MULTILINE), named


def test_the_commands_are_documented_and_no_others() -> None:
    ours = {name for name, app in get_commands().items() if app.partition(".")[0] in PACKAGES}
    assert ours
    assert set(COMMAND.findall(text("docs/commands.md"))) - {"command"} == ours


@pytest.mark.parametrize("word", list(Word))
def test_every_status_word_is_explained(word: Word) -> None:
    rows = [line for line in text("docs/guide/status.md").splitlines() if line.startswith(f"| **{word.label}**")]
    assert len(rows) == 1
    _, _, rule, advice, _ = rows[0].split("|")
    assert f"(`{word.value}`)" in rows[0]
    assert rule.strip()
    assert advice.strip()


def test_status_words_are_explained_in_the_order_in_which_they_are_asked() -> None:
    shown = re.findall(r"^\| \*\*.+?\*\* \(`([a-z-]+)`\)", text("docs/guide/status.md"), re.MULTILINE)
    assert shown == [word.value for word in Word]


def test_decisions_are_numbered_without_a_gap_and_say_what_they_cost() -> None:
    pages = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        content = page.read_text(encoding="utf-8")
        assert content.startswith(f"# {int(page.name[:4])}. ")
        assert {"**Context.**", "**Decision.**", "**What we give up.**"} <= set(re.findall(r"\*\*[^*]+\*\*", content))


@pytest.mark.parametrize("pattern", DOCUMENTS)
def test_links_between_documents_lead_somewhere(pattern: str) -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in ROOT.glob(pattern)
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []


NAMED_DOCUMENT = re.compile(r"(?<![\w*\\/.-])((?:\.{1,2}/)*[\w-]+(?:/[\w-]+)*\.md)\b")
# Numbered sections, such as 4.4 of a console, belong to specifications that this repository does not hold.
NUMBERED_SECTION = re.compile(r"\b(?:wire|console|design|contract|blueprint) \d+\.\d+|\b(?:contract|design)/\w+\.\w+")


def test_a_document_that_code_or_documents_name_exists() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in tracked("*.py", "*.md", "*.html", "*.js", "*.css", "*.yaml", "*.toml", "Makefile")
        for name in NAMED_DOCUMENT.findall(path.read_text(encoding="utf-8"))
        if not any((folder / name).is_file() for folder in (ROOT, path.parent, ROOT / "docs", ROOT / "docs" / "guide"))
    ]
    assert missing == []


def test_no_text_cites_a_section_of_a_document_that_is_not_here() -> None:
    cited = [
        f"{path.relative_to(ROOT)}: {found}"
        for path in tracked("*.py", "*.md", "*.html", "*.js", "*.css", "*.yaml", "*.toml", "Makefile")
        if path != Path(__file__).resolve()
        for found in NUMBERED_SECTION.findall(path.read_text(encoding="utf-8"))
    ]
    assert cited == []


def paths_in(page: str) -> Iterator[Path]:
    """Files that a page names in backquotes with their folder."""
    named = r"`((?:ocmconsole|clusters|clustersets|placements|registration|tests|docs)/[\w/.-]+?\.(?:py|md))`"
    yield from (ROOT / name for name in re.findall(named, text(page)))


def test_files_that_a_page_names_exist() -> None:
    pages = [str(path.relative_to(ROOT)) for path in tracked("*.md", "docs/*.md", "docs/guide/*.md")]
    named = [(page, path) for page in pages for path in paths_in(page)]
    assert named
    assert [(page, str(path.relative_to(ROOT))) for page, path in named if not path.exists()] == []


def test_each_defence_of_the_threat_model_names_its_code_and_its_test() -> None:
    table = text("THREAT_MODEL.md").partition("## Defences")[2].partition("## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    places = re.compile(rf"`((?:tests|docs|{'|'.join(PACKAGES)})/[\w./]+)`")
    named: dict[str, list[str]] = {}
    for row in rows:
        named.setdefault(row.split(" | ")[0], []).extend(places.findall(row))
    assert [row for row, paths in named.items() if not any(path.startswith("tests/") for path in paths)] == []
    assert [path for paths in named.values() for path in paths if not (ROOT / path).exists()] == []
