"""The steps between a proposed document and one that may be stored. Pure: they read no database and write nothing.

``verbs`` strings them together in the order of W20; each may refuse with the text that Kubernetes gives.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ocmconsole.kubeapi import admission, clock, errors
from ocmconsole.kubeapi.formats import apply
from ocmconsole.kubeapi.kinds import Key, Kind, Version
from ocmconsole.kubeapi.schema import compiled_schema, metadata, times, values

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # of the five characters that ``generateName`` adds (W17)
LONGEST_PREFIX = 58  # characters of ``generateName`` that are kept: with the five, a DNS label
SERVER_OWNED = (*metadata.SET_BY_SERVER, "generateName")

NO_VERSION = "0"
EMPTY: dict[str, object] = {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []}


# ---------------------------------------------------------------- from proposal to document


def decoded(kind: Kind, version: Version, proposed: Doc, unknown: str, known: Doc | None = None) -> Doc:
    """Prune, report what was unknown, and default, all in the version that the writer chose.

    ``known``: the stored document, if it is in that version, and so has been through this.
    """
    pruned, found = version.schema.prune(proposed, known)
    if found and unknown != "ignore":
        report_unknown(kind, version, [f'unknown field "{path}"' for path in found], unknown)
    return version.schema.default(pruned, known)


def stored(kind: Kind, version: Version, old: Doc | None, doc: Doc) -> Doc:
    """Convert to the stored version; fields that the writer's cannot express are kept (D1). Raises Invalid."""
    if kind.custom and version is not kind.storage and (causes := version.schema.validate(doc)):
        raise errors.is_invalid(kind.group, kind.kind, str(doc["metadata"].get("name", "")), causes)
    new = version.to_storage(doc, old)
    new["apiVersion"], new["kind"] = kind.storage.api_version, kind.kind
    return new


def report_unknown(kind: Kind, version: Version, found: Iterable[str], how: str) -> None:
    """W8: ``found``, such as ``unknown field "spec.x"``, is BadRequest where ``strict``, else a warning each."""
    if how == "strict":
        text = f'{kind.kind} in version "{version.version}" cannot be handled as a {kind.kind}: '
        raise errors.BadRequest(text + "strict decoding error: " + ", ".join(found))
    for text in found:
        admission.warn(text)


def permitted_part(kind: Kind, subresource: str, old: Doc | None, new: Doc, *, applies: bool) -> Doc:
    """W16: the parts of the new document that this endpoint writes: ``/status`` the status only, others all else.

    Both documents are in the writer's version.
    """
    if kind.merge is not None:
        return kind.merge(subresource, old, new)
    if not kind.has_status:
        return new
    if old is None:
        new.pop("status", None)
        return new
    if subresource == "status":
        merged = values.copied_plain(old)
        _move("status", new, merged)
        if applies:
            merged["metadata"]["managedFields"] = new["metadata"].get("managedFields")
        return merged
    _move("status", old, new)
    return new


def _move(part: str, source: Doc, target: Doc) -> None:
    if part in source:
        target[part] = source[part]
    else:
        target.pop(part, None)


def without_doubles(doc: Doc, *, patched: bool) -> Doc:
    """Equal owner references are merged, with a warning, as a kube-apiserver does."""
    merged, warning = metadata.merge_owners(doc, patched=patched)
    if warning:
        admission.warn(warning)
    return merged


def for_missing(kind: Kind, key: Key, proposed: Doc) -> Doc:
    """What a PUT or an apply creates where nothing is (W178: Leases, Events and RBAC kinds).

    Its resourceVersion says nothing, as in the reference. Raises Conflict for a uid: it can only be another object's.
    """
    found = proposed.get("metadata")
    if not isinstance(found, dict):
        return proposed
    if uid := found.get("uid"):
        text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise errors.conflict(kind.group, kind.plural, key.name, text)
    return {**proposed, "metadata": {name: part for name, part in found.items() if name != "resourceVersion"}}


def check_preconditions(kind: Kind, key: Key, old: Doc | None, proposed: Doc, verb: str) -> None:
    """W14, W15: uid and resourceVersion in a body must be those of the stored object; a version of "0" is none.

    Raises Conflict, Invalid where the kind needs a resourceVersion, BadRequest for one in a new object.
    """
    metadata = proposed.get("metadata")
    if not isinstance(metadata, dict):
        raise errors.BadRequest("metadata: Invalid value: must be an object")
    given = metadata.get("resourceVersion")
    version = "" if given == NO_VERSION else given
    if old is None:
        if version:
            raise errors.BadRequest("resourceVersion should not be set on objects to be created")
        return
    stored = old["metadata"]
    uid = metadata.get("uid")
    if uid and uid != stored["uid"]:
        if verb == "patch":
            cause = errors.invalid_field("metadata.uid", f'"{uid}"', "field is immutable")
            raise errors.is_invalid(kind.group, kind.kind, key.name, [cause])
        text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored['uid']}"
        raise errors.conflict(kind.group, kind.plural, key.name, text)
    if version and version != stored["resourceVersion"]:
        raise errors.conflict(kind.group, kind.plural, key.name)
    if not version and (verb == "update" or given == NO_VERSION) and not kind.unconditional_update:
        cause = errors.invalid_field("metadata.resourceVersion", "0", "must be specified for an update")
        raise errors.is_invalid(kind.group, kind.plural, key.name, [cause])


def stamp(kind: Kind, key: Key, old: Doc | None, new: Doc, now: Any) -> None:
    """Fields that only the server sets."""
    metadata = new["metadata"]
    metadata["name"] = key.name
    if kind.namespaced:
        metadata["namespace"] = key.namespace
    else:
        metadata.pop("namespace", None)
    if old is None:
        for name in SERVER_OWNED:
            if name not in {"generateName", "managedFields"}:
                metadata.pop(name, None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = times.timestamp(now)
        if kind.custom:
            metadata["generation"] = 1
    else:
        for name in SERVER_OWNED:
            if name != "managedFields":
                _move(name, old["metadata"], metadata)
        if kind.custom and _content(old) != _content(new):
            metadata["generation"] = old["metadata"].get("generation", 1) + 1
    _leave_out_empty(kind, new)
    if old is not None:
        _keep_times(old, new)


def _keep_times(old: Doc, new: Doc) -> None:
    """W141: where nothing but times of managedFields would differ, they stay, and there is no change to store."""
    before, after = (doc["metadata"].get("managedFields") for doc in (old, new))
    if before != after and _without_times(before) == _without_times(after):
        metadata = {**new["metadata"], "managedFields": before}
        if {**new, "metadata": metadata} == old:
            new["metadata"] = metadata


def _without_times(entries: list[Doc] | None) -> list[Doc]:
    return [{**entry, "time": None} for entry in entries or ()]


def _leave_out_empty(kind: Kind, new: Doc) -> None:
    """W16: empty maps and lists count as absent, so that spelling them out is no change."""
    metadata = new["metadata"]
    for name, empty in EMPTY.items():
        if metadata.get(name) == empty:
            del metadata[name]
    fields = kind.storage.schema.root.get("properties", {})
    for name in kind.left_out_empty:
        if new.get(name) == ({} if fields[name]["type"] == "object" else []):
            del new[name]


def _content(doc: Doc) -> Doc:
    return {name: part for name, part in doc.items() if name not in {"metadata", "status", "apiVersion", "kind"}}


def validate(kind: Kind, old: Doc | None, new: Doc) -> None:
    """Raises Invalid. Of an update, what is written as in the stored document has passed before."""
    causes = compiled_schema.validate_metadata(new, namespaced=kind.namespaced, name_check=kind.name_check, known=old)
    causes += kind.storage.schema.validate(new, old)
    if old is not None and old["metadata"].get("deletionTimestamp"):
        before = set(old["metadata"].get("finalizers") or ())
        added = [name for name in new["metadata"].get("finalizers") or [] if name not in before]
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            text = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            causes.append(errors.forbidden_field("metadata.finalizers", text))
    if causes:
        raise errors.is_invalid(kind.group, kind.kind, new["metadata"].get("name", ""), causes)
    for text in compiled_schema.finalizer_warnings(new):
        admission.warn(text)


def changed_paths(path: str, old: Any, new: Any) -> Iterator[str]:
    if old == new or path in {"metadata.managedFields", "metadata.generation", "metadata.resourceVersion"}:
        return
    before, after = ({} if side is None else side for side in (old, new))  # the first annotation is one annotation
    if isinstance(before, dict) and isinstance(after, dict) and before != after:
        for name in {*before, *after}:
            yield from changed_paths(f"{path}.{name}" if path else name, before.get(name), after.get(name))
    else:
        yield path


def bookkeep(
    kind: Kind, version: Version, old: Doc | None, new: Doc, *, manager: str, subresource: str, now: str
) -> None:
    """managedFields: apply has kept them itself; any other write owns what it changed, in the words of its version."""
    if old is not None and "managedFields" not in new["metadata"]:
        _move("managedFields", old["metadata"], new["metadata"])
    fields = apply.track_update(
        old,
        new,
        manager=manager,
        api_version=version.api_version,
        forms={each.api_version: apply.Form(each.schema.root, each.from_storage) for each in kind.versions},
        now=now,
        subresource=subresource,
    )
    if fields:
        new["metadata"]["managedFields"] = fields
    else:
        new["metadata"].pop("managedFields", None)


# ---------------------------------------------------------------- deletion


def mark_deleted(kind: Kind, new: Doc) -> None:
    new["metadata"]["deletionTimestamp"] = times.timestamp(clock.now())
    new["metadata"]["deletionGracePeriodSeconds"] = 0
    if "generation" in new["metadata"]:
        new["metadata"]["generation"] += 1
    if kind.mark_deleted:
        kind.mark_deleted(new)


def is_held(kind: Kind, doc: Doc) -> bool:
    return bool(doc["metadata"].get("finalizers")) or bool(kind.held and kind.held(doc))


def check_delete_preconditions(
    kind: Kind, key: Key, old: Doc, *, uid: str | None, resource_version: str | None
) -> None:
    """None is no precondition; an empty text is one that nothing meets."""
    subject = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    stored = old["metadata"]
    text = ""
    if uid is not None and uid != stored["uid"]:
        text = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({stored['uid']}). "
            "The object might have been deleted and then recreated"
        )
    elif resource_version is not None and resource_version != stored["resourceVersion"]:
        text = (
            f"the ResourceVersion in the precondition ({resource_version}) does not match the ResourceVersion "
            f"in record ({stored['resourceVersion']}). The object might have been modified"
        )
    if text:
        conflict = errors.conflict(kind.group, kind.plural, key.name, text)
        conflict.message = f'Operation cannot be fulfilled on {subject} "{key.name}": {text}'
        raise conflict


# ---------------------------------------------------------------- names


def named(kind: Kind, doc: Doc) -> Doc:
    metadata = doc.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, dict) else {}
    name, prefix = metadata.get("name"), metadata.get("generateName")
    if not name and isinstance(prefix, str) and prefix:
        suffix = "".join(secrets.choice(NAME_ALPHABET) for _ in range(5))
        metadata["name"] = prefix[:LONGEST_PREFIX] + suffix
    elif not name:
        cause = errors.required("metadata.name", "name or generateName is required")
        raise errors.is_invalid(kind.group, kind.kind, "", [cause])
    elif not isinstance(name, str):
        raise errors.BadRequest("metadata.name must be a string")
    return {**doc, "metadata": metadata}


def is_generated(doc: Doc) -> bool:
    metadata = doc.get("metadata") or {}
    return not metadata.get("name") and bool(metadata.get("generateName"))
