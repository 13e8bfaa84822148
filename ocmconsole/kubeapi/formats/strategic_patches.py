"""Strategic merge patch of built-in kinds: lists that merge by a key, directives such as ``$patch`` (W4). Pure.

The invariant is that of ``patches``: a result shares nothing with its inputs, and costs no more than their size. Called
by ``http.views``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ocmconsole.kubeapi.errors import BadRequest, Doc
from ocmconsole.kubeapi.formats.patches import clone, deeper, go_type, in_order, require_object
from ocmconsole.kubeapi.schema.values import MAX_DEPTH, quoted

_METADATA_KEYS = {"metadata.ownerReferences": "uid", "metadata.finalizers": ""}
_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def strategic_patch(doc: Doc, patch: Any, merge_keys: Mapping[str, str]) -> Doc:
    """``merge_keys`` maps the path of a merging list, without indices, to its merge key, or to "" for a set."""
    require_object(patch)
    return _Strategic({**_METADATA_KEYS, **merge_keys}).merge(doc, patch, "", MAX_DEPTH)


class _Strategic:
    """The merge, with the lists that merge by element."""

    def __init__(self, merge_keys: Mapping[str, str]) -> None:
        self._merge_keys = merge_keys

    def merge(self, old: Any, patch: Doc, path: str, room: int) -> Doc:
        inside = deeper(room)
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
        return in_order(result, before)

    def _item(self, old: Any, item: Any, path: str, room: int) -> Any:
        if isinstance(item, dict):
            return self.merge(old, item, path, room)
        if isinstance(item, list) and path in self._merge_keys:
            stored = old if isinstance(old, list) else []
            return self._list(stored, item, path, deeper(room))
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
        return _ordered(list(in_order({**merged, **patched}, stored).values()), kept, old, merge_key)


def _directive(item: Any) -> str:
    directive = item.get(_PATCH, "merge") if isinstance(item, dict) else "merge"
    if directive not in ("merge", "replace", "delete"):
        raise BadRequest(f"unknown patch type: {quoted(directive)}")
    return str(directive)


def _plain(patch: Doc) -> Iterator[tuple[str, Any]]:
    """The fields that a patch sets: no nulls, no directives."""
    return ((key, item) for key, item in patch.items() if item is not None and not key.startswith("$"))


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
        room = deeper(room)
        fields = () if _directive(value) == "delete" else _plain(value)
        return {key: _content(item, room) for key, item in fields}
    if isinstance(value, list):
        room = deeper(room)
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
    return go_type(item), item


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
