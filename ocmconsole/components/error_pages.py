"""Pages that say no: what happened, whether something was changed, what to do now, and the request's id.

Invariant: the page of an error of ours or of the database reads neither: it is rendered without context processors, so
that it comes when nothing else does. Called by Django (handlers in ``urls``), allauth (429) and ``middleware``.
"""

from __future__ import annotations

import sys
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template import loader

from ocmconsole.components.links import explain_url
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access.session import REQUEST_ID
from ocmconsole.kubeapi.health import outages
from ocmconsole.kubeapi.watch import redis_client

LIMIT = 60  # the limits of settings are a number a minute
SOON = 5  # seconds until a person may try again: what is below the hub is away
FAULTS = 500  # HTTP codes from here on are the hub's
UNAVAILABLE = frozenset({503, 507})
PAGES = {403: "403.html", 404: "404.html", 409: "409.html", 429: "429.html"}


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:  # noqa: ARG001 - Django's signature
    """Said by Django before any view was asked, so the page asks nothing either."""
    return _bare(request, "400.html", 400)


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    text = str(exception) if isinstance(exception, PermissionDenied) and exception.args else ""
    return _page(request, "403.html", 403, reason=text, explain=getattr(exception, "explain_url", ""))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001 - Django's signature
    return _page(request, "403_csrf.html", 403)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    text = exception.args[0] if isinstance(exception, Http404) and exception.args else ""
    return _page(request, "404.html", 404, reason=text if isinstance(text, str) else "")


def too_many(request: HttpRequest) -> HttpResponse:
    response = _page(request, "429.html", 429, wait=LIMIT)
    response.headers["Retry-After"] = str(LIMIT)
    return response


def failed(request: HttpRequest) -> HttpResponse:
    """An error of ours, or something that the hub needs is away."""
    error = sys.exception()
    if isinstance(error, OperationalError | InterfaceError):
        return unavailable(request, outages.database_error_response(error))
    if error is not None and redis_client.is_failure(error):
        return unavailable(request, outages.outage_error("Redis does not answer"))
    return _bare(request, "500.html", 500)


def unavailable(request: HttpRequest, error: errors.ApiError) -> HttpResponse:
    """503 or 507 with the cause: what is below the hub is away, locked or full, or the hub only reads."""
    cause = error.message.rpartition("request: ")[2]
    only_reads = bool(cause) and cause in {outages.state.superseded, outages.state.read_only}
    response = _bare(request, "503.html", error.code, cause=cause, wait=SOON, only_reads=only_reads)
    response.headers["Retry-After"] = str(SOON)
    return response


def refused(request: HttpRequest, error: errors.ApiError) -> HttpResponse:
    """What a verb or a service refused, where its view has no better place to say so."""
    if error.code in UNAVAILABLE:
        return unavailable(request, error)
    name = PAGES.get(error.code)
    if name is None:
        return _bare(request, "400.html" if error.code < FAULTS else "500.html", error.code, reason=error.message)
    response = _page(request, name, error.code, reason=error.message, explain=_explain(error), wait=error.retry_after)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def _explain(error: errors.ApiError) -> str:
    """Why not, with what the refusal says of itself filled in."""
    if not isinstance(error, errors.Forbidden) or not error.details.get("kind"):
        return ""
    group = error.details.get("group", "")
    resource = f"{error.details['kind']}.{group}" if group else error.details["kind"]
    return explain_url("", resource, name=error.details.get("name", ""))


def _page(request: HttpRequest, name: str, status: int, **context: Any) -> HttpResponse:
    """Within the console's frame, for who is signed in."""
    return render(request, name, {"request_id": _id(request), **context}, status=status)


def _bare(request: HttpRequest, name: str, status: int, **context: Any) -> HttpResponse:
    hub = {"name": settings.OCMCONSOLE_HUB_NAME, "environment": settings.OCMCONSOLE_ENVIRONMENT}
    text = loader.get_template(name).render({"hub": hub, "request_id": _id(request), **context})
    return HttpResponse(text, status=status)


def _id(request: HttpRequest) -> str:
    return str(request.META.get(REQUEST_ID, ""))
