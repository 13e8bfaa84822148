"""The definitions that OpenAPI documents share, in the v3 form and as v2 can say it (W8).

Made from the schemas that validate; built-in kinds also say how their lists merge. Called by ``openapi``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.kinds import Served
from ocmconsole.kubeapi.schema.compiled_schema import OBJECT_META, OBJECT_META_NAME, published

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
V3_PREFIX = "#/components/schemas/"
V2_PREFIX = "#/definitions/"
GVK = "x-kubernetes-group-version-kind"


class Definition(NamedTuple):
    """A named schema and the kind it describes."""

    name: str
    group: str
    version: str
    kind: str
    schema: Doc

    @property
    def gvk(self) -> Doc:
        return {"group": self.group, "version": self.version, "kind": self.kind}


def definition_name(group: str, version: str, kind: str) -> str:
    return ".".join((*reversed((group or "core.k8s.io").split(".")), version, kind))


def stored_schema(served: Served) -> Doc:
    schema = served.version.schema.publish()
    if not served.kind.custom:
        for path, key in served.kind.merge_keys.items():
            _mark_merge(schema, path, key)
    return schema


def _mark_merge(schema: Doc, path: str, key: str) -> None:
    """How the list at a path merges in a strategic patch (W179); the metadata definition says so itself."""
    node: Doc | None = schema
    for name in path.strip(".").split("."):
        inner = (node or {}).get("items", node or {})
        node = inner.get("properties", {}).get(name)
    if node is not None:
        node["x-kubernetes-patch-strategy"] = "merge"
        if key:
            node["x-kubernetes-patch-merge-key"] = key


def any_content() -> Doc:
    meta = {"allOf": [{"$ref": V3_PREFIX + OBJECT_META_NAME}]}
    properties = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": meta}
    return {"type": "object", "properties": properties, "x-kubernetes-preserve-unknown-fields": True}


def schemas(definitions: Iterable[Definition]) -> dict[str, Doc]:
    found = _shared()
    for definition in definitions:
        found[definition.name] = {**definition.schema, GVK: [definition.gvk]}
        found[f"{definition.name}List"] = _list_of(definition)
    return dict(sorted(found.items()))


def _list_of(definition: Definition) -> Doc:
    return {
        "type": "object",
        "description": f"A list of {definition.kind}.",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Group and version of this form of the list."},
            "kind": {"type": "string", "description": "What the list is."},
            "metadata": {"allOf": [{"$ref": f"{V3_PREFIX}{META}.ListMeta"}]},
            "items": {"type": "array", "items": {"$ref": V3_PREFIX + definition.name}},
        },
        GVK: [{**definition.gvk, "kind": f"{definition.kind}List"}],
    }


def _shared() -> dict[str, Doc]:
    text, number = {"type": "string"}, {"type": "integer", "format": "int64"}
    texts = {"type": "array", "items": text}
    return {
        OBJECT_META_NAME: published(OBJECT_META),
        f"{META}.ListMeta": _plain(
            "Which state a list shows and where it goes on.",
            {"continue": text, "remainingItemCount": number, "resourceVersion": text, "selfLink": text},
        ),
        f"{META}.Patch": {"type": "object", "description": "A change, in one of the forms the operation consumes."},
        f"{META}.DeleteOptions": _plain(
            "How to delete.",
            {
                "apiVersion": text,
                "dryRun": texts,
                "gracePeriodSeconds": number,
                "kind": text,
                "orphanDependents": {"type": "boolean"},
                "preconditions": _plain("What must still be true.", {"resourceVersion": text, "uid": text}),
                "propagationPolicy": text,
            },
        ),
        f"{META}.Status": _plain(
            "The outcome of a call that answers no object.",
            {
                "apiVersion": text,
                "code": {"type": "integer", "format": "int32"},
                "kind": text,
                "message": text,
                "reason": text,
                "status": text,
            },
        ),
    }


def _plain(description: str, properties: Doc) -> Doc:
    return {"type": "object", "description": description, "properties": properties}


def v2_node(node: Doc) -> Doc:
    """A definition as OpenAPI v2 can say it, and as kubectl's reader of it survives."""
    if "allOf" in node:
        (ref,) = node["allOf"]
        described = {"description": node["description"]} if "description" in node else {}
        return described | v2_node(ref)
    if "$ref" in node:
        return {"$ref": node["$ref"].replace(V3_PREFIX, V2_PREFIX)}
    out = {key: value for key, value in node.items() if key not in {"nullable", "anyOf", "properties", "items"}}
    if node.get("x-kubernetes-int-or-string"):
        return {**out, "type": "string", "format": "int-or-string"}
    if node.get("nullable") or node.get("x-kubernetes-preserve-unknown-fields"):
        # That reader takes null, and what it does not know, only where no type is given.
        return {key: value for key, value in out.items() if key not in {"type", "required", "format"}}
    return out | _v2_children(node)


def _v2_children(node: Doc) -> Doc:
    out: Doc = {}
    properties = node.get("properties", {})
    if properties:
        out["properties"] = {name: v2_node(sub) for name, sub in properties.items()}
    if "items" in node:
        out["items"] = v2_node(node["items"])
    if isinstance(node.get("additionalProperties"), dict):
        out["additionalProperties"] = v2_node(node["additionalProperties"])
    required = [name for name in node.get("required", ()) if not properties.get(name, {}).get("nullable")]
    return {**out, "required": required} if "required" in node else out
