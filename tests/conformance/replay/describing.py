"""What a server says of itself, brought down to what clients act on, so that two servers can be laid side by side.

Prose is left out, and so is what two servers cannot share (hashes, orders of maps). Called by test_replay for what the
hub says; `discovery.jsonl` holds what the real one said, brought down in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conformance.replay.comparing import Doc

GVK = "x-kubernetes-group-version-kind"
MACHINERY = "io.k8s.apimachinery."
# What OpenAPI takes for granted when nothing is said.
MEANINGLESS: tuple[Any, ...] = (None, "", {}, 0, "atomic")
KEPT = {"format", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "required", "default", "nullable"}
KEPT |= {"x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-preserve-unknown-fields"}


def discovery(answer: Doc) -> Doc:
    """Aggregated discovery: each resource with its verbs under `group/version/resource`, and the order of versions."""
    found: Doc = {}
    for group in answer["items"]:
        name = group["metadata"].get("name", "core")
        found[f"{name}/versions"] = [version["version"] for version in group["versions"]]
        for version in group["versions"]:
            for resource in version.get("resources", []):
                found[f"{name}/{version['version']}/{resource['resource']}"] = _resource(resource)
    return found


def _resource(resource: Doc) -> Doc:
    kept = {
        name: resource[name] for name in ("scope", "singularResource", "shortNames", "categories") if name in resource
    }
    subresources = {each["subresource"]: _spoken(each) for each in resource.get("subresources", [])}
    return kept | _spoken(resource) | ({"subresources": subresources} if subresources else {})


def _spoken(resource: Doc) -> Doc:
    return {"kind": resource.get("responseKind", {}).get("kind"), "verbs": sorted(resource["verbs"])}


def index(answer: Doc) -> Doc:
    """/openapi/v3: which documents there are."""
    return dict.fromkeys(answer["paths"], "described")


def openapi(answer: Doc) -> Doc:
    """One document of OpenAPI v3: the methods of each path, and each kind of its group property by property."""
    schemas = answer["components"]["schemas"]
    kinds = {name: schema for name, schema in schemas.items() if GVK in schema and not name.startswith(MACHINERY)}
    paths = {path: {"verbs": sorted(set(methods) - {"parameters"})} for path, methods in answer["paths"].items()}
    return {"paths": paths, "kinds": {name: form(schema, schemas) for name, schema in kinds.items()}}


def form(schema: Doc, schemas: Doc) -> Any:
    """A schema as a tree, references followed: a name for a type, an object by its properties."""
    referred = [each["$ref"] for each in (schema, *schema.get("allOf", ())) if "$ref" in each]
    if referred:
        return form(schemas[referred[0].rpartition("/")[2]], schemas)
    said = {name: schema[name] for name in KEPT if schema.get(name) not in MEANINGLESS}
    inner = {"items": form(schema["items"], schemas)} if "items" in schema else {}
    if isinstance(each := schema.get("additionalProperties"), dict):
        inner["each"] = form(each, schemas)
    inner |= {name: form(each, schemas) for name, each in schema.get("properties", {}).items()}
    type_ = schema.get("type", "anything")
    return {"type": type_, **said, **inner} if said or inner else type_


FORMS: dict[str, Callable[[Doc], Doc]] = {"discovery": discovery, "index": index, "openapi": openapi}
