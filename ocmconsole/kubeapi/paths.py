"""Documents outside resources: discovery, OpenAPI, version and health (wire.md section 1). All GET, all authorised."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpResponse

from ocmconsole.kubeapi import changes, discovery, errors, negotiation, openapi

if TYPE_CHECKING:
    from django.http import HttpRequest

    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.openapi import Document

HEALTH = ("healthz", "livez", "readyz")
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
V2_PROTOBUF_ANSWER = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def answer(request: HttpRequest, path: str) -> HttpResponse:
    """Raises NotFound for a path that is none of ours."""
    parts = [part for part in path.split("/") if part]
    match parts:
        case []:
            return _json({"paths": discovery.root_paths()})
        case ["version"]:
            return _json(discovery.version())
        case [("healthz" | "livez" | "readyz") as check, *names]:
            return _health(request, check, names)
        case ["api"]:
            if _wants_aggregated(request):
                return _cached(request, discovery.aggregated_core(), AGGREGATED)
            return _json(discovery.api_versions(_host()))
        case ["apis"]:
            if _wants_aggregated(request):
                return _cached(request, discovery.aggregated_groups(), AGGREGATED)
            return _json(discovery.api_group_list())
        case ["apis", group]:
            return _found(discovery.api_group(group))
        case ["api", version]:
            return _found(discovery.api_resource_list("", version))
        case ["apis", group, version]:
            return _found(discovery.api_resource_list(group, version))
        case ["openapi", "v2"] | ["swagger-2.0.0.pb-v1"]:
            return _openapi_v2(request)
        case ["openapi", "v3"]:
            return _document(request, openapi.v3_root(), "application/json")
        case ["openapi", "v3", *rest]:
            return _openapi_v3(request, "/".join(rest))
    raise errors.unknown_path()


def _openapi_v2(request: HttpRequest) -> HttpResponse:
    accept = request.headers.get("Accept", "*/*")
    if "proto-openapi" in accept or request.path.endswith("pb-v1"):
        return _document(request, openapi.v2_protobuf(), V2_PROTOBUF_ANSWER)
    if "json" in accept or "*/*" in accept:
        return _document(request, openapi.v2_json(), "application/json")
    return HttpResponse(status=406)


def _openapi_v3(request: HttpRequest, path: str) -> HttpResponse:
    document = openapi.v3_group(path)
    if document is None:
        raise errors.unknown_path()
    asked = request.GET.get("hash")
    if asked is not None and asked != document.etag:
        response = HttpResponse(status=301)
        response["Location"] = f"/openapi/v3/{path}?hash={document.etag}"
        return response
    response = _document(request, document, "application/json")
    if asked is not None:
        response["Cache-Control"] = "public, immutable, max-age=31536000"
    return response


def _document(request: HttpRequest, document: Document, content_type: str) -> HttpResponse:
    tag = f'"{document.etag}"'
    if request.headers.get("If-None-Match") == tag:
        response = HttpResponse(status=304)
    else:
        response = HttpResponse(document.body, content_type=content_type)
    response["ETag"] = tag
    response["Vary"] = "Accept"
    return response


def _health(request: HttpRequest, check: str, names: list[str]) -> HttpResponse:
    """Ready when the database answers; a named check is one of the list."""
    results = {"ping": True, "database": _database_answers() if check != "livez" else True}
    if names:
        if len(names) > 1 or names[0] not in results:
            raise errors.unknown_path()
        results = {names[0]: results[names[0]]}
    passed = all(results.values())
    body = "ok"
    if "verbose" in request.GET or not passed:
        lines = [f"[{'+' if good else '-'}]{name} {'ok' if good else 'failed'}" for name, good in results.items()]
        body = "\n".join([*lines, f"{check} check {'passed' if passed else 'failed'}", ""])
    return HttpResponse(body, content_type="text/plain; charset=utf-8", status=200 if passed else 500)


def _database_answers() -> bool:
    try:
        connection.ensure_connection()
        changes.head()
    except DatabaseError:
        return False
    return True


def _wants_aggregated(request: HttpRequest) -> bool:
    wanted = negotiation.negotiate(request.headers.get("Accept", ""), want=("APIGroupDiscoveryList",))
    return wanted.shape == "APIGroupDiscoveryList"


def _found(doc: Doc | None) -> HttpResponse:
    if doc is None:
        raise errors.unknown_path()
    return _json(doc)


def _json(doc: Doc) -> HttpResponse:
    return HttpResponse(negotiation.dump(doc, "json"), content_type="application/json")


def _cached(request: HttpRequest, doc: Doc, content_type: str) -> HttpResponse:
    body = negotiation.dump(doc, "json")
    tag = f'"{hashlib.sha512(body).hexdigest().upper()}"'
    response = (
        HttpResponse(status=304)
        if request.headers.get("If-None-Match") == tag
        else HttpResponse(body, content_type=content_type)
    )
    response["ETag"] = tag
    response["Vary"] = "Accept"
    response["Cache-Control"] = "public"
    return response


def _host() -> str:
    return settings.OCMCONSOLE_API_URL.partition("://")[2]
