"""Keeps the two listeners apart: the API's never serves pages or reads cookies, the console's never serves the API.

Which listener took a request is in its environ, put there by ``request_environ``; a test client without one is the
console's.
"""

from __future__ import annotations

from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpResponseBadRequest
from django.urls import resolve

from ocmconsole.kubeapi import spans
from ocmconsole.kubeapi.health import metrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

API = "api"
CONSOLE = "console"
API_URLCONF = "ocmconsole.kubeapi.urls"
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


class ListenerMiddleware:
    """First in the chain, so that an API request meets no session, CSRF or page middleware."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        self.names = LOCAL_NAMES | {host_name(urlsplit(settings.OCMCONSOLE_CONSOLE_URL).netloc)}

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        began = monotonic()
        response = self._answer(request)
        listener = request.META.get("ocmconsole.listener", CONSOLE)
        metrics.count_request(listener, request.method or "", response.status_code, monotonic() - began)
        if spans.tracer is not None and (match := request.resolver_match) is not None:
            # Of the API, whose routes say little; what is not served is a text of the caller's.
            resource = match.kwargs.get("resource", "") if response.status_code != HTTPStatus.NOT_FOUND else ""
            about = {"http.route": f"/{match.route}", "ocmconsole.resource": resource}
            spans.say(f"{request.method} {resource or about['http.route']}", about)
        return response

    def _answer(self, request: HttpRequest) -> HttpResponseBase:
        if request.META.get("ocmconsole.listener") == API:
            return api_response(request)
        host = request.META.get("HTTP_HOST", "")
        if host and host_name(host) not in self.names:
            return HttpResponseBadRequest("The console is not served under this name; see OCMCONSOLE_CONSOLE_URL.")
        return self.get_response(request)


def host_name(host: str) -> str:
    """Without the port, in lower case. An IPv6 address keeps its brackets."""
    name, _, port = host.lower().rpartition(":")
    return name if port.isdecimal() and name else host.lower()


def api_response(request: HttpRequest) -> HttpResponseBase:
    """By the routes of the API, whose module is imported at the first request. A path may have empty parts."""
    path = "/".join(part for part in request.path.split("/") if part)
    match = request.resolver_match = resolve(f"/{path}", API_URLCONF)
    response: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
    return response
