"""Every request of the console: one id for audit, log and page, and the headers that each answer carries.

Invariant: the API listener never comes here (``listeners``). The Content-Security-Policy is django-csp's, in settings.
"""

from __future__ import annotations

import uuid
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import structlog
from django.db import DatabaseError

from ocmconsole.components import error_pages
from ocmconsole.kubeapi import errors, request_cache
from ocmconsole.kubeapi.access.session import AS_OF, REQUEST_ID
from ocmconsole.kubeapi.health import outages
from ocmconsole.kubeapi.watch import change_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse
    from django.http.response import HttpResponseBase

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
NOWHERE = ("accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "magnetometer", "microphone")
NOWHERE_EITHER = ("midi", "payment", "usb", "serial", "browsing-topics")
HERE = ("clipboard-write", "fullscreen", "publickey-credentials-create", "publickey-credentials-get")
HEADERS = {
    "Permissions-Policy": ", ".join(
        [*(f"{name}=()" for name in NOWHERE + NOWHERE_EITHER), *(f"{name}=(self)" for name in HERE)]
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
}


def while_away(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Before the session is read: while the database is known to be away, every page says so at once.

    So does every act in a hub of which a newer incarnation has begun (D28); its pages are still read.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        away = outages.state.away or ("" if request.method in SAFE else outages.state.only_reads)
        return error_pages.unavailable(request, outages.outage_error(away)) if away else get_response(request)

    return middleware


def _only_reads(request: HttpRequest) -> bool:
    """Who comes back from single sign-on does so by GET, and may get an account."""
    return request.method in {"GET", "HEAD"} and not request.path.startswith("/login/")


class RequestMiddleware:
    """Outside of everything that may refuse or fail."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        number = request.META[REQUEST_ID] = str(uuid.uuid4())
        memory = request_cache.remembering() if _only_reads(request) else nullcontext()
        if not _only_reads(request):
            with suppress(DatabaseError):  # which the session will meet too, and the error page has its words
                request.META[AS_OF] = change_log.rights()
        with structlog.contextvars.bound_contextvars(request_id=number), memory:
            response = self.get_response(request)
        response.headers["X-Request-ID"] = number
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        """No name holds a NUL, and PostgreSQL fails on one. Here, so that the answer has every other header too."""
        query = request.META.get("QUERY_STRING", "")
        return error_pages.bad_request(request) if "\0" in request.path + query or "%00" in query else None

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """A refusal that no view turned into a page of its own."""
        return error_pages.refused(request, error) if isinstance(error, errors.ApiError) else None
