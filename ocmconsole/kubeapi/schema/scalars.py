"""Checks of texts, numbers and enumerations, as closures over one schema node (A11).

The texts are those of the reference API server. Called by ``validation``.
"""

from __future__ import annotations

import math
import re
from typing import Any

from ocmconsole.kubeapi.errors import Cause, Doc, invalid_field, unsupported
from ocmconsole.kubeapi.schema.times import parse_time
from ocmconsole.kubeapi.schema.values import Causes, Check, Path, quoted

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[tT]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([zZ]|[+-]\d{2}:\d{2})", re.ASCII)
_BASE64 = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_DOLLAR = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$")
_BITS = {"int32": 31, "int64": 63}


def string_steps(node: Doc) -> list[Check]:
    steps: list[Check] = []
    most: int | None = node.get("maxLength")
    if most is not None:
        steps.append(_longest_step(most))
    if "minLength" in node:
        steps.append(_shortest_step(node["minLength"]))
    if "pattern" in node:
        steps.append(_pattern_step(node["pattern"], most))
    if form := node.get("format"):
        steps.append(_format_step(form))
    return steps


def _longest_step(most: int) -> Check:
    def step(value: Any, path: Path, causes: Causes) -> None:
        if len(value) > most:
            text = f"Too long: may not be more than {most} byte{'' if most == 1 else 's'}"
            causes.add(path, lambda field: Cause("FieldValueTooLong", text, field))

    return step


def _shortest_step(least: int) -> Check:
    def step(value: Any, path: Path, causes: Causes) -> None:
        if len(value) < least:
            causes.add(path, lambda field: body(field, value, f"should be at least {least} chars long"))

    return step


def _pattern_step(pattern: str, most: int | None) -> Check:
    # Go's $ is the very end of the text; Python's also stands before a last newline.
    search = re.compile(_DOLLAR.sub(lambda found: r"\Z" if found[0] == "$" else found[0], pattern), re.ASCII).search

    def step(value: Any, path: Path, causes: Causes) -> None:
        # A text that is too long is refused already; Python's expressions are not linear like Go's.
        if (most is None or len(value) <= most) and not search(value):
            causes.add(path, lambda field: body(field, value, f"should match '{pattern}'"))

    return step


def _format_step(form: str) -> Check:
    fits = is_base64 if form == "byte" else is_time

    def step(value: Any, path: Path, causes: Causes) -> None:
        if not fits(value):
            causes.add(path, lambda field: _wrong_format(field, value, form))

    return step


def _wrong_format(field: str, value: str, form: str) -> Cause:
    text = f"{field} in body must be of type {form}: {quoted(value)}"
    return Cause("FieldValueTypeInvalid", f"Invalid value: {quoted(value)}: {text}", field)


def is_time(text: str) -> bool:
    """RFC 3339, any number of decimals (also for MicroTime, W29), at a place that UTC has too."""
    if not _TIME.fullmatch(text):
        return False
    try:
        parse_time(text)
    except (ValueError, OverflowError):
        return False
    return True


def is_base64(text: str) -> bool:
    """Standard base64 with padding, or nothing."""
    return _BASE64.fullmatch(text) is not None


def number_steps(node: Doc) -> list[Check]:
    steps: list[Check] = []
    if node["type"] == "integer":
        steps.append(_range_step(node.get("format", "")))
    else:
        steps.append(_finite_step)
    if "minimum" in node:
        steps.append(_least_step(node["minimum"]))
    if "maximum" in node:
        steps.append(_greatest_step(node["maximum"]))
    return steps


def _range_step(form: str) -> Check:
    limit = 2 ** _BITS.get(form, 63)
    kind = f"integer with format {form}" if form else "integer (default format)"

    def step(value: Any, path: Path, causes: Causes) -> None:
        if not -limit <= value < limit:
            # The reference gives this text without a field; people need one.
            causes.add(
                path,
                lambda field: invalid_field(field, quoted(value), f"Checked value must be of type {kind} in {field}"),
            )

    return step


def _finite_step(value: Any, path: Path, causes: Causes) -> None:
    if not math.isfinite(value):
        causes.add(path, lambda field: body(field, str(value), "must be a finite number"))


def _least_step(least: float) -> Check:
    def step(value: Any, path: Path, causes: Causes) -> None:
        if value < least:
            causes.add(path, lambda field: body(field, value, f"should be greater than or equal to {least}"))

    return step


def _greatest_step(most: float) -> Check:
    def step(value: Any, path: Path, causes: Causes) -> None:
        if value > most:
            causes.add(path, lambda field: body(field, value, f"should be less than or equal to {most}"))

    return step


def mixed_steps(node: Doc) -> list[Check]:
    texts, numbers = string_steps(node), number_steps({**node, "type": "integer"})

    def step(value: Any, path: Path, causes: Causes) -> None:
        for part in texts if isinstance(value, str) else numbers:
            part(value, path, causes)

    return [step]


def enum_step(allowed: list[Any]) -> Check:
    def step(value: Any, path: Path, causes: Causes) -> None:
        if value not in allowed:
            causes.add(path, lambda field: unsupported(field, quoted(value), allowed))

    return step


def body(field: str, value: Any, text: str) -> Cause:
    return invalid_field(field, quoted(value), f"{field} in body {text}")
