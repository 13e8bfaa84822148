"""Object metadata: its schema, and the rules that every kind shares (W14, W17, W18).

The texts are those of the reference API server. Types are the schema's business; what has a wrong type is skipped
here, so the rules never fail on odd input. Called by ``steps`` through ``compiled_schema``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ocmconsole.kubeapi.errors import Cause, Doc, forbidden_field, invalid_field, required
from ocmconsole.kubeapi.schema.names import key_flaws, label_flaws, segment_flaws, subdomain_flaws, value_flaws
from ocmconsole.kubeapi.schema.values import is_same, quoted

# What nobody edits in place: ``formats.apply`` makes new ones.
FIELD_SET: Doc = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "description": "The set of fields, as a tree.",
}
OBJECT_META_NAME = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
# Fields of the metadata that the server alone sets; what a client writes there is ignored (W14).
SET_BY_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
)
MAX_ANNOTATIONS = 256 * 1024  # bytes, as in Kubernetes
# Ours: each owner is work for the collector, and some who may write hold no more than a bootstrap token.
MAX_OWNERS = 100
_BANNED_OWNERS = frozenset({("v1", "Event"), ("/v1", "Event")})
_DOUBLED_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)
_STANDARD_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")

_TIME = {"type": "string", "format": "date-time", "nullable": True}
# A null in a map of texts is the empty text, as in typed Go.
_TEXTS = {"type": "object", "additionalProperties": {"type": "string", "default": ""}}

OBJECT_META: Doc = {
    "type": "object",
    "description": "What every object carries: its name, its place, its labels and what the server notes about it.",
    "properties": {
        "annotations": {
            **_TEXTS,
            "description": "Free text by key, for people and tools. Cannot be selected by; 256 KiB together.",
        },
        "creationTimestamp": {**_TIME, "description": "When the server stored the object first. Set by the server."},
        "deletionGracePeriodSeconds": {
            "type": "integer",
            "format": "int64",
            "description": "Seconds given to end in good order once deletion has begun. Set by the server.",
        },
        "deletionTimestamp": {
            **_TIME,
            "description": "When deletion was asked for; the object goes after its finalizers. Set by the server.",
        },
        "finalizers": {
            "type": "array",
            "items": {"type": "string"},
            "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge",
            "description": "Who still has work to do before the object may go; each takes its own entry away.",
        },
        "generateName": {
            "type": "string",
            "description": "Beginning of a name that the server completes when no name is given.",
        },
        "generation": {
            "type": "integer",
            "format": "int64",
            "description": "Counts the changes of what is wanted, not of status or labels. Set by the server.",
        },
        "labels": {**_TEXTS, "description": "Short values by key, by which objects are selected and grouped."},
        "managedFields": {
            "type": "array",
            "x-kubernetes-list-type": "atomic",
            "description": "Which writer owns which fields; kept by the server for server-side apply.",
            "items": {
                "type": "object",
                "properties": {
                    "apiVersion": {"type": "string", "description": "Version in which the fields are written down."},
                    "fieldsType": {"type": "string", "description": "Form of fieldsV1; always FieldsV1."},
                    "fieldsV1": FIELD_SET,
                    "manager": {"type": "string", "description": "Name of the writer."},
                    "operation": {"type": "string", "description": "Apply or Update."},
                    "subresource": {"type": "string", "description": "Subresource that was written, if any."},
                    "time": {**_TIME, "description": "When the set changed last."},
                },
            },
        },
        "name": {
            "type": "string",
            "description": "Name of the object, unique among its kind in its namespace. Never changes.",
        },
        "namespace": {
            "type": "string",
            "description": "Namespace the object lives in; empty for kinds that are cluster-wide. Never changes.",
        },
        "ownerReferences": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "uid",
            "description": "Objects this one belongs to; when all of them are gone it is collected.",
            "items": {
                "type": "object",
                "required": ["apiVersion", "kind", "name", "uid"],
                "properties": {
                    "apiVersion": {"type": "string", "description": "API version of the owner."},
                    "blockOwnerDeletion": {
                        "type": "boolean",
                        "description": "True keeps an owner deleted in the foreground until this object is gone.",
                    },
                    "controller": {"type": "boolean", "description": "True for the one owner that manages the object."},
                    "kind": {"type": "string", "description": "Kind of the owner."},
                    "name": {"type": "string", "description": "Name of the owner."},
                    "uid": {"type": "string", "description": "Identity of the owner."},
                },
            },
        },
        "resourceVersion": {
            "type": "string",
            "description": "Version of the stored object; send it back to be refused if somebody else wrote meanwhile.",
        },
        "selfLink": {"type": "string", "description": "Not used any more; accepted and forgotten."},
        "uid": {"type": "string", "description": "Identity in time and space: a new object of this name has another."},
    },
}

_NAME_CHECKS: dict[str, Callable[[str], Iterator[str]]] = {
    "subdomain": subdomain_flaws,
    "label": label_flaws,
    "segment": segment_flaws,
}


def validate_metadata(doc: Doc, *, namespaced: bool, name_check: str, known: Doc | None = None) -> list[Cause]:
    """What is wrong with the metadata of a document; ``name_check`` is ``Kind.name_check``.

    ``known``: a document that has passed; what is written as there is not looked at again.
    """
    found = doc.get("metadata")
    meta: Doc = found if isinstance(found, dict) else {}
    before: Doc = known["metadata"] if known is not None else {}
    rules: tuple[tuple[tuple[str, ...], Callable[[Doc], Iterator[Cause]]], ...] = (
        (("name", "generateName"), partial(_name, _NAME_CHECKS[name_check], masks_dash=name_check != "segment")),
        (("namespace",), partial(_namespace, namespaced=namespaced)),
        (("labels",), _labels),
        (("annotations",), _annotations),
        (("ownerReferences",), _owners),
        (("finalizers",), _finalizers),
    )
    return [
        cause
        for fields, rule in rules
        if not (before and all(is_same(meta.get(field), before.get(field)) for field in fields))
        for cause in rule(meta)
    ]


def finalizer_warnings(doc: Doc) -> list[str]:
    """Finalizers that may collide with those of other writers."""
    meta = doc.get("metadata")
    names = _items(meta, "finalizers", str) if isinstance(meta, dict) else []
    hint = (
        "metadata.finalizers: {}: prefer a domain-qualified finalizer name{}"
        " to avoid accidental conflicts with other finalizer writers"
    )
    return [
        hint.format(quoted(name), " including a path (/)" if "." in name else "")
        for name in names
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def merge_owners(doc: Doc, *, patched: bool) -> tuple[Doc, str]:
    """The document with one of several equal owner references, and the warning about it; empty when none was equal.

    ``patched`` chooses between the reference's two texts, of PATCH and of the other writes.
    """
    meta = doc.get("metadata")
    owners = meta.get("ownerReferences") if isinstance(meta, dict) else None
    if not isinstance(owners, list) or not 1 < len(owners) <= MAX_OWNERS:
        return doc, ""
    kept: list[Any] = []
    doubled: list[str] = []
    for owner in owners:
        if owner not in kept:
            kept.append(owner)
        elif isinstance(owner, dict):
            doubled.append(str(owner.get("uid", "")))
    if not doubled:
        return doc, ""
    warning = _DOUBLED_OWNERS.format(" after mutating admission happens" if patched else "", ", ".join(doubled))
    return {**doc, "metadata": {**doc["metadata"], "ownerReferences": kept}}, warning


def _name(flaws: Callable[[str], Iterator[str]], meta: Doc, *, masks_dash: bool) -> Iterator[Cause]:
    name, prefix = _text(meta, "name"), _text(meta, "generateName")
    if prefix:
        # A trailing dash is fine: random characters follow it.
        tried = f"{prefix[:-2]}a" if masks_dash and len(prefix) > 1 and prefix.endswith("-") else prefix
        yield from (invalid_field("metadata.generateName", quoted(prefix), flaw) for flaw in flaws(tried))
    if name:
        yield from (invalid_field("metadata.name", quoted(name), flaw) for flaw in flaws(name))
    elif not prefix:
        yield required("metadata.name", "name or generateName is required")


def _namespace(meta: Doc, *, namespaced: bool) -> Iterator[Cause]:
    namespace = _text(meta, "namespace")
    if not namespaced:
        if namespace:
            yield forbidden_field("metadata.namespace", "not allowed on this type")
    elif not namespace:
        yield required("metadata.namespace")
    else:
        yield from (invalid_field("metadata.namespace", quoted(namespace), flaw) for flaw in label_flaws(namespace))


def _labels(meta: Doc) -> Iterator[Cause]:
    for key, value in _texts(meta, "labels"):
        yield from (invalid_field("metadata.labels", quoted(key), flaw) for flaw in key_flaws(key))
        yield from (invalid_field("metadata.labels", quoted(value), flaw) for flaw in value_flaws(value))


def _annotations(meta: Doc) -> Iterator[Cause]:
    size = 0
    for key, value in _texts(meta, "annotations"):
        # A label key, except that capitals are allowed in the domain.
        yield from (invalid_field("metadata.annotations", quoted(key), flaw) for flaw in key_flaws(key.lower()))
        size += _bytes(key) + _bytes(value)
    if size > MAX_ANNOTATIONS:
        text = f"Too long: may not be more than {MAX_ANNOTATIONS} bytes"
        yield Cause("FieldValueTooLong", text, "metadata.annotations")


def _owners(meta: Doc) -> Iterator[Cause]:
    owners = _items(meta, "ownerReferences", dict)
    if len(owners) > MAX_OWNERS:
        text = f"Too many: {len(owners)}: must have at most {MAX_OWNERS} items"
        yield Cause("FieldValueTooMany", text, "metadata.ownerReferences")
        return
    for owner in owners:
        api_version, kind = _text(owner, "apiVersion"), _text(owner, "kind")
        if not _names_a_version(api_version):
            yield invalid_field("metadata.ownerReferences.apiVersion", quoted(api_version), "version must not be empty")
        for field in ("kind", "name", "uid"):
            if owner.get(field, "") == "":
                yield invalid_field(f"metadata.ownerReferences.{field}", '""', "must not be empty")
        if (api_version, kind) in _BANNED_OWNERS:
            text = "/v1, Kind=Event is disallowed from being an owner"
            yield invalid_field("metadata.ownerReferences", quoted(owner), text)
    controllers = [f"{owner.get('kind')}/{owner.get('name')}" for owner in owners if owner.get("controller") is True]
    for other in controllers[1:]:
        text = (
            'Only one reference can have Controller set to true. Found "true" in references'
            f" for {controllers[0]} and {other}"
        )
        yield invalid_field("metadata.ownerReferences", quoted(owners), text)


def _names_a_version(api_version: str) -> bool:
    """``<group>/<version>`` or ``<version>``: anything with more slashes has no version in the reference's eyes."""
    group, _, version = api_version.rpartition("/")
    return bool(version) and "/" not in group


def _finalizers(meta: Doc) -> Iterator[Cause]:
    names = _items(meta, "finalizers", str)
    for name in names:
        yield from (invalid_field("metadata.finalizers", quoted(name), flaw) for flaw in key_flaws(name))
    if "orphan" in names and "foregroundDeletion" in names:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        yield invalid_field("metadata.finalizers", quoted(names), text)


def _text(meta: Doc, field: str) -> str:
    value = meta.get(field)
    return value if isinstance(value, str) else ""


def _texts(meta: Doc, field: str) -> list[tuple[str, str]]:
    value = meta.get(field)
    if not isinstance(value, dict):
        return []
    return sorted((key, item) for key, item in value.items() if isinstance(key, str) and isinstance(item, str))


def _items(meta: Doc, field: str, kind: type[Any]) -> list[Any]:
    value = meta.get(field)
    return [item for item in value if isinstance(item, kind)] if isinstance(value, list) else []


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
