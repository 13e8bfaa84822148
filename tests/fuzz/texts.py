"""Strings and values that cases are made of: good ones, and those that strangers send."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.cases import Case

Draw = Callable[[st.SearchStrategy[Any]], Any]
Make = Callable[[Draw], Case]

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
LABEL_KEYS = st.builds(
    str.__add__,
    st.sampled_from(["", "example.com/", "a.b-c.io/"]),
    st.from_regex(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,8}[A-Za-z0-9])?", fullmatch=True),
)
LABEL_VALUES = st.from_regex(r"([A-Za-z0-9]([-_.A-Za-z0-9]{0,8}[A-Za-z0-9])?)?", fullmatch=True)
LABELS = st.dictionaries(LABEL_KEYS, LABEL_VALUES, max_size=3)
# Everything that UTF-8 and every database can carry.
PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
WILD = st.text(st.characters(exclude_categories=()), max_size=12)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=3),
    max_leaves=8,
)


def mixed(valid: Sequence[Make], refused: Sequence[Make]) -> st.SearchStrategy[Case]:
    """More than half are drawn from the first list, since draws repeat themselves and a quarter must be valid."""

    @st.composite
    def case(draw: Draw) -> Case:
        make: Make = draw(st.sampled_from(draw(st.sampled_from((valid, valid, refused)))))
        return make(draw)

    return case()


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return opening * depth + closing * depth
