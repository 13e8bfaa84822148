"""Merge patch (RFC 7386) and JSON patch (RFC 6902): document and patch in, new document out (W4, W15). Pure.

Invariant: a result shares no dict or list with its inputs, inputs never change, and no patch costs more than its own
size and the document's: nesting, operations and copied bytes are bounded. Called by ``http.views``. The usual
JSON-patch package is not used: it copies by unbounded recursion and takes ``1`` for ``true``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from ocmconsole.kubeapi.errors import BadRequest, Doc, Invalid, RequestTooLarge
from ocmconsole.kubeapi.schema.values import MAX_DEPTH

MAX_OPERATIONS = 10_000  # as in Kubernetes
MAX_COPIED = 3 * 1024 * 1024  # bytes; as much as a body


def clone(value: Any, room: int = MAX_DEPTH) -> Any:
    """A deep copy of a JSON value; a value nested deeper than ``room`` is a BadRequest."""
    if isinstance(value, dict):
        room = deeper(room)
        return {key: clone(item, room) for key, item in value.items()}
    if isinstance(value, list):
        room = deeper(room)
        return [clone(item, room) for item in value]
    return value


def deeper(room: int) -> int:
    if room <= 0:
        raise BadRequest(f"the document is nested deeper than {MAX_DEPTH} levels")
    return room - 1


_GO_TYPES = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def go_type(value: Any) -> str:
    return _GO_TYPES.get(type(value), "null")


def require_object(patch: Any) -> None:
    if not isinstance(patch, dict):
        raise BadRequest(
            f"error decoding patch: json: cannot unmarshal {go_type(patch)} into Go value of type "
            "map[string]interface {}"
        )


def in_order(result: dict[Any, Any], before: Mapping[Any, Any]) -> dict[Any, Any]:
    """Keys keep the order of the stored document: a patch must not shuffle what kubectl shows."""
    return {key: result[key] for key in {**before, **result} if key in result}


# ---- JSON merge patch, RFC 7386


def merge_patch(doc: Doc, patch: Any) -> Doc:
    require_object(patch)
    merged: Doc = _merged(doc, patch, MAX_DEPTH)
    return merged


def _merged(old: Any, patch: Any, room: int) -> Any:
    if not isinstance(patch, dict):
        return clone(patch, room)
    room = deeper(room)
    before = old if isinstance(old, dict) else {}
    result = {key: clone(item, room) for key, item in before.items() if key not in patch}
    for key, item in patch.items():
        if item is not None:
            result[key] = _merged(before.get(key), item, room)
    return in_order(result, before)


# ---- JSON patch, RFC 6902


def json_patch(doc: Doc, ops: Any) -> Doc:
    """400 for what is no patch, 422 for an operation that fails, 413 for too many or too much."""
    if not isinstance(ops, list):
        raise BadRequest(
            f"error decoding patch: json: cannot unmarshal {go_type(ops)} into Go value of type jsonpatch.Patch"
        )
    if len(ops) > MAX_OPERATIONS:
        _too_large(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(ops)}")
    patching = _JsonPatching(clone(doc))
    for op in ops:
        patching.apply(op)
    result = clone(patching.root)
    if not isinstance(result, dict):
        _fails()
    return result


def _fails() -> NoReturn:
    raise Invalid("the server rejected our request due to an error in our request")


def _too_large(text: str) -> NoReturn:
    raise RequestTooLarge(f"Request entity too large: {text}")


class _JsonPatching:
    """One run over a private copy of the document."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._copied = 0

    def apply(self, op: Any) -> None:
        if not isinstance(op, dict):
            raise BadRequest(
                f"error decoding patch: json: cannot unmarshal {go_type(op)} into Go value of type jsonpatch.Operation"
            )
        match op.get("op"):
            case "add":
                self._insert(_pointer(op, "path"), clone(_value(op)))
            case "remove":
                self._take(_pointer(op, "path"))
            case "replace":
                self._replace(_pointer(op, "path"), clone(_value(op)))
            case "move":
                self._move(_pointer(op, "from"), _pointer(op, "path"))
            case "copy":
                self._insert(_pointer(op, "path"), self._copy(_pointer(op, "from")))
            case "test":
                if not _same(self._member(_pointer(op, "path")), _value(op), MAX_DEPTH):
                    _fails()
            case str() | None:
                _fails()
            case _:
                raise BadRequest("error decoding patch: op must be a string")

    def _replace(self, path: list[str], value: Any) -> None:
        if not path:
            self.root = value
            return
        parent, last = self._find(path[:-1]), path[-1]
        parent[last if isinstance(parent, dict) else _existing(parent, last)] = value

    def _move(self, source: list[str], path: list[str]) -> None:
        if path == source:
            self._find(path)
        elif path[: len(source)] == source:
            _fails()
        else:
            self._insert(path, self._take(source))

    def _copy(self, source: list[str]) -> Any:
        value = self._member(source)
        self._copied += _weight(value, MAX_DEPTH)
        if self._copied > MAX_COPIED:
            _too_large(f"the copy operations of a JSON patch may add {MAX_COPIED} bytes at most")
        return clone(value)

    def _find(self, path: list[str]) -> Any:
        value = self.root
        for token in path:
            value = value[_existing(value, token)]
        return value

    def _member(self, path: list[str]) -> Any:
        """The value at ``path``; null for a member that an existing object lacks, as in Kubernetes."""
        return None if self._is_absent(path) else self._find(path)

    def _is_absent(self, path: list[str]) -> bool:
        parent = self._find(path[:-1])
        return bool(path) and isinstance(parent, dict) and path[-1] not in parent

    def _insert(self, path: list[str], value: Any) -> None:
        if not path:
            self.root = value
            return
        parent, last = self._find(path[:-1]), path[-1]
        if isinstance(parent, list):
            index = len(parent) if last == "-" else _index(last)
            if index > len(parent):
                _fails()
            parent.insert(index, value)
        elif isinstance(parent, dict):
            parent[last] = value
        else:
            _fails()

    def _take(self, path: list[str]) -> Any:
        if not path:
            _fails()
        parent = self._find(path[:-1])
        existing = _existing(parent, path[-1])
        return parent.pop(existing)


_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def _pointer(op: Doc, member: str) -> list[str]:
    """RFC 6901; the depth bound keeps a walk cheap and the document flat."""
    text = op.get(member, "-")
    if not isinstance(text, str):
        raise BadRequest(f"error decoding patch: {member} must be a string")
    if not _POINTER.fullmatch(text):
        _fails()
    tokens = [token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:]]
    deeper(MAX_DEPTH + 1 - len(tokens))
    return tokens


def _value(op: Doc) -> Any:
    """A value that is left out is null."""
    return op.get("value")


def _index(token: str) -> int:
    if not _INDEX.fullmatch(token):
        _fails()
    return int(token)


def _existing(parent: Any, token: str) -> Any:
    """The key or index that is there in ``parent``."""
    if isinstance(parent, dict) and token in parent:
        return token
    if isinstance(parent, list) and (index := _index(token)) < len(parent):
        return index
    _fails()


def _same(one: Any, other: Any, room: int) -> bool:
    """Equality as in RFC 6902: by JSON type, numbers by value; Python takes True for 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        room = deeper(room)
        return one.keys() == other.keys() and all(_same(item, other[key], room) for key, item in one.items())
    if isinstance(one, list) and isinstance(other, list):
        room = deeper(room)
        return len(one) == len(other) and all(_same(*pair, room) for pair in zip(one, other, strict=True))
    return go_type(one) == go_type(other) and bool(one == other)


def _weight(value: Any, room: int) -> int:
    """About the size of ``value`` as JSON."""
    if isinstance(value, dict):
        room = deeper(room)
        return 2 + sum(len(key) + 4 + _weight(item, room) for key, item in value.items())
    if isinstance(value, list):
        room = deeper(room)
        return 2 + sum(1 + _weight(item, room) for item in value)
    return len(value) + 2 if isinstance(value, str) else 8
