"""Every setting is in the reference, and the reference names no setting that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"\bOCMCONSOLE_[A-Z_]+[A-Z]\b")


def names_in(file: str) -> set[str]:
    return {name.removesuffix("_FILE") for name in NAME.findall((ROOT / file).read_text())}


def read_by_the_settings() -> set[str]:
    """Names that settings.py passes to a reader of the environment."""
    source = (ROOT / "ocmconsole" / "settings.py").read_text()
    return set(re.findall(r"\(\s*\"(OCMCONSOLE_[A-Z_]+)\"", source))


def test_the_reference_names_exactly_the_settings() -> None:
    documented = names_in("docs/settings.md")
    read = {name.removesuffix("_FILE") for name in read_by_the_settings()}
    assert read
    assert documented == read
