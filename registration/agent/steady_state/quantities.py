"""Sums of Kubernetes quantities, such as ``3800m`` or ``15Gi``, written as Go writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d+)?")
_BINARY = {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL = {suffix: Decimal(1000) ** power for power, suffix in zip(range(-3, 7), "num kMGTPE", strict=True)}
_DECIMAL[""] = _DECIMAL.pop(" ")
_LEAST_BINARY = 1024  # below it Go writes the plain number


def total(parts: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The sum of each resource over maps of quantities. A quantity that cannot be read counts as nothing."""
    sums: dict[str, tuple[Decimal, bool]] = {}
    for part in parts:
        for name, text in part.items():
            found = _read(str(text))
            if found is None:
                continue
            amount, is_binary = sums.get(name, (Decimal(0), found[1]))
            sums[name] = (amount + found[0], is_binary if amount else found[1])
    return {name: _written(amount, is_binary=is_binary) for name, (amount, is_binary) in sums.items()}


def _read(text: str) -> tuple[Decimal, bool] | None:
    """The amount, and whether it is counted in powers of 1024; None for what is no quantity."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    number, suffix = Decimal(found[1]), found[2] or ""
    if suffix in _BINARY:
        return number * _BINARY[suffix], True
    if suffix[:1] in {"e", "E"} and suffix != "E":
        return number.scaleb(int(suffix[1:])), False
    return number * _DECIMAL[suffix], False


def _written(amount: Decimal, *, is_binary: bool) -> str:
    """Canonical: the largest suffix with which the number is whole, nothing finer than a billionth."""
    if is_binary and abs(amount) >= _LEAST_BINARY and amount == amount.to_integral_value():
        scales = _BINARY
    else:
        scales = _DECIMAL
    for suffix in sorted(scales, key=lambda each: scales[each], reverse=True):
        scaled = amount / scales[suffix]
        if amount and scaled == scaled.to_integral_value():
            return f"{int(scaled)}{suffix}"
    return f"{int(amount)}" if amount == amount.to_integral_value() else f"{int(amount / _DECIMAL['n'])}n"
