"""Text into plain values: JSON and YAML that strangers sent.

What comes out has bounded depth and size, finite numbers of at most 64 bits and text that UTF-8 can carry; anything
else is a 400, or a 422 for lone surrogates. Keys given twice are reported by their path, the last one counts (W8).
Called by ``negotiation`` and ``protobuf``.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import orjson
import yaml

from ocmconsole.kubeapi.errors import BadRequest, Invalid
from ocmconsole.kubeapi.schema.values import MAX_REPORTED, Path, copied, path_text

MAX_BODY = 3 * 1024 * 1024  # bytes, as in Kubernetes
# Twice what may be stored: between the two the schema names the field that is too deep.
MAX_DEPTH = 128
# What aliases may add to a YAML document, in characters.
_MOST_COPIED = 1024 * 1024

_LONG_NUMBER = re.compile(r"\d{19}")
_LONGEST_NUMBER = 20  # digits of a 64-bit number with its sign


def read_json(raw: bytes, *, find_duplicates: bool = False) -> tuple[Any, list[str]]:
    """The value and the paths of keys given twice, which cost a second reading and are only looked for when asked."""
    try:
        text = raw.decode()
        value = orjson.loads(text)
    except UnicodeDecodeError as error:
        raise BadRequest("json parse error: the text is not UTF-8") from error
    except orjson.JSONDecodeError as error:
        if "surrogate" in str(error):
            raise Invalid("strings must not contain lone surrogates") from error
        raise BadRequest(f"json parse error: {error if raw else 'unexpected end of JSON input'}") from error
    _check_depth(value, text.count("{") + text.count("["))
    # orjson makes a float of a number beyond 64 bits.
    if find_duplicates or _LONG_NUMBER.search(text):
        return value, _doubled_paths(text)
    return value, []


def _check_depth(value: Any, most: int) -> None:
    """``most`` is a number of containers that the value surely does not exceed."""
    if most <= MAX_DEPTH:
        return
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for parent in level for item in _children(parent) if isinstance(item, dict | list)]
        if not level:
            return
    raise BadRequest(f"the document is nested more than {MAX_DEPTH} levels deep")


def _children(parent: Any) -> Iterable[Any]:
    if isinstance(parent, dict):
        return parent.values()
    return parent if isinstance(parent, list) else ()


# Keys given twice


class _Doubled(dict[str, Any]):
    """An object in which keys stood twice."""

    keys_twice: list[str]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    doubled = _Doubled(found)
    doubled.keys_twice = [key for key, times in Counter(key for key, _ in pairs).items() if times > 1]
    return doubled


def _whole(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER or not -(2**63) <= int(digits) < 2**63:
        raise BadRequest("numbers must fit into 64 bits")
    return int(digits)


def _doubled_paths(text: str) -> list[str]:
    stack: list[tuple[Any, Path]] = [(json.loads(text, object_pairs_hook=_object, parse_int=_whole), None)]
    found: list[str] = []
    while stack and len(found) < MAX_REPORTED:
        value, path = stack.pop()
        if isinstance(value, _Doubled):
            found.extend(path_text((path, key)) for key in value.keys_twice[:MAX_REPORTED])
        if isinstance(value, dict):
            stack.extend((item, (path, key)) for key, item in reversed(value.items()))
        elif isinstance(value, list):
            stack.extend((item, (path, index)) for index, item in reversed(list(enumerate(value))))
    return found[:MAX_REPORTED]


# YAML


def read_yaml(raw: bytes) -> tuple[Any, list[str]]:
    """One YAML document, as Kubernetes reads it: keys are strings and times stay text."""
    reader = _YamlReader()
    try:
        for event in yaml.parse(raw, Loader=yaml.CSafeLoader):
            reader.take(event)
    except yaml.YAMLError as error:
        raise _unreadable(" ".join(str(error).split())) from error
    _check_depth(reader.root, MAX_DEPTH + 1)
    return reader.root, reader.duplicates


def _unreadable(what: str) -> BadRequest:
    return BadRequest(f"error converting YAML to JSON: {what}")


class _Open:
    """A list or mapping that has begun; ``key`` waits for its value."""

    __slots__ = ("anchor", "key", "merged", "path", "size_before", "value")

    def __init__(self, value: dict[str, Any] | list[Any], path: Path, anchor: str | None, size_before: int) -> None:
        self.value = value
        self.path = path
        self.anchor = anchor
        self.size_before = size_before
        self.key: str | None = None
        self.merged: list[Any] | None = None

    @property
    def wants_key(self) -> bool:
        return isinstance(self.value, dict) and self.key is None


class _YamlReader:
    """Builds the document from the parser's events.

    The composer of the C loader recurses without bound and takes the process down with a deep document; here the
    nesting is our own stack. Aliases are copies, paid for by what they stand for, so that no few lines become
    gigabytes; one inside its own anchor finds nothing.
    """

    def __init__(self) -> None:
        self.root: Any = None
        self.duplicates: list[str] = []
        self._documents = 0
        self._size = 0
        self._copied = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._take_scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._take_alias(event.anchor)
        elif isinstance(event, yaml.MappingStartEvent):
            self._begin({}, event.anchor)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._begin([], event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise _unreadable("there is more than one document")

    def _take_scalar(self, event: yaml.ScalarEvent) -> None:
        self._size += len(event.value) + 1
        top = self._open[-1] if self._open else None
        if top is None or not top.wants_key:
            value = _yaml_scalar(event)
        elif event.value == "<<" and event.implicit[0]:
            top.merged = top.merged or []
            top.key = "<<"
            return
        else:
            value = str(event.value)
        self._add(value)
        if event.anchor:
            self._anchors[event.anchor] = value, len(event.value) + 1

    def _take_alias(self, anchor: str | None) -> None:
        if anchor is None or anchor not in self._anchors:
            raise _unreadable(f"unknown anchor '{anchor}' referenced")
        value, size = self._anchors[anchor]
        self._size += size
        self._copied += size
        if self._copied > _MOST_COPIED:
            raise _unreadable("its aliases make it too large")
        self._add(copied(value))

    def _begin(self, value: dict[str, Any] | list[Any], anchor: str | None) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise _unreadable(f"the document is nested more than {MAX_DEPTH} levels deep")
        path: Path = None
        if self._open:
            top = self._open[-1]
            if top.wants_key:
                raise _unreadable("a key must be a scalar")
            path = (top.path, len(top.value) if isinstance(top.value, list) else top.key)
        self._open.append(_Open(value, path, anchor, self._size))
        self._size += 2

    def _end(self) -> None:
        done = self._open.pop()
        if done.merged is not None:
            assert isinstance(done.value, dict)
            done.value = _merged(done.merged, done.value)
        if done.anchor:
            self._anchors[done.anchor] = done.value, self._size - done.size_before
        self._add(done.value)

    def _add(self, value: Any) -> None:
        if not self._open:
            self.root = value
            return
        top = self._open[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key is None:
            self._add_key(top, value)
        else:
            if top.key == "<<" and top.merged is not None:
                top.merged.extend(value if isinstance(value, list) else [value])
            else:
                top.value[top.key] = value
            top.key = None

    def _add_key(self, top: _Open, key: Any) -> None:
        if not isinstance(key, str):
            raise _unreadable("a key must be a scalar")
        if key in top.value and len(self.duplicates) < MAX_REPORTED:
            path = path_text((top.path, key))
            self.duplicates.extend([path] if path not in self.duplicates else [])
        top.key = key


def _merged(parts: list[Any], own: dict[str, Any]) -> dict[str, Any]:
    """A merge key: earlier parts win over later ones, the mapping's own keys over all."""
    out: dict[str, Any] = {}
    for part in reversed(parts):
        if not isinstance(part, dict):
            raise _unreadable("map merge requires map or sequence of maps as the value")
        out.update(part)
    return {**out, **own}


class _Scalars(yaml.constructor.SafeConstructor, yaml.resolver.Resolver):
    """PyYAML's own rules for what an unquoted word means."""

    def __init__(self) -> None:
        yaml.constructor.SafeConstructor.__init__(self)
        yaml.resolver.Resolver.__init__(self)


_SCALARS = _Scalars()
_TAG = "tag:yaml.org,2002:"
# Times and the key words "=" and "<<" are text for Kubernetes, as are numbers to the base of 60.
_TEXT_TAGS = frozenset(_TAG + name for name in ("str", "timestamp", "value", "merge"))


def _yaml_scalar(event: yaml.ScalarEvent) -> Any:
    text: str = event.value
    tag = event.tag or ""
    if tag in {"", "!"}:
        tag = _SCALARS.resolve(yaml.ScalarNode, text, event.implicit)  # type: ignore[no-untyped-call] # PyYAML's stubs
    if tag in _TEXT_TAGS or (":" in text and not event.tag):
        return text
    if tag == _TAG + "null":
        return None
    try:
        if tag == _TAG + "bool":
            return _SCALARS.bool_values[text.lower()]
        if tag == _TAG + "int":
            return _bounded(_SCALARS.construct_yaml_int(yaml.ScalarNode(tag, text)))
        if tag == _TAG + "float":
            return _bounded(_SCALARS.construct_yaml_float(yaml.ScalarNode(tag, text)))
    except (ValueError, LookupError) as error:
        raise _unreadable(f"{text[:64]!r} is no {tag}") from error
    raise _unreadable(f"the tag {tag[:64]} is not supported")


def _bounded(number: Any) -> Any:
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        raise _unreadable("numbers must fit into 64 bits")
    if not math.isfinite(number):
        raise _unreadable("numbers must be finite")
    return number
