"""Quantities as numbers and as people read them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.kubeapi.schema.quantities import parse_quantity, readable_quantity


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        ("96", 96),
        (4, 4),
        ("92500m", Decimal("92.5")),
        ("1Ki", 1024),
        ("2k", 2000),
        ("1e3", 1000),
        (".5", Decimal("0.5")),
    ],
)
def test_a_quantity_is_a_number(quantity: object, value: object) -> None:
    assert parse_quantity(quantity) == value


@pytest.mark.parametrize("text", ["", "x", "1Xi", "--1", "1e3k", "NaN", "Infinity", "1 Gi"])
def test_what_is_no_quantity_is_no_number(text: str) -> None:
    assert parse_quantity(text) is None
    assert readable_quantity(text) == text


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    parse_quantity(text)
    assert isinstance(readable_quantity(text), str)


@given(st.from_regex(r"[0-9]{1,30}(\.[0-9]{0,9})?([KMGTPE]i|[numkMGTPE]|e[+-]?[0-9]{1,2})?", fullmatch=True))
def test_every_quantity_is_read(text: str) -> None:
    assert parse_quantity(text) is not None
    readable_quantity(text)


@pytest.mark.parametrize(
    ("quantity", "told"),
    [("384Gi", "384 GiB"), ("1536Mi", "1.5 GiB"), ("92500m", "92.5"), ("96", "96"), ("750", "750")],
)
def test_people_read_bytes_in_their_largest_unit(quantity: str, told: str) -> None:
    assert readable_quantity(quantity) == told
