"""Documents outside resources: discovery, OpenAPI, version and health (W6, W8). All GET, all authorised.

Each public function gets the request and the parts of the path that ``kubeapi.urls`` names, which routes to them.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from django.conf import settings
from django.http import HttpResponse

from ocmconsole.kubeapi import errors, virtual_resources
from ocmconsole.kubeapi.formats import negotiation
from ocmconsole.kubeapi.health import metrics, probes
from ocmconsole.kubeapi.publish import discovery, openapi

if TYPE_CHECKING:
    from django.http import HttpRequest

    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.publish.openapi import OpenAPIDocument

V2_PROTOBUF_ANSWER = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# How long others may keep a registered document, as in the reference: it changes with a key of the hub, if at all.
DOCUMENT_SECONDS = 3600
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def registered(request: HttpRequest) -> HttpResponse:
    """A document that an app has registered for its path. Raises NotFound."""
    document = virtual_resources.find_document(request.path.rstrip("/"))
    if document is None:
        raise errors.unknown_path()
    return HttpResponse(
        negotiation.dump(document.read(), "json"),
        content_type=document.content_type,
        headers={"Cache-Control": f"public, max-age={DOCUMENT_SECONDS}"},
    )


def root(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - as every function here
    return _json({"paths": discovery.root_paths()})


def version(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - as every function here
    return _json(discovery.version())


def core_versions(request: HttpRequest) -> HttpResponse:
    if _wants_aggregated(request):
        return _cached(request, discovery.aggregated_core(), AGGREGATED)
    return _json(discovery.api_versions(_host()))


def groups(request: HttpRequest) -> HttpResponse:
    if _wants_aggregated(request):
        return _cached(request, discovery.aggregated_groups(), AGGREGATED)
    return _json(discovery.api_group_list())


def group(request: HttpRequest, group: str) -> HttpResponse:  # noqa: ARG001 - as every function here
    return _found(discovery.api_group(group))


def resource_list(request: HttpRequest, version: str, group: str = "") -> HttpResponse:  # noqa: ARG001 - as every function here
    return _found(discovery.api_resource_list(group, version))


def openapi_v2(request: HttpRequest) -> HttpResponse:
    accept = request.headers.get("Accept") or "*/*"
    if "proto-openapi" in accept or request.path.endswith("pb-v1"):
        return _document(request, openapi.v2_protobuf(), V2_PROTOBUF_ANSWER)
    if "json" in accept or "*/*" in accept:
        return _document(request, openapi.v2_json(), "application/json")
    return HttpResponse(status=406)


def openapi_v3_paths(request: HttpRequest) -> HttpResponse:
    return _document(request, openapi.v3_root(), "application/json")


def openapi_v3(request: HttpRequest, path: str) -> HttpResponse:
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


def _document(request: HttpRequest, document: OpenAPIDocument, content_type: str) -> HttpResponse:
    return _revalidated(request, document.body, document.etag, content_type)


def _revalidated(request: HttpRequest, body: bytes, etag: str, content_type: str) -> HttpResponse:
    """Clients lay the headers of a 304 over those they have kept: the type must be there, and the same (W164)."""
    tag = f'"{etag}"'
    if request.headers.get("If-None-Match") == tag:
        response = HttpResponse(status=304, content_type=content_type)
    else:
        response = HttpResponse(body, content_type=content_type)
    response["ETag"] = tag
    response["Vary"] = "Accept"
    return response


def health(request: HttpRequest) -> HttpResponse:
    """Where no event loop has answered already (``request_threads``)."""
    said = probes.answer(request.path, [(key, value) for key, found in request.GET.lists() for value in found])
    if said is None:
        raise errors.unknown_path()
    return HttpResponse(said.text, content_type=probes.CONTENT_TYPE, status=said.status)


def prometheus(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - as every function here
    """For Prometheus; needs the right to get ``/metrics``, as on a kube-apiserver."""
    return HttpResponse(metrics.exposition(), content_type=metrics.CONTENT_TYPE)


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
    response = _revalidated(request, body, hashlib.sha512(body).hexdigest().upper(), content_type)
    response["Cache-Control"] = "public"
    return response


def _host() -> str:
    return settings.OCMCONSOLE_API_URL.partition("://")[2]
