"""Rules for structural schemas, as Kubernetes has them for the ``openAPIV3Schema`` of a CustomResourceDefinition.

Input is one schema as a dict, output the list of its problems, each with its path. A schema without problems uses only
keywords that ``validation`` and ``compiled_schema`` implement. Called by ``schema_files`` at start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.schema.validation import compile_check
from ocmconsole.kubeapi.schema.values import Causes

_TYPES = ("object", "array", "string", "boolean", "integer", "number")
_MIXED = "integer or string"  # Stands for the type of x-kubernetes-int-or-string, which has no ``type``.
_FORMATS = {"string": ("date-time", "micro-time", "byte"), "integer": ("int32", "int64")}


class _Keyword(NamedTuple):
    """``fits`` decides about the value, ``must`` completes "must be …", ``types`` may have it (all when empty)."""

    fits: Callable[[Any], bool]
    must: str
    types: tuple[str, ...] = ()


def problems(root: Any) -> list[str]:
    """What is wrong with a schema, as ``path: problem`` with paths such as ``spec.taints[].key``; empty if nothing."""
    found: list[str] = []
    _collect(root, "", found)
    if isinstance(root, dict) and root.get("type") != "object":
        found.append(".: the type of the root must be object")
    return found


def _collect(node: Any, path: str, found: list[str]) -> None:
    if not isinstance(node, dict):
        found.append(f"{path or '.'}: must be a schema")
        return
    before = len(found)
    own = list(_keyword_problems(node)) or [*_structure_problems(node), *_list_problems(node)]
    found.extend(f"{path or '.'}: {problem}" for problem in own)
    properties = node.get("properties")
    for name, child in properties.items() if isinstance(properties, dict) else ():
        _collect(child, f"{path}.{name}" if path else name, found)
    for keyword, suffix in (("items", "[]"), ("additionalProperties", ".*")):
        if keyword in node:
            _collect(node[keyword], path + suffix, found)
    if len(found) == before:  # only then can the node be compiled
        found.extend(f"{path or '.'}: {problem}" for problem in _value_problems(node))


def _keyword_problems(node: Doc) -> Iterator[str]:
    """Keywords that are unknown, have a wrong value or stand at a type that cannot have them."""
    type_ = _MIXED if "x-kubernetes-int-or-string" in node else node.get("type")
    for name, value in node.items():
        keyword = KEYWORDS.get(name)
        if keyword is None:
            yield f"unknown keyword {name}"
        elif not keyword.fits(value):
            yield f"{name} must be {keyword.must}"
        elif keyword.types and type_ not in keyword.types and (type_ == _MIXED or type_ in _TYPES):
            yield f"{name} is not for type {type_}"


def _structure_problems(node: Doc) -> Iterator[str]:
    """What a node lacks, and what of it contradicts something else of it."""
    type_ = node.get("type")
    if (type_ is None) != ("x-kubernetes-int-or-string" in node):
        yield "needs either a type or x-kubernetes-int-or-string"
    if type_ == "array" and "items" not in node:
        yield "type array needs items"
    if "properties" in node and "additionalProperties" in node:
        yield "properties and additionalProperties exclude each other"
    if "format" in node and node["format"] not in _FORMATS.get(type_ or "", ()):
        yield f"unknown format {node['format']} of type {type_}"
    for name in node.get("required", ()):
        if name not in node.get("properties", {}):
            yield f"required field {name} is not among the properties"


def _list_problems(node: Doc) -> Iterator[str]:
    """How a list merges: by keys that its elements have, or as a set of plain values."""
    if node.get("type") != "array":
        return
    keys = list(node.get("x-kubernetes-list-map-keys", ()))
    is_map = node.get("x-kubernetes-list-type") == "map"
    if bool(keys) != is_map:
        yield "x-kubernetes-list-map-keys and x-kubernetes-list-type map need each other"
    if "x-kubernetes-patch-merge-key" in node:
        keys.append(node["x-kubernetes-patch-merge-key"])
        if "x-kubernetes-patch-strategy" not in node:
            yield "x-kubernetes-patch-merge-key needs x-kubernetes-patch-strategy"
    items = node.get("items")
    inside = items.get("properties") if isinstance(items, dict) else None
    for key in keys:
        if not isinstance(inside, dict) or key not in inside:
            yield f"key {key} is not among the properties of the items"
    if node.get("x-kubernetes-list-type") == "set" and isinstance(items, dict) and items.get("type") in _TYPES[:2]:
        yield "x-kubernetes-list-type set is for plain values"


def _value_problems(node: Doc) -> Iterator[str]:
    """Values of ``enum`` and ``default`` that the schema itself would refuse or prune."""
    if "enum" in node:
        plain = {name: value for name, value in node.items() if name != "enum"}
        for value in node["enum"]:
            if refused := _refusal(value, plain):
                yield f"enum value {value!r} does not match: {refused}"
    if "default" in node:
        value = node["default"]
        if refused := _unknown_field(value, node) or _refusal(value, node):
            yield f"default {value!r} does not match: {refused}"


def _refusal(value: Any, node: Doc) -> str:
    causes = Causes()
    compile_check(node)(value, (None, "value"), causes)
    return "; ".join(cause.message for cause in causes.listed())


def _unknown_field(value: Any, node: Doc) -> str:
    """A field of a default that pruning would remove; empty if there is none."""
    if isinstance(value, dict) and "additionalProperties" not in node:
        properties = node.get("properties", {})
        for name, inner in value.items():
            if name not in properties and not node.get("x-kubernetes-preserve-unknown-fields"):
                return f"unknown field {name}"
            if found := _unknown_field(inner, properties.get(name, {})):
                return found
    return ""


# What each keyword may hold


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError):
        return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_length(value: Any) -> bool:
    return _is_number(value) and isinstance(value, int) and value >= 0


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(value.count(item) == 1 for item in value)


def _are_names(value: Any) -> bool:
    return _is_list(value) and all(_is_text(item) for item in value)


def _one_of(*allowed: str) -> tuple[Callable[[Any], bool], str]:
    return (lambda value: value in allowed), f"one of {', '.join(allowed)}"


_FLAG = ((lambda value: value is True), "true, or left out")
_TEXT = (_is_text, "a text that is not empty")
_LENGTH = (_is_length, "a number from 0")
_NUMBER = (_is_number, "a number")
_NAMES = (_are_names, "a list of names, each once")
_SCHEMA = ((lambda value: isinstance(value, dict)), "a schema")
_STRINGS = ("string", _MIXED)
_NUMBERS = ("integer", "number", _MIXED)

# In the order in which files write them.
KEYWORDS = {
    "description": _Keyword(*_TEXT),
    "type": _Keyword(*_one_of(*_TYPES)),
    "format": _Keyword(*_TEXT, ("string", "integer")),
    "enum": _Keyword(_is_list, "a list of values, each once"),
    "default": _Keyword((lambda value: value is not None), "a value"),
    "nullable": _Keyword(*_FLAG),
    "pattern": _Keyword(_is_pattern, "a regular expression", _STRINGS),
    "minLength": _Keyword(*_LENGTH, _STRINGS),
    "maxLength": _Keyword(*_LENGTH, _STRINGS),
    "minimum": _Keyword(*_NUMBER, _NUMBERS),
    "maximum": _Keyword(*_NUMBER, _NUMBERS),
    "minItems": _Keyword(*_LENGTH, ("array",)),
    "maxItems": _Keyword(*_LENGTH, ("array",)),
    "x-kubernetes-int-or-string": _Keyword(*_FLAG),
    "x-kubernetes-preserve-unknown-fields": _Keyword(*_FLAG, ("object",)),
    "x-kubernetes-map-type": _Keyword(*_one_of("atomic", "granular"), ("object",)),
    "x-kubernetes-list-type": _Keyword(*_one_of("atomic", "set", "map"), ("array",)),
    "x-kubernetes-list-map-keys": _Keyword(*_NAMES, ("array",)),
    "x-kubernetes-patch-strategy": _Keyword(*_one_of("merge"), ("array",)),
    "x-kubernetes-patch-merge-key": _Keyword(*_TEXT, ("array",)),
    "required": _Keyword(*_NAMES, ("object",)),
    "properties": _Keyword((lambda value: isinstance(value, dict)), "schemas by name", ("object",)),
    "items": _Keyword(*_SCHEMA, ("array",)),
    "additionalProperties": _Keyword(*_SCHEMA, ("object",)),
}
