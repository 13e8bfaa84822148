"""JSON values: which of them may be stored, and how messages show them and where they are.

Invariant: a document without ``flaws`` can be written as UTF-8 JSON, kept as text by every database and walked
recursively. Field paths are linked pairs ``(parent, key)`` that are only spelled out when something is wrong, so a
hostile document with huge keys costs nothing. Used by ``schema``, ``validation`` and ``metadata``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import orjson

from ocmconsole.kubeapi.errors import Cause, Doc, invalid_field

Path = tuple[Any, Any] | None
Check = Callable[[Any, Path, "Causes"], None]

MAX_DEPTH = 64  # levels; bounds recursion
MAX_REPORTED = 100  # causes of one Status
_MAX_KEY_SHOWN = 256  # characters of a key in a cause
_STRICT = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
_ESCAPES = {ord(char): f"\\{letter}" for char, letter in zip('"\\\a\b\t\n\v\f\r', '"\\abtnvfr', strict=True)}


def printable(text: str) -> str:
    """The text with lone surrogates spelled out, so that any answer can carry it."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def quoted(value: Any) -> str:
    """A value as causes show it: strings quoted as Go does, everything else as JSON."""
    if isinstance(value, str):
        escaped = printable(value.translate(_ESCAPES))
        return f'"{escaped}"' if escaped.isprintable() else f'"{_hex_controls(escaped)}"'
    return json.dumps(value, separators=(",", ":"), default=repr)


def _hex_controls(text: str) -> str:
    return "".join(char if char.isprintable() else _hex(ord(char)) for char in text)


def _hex(code: int) -> str:
    if code < 0x80:  # noqa: PLR2004 - the end of ASCII
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - the basic plane


def segments(path: Path) -> tuple[Any, ...]:
    """Keys and indices from the root down."""
    found: list[Any] = []
    while path is not None:
        path, key = path
        found.append(key)
    return tuple(reversed(found))


def path_text(path: Path) -> str:
    """``spec.taints[0].key``, as every cause and warning names a field."""
    parts: list[str] = []
    for key in segments(path):
        if isinstance(key, int):
            parts.append(f"[{key}]")
        else:
            name = printable(str(key)[:_MAX_KEY_SHOWN])
            parts.append(f".{name}" if parts else name)
    return "".join(parts)


class Causes:
    """What was found so far, with paths, up to a limit."""

    def __init__(self) -> None:
        self._found: list[tuple[Path, Cause]] = []

    def add(self, path: Path, make: Callable[[str], Cause]) -> None:
        if len(self._found) < MAX_REPORTED:
            self._found.append((path, make(path_text(path))))

    def listed(self) -> list[Cause]:
        """In the order of field names and list positions."""
        return [cause for _, cause in sorted(self._found, key=lambda found: segments(found[0]))]


def copied(value: Any, depth: int = 0) -> Any:
    """A deep copy that ends where ``flaws`` refuses the document anyway."""
    if depth > MAX_DEPTH:
        return value
    if isinstance(value, dict):
        return {key: copied(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item, depth + 1) for item in value]
    return value


def copied_plain(doc: Doc) -> Doc:
    """As ``copied``, several times as fast, of a document that is stored or in which ``flaws`` has found nothing."""
    copy: Doc = orjson.loads(orjson.dumps(doc))
    return copy


def is_same(value: Any, known: Any) -> bool:
    """Whether a value is written as ``known`` is, which has no ``flaws``: 1 is not True, nor 1.0."""
    return value is known or (
        type(value) is type(known) and value == known and bool(orjson.dumps(value) == orjson.dumps(known))
    )


def flaws(doc: Doc) -> list[Cause]:
    """Why the document cannot be stored: NUL, lone surrogates, numbers beyond 64 bits, nesting beyond MAX_DEPTH."""
    return [] if _surely_plain(doc) else list(islice(_flaws(doc), MAX_REPORTED))


def _surely_plain(doc: Doc) -> bool:
    """The quick answer for nearly every document; False means look closer."""
    try:
        raw = orjson.dumps(doc, option=_STRICT)
    except TypeError:
        return False
    return b"\\u0000" not in raw and (raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH or _is_shallow(doc, MAX_DEPTH))


def _is_shallow(value: Doc | list[Any], levels: int) -> bool:
    """Whether a value has at most so many levels of objects and lists."""
    if not levels:
        return False
    items = value.values() if isinstance(value, dict) else value
    return all(_is_shallow(item, levels - 1) for item in items if isinstance(item, dict | list))


def _flaws(doc: Doc) -> Iterator[Cause]:
    stack: list[tuple[Any, Path, int]] = [(doc, None, 1)]
    while stack:
        value, path, depth = stack.pop()
        if not isinstance(value, dict | list):
            yield from _scalar_flaws(value, path)
        elif depth > MAX_DEPTH:
            yield _refused(path, f"must not be nested more than {MAX_DEPTH} levels deep")
        elif isinstance(value, list):
            stack.extend((item, (path, index), depth + 1) for index, item in reversed(list(enumerate(value))))
        else:
            for key in value:
                yield from _key_flaws(key, path)
            stack.extend((item, (path, key), depth + 1) for key, item in reversed(value.items()))


def _key_flaws(key: Any, path: Path) -> Iterator[Cause]:
    if not isinstance(key, str):
        yield _refused(path, "keys must be strings")
    elif flaw := _text_flaw(key):
        yield invalid_field(path_text(path), quoted(key[:_MAX_KEY_SHOWN]), flaw)


def _scalar_flaws(value: Any, path: Path) -> Iterator[Cause]:
    if isinstance(value, str):
        if flaw := _text_flaw(value):
            yield invalid_field(path_text(path), quoted(value), flaw)
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield _refused(path, "must be a finite number")
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            yield _refused(path, "must be an integer of at most 64 bits")
    elif value is not None:
        yield _refused(path, "must be a JSON value")


def _text_flaw(text: str) -> str:
    if "\0" in text:
        return "must not contain NUL characters"
    if text.isascii():
        return ""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "must not contain lone surrogates"
    return ""


def _refused(path: Path, text: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {text}", path_text(path))
