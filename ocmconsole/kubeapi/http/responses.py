"""Writes answers: an object, a list, a stream, or a refusal as a Status, in the form asked for (W19, W172)."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import orjson
from django.core.exceptions import SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access import authentication
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.formats import negotiation, tables
from ocmconsole.kubeapi.health import outages
from ocmconsole.kubeapi.http import table_rows
from ocmconsole.kubeapi.http.api_calls import Call
from ocmconsole.kubeapi.http.hooks import JSONRenderer
from ocmconsole.kubeapi.http.request_info import ListOptions
from ocmconsole.kubeapi.storage.reader import TextPage
from ocmconsole.kubeapi.watch import change_log, follower, streams
from ocmconsole.kubeapi.watch.open_watches import Watcher
from ocmconsole.kubeapi.watch.stream_response import AsyncStreamResponse

log = logging.getLogger(__name__)


def object_(call: Call, doc: Doc, status: int = 200) -> HttpResponse:
    shown = call.served.version.from_storage(doc)
    if call.renderer.shape == "Table":
        shown = table_response(call, [shown], {"resourceVersion": shown["metadata"].get("resourceVersion", "")})
    elif call.renderer.shape:
        shown = tables.partial(shown)
    return respond(call, shown, status)


def list_response(call: Call, docs: list[Doc], metadata: Doc) -> HttpResponse:
    """Documents in the stored version as a list of the version that was asked for."""
    shown = [call.served.version.from_storage(doc) for doc in docs]
    if call.renderer.shape == "Table":
        return respond(call, table_response(call, shown, metadata))
    if call.renderer.shape:
        shown = [tables.partial(doc) for doc in shown]
        head: Doc = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
    else:
        head = {"kind": f"{call.served.kind.kind}List", "apiVersion": call.served.version.api_version}
    return respond(call, {**head, "metadata": metadata, "items": shown})


def list_of_texts(call: Call, metadata: Doc, parts: list[bytes]) -> HttpResponse:
    """The stored texts, which are joined already: no object is built, and a long list is never copied whole."""
    head = {"kind": f"{call.served.kind.kind}List", "apiVersion": call.served.version.api_version, "metadata": metadata}
    return _joined(call, head, "items", parts)


def table_of_texts(call: Call, metadata: Doc, page: TextPage) -> HttpResponse:
    """The table of a page with the metadata of each object, as ``table_response`` makes it, from rows that are kept."""
    rows = ",".join(table_rows.rows_of(call.served, page, clock.now())).encode()
    return _joined(call, tables.head(call.served, metadata), "rows", [rows] if rows else [])


def _joined(call: Call, head: Doc, name: str, parts: list[bytes]) -> HttpResponse:
    """JSON of the head, and in it as its last field a list: of parts of elements that commas join already."""
    response = HttpResponse(content_type=call.renderer.media_type, headers={"Cache-Control": "no-cache, private"})
    before = orjson.dumps(head)[:-1] + f',"{name}":['.encode()
    for part in parts:
        response.write(before + part)
        before = b","
    response.write(b"]}" if parts else before + b"]}")
    return response


def watch_scope(call: Call, options: ListOptions) -> streams.WatchScope:
    """What a list or watch sees. Raises BadRequest for a field selector that the kind does not support."""
    include = call.request.query_params.get("includeObject", "Metadata")
    seen = streams.WatchScope(
        call.served, call.info.namespace, options, call.renderer.shape, include, deleting=call.decision.deleting
    )
    options.fields.check_supported(seen.labels())
    return seen


def stream_response(call: Call, seen: streams.WatchScope, state: streams.State = streams.stored) -> AsyncStreamResponse:
    """A watch, which goes on as long as its caller may."""
    environ, asked = call.request.META, call.info.attributes()
    may_go_on = partial(follower.in_thread, authentication.may_still, environ, asked, deleting=seen.deleting)
    counts = change_log.rights_counts()
    judged = counts.ended_rights if counts.changes == call.actor.as_of else -1
    watcher = Watcher(call.actor.user, call.actor.user_agent, clock.now())
    stream = streams.Stream(seen, may_go_on, state, judged, watcher=watcher)
    return AsyncStreamResponse(
        stream.events(),
        content_type="application/json",
        headers={"Cache-Control": "no-cache, private"},
        attach=stream.attach,
        end=stream.end,
    )


def table_response(call: Call, docs: list[Doc], metadata: Doc) -> Doc:
    include = call.request.query_params.get("includeObject", "Metadata")
    return tables.table(call.served, docs, include_object=include, now=clock.now(), metadata=metadata)


def respond(call: Call, doc: Doc, status: int = 200) -> HttpResponse:
    """Renders at once. DRF's Response renders after the view, where what cannot be written becomes no Status."""
    return HttpResponse(
        call.renderer.render(doc),
        content_type=call.renderer.media_type,
        status=status,
        headers={"Cache-Control": "no-cache, private"},
    )


def exception_handler(error: Exception, context: dict[str, Any]) -> HttpResponse:
    """DRF's EXCEPTION_HANDLER: any failure as a Status. An unexpected one is logged, and its text is left out."""
    request: Request = context["request"]
    if isinstance(error, errors.ApiError):
        refusal = error
    elif isinstance(error, APIException):
        refusal = errors.of_code(error.status_code, str(error.detail))
    elif isinstance(error, SuspiciousOperation):
        refusal = errors.BadRequest("the request has more parameters, or larger ones, than the hub reads")
    elif isinstance(error, OperationalError | InterfaceError):
        refusal = outages.database_error_response(error)
        log.error("%s %s: %s: %s", request.method, request.path, refusal.message, str(error).strip())
    else:
        log.error("unexpected failure of %s %s", request.method, request.path, exc_info=error)
        refusal = errors.InternalError(f"Internal error occurred: {type(error).__name__}")
    body = JSONRenderer().render(refusal.status())
    response = HttpResponse(body, content_type=JSONRenderer.media_type, status=refusal.code)
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "no-cache, private"
    if refusal.retry_after is not None:
        response["Retry-After"] = str(refusal.retry_after)
    if refusal.code == errors.Unauthorized.code and request.META.get("ocmconsole.peer_certificate"):
        response["Connection"] = "close"  # it keeps the certificate of its handshake; a newer one needs another
    return response


def add_warning(response: HttpResponseBase, text: str) -> None:
    """One header each in principle; Django keeps one value a name, and clients read a comma-joined list."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ").replace("\r", " ")
    value = f'299 - "{quoted}"'.encode("utf-8", "replace").decode("latin-1")
    present = response.headers.get("Warning")
    response.headers["Warning"] = f"{present}, {value}" if present else value


def finished(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Indented for people: asked for by ``pretty``, or by the user agents of browsers, curl and Wget."""
    if not isinstance(response, HttpResponse) or request.method not in {"GET", "HEAD"}:
        return response
    if _is_for_people(request) and response["Content-Type"] == JSONRenderer.media_type and response.content:
        response.content = orjson.dumps(orjson.loads(response.content), option=orjson.OPT_INDENT_2) + b"\n"
    return response


def _is_for_people(request: HttpRequest) -> bool:
    if pretty := request.GET.get("pretty"):
        return pretty in {"1", "true"}
    return request.headers.get("User-Agent", "").startswith(negotiation.PEOPLE)
