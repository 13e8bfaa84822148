"""Served sites: the tiny one of tests/serving/site.py behind a listener."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from ocmconsole.server.intake import Limits
from ocmconsole.server.serving import GracefulStop
from tests.serving.listening import Site, listening
from tests.serving.site import Feed, feeds

KNOWN = "Bearer known"  # the only valid credential of these sites
Serve = Callable[..., Site]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """``serve(listener="console", threads=1, loop="asyncio")``; a small site of Django's, without middleware."""
    from django.test import override_settings

    from ocmconsole.server.django_handler import django_handler
    from ocmconsole.server.request_threads import RequestThreads

    def is_known(environ: dict[str, Any]) -> bool:
        return environ.get("HTTP_AUTHORIZATION") == KNOWN

    with ExitStack() as stack:
        stack.enter_context(override_settings(ROOT_URLCONF="tests.serving.site", MIDDLEWARE=[]))

        def start(
            listener: str = "console",
            *,
            threads: int = 1,
            loop: str = "asyncio",
            largest_body: int = 4096,
            limits: Limits | None = None,
            bound: socket.socket | None = None,
            ending: GracefulStop | None = None,
        ) -> Site:
            limits = limits or Limits(body=largest_body, stranger_body=largest_body)
            application = RequestThreads(listener, django_handler(), threads=threads, judge=is_known, limits=limits)
            stack.callback(application.pool.shutdown)
            return stack.enter_context(listening(application, loop=loop, bound=bound, ending=ending))

        yield start


@pytest.fixture
def feed() -> Iterator[Feed]:
    """The stream at ``/stream/feed``."""
    feeds["feed"] = Feed()
    yield feeds["feed"]
    feeds.clear()
