"""Whole numbers as addresses and forms carry them."""

from __future__ import annotations


def whole_number(text: str, digits: int) -> int | None:
    """A number of at most so many ASCII digits, without a sign; None for any other text.

    ``int`` raises beyond 4,300 digits, and for some characters that ``str.isdigit`` accepts.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None
