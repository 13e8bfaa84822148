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

every_template = pytest.mark.parametrize("name", NAMES)


def source(name: str) -> str:
    return (ROOT / "templates" / name).read_text(encoding="utf-8")


@every_template
def test_a_template_compiles(name: str) -> None:
    get_template(name)


@every_template
def test_a_template_needs_no_inline_style_or_script(name: str) -> None:
    assert not re.search(r"\sstyle=|\son[a-z]+=|<style|<script(?![^>]*\ssrc=)|javascript:", source(name))


@every_template
def test_a_template_never_switches_escaping_off(name: str) -> None:
    assert not re.search(r"\|\s*safe\b|autoescape\s+off|mark_safe", source(name))


@every_template
def test_every_icon_a_template_names_is_in_the_sprite(name: str) -> None:
    named = set(re.findall(r'{%\s*icon\s+"([^"]+)"', source(name))) | set(
        re.findall(r'icon_name="([^"]+)"', source(name))
    )
    assert named <= OWN_ICONS | set(LUCIDE_ICONS)


@every_template
def test_every_post_form_carries_a_csrf_token(name: str) -> None:
    forms = re.findall(r'<form[^>]*method="post".*?</form>', source(name), re.DOTALL)
    assert all("{% csrf_token %}" in form for form in forms)


def test_every_class_of_our_own_that_a_template_writes_has_a_style() -> None:
    written = {part for name in NAMES for part in re.findall(r"(?<![\w-])oc-[a-z][a-z0-9_-]*\b(?!{)", source(name))}
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
