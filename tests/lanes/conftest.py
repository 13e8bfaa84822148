"""Sites for the lanes: the tiny one of tests/lanes/site.py behind a listener."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.lanes.listening import Site, listening
from tests.lanes.site import Feed, feeds

Serve = Callable[..., Site]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """``serve(listener="console", threads=1, loop="asyncio")``; a small site of Django's, without middleware."""
    from django.test import override_settings

    from ocmconsole.lanes import Lane, django_handler

    with ExitStack() as stack:
        stack.enter_context(override_settings(ROOT_URLCONF="tests.lanes.site", MIDDLEWARE=[]))

        def start(
            listener: str = "console",
            *,
            threads: int = 1,
            loop: str = "asyncio",
            largest_body: int = 4096,
            bound: socket.socket | None = None,
        ) -> Site:
            lane = Lane(listener, django_handler(), threads=threads, largest_body=largest_body)
            stack.callback(lane.pool.shutdown)
            return stack.enter_context(listening(lane, loop=loop, bound=bound))

        yield start


@pytest.fixture
def feed() -> Iterator[Feed]:
    """The stream at ``/stream/feed``."""
    feeds["feed"] = Feed()
    yield feeds["feed"]
    feeds.clear()
