"""The documents' YAML blocks, kept in `documents` in their own form, and whether an object of the hub shows one.

Called by the tests of this folder. Times are compared by their form: the documents' are of the day they were written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Doc = dict[str, Any]

FOLDER = Path(__file__).resolve().parent / "documents"
TIMES = {"timeAdded", "lastTransitionTime"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def text(name: str) -> str:
    return path(name).read_text(encoding="utf-8")


def path(name: str) -> Path:
    """For `kubectl apply -f`."""
    return FOLDER / f"{name}.yaml"


def block(name: str) -> Any:
    return yaml.safe_load(text(name))


def missing(found: Any, wanted: Any, at: str = "") -> list[str]:
    """Fields of a block that an object does not have, or has otherwise; other fields of the object do not matter."""
    return list(_missing(found, wanted, at))


def _missing(found: Any, wanted: Any, at: str) -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(found, dict) and (wanted or not found):
        for name, value in wanted.items():
            inner = f"{at}.{name}"
            if name in TIMES:
                yield from [] if TIME.fullmatch(str(found.get(name))) else [f"{inner} is {found.get(name)!r}"]
            else:
                yield from _missing(found.get(name), value, inner)
    elif isinstance(wanted, list) and isinstance(found, list):
        for position, each in enumerate(wanted):
            yield from _missing(_counterpart(found, each, position), each, f"{at}[{position}]")
    elif found != wanted:
        yield f"{at} is {found!r}, not {wanted!r}"


def _counterpart(found: list[Any], wanted: Any, position: int) -> Any:
    """Conditions are told apart by their type, all else by its place."""
    if isinstance(wanted, dict) and "type" in wanted:
        return next((each for each in found if each.get("type") == wanted["type"]), None)
    return found[position] if position < len(found) else None
