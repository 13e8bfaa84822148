"""What holds for every template and script of the console, whatever page it is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.template.loader import get_template

from clusters.health.status import Word

ROOT = Path(__file__).parents[3]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
NAMES = [path.relative_to(ROOT / "templates").as_posix() for path in TEMPLATES]
OWN_ICONS = {path.stem for path in (ROOT / "static/icons").glob("*.svg")}
LUCIDE_ICONS = json.loads((ROOT / "static/icons.json").read_text(encoding="utf-8"))
STYLES = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "static/css").glob("*.css"))

SOURCES = {name: path.read_text(encoding="utf-8") for name, path in zip(NAMES, TEMPLATES, strict=True)}


def found(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> dict[str, list[str]]:
    """What a pattern finds, by template."""
    by_name = {name: re.findall(pattern, text, flags) for name, text in SOURCES.items()}
    return {name: each for name, each in by_name.items() if each}


def test_each_template_compiles() -> None:
    for name in NAMES:
        get_template(name)


def test_no_template_needs_an_inline_style_or_script() -> None:
    assert found(r"\sstyle=|\son[a-z]+=|<style|<script(?![^>]*\ssrc=)|javascript:") == {}


def test_no_template_switches_escaping_off() -> None:
    assert found(r"\|\s*safe\b|autoescape\s+off|mark_safe") == {}


def test_every_icon_a_template_names_is_in_the_sprite() -> None:
    sprite = OWN_ICONS | set(LUCIDE_ICONS)
    for pattern in (r'{%\s*icon\s+"([^"]+)"', r'icon_name="([^"]+)"'):
        named = found(pattern)
        assert named
        assert {name: unknown for name, icons in named.items() if (unknown := {*icons} - sprite)} == {}


def test_every_post_form_carries_a_csrf_token() -> None:
    forms = found(r'<form[^>]*method="post".*?</form>', re.DOTALL)
    assert forms
    assert {name for name, each in forms.items() if not all("{% csrf_token %}" in form for form in each)} == set()


def test_every_class_of_our_own_that_a_template_writes_has_a_style() -> None:
    written = {part for parts in found(r"(?<![\w-])oc-[a-z][a-z0-9_-]*\b(?!{)").values() for part in parts}
    # A tone is completed by the server: oc-t-{{ tone }}.
    assert {part for part in written if not part.endswith("-") and f".{part}" not in STYLES} == set()


@pytest.mark.parametrize("word", list(Word))
def test_every_status_word_has_its_icon_and_its_tone(word: Word) -> None:
    assert word.icon in LUCIDE_ICONS
    assert f".oc-t-{word.tone} " in STYLES


def test_the_icon_list_is_sorted_and_without_doubles() -> None:
    assert sorted(set(LUCIDE_ICONS)) == LUCIDE_ICONS


def test_no_important_outside_accessibility_and_small_screens() -> None:
    """Layers make !important needless; it stays for hiding, motion and print."""
    for path in (ROOT / "static/css").glob("*.css"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if "!important" in line:
                assert re.search(r"display: none|transition: none|inline-size: auto|box-shadow: none", line), line
