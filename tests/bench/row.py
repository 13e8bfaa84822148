"""One figure: the name of a goal, the value, and how it came about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    name: str
    value: float
    detail: str
