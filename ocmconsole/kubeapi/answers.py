"""Writes answers: an object, a table, or a refusal as a Status, in the form the client asked for (wire.md 2.4, 3.7)."""

from __future__ import annotations

import logging

import orjson
from django.core.exceptions import SuspiciousOperation
from django.db import OperationalError
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request

from ocmconsole.kubeapi import errors, negotiation, tables
from ocmconsole.kubeapi.calls import Call
from ocmconsole.kubeapi.errors import Doc

log = logging.getLogger(__name__)

MEDIA_TYPES = {"json": "application/json", "yaml": "application/yaml"}


def negotiate(request: Request) -> negotiation.Answer:
    return negotiation.negotiate(
        request.headers.get("Accept", ""), want=("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
    )


def object_(call: Call, doc: Doc, status: int = 200) -> HttpResponse:
    shown = call.served.version.from_storage(doc)
    if call.answer.shape == "Table":
        shown = table(call, [shown], {"resourceVersion": shown["metadata"].get("resourceVersion", "")})
    elif call.answer.shape:
        shown = tables.partial(shown)
    return respond(call, shown, status)


def table(call: Call, docs: list[Doc], metadata: Doc) -> Doc:
    include = call.request.query_params.get("includeObject", "Metadata")
    return tables.table(call.served, docs, include_object=include, now=timezone.now(), metadata=metadata)


def respond(call: Call, doc: Doc, status: int = 200) -> HttpResponse:
    media = call.answer.media
    return HttpResponse(
        negotiation.dump(doc, media),
        content_type=MEDIA_TYPES[media],
        status=status,
        headers={"Cache-Control": "no-cache, private"},
    )


def refusal(request: Request, error: Exception) -> HttpResponse:
    """Any failure as a Status. What was not expected is logged and told without its text."""
    if isinstance(error, errors.ApiError):
        told = error
    elif isinstance(error, SuspiciousOperation):
        told = errors.BadRequest("the request has more parameters, or larger ones, than the hub reads")
    elif isinstance(error, OperationalError):
        log.error("the database did not answer %s %s", request.method, request.path, exc_info=error)
        told = errors.TooManyRequests(
            "the server has received too many requests and has asked us to try again later", retry_after=1
        )
    else:
        log.error("unexpected failure of %s %s", request.method, request.path, exc_info=error)
        told = errors.InternalError(f"Internal error occurred: {type(error).__name__}")
    response = HttpResponse(orjson.dumps(told.status()), content_type="application/json", status=told.code)
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "no-cache, private"
    if told.retry_after is not None:
        response["Retry-After"] = str(told.retry_after)
    return response


def add_warning(response: HttpResponseBase, text: str) -> None:
    """One header each in principle; Django keeps one value a name, and clients read a comma-joined list."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ").replace("\r", " ")
    value = f'299 - "{quoted}"'.encode("utf-8", "replace").decode("latin-1")
    present = response.headers.get("Warning")
    response.headers["Warning"] = f"{present}, {value}" if present else value
