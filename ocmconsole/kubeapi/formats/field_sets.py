"""Sets of fields as trees, in the very form of FieldsV1, and how a schema splits a document into fields (W141).

A node maps elements to nodes: ``f:name`` a key of an object, ``k:{"type":"X"}`` an element of a map list, ``v:"a"`` one
of a set, ``.`` the node itself. A node without children is in the set; with children it is only when it holds ``.``.
Maps merge by key, lists as their ``x-kubernetes-list-type`` says, everything else is one leaf, and so is whatever lies
deeper than LEVELS: a tree is itself stored in a document. Trees are never changed once built and may share parts; an
empty tree at the root is the empty set. Caller is ``apply``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.schema.values import MAX_DEPTH

Tree = dict[str, Any]
Path = tuple[str, ...]

LEVELS = MAX_DEPTH - 8
SHORT = 100  # characters of a key's value, as a condition's type; its element is remembered
SELF = "."
_FREE: Doc = {}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


# ---- How a value splits


def parts(value: Any, schema: Doc) -> dict[str, Any] | None:
    """The fields of a value by element; None when the value is one leaf.

    A map list whose elements lack a key or repeat one counts as a leaf, because its elements have no identity.
    """
    if isinstance(value, dict):
        return None if schema.get("x-kubernetes-map-type") == "atomic" else {f"f:{key}": value[key] for key in value}
    if not isinstance(value, list):
        return None
    match schema.get("x-kubernetes-list-type"):
        case "map":
            elements = [_key_element(item, schema) for item in value]
        case "set":
            elements = [None if isinstance(item, dict | list) else f"v:{_encode(item)}" for item in value]
        case _:
            return None
    found = {element: item for element, item in zip(elements, value, strict=True) if element is not None}
    return found if len(found) == len(value) else None


def _key_element(item: Any, schema: Doc) -> str | None:
    if not isinstance(item, dict):
        return None
    properties = schema.get("items", _FREE).get("properties", _FREE)
    key = {}
    for name in schema.get("x-kubernetes-list-map-keys", ()):
        key[name] = item.get(name, properties.get(name, _FREE).get("default"))
        if key[name] is None or isinstance(key[name], dict | list):
            return None
    if all(type(value) is str and len(value) <= SHORT for value in key.values()):
        return _short_key(tuple(key.items()))
    return f"k:{_encode(key)}"


@lru_cache(maxsize=4_096)
def _short_key(texts: tuple[tuple[str, str], ...]) -> str:
    return f"k:{_encode(dict(texts))}"


def joined(fields: dict[str, Any], like: Any) -> Any:
    """The value that ``parts`` would split into ``fields``."""
    if isinstance(like, list):
        return list(fields.values())
    return {element[2:]: item for element, item in fields.items()}


def part_schema(schema: Doc, element: str) -> Doc | None:
    """The schema of a field; None for one that the schema does not know and prunes.

    A struct that has no fields says nothing, so there is nothing in it to own, and it is as good as unknown.
    """
    if element[0] != "f":
        items: Doc = schema.get("items", _FREE)
        return items
    properties = schema.get("properties")
    if properties is not None and (known := properties.get(element[2:])) is not None:
        return None if known.get("properties") == {} else known
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        return more
    opened = more or schema.get("x-kubernetes-preserve-unknown-fields") or properties is None
    return _FREE if opened else None


def _is_named(schema: Doc, element: str) -> bool:
    """A property of a struct, in contrast to an entry that its writer has put there."""
    return element[0] == "f" and element[2:] in schema.get("properties", _FREE)


# ---- From documents to trees


def owned(value: Any, schema: Doc, *, containers: bool, room: int = LEVELS) -> Tree:
    """All fields of a value that is in the set itself or, for a container, through what it holds.

    ``containers``: the objects and lists on the way are in the set too, as for Update; Apply has its leaves, and the
    entries of maps and lists.
    """
    fields = parts(value, schema) if room > 0 else None
    if not fields:
        return {}
    node: Tree = {SELF: {}} if containers else {}
    for element, item in fields.items():
        below = part_schema(schema, element)
        if below is None:
            continue
        inner = owned(item, below, containers=containers, room=room - 1)
        node[element] = inner if containers or not inner or _is_named(schema, element) else {SELF: {}, **inner}
    return {} if node.keys() == {SELF} else node


def compare(old: Any, new: Any, schema: Doc, room: int = LEVELS) -> tuple[Tree, Tree]:
    """Two containers: the fields added or modified, and the fields removed. Both sets are empty for equal ones."""
    before, after = parts(old, schema), parts(new, schema)
    return ({}, {}) if before is None or after is None else _compare(before, after, schema, room)


def _compare(before: dict[str, Any], after: dict[str, Any], schema: Doc, room: int) -> tuple[Tree, Tree]:
    changed: Tree = {}
    removed: Tree = {}
    for element, item in after.items():
        if element in before and before[element] == item:
            continue
        below = part_schema(schema, element)
        if below is None:
            continue
        if element not in before:
            changed[element] = owned(item, below, containers=True, room=room - 1)
        else:
            _compare_item(changed, removed, element, (before[element], item), below, room - 1)
    removed.update((element, {}) for element in before if element not in after)
    return changed, removed


def _compare_item(changed: Tree, removed: Tree, element: str, pair: tuple[Any, Any], schema: Doc, room: int) -> None:
    old, new = pair
    before, after = (parts(value, schema) if room > 0 else None for value in pair)
    if after is None:
        changed[element] = {}
        return
    if before is None or type(old) is not type(new):
        changed[element], removed[element] = owned(new, schema, containers=True, room=room), {}
        return
    modified, gone = _compare(before, after, schema, room)
    if modified:
        changed[element] = modified
    if gone:
        removed[element] = gone


# ---- Set operations


def union(one: Tree, other: Tree) -> Tree:
    """Both sets; for roots, that is without ``.`` for an empty one."""
    return _union(one, other) if one and other else one or other


def _union(one: Tree, other: Tree) -> Tree:
    if not one or not other:
        return {SELF: {}, **one, **other} if one or other else {}
    both = {**one, **other}
    both.update((element, _union(one[element], other[element])) for element in one if element in other)
    return both


def subtract(tree: Tree, gone: Tree) -> Tree:
    """What is left of a root without ``gone``; a leaf in ``gone`` takes everything below it along."""
    if not gone:
        return tree
    left = {}
    for element, node in tree.items():
        rest = _subtract(node, gone[element]) if element in gone else node
        if rest is not None:
            left[element] = rest
    return left


def _subtract(node: Tree, gone: Tree) -> Tree | None:
    if not gone:
        return None
    if not node:
        return None if SELF in gone else node
    left = subtract(node, gone)
    if left.keys() == {SELF}:
        return {}
    return left or None


def overlap(tree: Tree, changed: Tree) -> Tree:
    """The fields of a root ``tree`` that ``changed`` touches; a changed leaf touches everything below it."""
    both = {}
    for element, node in tree.items():
        if element not in changed:
            continue
        touched = changed[element]
        if not touched or (not node and SELF in touched):
            both[element] = node
        elif node and (inner := overlap(node, touched)):
            both[element] = inner
    return both


def beyond(tree: Tree, schema: Doc) -> Tree:
    """The fields of a root that the schema does not know."""
    found = {}
    for element in sorted(tree.keys() - {SELF}):
        below = part_schema(schema, element)
        if below is None:
            found[element] = tree[element]
        elif inner := beyond(tree[element], below):
            found[element] = inner
    return found


def paths(tree: Tree, above: Path = ()) -> Iterator[Path]:
    """The members of a root in Kubernetes' order: those of a level before those below it."""
    for element in sorted(tree):
        if element != SELF and (not tree[element] or SELF in tree[element]):
            yield (*above, element)
    for element in sorted(tree):
        if element != SELF:
            yield from paths(tree[element], (*above, element))


def field_path(path: Path) -> str:
    """``.spec.taints[key="a"].effect``, as conflicts name a field."""
    return "".join(_spelled_element(element) for element in path)


def _spelled_element(element: str) -> str:
    kind, text = element[0], element[2:]
    if kind == "f":
        return f".{text}"
    if kind == "v":
        return f"[={text}]"
    listed = ",".join(f"{name}={_encode(value)}" for name, value in json.loads(text).items())
    return f"[{listed}]"


# ---- Removal


def pruned(value: Any, last: Tree, keep: Tree, schema: Doc) -> Any:
    """``value`` without the fields of ``last`` that ``keep`` has not; containers emptied that way go as well."""
    fields = parts(value, schema)
    if fields is None:
        return value
    for element, node in last.items():
        below = part_schema(schema, element) if element in fields else None
        if below is None:
            continue
        item = fields[element]
        if element in keep:
            fields[element] = pruned(item, _beside_key(element, node), keep[element], below)
        elif SELF in node or not (node or parts(item, below)):
            del fields[element]
        else:
            fields[element] = pruned(item, node, {}, below)
            if not fields[element] and item:
                del fields[element]
    return joined(fields, value)


def _beside_key(element: str, node: Tree) -> Tree:
    """The fields of a list element but for its key, which stays as long as the element does."""
    if element[0] != "k":
        return node
    key = json.loads(element[2:])
    return {name: below for name, below in node.items() if name[2:] not in key}


# ---- FieldsV1 from outside


def decoded(fields: Any, room: int = LEVELS) -> Tree:
    """A tree that a client has sent, in our own spelling. Raises ValueError when it is none."""
    if not isinstance(fields, dict) or room < 0:
        raise ValueError("not a set of fields")
    return {_decoded_element(element): decoded(node, room - 1) for element, node in fields.items()}


def _decoded_element(element: str) -> str:
    kind, text = element[:2], element[2:]
    if element == SELF or kind == "f:":
        return element
    if kind not in {"k:", "v:"}:
        raise ValueError("not a field")
    value = json.loads(text)
    if (kind == "k:") is not isinstance(value, dict):
        raise ValueError("not a key")
    if any(isinstance(item, dict | list) for item in (value.values() if isinstance(value, dict) else [value])):
        raise ValueError("keys and set elements are plain values")
    spelling = f"{kind}{_encode(value)}"
    spelling.encode()  # an escaped lone surrogate is a UnicodeEncodeError, which is a ValueError
    return spelling
