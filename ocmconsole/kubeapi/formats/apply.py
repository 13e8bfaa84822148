"""Who owns which field: server-side apply, and ``metadata.managedFields`` after every other write (W141).

Invariant: a field is listed only for managers that set it to the value it has; sharing is possible between appliers
only when they agree. Main writes never list ``status``, status writes nothing else. Pure functions on documents;
``steps`` and the patch view call them. An entry names fields as its own version does; apply compares in the version
applied, where versions of a kind that is applied through several give shared fields one name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import reduce
from typing import Any, NamedTuple

from ocmconsole.kubeapi.errors import BadRequest, Cause, Conflict, Doc
from ocmconsole.kubeapi.formats.field_sets import (
    Path,
    Tree,
    beyond,
    compare,
    decoded,
    field_path,
    joined,
    overlap,
    owned,
    part_schema,
    parts,
    paths,
    pruned,
    subtract,
    union,
)
from ocmconsole.kubeapi.formats.patches import clone
from ocmconsole.kubeapi.schema.metadata import OBJECT_META, SET_BY_SERVER

MAX_UPDATERS = 10  # entries of managedFields, as in Kubernetes; older ones are merged
ANCIENT = "ancient-changes"
_APPLY, _UPDATE = "Apply", "Update"
_TYPE = ("apiVersion", "kind")
_IDENTITY = ("name", "namespace", "uid", "resourceVersion")
# Nobody owns what identifies the object or what the server alone sets.
_UNTRACKED = frozenset({*_IDENTITY, *SET_BY_SERVER})
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def apply(
    old: Doc | None,
    applied: Doc,
    *,
    manager: str,
    force: bool,
    api_version: str,
    schema: Doc,
    now: str,
    subresource: str = "",
) -> Doc:
    """The document after ``manager`` has applied its opinion, managedFields included.

    Name, uid and resourceVersion of the body stand in the result, so that the caller's checks of any proposed document
    see them. Raises Conflict, BadRequest.
    """
    whole = _whole(schema)
    body, base = _checked(applied), clone(old or {})
    wanted = _opinion(_tracked(body, subresource), whole, "")
    own = owned({key: item for key, item in wanted.items() if item or key != "metadata"}, whole, containers=False)
    mine = _entry(manager, _APPLY, api_version, subresource)
    entries = _managed(base)
    last = next((entry for entry in entries if _identity(entry) == _identity(mine)), None)
    if last is not None:
        # D1: a field that this version cannot express keeps its value and its manager.
        own = union(own, beyond(last["fieldsV1"], whole))

    before = _tracked(base, subresource)
    merged = _merged(before, wanted, whole)
    others = _yielded([entry for entry in entries if entry is not last], compare(before, merged, whole)[0], force=force)
    keep = reduce(union, (entry["fieldsV1"] for entry in others), own)
    after = pruned(merged, last["fieldsV1"] if last else {}, keep, whole)

    changed, removed = compare(before, after, whole)
    others = _without(others, removed)
    if own:
        mine["fieldsV1"] = own
        steady = last is not None and not changed and not removed and last == {**mine, "time": last.get("time")}
        others.append(last if last is not None and steady else {**mine, "time": now})
    return _assembled(base, body, after, _sorted(others), subresource)


class Form(NamedTuple):
    """A version as its entries see stored documents: they name fields by its schema."""

    schema: Doc
    show: Callable[[Doc], Doc]


def track_update(
    old: Doc | None,
    new: Doc,
    *,
    manager: str,
    api_version: str,
    forms: Mapping[str, Form],
    now: str,
    subresource: str = "",
) -> list[Doc]:
    """The managedFields after ``manager`` has turned ``old`` into ``new`` by anything but apply.

    The manager owns what it changed and takes it from everybody else; what is gone belongs to nobody. ``forms`` has the
    versions by apiVersion, the writer's own among them.
    """
    entries = _sent(old, new, subresource)
    used = forms.keys() & {entry["apiVersion"] for entry in entries} - {api_version}
    written = _moved(old, new, forms[api_version], subresource)
    moves = {api_version: written} | {
        version: _widened(_moved(old, new, forms[version], subresource), written, forms[version].schema)
        for version in used
    }
    changed = written[0]
    left = [rest for entry in entries for rest in _left(entry, *moves.get(entry["apiVersion"], moves[api_version]))]
    if not changed and left == entries:
        return entries
    mine = _entry(manager, _UPDATE, api_version, subresource)
    me = _identity(mine)
    own = reduce(union, (entry["fieldsV1"] for entry in left if _identity(entry) == me), changed)
    others = [entry for entry in left if _identity(entry) != me]
    if own:
        others.append({**mine, "fieldsV1": own, "time": now})
    return _sorted(_capped(others))


def track_renewal(entries: list[Doc], path: Path, *, manager: str, api_version: str, now: str) -> list[Doc] | None:
    """As ``track_update`` where ``manager`` has changed one field that its entry alone names already.

    ``path`` are the elements of the field, ``entries`` those of the stored document. None where that is not so.
    """
    mine = _entry(manager, _UPDATE, api_version, "")
    me = _identity(mine)
    own = [entry for entry in entries if _identity(entry) == me]
    others = [entry for entry in entries if _identity(entry) != me]
    changed: Tree = {}
    for element in reversed(path):
        changed = {element: changed}
    if len(own) != 1 or len(entries) > MAX_UPDATERS or not overlap(own[0]["fieldsV1"], changed):
        return None
    if any(overlap(entry["fieldsV1"], changed) for entry in others):
        return None
    left = subtract(own[0]["fieldsV1"], changed)
    return _sorted([*others, {**mine, "fieldsV1": union(changed, left), "time": now}])


def _moved(old: Doc | None, new: Doc, form: Form, subresource: str) -> tuple[Tree, Tree]:
    before, after = (_tracked(form.show(doc) if doc else {}, subresource) for doc in (old, new))
    return compare(before, after, _whole(form.schema))


def _widened(seen: tuple[Tree, Tree], written: tuple[Tree, Tree], schema: Doc) -> tuple[Tree, Tree]:
    """D1: also fields that the entry's version cannot express; they changed as the writer's version shows."""
    whole = _whole(schema)
    (changed, removed), (also_changed, also_removed) = seen, written
    return union(changed, beyond(also_changed, whole)), union(removed, beyond(also_removed, whole))


def _left(entry: Doc, changed: Tree, removed: Tree) -> list[Doc]:
    """The entry without what has been changed or removed; none when nothing is left of it."""
    return _without(_without([entry], changed), removed)


# ---- Documents


def _whole(schema: Doc) -> Doc:
    """The schema of the document from its schema without metadata."""
    fields = {**schema.get("properties", {}), "metadata": OBJECT_META}
    opened = "properties" not in schema
    return {"x-kubernetes-preserve-unknown-fields": opened, **schema, "type": "object", "properties": fields}


def _tracked(doc: Doc, subresource: str) -> Doc:
    """The part of a document that a write through the endpoint can own."""
    if subresource == "status":
        return {"status": doc["status"]} if "status" in doc else {}
    hidden = ("metadata", *_TYPE) if subresource else ("metadata", "status", *_TYPE)
    fields = {key: item for key, item in doc.items() if key not in hidden}
    metadata = doc.get("metadata") or {}
    fields["metadata"] = {key: item for key, item in metadata.items() if key not in _UNTRACKED}
    return fields


def _checked(applied: Any) -> Doc:
    metadata = applied.get("metadata") if isinstance(applied, dict) else None
    if not isinstance(metadata, dict):
        raise BadRequest("metadata: Invalid value: must be an object")
    if metadata.get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    body: Doc = clone(applied)
    return body


def _opinion(value: Any, schema: Doc, path: str) -> Any:
    """What a body says: null is no opinion, except for a plain field that may be null."""
    fields = parts(value, schema)
    if fields is None:
        if isinstance(value, list) and schema.get("x-kubernetes-list-type") in ("map", "set"):
            raise BadRequest(f"{path}: the elements of this list need keys, and no two of them the same")
        return value
    said = {}
    for element, item in fields.items():
        below = part_schema(schema, element) or {}
        if item is not None or (below.get("nullable") and below.get("type") not in ("object", "array")):
            said[element] = _opinion(item, below, path + field_path((element,)))
    return joined(said, value)


def _merged(old: Any, new: Any, schema: Doc) -> Any:
    stored, wanted = parts(old, schema), parts(new, schema)
    if stored is None or wanted is None or type(old) is not type(new):
        return new
    for element, item in wanted.items():
        below = part_schema(schema, element) or {}
        stored[element] = _merged(stored[element], item, below) if element in stored else item
    return joined(stored, new)


def _assembled(old: Doc, body: Doc, after: Doc, entries: list[Doc], subresource: str) -> Doc:
    """The tracked part ``after`` with everything around it."""
    tracked = _tracked(old, subresource)
    doc = {key: item for key, item in old.items() if key == "metadata" or key not in tracked}
    doc.update((key, body[key]) for key in _TYPE if body.get(key) is not None)
    doc.update(after)
    stored = old.get("metadata") or {}
    if subresource != "status":
        stored = {key: item for key, item in stored.items() if key in _UNTRACKED} | after.get("metadata", {})
    metadata = stored | {key: item for key, item in body["metadata"].items() if key in _IDENTITY and item is not None}
    metadata.pop("managedFields", None)
    if entries:
        metadata["managedFields"] = entries
    return doc | {"metadata": metadata}


# ---- Entries of managedFields


def _entry(manager: str, operation: str, api_version: str, subresource: str) -> Doc:
    entry = {"apiVersion": api_version, "fieldsType": "FieldsV1", "manager": manager, "operation": operation}
    return {**entry, "subresource": subresource} if subresource else entry


def _identity(entry: Doc) -> tuple[str, ...]:
    """Appliers keep one entry whatever version they use; updaters have one for each."""
    version = entry["apiVersion"] if entry["operation"] == _UPDATE else ""
    return entry["manager"], entry["operation"], version, entry.get("subresource", "")


def _managed(doc: Doc | None) -> list[Doc]:
    metadata = (doc or {}).get("metadata") or {}
    return metadata.get("managedFields") or []


def _sent(old: Doc | None, new: Doc, subresource: str) -> list[Doc]:
    """The entries to start from: those sent, when they can be read; ``[{}]`` asks to forget them all."""
    stored, sent = _managed(old), _managed(new)
    if subresource or sent == stored:
        return stored
    if sent == [{}]:
        return []
    try:
        return _sorted({_identity(entry): entry for entry in map(_decoded, sent)}.values()) or stored
    except (ValueError, RecursionError, TypeError):
        # Kubernetes ignores what it cannot read, so that a client that garbles the field does no harm.
        return stored


def _decoded(entry: Any) -> Doc:
    """An entry in our own spelling. Raises ValueError."""
    if not isinstance(entry, dict):
        raise ValueError("not an entry")  # noqa: TRY004 - one error for whatever is wrong with it
    texts = {key: entry[key] for key in ("apiVersion", "manager", "operation", "subresource", "time") if entry.get(key)}
    if not all(isinstance(text, str) for text in texts.values()) or not {"apiVersion", "operation"} <= texts.keys():
        raise ValueError("not an entry")
    if texts["operation"] not in (_APPLY, _UPDATE) or entry.get("fieldsType") != "FieldsV1":
        raise ValueError("not an entry")
    if "time" in texts:
        if not _TIME.fullmatch(texts["time"]):
            raise ValueError("not a time")
        datetime.fromisoformat(texts["time"])
    return {"manager": "", **texts, "fieldsType": "FieldsV1", "fieldsV1": decoded(entry.get("fieldsV1"))}


def _without(entries: Iterable[Doc], gone: Tree) -> list[Doc]:
    left = ((entry, subtract(entry["fieldsV1"], gone)) for entry in entries)
    return [entry if tree == entry["fieldsV1"] else {**entry, "fieldsV1": tree} for entry, tree in left if tree]


def _sorted(entries: Iterable[Doc]) -> list[Doc]:
    return sorted(entries, key=lambda entry: (entry["operation"], entry.get("time") or "", *_identity(entry)))


def _capped(entries: list[Doc]) -> list[Doc]:
    """Updaters beyond the limit, oldest first, become one: user agents are endless, documents are not."""
    updates = [entry for entry in _sorted(entries) if entry["operation"] == _UPDATE]
    surplus = updates[: len(updates) - MAX_UPDATERS + 1] if len(updates) > MAX_UPDATERS else []
    kept = [entry for entry in entries if not any(entry is other for other in surplus)]
    ancient: dict[tuple[str, ...], Doc] = {}
    for entry in surplus:
        folded = {**entry, "manager": ANCIENT}
        known = ancient.get(_identity(folded), {"fieldsV1": {}})
        ancient[_identity(folded)] = {**folded, "fieldsV1": union(known["fieldsV1"], entry["fieldsV1"])}
    return [*kept, *ancient.values()]


# ---- Conflicts


def _yielded(others: list[Doc], changed: Tree, *, force: bool) -> list[Doc]:
    """The other managers' entries without what this apply takes from them. Raises Conflict unless ``force``."""
    conflicts = [
        (_shown_manager(entry), field_path(path))
        for entry in others
        for path in paths(overlap(entry["fieldsV1"], changed))
    ]
    if conflicts and not force:
        causes = [Cause("FieldManagerConflict", f"conflict with {name}", field) for name, field in conflicts]
        raise Conflict(_conflict_text(conflicts), causes=causes)
    return _without(others, changed)


def _conflict_text(conflicts: list[tuple[str, str]]) -> str:
    if len(conflicts) == 1:
        name, field = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {name}: {field}"
    lines = []
    for name in sorted({name for name, _ in conflicts}):
        lines.append(f"conflicts with {name}:")
        lines += [f"- {field}" for owner, field in conflicts if owner == name]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def _shown_manager(entry: Doc) -> str:
    name = json.dumps(entry["manager"], ensure_ascii=False)
    if entry.get("subresource"):
        name += f" with subresource {json.dumps(entry['subresource'], ensure_ascii=False)}"
    if entry["operation"] == _APPLY:
        return name
    since = f" at {entry['time']}" if entry.get("time") else ""
    return f"{name} using {entry['apiVersion']}{since}"
