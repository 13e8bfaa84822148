"""The register of figures: what a page says, and the same computed from rows. Read by test_truth."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.pages.truth.demofleet import Site

# What a page shows where there is nothing.
NOTHING = "\N{EN DASH}"
Compared = tuple[Any, Any]
Look = Callable[[Site, str], Compared]


@dataclass(frozen=True)
class Figure:
    """``look`` returns what the page shows to a person, and what the rows say."""

    name: str
    people: tuple[str, ...]
    look: Look


ALL: list[Figure] = []


def figure(name: str, *people: str) -> Callable[[Look], Look]:
    """Register a figure; without people it is looked at as the admin and as the owner of one set."""

    def register(look: Look) -> Look:
        ALL.append(Figure(name, people or ("admin", "raj"), look))
        return look

    return register


def numbers(pattern: str, text: str) -> tuple[int, ...]:
    """The groups of the first match as numbers."""
    found = re.search(pattern, text)
    assert found, (pattern, text[:1500])
    return tuple(int(group.replace(",", "")) for group in found.groups())


def number(pattern: str, text: str) -> int:
    return numbers(pattern, text)[0]


def words(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found, (pattern, text[:1500])
    return found[1]


def table(text: str, begin: str, end: str) -> str:
    """The part of a text between two others."""
    assert begin in text, (begin, text[:1500])
    rest = text.partition(begin)[2]
    return rest.partition(end)[0] if end else rest
