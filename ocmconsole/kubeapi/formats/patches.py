"""Merge (RFC 7386), JSON (RFC 6902) and strategic patch: document and patch in, new document out (W4, W15). Pure.

Invariant: a result shares no dict or list with its inputs, inputs never change, and no patch costs more than its own
size and the document's: nesting, operations and copied bytes are bounded. Caller is ``verbs.patch``. The usual
JSON-patch package is not used: it copies by unbounded recursion and takes ``1`` for ``true``.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from ocmconsole.kubeapi.errors import BadRequest, Doc, Invalid, RequestTooLarge
from ocmconsole.kubeapi.schema.values import MAX_DEPTH, quoted

MAX_OPERATIONS = 10_000  # as in Kubernetes
MAX_COPIED = 3 * 1024 * 1024  # bytes; as much as a body


def clone(value: Any, room: int = MAX_DEPTH) -> Any:
    """A deep copy of a JSON value; a value nested deeper than ``room`` is a BadRequest."""
    if isinstance(value, dict):
        room = _deeper(room)
        return {key: clone(item, room) for key, item in value.items()}
    if isinstance(value, list):
        room = _deeper(room)
        return [clone(item, room) for item in value]
    return value


def _deeper(room: int) -> int:
    if room <= 0:
        raise BadRequest(f"the document is nested deeper than {MAX_DEPTH} levels")
    return room - 1


_GO_TYPES = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def _go_type(value: Any) -> str:
    return _GO_TYPES.get(type(value), "null")


def _require_object(patch: Any) -> None:
    if not isinstance(patch, dict):
        raise BadRequest(
            f"error decoding patch: json: cannot unmarshal {_go_type(patch)} into Go value of type "
            "map[string]interface {}"
        )


# ---- JSON merge patch, RFC 7386


def merge_patch(doc: Doc, patch: Any) -> Doc:
    _require_object(patch)
    merged: Doc = _merged(doc, patch, MAX_DEPTH)
    return merged


def _merged(old: Any, patch: Any, room: int) -> Any:
    if not isinstance(patch, dict):
        return clone(patch, room)
    room = _deeper(room)
    before = old if isinstance(old, dict) else {}
    result = {key: clone(item, room) for key, item in before.items() if key not in patch}
    for key, item in patch.items():
        if item is not None:
            result[key] = _merged(before.get(key), item, room)
    return _in_order(result, before)


# ---- JSON patch, RFC 6902


def json_patch(doc: Doc, ops: Any) -> Doc:
    """400 for what is no patch, 422 for an operation that fails, 413 for too many or too much."""
    if not isinstance(ops, list):
        raise BadRequest(
            f"error decoding patch: json: cannot unmarshal {_go_type(ops)} into Go value of type jsonpatch.Patch"
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
                f"error decoding patch: json: cannot unmarshal {_go_type(op)} into Go value of type jsonpatch.Operation"
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
            self._member(path)
        elif path[: len(source)] == source:
            _fails()
        else:
            value = self._member(source)
            if not self._is_absent(source):
                self._take(source)
            self._insert(path, value)

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
        return parent.pop(_existing(parent, path[-1]))


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
    _deeper(MAX_DEPTH + 1 - len(tokens))
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
        room = _deeper(room)
        return one.keys() == other.keys() and all(_same(item, other[key], room) for key, item in one.items())
    if isinstance(one, list) and isinstance(other, list):
        room = _deeper(room)
        return len(one) == len(other) and all(_same(*pair, room) for pair in zip(one, other, strict=True))
    return _go_type(one) == _go_type(other) and bool(one == other)


def _weight(value: Any, room: int) -> int:
    """About the size of ``value`` as JSON."""
    if isinstance(value, dict):
        room = _deeper(room)
        return 2 + sum(len(key) + 4 + _weight(item, room) for key, item in value.items())
    if isinstance(value, list):
        room = _deeper(room)
        return 2 + sum(1 + _weight(item, room) for item in value)
    return len(value) + 2 if isinstance(value, str) else 8


# ---- Strategic merge patch

_METADATA_KEYS = {"metadata.ownerReferences": "uid", "metadata.finalizers": ""}
_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def strategic_patch(doc: Doc, patch: Any, merge_keys: Mapping[str, str]) -> Doc:
    """``merge_keys`` maps the path of a merging list, without indices, to its merge key, or to "" for a set."""
    _require_object(patch)
    return _Strategic({**_METADATA_KEYS, **merge_keys}).merge(doc, patch, "", MAX_DEPTH)


class _Strategic:
    """The merge, with the lists that merge by element."""

    def __init__(self, merge_keys: Mapping[str, str]) -> None:
        self._merge_keys = merge_keys

    def merge(self, old: Any, patch: Doc, path: str, room: int) -> Doc:
        inside = _deeper(room)
        directive = _directive(patch)
        if directive == "delete":
            return {}
        if directive == "replace":
            return {key: _content(item, inside) for key, item in _plain(patch)}
        before = _prepared(old if isinstance(old, dict) else {}, patch)
        result = {key: clone(item, inside) for key, item in before.items() if key not in patch}
        for key, item in _plain(patch):
            result[key] = self._item(before.get(key), item, _join(path, key), inside)
        for key, order in _directives(patch, _ORDER):
            merge_key = self._merge_keys.get(_join(path, key))
            if merge_key is not None and isinstance(result.get(key), list):
                result[key] = _ordered(result[key], order, before.get(key), merge_key)
        return _in_order(result, before)

    def _item(self, old: Any, item: Any, path: str, room: int) -> Any:
        if isinstance(item, dict):
            return self.merge(old, item, path, room)
        if isinstance(item, list) and path in self._merge_keys:
            stored = old if isinstance(old, list) else []
            return self._list(stored, item, path, _deeper(room))
        return _content(item, room)

    def _list(self, old: list[Any], patch: list[Any], path: str, room: int) -> list[Any]:
        merge_key = self._merge_keys[path]
        kept = [item for item in patch if _directive(item) not in ("replace", "delete")]
        if any(_directive(item) == "replace" for item in patch):
            return [_content(item, room) for item in kept]
        if not merge_key:
            return _ordered(list({_identity(item, ""): item for item in (*old, *patch)}.values()), patch, old, "")
        stored = {_identity(item, merge_key): item for item in old}
        patched: dict[Any, Doc] = {}
        for item in patch:
            identity = _identity(item, merge_key)
            if _directive(item) == "delete":
                stored.pop(identity, None)
                patched.pop(identity, None)
            else:
                patched[identity] = self.merge(patched.get(identity, stored.get(identity)), item, path, room)
        merged = {identity: clone(item, room) for identity, item in stored.items() if identity not in patched}
        return _ordered(list(_in_order({**merged, **patched}, stored).values()), kept, old, merge_key)


def _directive(item: Any) -> str:
    directive = item.get(_PATCH, "merge") if isinstance(item, dict) else "merge"
    if directive not in ("merge", "replace", "delete"):
        raise BadRequest(f"unknown patch type: {quoted(directive)}")
    return str(directive)


def _plain(patch: Doc) -> Iterator[tuple[str, Any]]:
    """The fields that a patch sets: no nulls, no directives."""
    return ((key, item) for key, item in patch.items() if item is not None and not key.startswith("$"))


def _in_order(result: dict[Any, Any], before: Mapping[Any, Any]) -> dict[Any, Any]:
    """Keys keep the order of the stored document: a patch must not shuffle what kubectl shows."""
    return {key: result[key] for key in {**before, **result} if key in result}


def _directives(patch: Doc, prefix: str) -> Iterable[tuple[str, list[Any]]]:
    """The lists that a prefixed directive gives, by the field they speak of."""
    for key, values in patch.items():
        if key.startswith(prefix):
            if not isinstance(values, list):
                raise BadRequest(f"invalid patch format of {prefix[1:-1]}: it must be a list")
            yield key.removeprefix(prefix), values


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _prepared(old: Doc, patch: Doc) -> Doc:
    """What the patch starts from: only ``$retainKeys``, and lists without what is to leave them."""
    before = dict(old)
    if _RETAIN in patch:
        retained = _retained(patch)
        before = {key: item for key, item in old.items() if key in retained}
    for key, values in _directives(patch, _DELETE_FROM):
        if isinstance(before.get(key), list):
            gone = {_identity(value, "") for value in values}
            before[key] = [value for value in before[key] if _identity(value, "") not in gone]
    return before


def _retained(patch: Doc) -> set[str]:
    """The keys to keep; the patch may set no others."""
    names = patch[_RETAIN]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadRequest("invalid patch format of retainKeys")
    retained = set(names)
    if any(key not in retained for key, _ in _plain(patch)):
        raise BadRequest("invalid patch format of retainKeys")
    return retained


def _content(value: Any, room: int) -> Any:
    """A copy of a patch that meets nothing to merge with: without directives and nulls."""
    if isinstance(value, dict):
        room = _deeper(room)
        fields = () if _directive(value) == "delete" else _plain(value)
        return {key: _content(item, room) for key, item in fields}
    if isinstance(value, list):
        room = _deeper(room)
        return [_content(item, room) for item in value if _directive(item) not in ("replace", "delete")]
    return value


def _identity(item: Any, merge_key: str) -> tuple[str, Any]:
    """What makes two list elements the same: the merge key's value, or the plain value itself."""
    if merge_key:
        if not isinstance(item, dict) or merge_key not in item:
            raise BadRequest(f"every element of the list needs the merge key {merge_key}")
        item = item[merge_key]
    if isinstance(item, dict | list):
        raise BadRequest("lists that merge may hold plain values or objects with a plain merge key only")
    return _go_type(item), item


def _ordered(merged: list[Any], order: list[Any], old: Any, merge_key: str) -> list[Any]:
    """``merged`` with the elements named in ``order`` in that order.

    An element that only the server has goes before the next named one if it stood before it, else after: so a stored
    ``[a]`` patched with ``[b]`` becomes ``[b, a]`` (observed on kube-apiserver 1.36).
    """
    wanted = {_identity(item, merge_key): rank for rank, item in enumerate(order)}
    places = {_identity(item, merge_key): place for place, item in enumerate(old if isinstance(old, list) else [])}
    items = [(_identity(item, merge_key), item) for item in merged]
    named = deque(sorted((pair for pair in items if pair[0] in wanted), key=lambda pair: wanted[pair[0]]))
    others = deque(pair for pair in items if pair[0] not in wanted)
    result = []
    while named and others:
        left, right = places.get(others[0][0]), places.get(named[0][0])
        before = left is not None and right is not None and left < right
        result.append((others if before else named).popleft()[1])
    return result + [item for _, item in (*others, *named)]
