"""Kubernetes quantities as numbers, to compare what a cluster has with what it can use. Pure."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

FORM = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))(?P<suffix>[KMGTPE]i|[numkMGTPE])?"
    r"(?:[eE](?P<power>[+-]?[0-9]{1,2}))?",
    re.ASCII,
)
BINARY = {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)}
DECIMAL = {letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)}
SMALL = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")}
SIZES = BINARY | DECIMAL | SMALL


def parse_quantity(quantity: object) -> Decimal | None:
    """``384Gi``, ``92500m``, 4; None for what is none, or is beyond all reason."""
    found = FORM.fullmatch(str(quantity))
    if found is None or (found["suffix"] and found["power"]):
        return None
    try:
        return (
            Decimal(found["number"])
            * SIZES.get(found["suffix"] or "", Decimal(1))
            * Decimal(f"1e{found['power'] or 0}")
        )
    except InvalidOperation:
        return None


def readable_quantity(quantity: object) -> str:
    """As people say it: bytes in the largest unit that fits, thousandths as a fraction; what is no number as it is."""
    text = str(quantity)
    value = parse_quantity(quantity)
    if value is None:
        return text
    if text.endswith("i"):
        unit = next((unit for unit in reversed(BINARY) if abs(value) >= BINARY[unit]), "")
        return f"{_rounded(value / BINARY.get(unit, Decimal(1)))} {unit}B"
    return _rounded(value) if text.endswith(("n", "u", "m")) else text


def _rounded(value: Decimal) -> str:
    return f"{value:.1f}".removesuffix(".0")
