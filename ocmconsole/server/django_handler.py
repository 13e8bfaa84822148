"""Django's synchronous handler, without the WSGI around it, on a thread that keeps its database connection."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from django.core import signals
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest, get_script_name
from django.template import engines
from django.urls import get_resolver, set_script_prefix

from ocmconsole.kubeapi.health import probes
from ocmconsole.server.listeners import API, API_URLCONF
from ocmconsole.server.request_environ import Environ

if TYPE_CHECKING:
    from django.http.response import HttpResponseBase

log = logging.getLogger(__name__)

Handle = Callable[[Environ], "HttpResponseBase"]


def django_handler() -> Handle:
    """Django's synchronous handler without the WSGI around it; needs ready apps."""
    handler = WSGIHandler()

    def handle(environ: Environ) -> HttpResponseBase:
        """``request_started`` here and ``request_finished`` in ``close`` keep the thread's database connection.

        Both must come on the thread of the view: they drop a connection that broke, and arm its health check.
        """
        import_views(environ["ocmconsole.listener"])
        set_script_prefix(get_script_name(environ))
        signals.request_started.send(sender=WSGIHandler, environ=environ)
        response = handler.get_response(WSGIRequest(environ))
        response._handler_class = WSGIHandler  # type: ignore[attr-defined] # noqa: SLF001 - what Django's own handlers do
        return response

    return handle


_importing = threading.Lock()
_imported: set[str] = set()
_unusable: set[str] = set()  # listeners whose views failed to be imported; each request tries again


def import_views(listener: str) -> None:
    """At a listener's first request, as they take up to 0.4 s of CPU time, and not each hub has users of both.

    By one thread at a time: of packages that import each other two threads could find each other's half made modules.
    """
    if listener in _imported:
        return
    with _importing:
        try:
            if listener == API:
                _ = get_resolver(API_URLCONF).url_patterns
            else:
                _ = get_resolver().url_patterns, engines.all()
        except Exception:
            _unusable.add(listener)
            log.exception("the views of the listener %s cannot be imported", listener)
            raise
        _unusable.discard(listener)
        _imported.add(listener)


def _trouble_with_views() -> str:
    """For ``/readyz``: known from the first request of a listener on."""
    return ", ".join(f"the views of the listener {name} cannot be imported" for name in sorted(_unusable))


probes.register("views", _trouble_with_views, needs_database=False)
