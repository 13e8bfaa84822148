"""The ASGI applications: one for each listener, and ``application`` for servers that know only one.

ocmconsole.server.serving runs both in one process. Behind a proxy each listener is a process of its own on
``ocmconsole.asgi:api_application`` or ``ocmconsole.asgi:console_application``; what such a server needs besides starts
with its lifespan events, or with the first probe of the API's health where it sends none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import django

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ocmconsole.settings")
django.setup(set_prefix=False)

from django.conf import settings  # noqa: E402 - Django must be set up before its handler is made

from clusters.renewals.renewal_batches import LeaseBatches  # noqa: E402 - Django must be set up before its handler is made
from ocmconsole.embedded import ServerBackground  # noqa: E402
from ocmconsole.kubeapi.access import authentication, session  # noqa: E402
from ocmconsole.server.agents.lease_path import LeasePath  # noqa: E402
from ocmconsole.server.django_handler import django_handler  # noqa: E402
from ocmconsole.server.intake import Limits  # noqa: E402
from ocmconsole.server.listeners import API, CONSOLE  # noqa: E402
from ocmconsole.server.request_threads import RequestThreads  # noqa: E402

API_THREADS = 8  # more only wait for each other: Python runs one at a time, SQLite writes one at a time
CONSOLE_THREADS = 4  # apart, so that slow pages and slow readers of files never hold up an agent

_handle = django_handler()
_limits = Limits(
    stranger_body=settings.OCMCONSOLE_LIMIT_STRANGER_BODY,
    bodies=settings.OCMCONSOLE_LIMIT_BODIES,
    stranger_bodies=settings.OCMCONSOLE_LIMIT_STRANGER_BODIES,
)
_beside = ServerBackground()
api_application = RequestThreads(
    API,
    _handle,
    threads=API_THREADS,
    judge=authentication.is_known,
    limits=_limits,
    beside=_beside,
    leases=LeasePath(LeaseBatches()),
)
console_application = RequestThreads(
    CONSOLE, _handle, threads=CONSOLE_THREADS, judge=session.known_as, limits=_limits, beside=_beside
)


async def application(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """By the local port: a request that came in at the console's address gets the console, any other the API."""
    server = scope["server"] if scope["type"] == "http" else None
    is_console = server is not None and server[1] == settings.OCMCONSOLE_CONSOLE_ADDRESS[1]
    await (console_application if is_console else api_application)(scope, receive, send)
