"""Checks of a structural schema, compiled once into closures.

The texts are those of the reference API server for custom resources (A11), down to their oddities; a
check never raises. What is written as in a document that the same schema has let pass is not looked at again.
``structural`` lets no other keywords into a schema file. Called by ``compiled_schema`` and ``structural``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

from ocmconsole.kubeapi.errors import Cause, Doc, required, unsupported
from ocmconsole.kubeapi.schema.scalars import body, enum_step, mixed_steps, number_steps, string_steps
from ocmconsole.kubeapi.schema.values import Causes, Check, Path, is_same, quoted

_EXACT: dict[str, frozenset[type]] = {
    "object": frozenset({dict}),
    "array": frozenset({list}),
    "string": frozenset({str}),
    "boolean": frozenset({bool}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "integer,string": frozenset({int, str}),
}
_NOTHING: Doc = {}


class NodeCheck(Protocol):
    """The check of one node and all below it. ``known``: what stood there in a document that has passed, if any."""

    def __call__(self, value: Any, path: Path, causes: Causes, known: Any = None) -> None: ...


def compile_check(node: Doc) -> NodeCheck:
    """The check of one node and all below it."""
    type_name = "integer,string" if node.get("x-kubernetes-int-or-string") else node.get("type", "")
    exact = _EXACT[type_name] if type_name else frozenset()
    wanted = node.get("format") or type_name
    nullable = bool(node.get("nullable")) or not type_name
    enum = node.get("enum")
    below, steps = _below(node), _steps(node, type_name)
    is_work = below is not None or bool(steps)

    def check(value: Any, path: Path, causes: Causes, known: Any = None) -> None:
        if (value is None and nullable) or (is_work and known is not None and is_same(value, known)):
            return
        if type(value) not in exact and type_name and not _fits(value, type_name):
            causes.add(path, lambda field: _wrong_type(field, value, wanted, type_name))
            if enum:
                causes.add(path, lambda field: unsupported(field, quoted(value), enum))
            return
        if below is not None:
            below(value, path, causes, known)
        for step in steps:
            step(value, path, causes)

    return check


def _fits(value: Any, type_name: str) -> bool:
    """The slow answer: subclasses, and 5.0 where an integer is wanted."""
    if isinstance(value, bool):
        return False
    if isinstance(value, float):
        return "integer" in type_name and value.is_integer()
    return any(isinstance(value, exact) for exact in _EXACT[type_name])


def _steps(node: Doc, type_name: str) -> tuple[Check, ...]:
    makers: dict[str, Callable[[Doc], list[Check]]] = {
        "array": _array_steps,
        "string": string_steps,
        "integer": number_steps,
        "number": number_steps,
        "integer,string": mixed_steps,
    }
    steps = makers[type_name](node) if type_name in makers else []
    if allowed := node.get("enum"):
        steps.append(enum_step(allowed))
    return tuple(steps)


# Types


def _wrong_type(field: str, value: Any, wanted: str, type_name: str) -> Cause:
    json_type, go_format = _go_names(value)
    if wanted != type_name and not (json_type in {"string", "array"} and type_name == "integer"):
        got = go_format if json_type in {"number", "integer"} else ("" if json_type != "array" else json_type)
    else:
        wanted, got = type_name, json_type
    text = f"{field} in body must be of type {wanted}: {quoted(got)}"
    return Cause("FieldValueTypeInvalid", f"Invalid value: {quoted(got)}: {text}", field)


def _go_names(value: Any) -> tuple[str, str]:
    if value is None:
        return "null", ""
    if isinstance(value, bool):
        return "boolean", ""
    for python, names in _GO_NAMES:
        if isinstance(value, python):
            return names
    return "object", ""


_GO_NAMES: tuple[tuple[type, tuple[str, str]], ...] = (
    (str, ("string", "")),
    (int, ("integer", "int64")),
    (float, ("number", "float64")),
    (list, ("array", "")),
)


# Objects and lists


def _below(node: Doc) -> NodeCheck | None:
    """The check of what a value holds."""
    if node.get("type") == "array":
        return _items_check(compile_check(node["items"])) if isinstance(node.get("items"), dict) else None
    return _fields_check(node) if node.get("type", "object") == "object" else None


def _fields_check(node: Doc) -> NodeCheck | None:
    checks = {name: compile_check(sub) for name, sub in node.get("properties", {}).items()}
    more = node.get("additionalProperties")
    extra = compile_check(more) if isinstance(more, dict) else None
    needed = tuple(node.get("required", ()))

    def check_fields(value: Any, path: Path, causes: Causes, known: Any = None) -> None:
        if not isinstance(value, dict):  # a node without a type
            return
        before = known if isinstance(known, dict) else _NOTHING
        for key, item in value.items():
            check = checks.get(key, extra)
            if check is not None:
                check(item, (path, key), causes, before.get(key))
        for name in needed:
            if name not in value:
                causes.add((path, name), required)

    return check_fields if checks or extra or needed else None


def _items_check(check: NodeCheck) -> NodeCheck:
    def check_items(value: Any, path: Path, causes: Causes, known: Any = None) -> None:
        before = known if isinstance(known, list) else ()
        for index, item in enumerate(value):
            check(item, (path, index), causes, before[index] if index < len(before) else None)

    return check_items


def _array_steps(node: Doc) -> list[Check]:
    steps: list[Check] = []
    if "minItems" in node:
        steps.append(_fewest_step(node["minItems"]))
    if "maxItems" in node:
        steps.append(_most_step(node["maxItems"]))
    list_type = node.get("x-kubernetes-list-type")
    if list_type == "set":
        steps.append(_unique_step(_token, lambda item: item))
    elif list_type == "map":
        steps.append(_unique_keys_step(tuple(node["x-kubernetes-list-map-keys"])))
    return steps


def _fewest_step(least: int) -> Check:
    def step(value: Any, path: Path, causes: Causes) -> None:
        if (size := len(value)) < least:
            causes.add(path, lambda field: body(field, size, f"should have at least {least} items"))

    return step


def _most_step(most: int) -> Check:
    def step(value: Any, path: Path, causes: Causes) -> None:
        if (size := len(value)) > most:
            text = f"Too many: {size}: must have at most {most} item{'' if most == 1 else 's'}"
            causes.add(path, lambda field: Cause("FieldValueTooMany", text, field))

    return step


def _unique_step(token: Callable[[Any], Any], identity: Callable[[Any], Any], of: type = object) -> Check:
    """W20: a list that is a set or a map has no element, or key, twice."""

    def step(value: Any, path: Path, causes: Causes) -> None:
        seen: dict[Any, int] = {}
        for index, item in enumerate(value):
            if isinstance(item, of):
                mark = token(item)
                seen[mark] = seen.get(mark, 0) + 1
                if seen[mark] == 2:  # noqa: PLR2004 - the reference names the first repetition only
                    causes.add((path, index), _duplicate(identity(item)))

    return step


def _unique_keys_step(keys: tuple[str, ...]) -> Check:
    if len(keys) == 1:
        (only,) = keys
        return _unique_step(lambda item: _token(item.get(only)), lambda item: _keyed(item, keys), dict)
    return _unique_step(lambda item: _token(_keyed(item, keys)), lambda item: _keyed(item, keys), dict)


def _keyed(item: Doc, keys: tuple[str, ...]) -> Doc:
    return {key: item[key] for key in keys if key in item}


def _token(value: Any) -> Any:
    """Equal for equal JSON values, and for these only."""
    return value if type(value) is str else (json.dumps(value, sort_keys=True),)


def _duplicate(key: Any) -> Callable[[str], Cause]:
    return lambda field: Cause("FieldValueDuplicate", f"Duplicate value: {quoted(key)}", field)
