"""Structural schemas: one declaration that prunes, defaults, validates and publishes a kind.

A schema is compiled once, when it is used first. Pruning and defaulting never recurse deeper than the schema itself
and return containers of their own, so a document may be as odd as it likes and callers may edit the result; but for
the sets of fields in managedFields, which are shared. All three are given the stored document that an update starts
from, and leave alone what is written as it is there: it has been through them. No deeper part of the document may then
be shared with the stored one.
Called by ``steps`` and ``proposals`` (W20: prune, default, validate), ``openapi`` (publish) and ``apply`` (list types
from ``root``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import zip_longest
from typing import Any

from ocmconsole.kubeapi.errors import Cause, Doc
from ocmconsole.kubeapi.schema import times
from ocmconsole.kubeapi.schema.metadata import (
    FIELD_SET,
    OBJECT_META,
    OBJECT_META_NAME,
    finalizer_warnings,
    validate_metadata,
)
from ocmconsole.kubeapi.schema.scalars import is_time
from ocmconsole.kubeapi.schema.validation import NodeCheck, compile_check
from ocmconsole.kubeapi.schema.values import MAX_REPORTED, Causes, Path, copied, copied_plain, flaws, is_same, path_text

__all__ = ["OBJECT_META", "OBJECT_META_NAME", "Schema", "finalizer_warnings", "metadata_types", "validate_metadata"]

# Each of a value, and of what is known to stand there, or None.
Pruner = Callable[[Any, Path, list[Path], Any], Any]
Filler = Callable[[Any, Any], Any]

_TYPE_META: Doc = {
    "apiVersion": {"type": "string", "description": "Group and version of this form of the object."},
    "kind": {"type": "string", "description": "What the object is."},
}
_METADATA_CHECK = compile_check({"type": "object", "properties": {"metadata": OBJECT_META}})
_NOTHING: Doc = {}
_INT_OR_STRING: Doc = {"anyOf": [{"type": "integer"}, {"type": "string"}]}


class Schema:
    """The schema of one served version. ``root`` describes everything but apiVersion, kind and metadata."""

    def __init__(self, root: Doc, *, name: str) -> None:
        self.root = root
        self.name = name

    @cached_property
    def _prune(self) -> Pruner:
        return _object_pruner(self._whole())

    @cached_property
    def _fill(self) -> Filler:
        return _object_filler(self._whole())

    @cached_property
    def _check(self) -> NodeCheck:
        return compile_check(self._whole())

    def _whole(self) -> Doc:
        return {**self.root, "type": "object", "properties": _with_metadata(self.root, OBJECT_META)}

    def prune(self, doc: Doc, known: Doc | None = None) -> tuple[Doc, list[str]]:
        """A document of its own without unknown fields, and the paths of those in Kubernetes' order (W8)."""
        unknown: list[Path] = []
        pruned: Doc = self._prune(doc, None, unknown, known)
        return pruned, sorted(path_text(path) for path in unknown)

    def default(self, doc: Doc, known: Doc | None = None) -> Doc:
        """A document of its own with defaults filled in wherever their parent exists.

        As for custom resources, null where null is not allowed gives way to the default or goes, and null where null
        is allowed stays.
        """
        filled: Doc = self._fill(doc, known)
        return filled

    def validate(self, doc: Doc, known: Doc | None = None) -> list[Cause]:
        """What the schema finds wrong, by field name (A11). What could not even be stored is reported alone."""
        if found := flaws(doc):
            return found
        causes = Causes()
        self._check(doc, None, causes, known)
        return causes.listed()

    def publish(self) -> Doc:
        """The OpenAPI v3 definition; metadata points to the shared definition ``OBJECT_META_NAME``."""
        meta = {
            "allOf": [{"$ref": f"#/components/schemas/{OBJECT_META_NAME}"}],
            "default": {},
            "description": "Name, labels and bookkeeping of the object.",
        }
        return published({**self.root, "type": "object", "properties": _with_metadata(self.root, meta)})


def metadata_types(doc: Doc) -> list[Cause]:
    """Values in the metadata that have a wrong type; a null has none, and stands for a field that is left out."""
    causes = Causes()
    _METADATA_CHECK(doc, None, causes)
    return [
        cause
        for cause in causes.listed()
        if cause.reason == "FieldValueTypeInvalid" and not cause.message.endswith('"null"')
    ]


def _with_metadata(root: Doc, metadata: Doc) -> Doc:
    return {**_TYPE_META, "metadata": metadata, **root.get("properties", {})}


def published(node: Doc) -> Doc:
    """A node as OpenAPI v3 spells it."""
    out = {key: value for key, value in node.items() if key not in {"properties", "items", "additionalProperties"}}
    if "properties" in node:
        out["properties"] = {name: published(sub) for name, sub in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in node:
            out[key] = published(node[key]) if isinstance(node[key], dict) else node[key]
    if node.get("format") == "micro-time":
        out["format"] = "date-time"
    if node.get("x-kubernetes-int-or-string"):
        out.pop("type", None)
        out.update(_INT_OR_STRING)
    return out


def _stands(value: Any, known: Any) -> bool:
    """Whether a list or an object is written as the known one, which has been pruned and defaulted."""
    return isinstance(known, dict | list) and is_same(value, known)


def _own(value: Any, known: Any) -> Any:
    """Not shared with the known one: who gets it may edit it."""
    return copied_plain(value) if value is known else value


def _pruner(node: Doc) -> Pruner | None:
    """Removes what the node does not know; None for values that are kept as they are."""
    if node.get("x-kubernetes-int-or-string") or node.get("type") == "integer":
        return _whole_number
    if node.get("format") == "micro-time":
        return _six_decimals
    if node.get("format") == "byte":
        return _one_line
    if node.get("type") == "array" and isinstance(node.get("items"), dict):
        return _list_pruner(_pruner(node["items"]))
    if node.get("type") == "object":
        return None if node is FIELD_SET else _object_pruner(node)
    return _kept if "type" not in node or node["type"] == "array" else None


def _whole_number(value: Any, _path: Path, _unknown: list[Path], _known: Any) -> Any:
    """The API server writes 60.0 as 60, and typed clients read nothing else."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _six_decimals(value: Any, _path: Path, _unknown: list[Path], _known: Any) -> Any:
    """W29: typed clients read a MicroTime in UTC with six decimals and in no other form."""
    return times.micro_timestamp(times.parse_time(value)) if isinstance(value, str) and is_time(value) else value


def _one_line(value: Any, _path: Path, _unknown: list[Path], _known: Any) -> Any:
    """Base64, which may be broken into lines."""
    return value.replace("\r", "").replace("\n", "") if isinstance(value, str) else value


def _kept(value: Any, _path: Path, _unknown: list[Path], _known: Any) -> Any:
    return copied(value)


def _list_pruner(prune: Pruner | None) -> Pruner:
    def prune_list(value: Any, path: Path, unknown: list[Path], known: Any) -> Any:
        if not isinstance(value, list):
            return value
        if prune is None:
            return list(value)
        before = known if isinstance(known, list) else ()
        return [
            _own(item, other) if _stands(item, other) else prune(item, (path, index), unknown, other)
            for index, (item, other) in enumerate(zip_longest(value, before[: len(value)]))
        ]

    return prune_list


def _object_pruner(node: Doc) -> Pruner:
    fields = {name: _pruner(sub) for name, sub in node.get("properties", {}).items()}
    more = node.get("additionalProperties")
    opened = bool(node.get("x-kubernetes-preserve-unknown-fields")) or more is True
    others = isinstance(more, dict)
    extra = _kept if opened else (_pruner(more) if isinstance(more, dict) else None)

    def prune_object(value: Any, path: Path, unknown: list[Path], known: Any) -> Any:
        if not isinstance(value, dict):
            return value
        before = known if isinstance(known, dict) else _NOTHING
        out = {}
        for key, item in value.items():
            if _stands(item, before.get(key)):
                out[key] = _own(item, before[key])
                continue
            if key in fields:
                prune = fields[key]
            elif others or opened:
                prune = extra
            else:
                if len(unknown) < MAX_REPORTED:
                    unknown.append((path, key))
                continue
            out[key] = item if prune is None else prune(item, (path, key), unknown, before.get(key))
        return out

    return prune_object


class _Field:
    """How defaulting treats one property or element."""

    __slots__ = ("fill", "make", "nullable")

    def __init__(self, node: Doc) -> None:
        self.fill = _filler(node)
        self.nullable = bool(node.get("nullable"))
        self.make = _maker(node["default"], self.fill) if "default" in node else None


def _maker(value: Any, fill: Filler | None) -> Callable[[], Any]:
    whole = value if fill is None else fill(value, None)
    return lambda: copied(whole)


def _filler(node: Doc) -> Filler | None:
    """Fills defaults into the node; None for values that are kept as they are."""
    if node.get("type") == "array" and isinstance(node.get("items"), dict):
        return _list_filler(_Field(node["items"]))
    if node.get("type") == "object":
        return None if node is FIELD_SET else _object_filler(node)
    return _copied if "type" not in node or node["type"] == "array" else None


def _copied(value: Any, _known: Any) -> Any:
    return copied(value)


def _list_filler(field: _Field) -> Filler:
    fill, make, nullable = field.fill, field.make, field.nullable

    def fill_item(item: Any, known: Any) -> Any:
        if item is None and not nullable and make is not None:
            return make()
        if _stands(item, known):
            return _own(item, known)
        return item if fill is None else fill(item, known)

    def fill_list(value: Any, known: Any) -> Any:
        if not isinstance(value, list):
            return value
        before = known if isinstance(known, list) else ()
        return [fill_item(item, other) for item, other in zip_longest(value, before[: len(value)])]

    return fill_list


def _object_filler(node: Doc) -> Filler:
    fields = {name: _Field(sub) for name, sub in node.get("properties", {}).items()}
    more = node.get("additionalProperties")
    extra = _Field(more if isinstance(more, dict) else {"nullable": True})
    makers = [(name, field.make) for name, field in fields.items() if field.make is not None]

    def fill_object(value: Any, known: Any) -> Any:
        if not isinstance(value, dict):
            return value
        before = known if isinstance(known, dict) else _NOTHING
        out = {}
        for key, item in value.items():
            field = fields.get(key, extra)
            if _stands(item, before.get(key)):
                out[key] = _own(item, before[key])
            elif item is not None:
                out[key] = item if field.fill is None else field.fill(item, before.get(key))
            elif field.nullable:
                out[key] = None
            elif field.make is not None:
                out[key] = field.make()
        for name, make in makers:
            if name not in out:
                out[name] = make()
        return out

    return fill_object
