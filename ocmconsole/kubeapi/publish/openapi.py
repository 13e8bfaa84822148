"""OpenAPI: what kubectl reads before it creates, applies or explains anything (W8).

Every document comes from the schemas that also validate, is made once when first asked for and kept as bytes with its
hash. Custom kinds never offer strategic merge; built-in kinds do, and then say how each list merges, because kubectl
computes the patch from these documents. Called by ``endpoints``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import Any, NamedTuple

import orjson

from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.kinds import Served, Subresource
from ocmconsole.kubeapi.publish import discovery, gnostic
from ocmconsole.kubeapi.publish.openapi_definitions import (
    GVK,
    META,
    V2_PREFIX,
    V3_PREFIX,
    Definition,
    any_content,
    definition_name,
    schemas,
    stored_schema,
    v2_node,
)
from ocmconsole.kubeapi.virtual_resources import Endpoint, collected, described

_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"
_OBJECT_TYPES = ("application/json", "application/yaml")

_QUERY = {
    "allowWatchBookmarks": ("boolean", "Ask a watch for events that only carry a version."),
    "continue": ("string", "Token of the next page of a list."),
    "dryRun": ("string", "All runs every check and stores nothing."),
    "fieldManager": ("string", "Name of the writer, as managedFields shows it."),
    "fieldSelector": ("string", "Only objects whose fields have these values."),
    "fieldValidation": ("string", "Ignore, Warn about or, with Strict, refuse unknown and duplicate fields."),
    "force": ("boolean", "Take over fields that other writers own; for apply patches."),
    "labelSelector": ("string", "Only objects whose labels fit."),
    "limit": ("integer", "At most this many objects a page."),
    "propagationPolicy": ("string", "What becomes of dependents: Background, Foreground or Orphan."),
    "resourceVersion": ("string", "State to read or to watch from."),
    "timeoutSeconds": ("integer", "When the server ends a watch."),
    "watch": ("boolean", "Stream changes instead of a list."),
}
_LIST_QUERY = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "timeoutSeconds",
    "watch",
)
_WRITE_QUERY = ("dryRun", "fieldManager", "fieldValidation")
_DELETE_QUERY = ("dryRun", "propagationPolicy")


class _Verb(NamedTuple):
    """How one verb looks in a path item."""

    method: str
    action: str
    word: str
    query: tuple[str, ...]
    body: str = ""


_COLLECTION = {
    "list": _Verb("get", "list", "list or watch", _LIST_QUERY),
    "create": _Verb("post", "post", "create", _WRITE_QUERY, "object"),
    "deletecollection": _Verb(
        "delete", "deletecollection", "delete a selection of", (*_LIST_QUERY, *_DELETE_QUERY), "options"
    ),
}
_ITEM = {
    "get": _Verb("get", "get", "read", ("resourceVersion",)),
    "update": _Verb("put", "put", "replace", _WRITE_QUERY, "object"),
    "patch": _Verb("patch", "patch", "change part of", (*_WRITE_QUERY, "force"), "patch"),
    "delete": _Verb("delete", "delete", "delete", _DELETE_QUERY, "options"),
    "create": _Verb("post", "post", "create", _WRITE_QUERY, "object"),
}


@dataclass(frozen=True, slots=True)
class OpenAPIDocument:
    """A finished document; ``etag`` is its SHA-512 as the addresses in the v3 root carry it, without quotes."""

    body: bytes
    etag: str

    @classmethod
    def of(cls, body: bytes) -> OpenAPIDocument:
        return cls(body, hashlib.sha512(body).hexdigest().upper())


class Operation(NamedTuple):
    """One method of one path, before it is written as v2 or v3."""

    path: str
    verb: _Verb
    of: Definition
    answer: str
    patches: tuple[str, ...]

    @property
    def id(self) -> str:
        place = self.path.translate(str.maketrans("/.-", "___", "{}"))
        return f"{self.verb.action}{place}"


class Publication:
    """All documents about a set of kinds."""

    def __init__(self, served: Iterable[Served], virtual: Iterable[Endpoint] = ()) -> None:
        self._served = list(served)
        self._virtual = list(virtual)

    @cached_property
    def v3_root(self) -> OpenAPIDocument:
        paths = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={document.etag}"}
            for path, document in sorted(self._v3.items())
        }
        return OpenAPIDocument.of(orjson.dumps({"paths": paths}))

    def v3_group(self, path: str) -> OpenAPIDocument | None:
        return self._v3.get(path)

    @cached_property
    def v2_json(self) -> OpenAPIDocument:
        return OpenAPIDocument.of(orjson.dumps(self._v2))

    @cached_property
    def v2_protobuf(self) -> OpenAPIDocument:
        return OpenAPIDocument.of(gnostic.encode(self._v2))

    @cached_property
    def _v3(self) -> dict[str, OpenAPIDocument]:
        versions = {(served.version.group, served.version.version) for served in self._served}
        versions |= {(extra.group, extra.version) for extra in self._virtual}
        return {
            _prefix(*found).strip("/"): OpenAPIDocument.of(orjson.dumps(self._v3_document(*found)))
            for found in versions
        }

    def _v3_document(self, group: str, version: str) -> Doc:
        operations = list(self._operations(group, version))
        definitions = {operation.of.name: operation.of for operation in operations}
        return {
            "openapi": "3.0.0",
            "info": _info(),
            "paths": _paths(operations, _v3_operation),
            "components": {"schemas": schemas(definitions.values())},
        }

    @cached_property
    def _v2(self) -> Doc:
        operations = list(self._operations())
        definitions = {operation.of.name: operation.of for operation in operations}
        return {
            "swagger": "2.0",
            "info": _info(),
            "paths": _paths(operations, _v2_operation),
            "definitions": {name: v2_node(node) for name, node in schemas(definitions.values()).items()},
        }

    def _operations(self, group: str | None = None, version: str | None = None) -> Iterator[Operation]:
        for served in self._served:
            if group is None or (served.version.group, served.version.version) == (group, version):
                yield from _stored_operations(served)
        for extra in self._virtual:
            if group is None or (extra.group, extra.version) == (group, version):
                yield from _virtual_operations(extra)


@cache
def publication() -> Publication:
    """The documents about everything registered; asked for only after all apps have registered their kinds."""
    return Publication(chain(kinds.all_served(), collected()), described())


def v3_root() -> OpenAPIDocument:
    return publication().v3_root


def v3_group(path: str) -> OpenAPIDocument | None:
    """``path`` is ``api/v1`` or ``apis/G/V``."""
    return publication().v3_group(path)


def v2_json() -> OpenAPIDocument:
    return publication().v2_json


def v2_protobuf() -> OpenAPIDocument:
    return publication().v2_protobuf


def _info() -> Doc:
    return {"title": "Kubernetes", "version": discovery.version()["gitVersion"]}


def _prefix(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


# Operations


def _stored_operations(served: Served) -> Iterator[Operation]:
    kind, version = served
    patches = _PATCHES if kind.custom else (*_PATCHES, _STRATEGIC)
    of = Definition(version.schema.name, version.group, version.version, kind.kind, stored_schema(served))
    prefix = _prefix(version.group, version.version)
    place = f"{prefix}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{prefix}/{kind.plural}"
    yield from _operations_at(place, kind.verbs, of, patches)
    if kind.namespaced and "list" in kind.verbs:
        yield Operation(f"{prefix}/{kind.plural}", _COLLECTION["list"], of, f"{of.name}List", patches)
    for sub in kind.subresources:
        below = _sub_definition(sub, of)
        for verb in sub.verbs:
            if verb in _ITEM:
                yield Operation(f"{place}/{{name}}/{sub.name}", _ITEM[verb], below, below.name, patches)


def _virtual_operations(extra: Endpoint) -> Iterator[Operation]:
    name = extra.schema.name if extra.schema else definition_name(extra.group, extra.version, extra.kind)
    schema = extra.schema.publish() if extra.schema else any_content()
    of = Definition(name, extra.group, extra.version, extra.kind, schema)
    place = _prefix(extra.group, extra.version)
    if extra.namespaced:
        place = f"{place}/namespaces/{{namespace}}"
    yield from _operations_at(f"{place}/{extra.plural}", extra.verbs, of, _PATCHES)


def _operations_at(place: str, verbs: Iterable[str], of: Definition, patches: tuple[str, ...]) -> Iterator[Operation]:
    for verb in verbs:
        if verb in _COLLECTION:
            answer = f"{of.name}List" if verb == "list" else f"{META}.Status" if verb == "deletecollection" else of.name
            yield Operation(place, _COLLECTION[verb], of, answer, patches)
        elif verb in _ITEM:
            answer = f"{META}.Status" if verb == "delete" else of.name
            yield Operation(f"{place}/{{name}}", _ITEM[verb], of, answer, patches)


def _sub_definition(sub: Subresource, parent: Definition) -> Definition:
    """The body of a subresource: the parent itself, or another type that accepts any content here."""
    if sub.kind is None or sub.kind == parent.kind:
        return parent
    group = parent.group if sub.group is None else sub.group
    version = sub.version or parent.version
    return Definition(definition_name(group, version, sub.kind), group, version, sub.kind, any_content())


def _paths(operations: Iterable[Operation], write: Any) -> Doc:
    paths: dict[str, Doc] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.verb.method] = write(operation)
    return dict(sorted(paths.items()))


def _v3_operation(operation: Operation) -> Doc:
    verb = operation.verb
    schema = {"schema": {"type": "string"}}
    places = [{"name": name, "in": "path", "required": True, **schema} for name in _placeholders(operation)]
    query = [
        {"name": name, "in": "query", "description": _QUERY[name][1], "schema": {"type": _QUERY[name][0]}}
        for name in verb.query
    ]
    written: Doc = {"description": _described(operation), "operationId": operation.id, "parameters": places + query}
    if verb.body:
        body = {"schema": {"$ref": V3_PREFIX + _body_name(operation)}}
        written["requestBody"] = {
            "content": dict.fromkeys(_consumed(operation), body),
            "required": verb.body != "options",
        }
    answer = {"schema": {"$ref": V3_PREFIX + operation.answer}}
    written["responses"] = {"200": {"description": "OK", "content": dict.fromkeys(_OBJECT_TYPES, answer)}}
    return written | {"x-kubernetes-action": verb.action, GVK: operation.of.gvk}


def _v2_operation(operation: Operation) -> Doc:
    verb = operation.verb
    parameters: list[Doc] = [
        {"name": name, "in": "path", "required": True, "type": "string"} for name in _placeholders(operation)
    ]
    parameters += [
        {"name": name, "in": "query", "description": _QUERY[name][1], "type": _QUERY[name][0]} for name in verb.query
    ]
    if verb.body:
        schema = {"$ref": V2_PREFIX + _body_name(operation)}
        parameters.append({"name": "body", "in": "body", "required": verb.body != "options", "schema": schema})
    return {
        "description": _described(operation),
        "operationId": operation.id,
        "consumes": list(_consumed(operation)),
        "produces": list(_OBJECT_TYPES),
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "schema": {"$ref": V2_PREFIX + operation.answer}}},
        "x-kubernetes-action": verb.action,
        GVK: operation.of.gvk,
    }


def _placeholders(operation: Operation) -> list[str]:
    return [name for name in ("namespace", "name") if f"{{{name}}}" in operation.path]


def _described(operation: Operation) -> str:
    return f"{operation.verb.word} {operation.of.kind}"


def _body_name(operation: Operation) -> str:
    return {"patch": f"{META}.Patch", "options": f"{META}.DeleteOptions"}.get(operation.verb.body, operation.of.name)


def _consumed(operation: Operation) -> tuple[str, ...]:
    return operation.patches if operation.verb.body == "patch" else _OBJECT_TYPES
