"""What tests of the follower inside of their own process share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from django.db import connections

LONGEST = 120.0  # seconds until something has gone wrong, on a machine however busy


async def apart(act: Callable[[], object]) -> None:
    """On a thread of its own, as a request is handled."""

    def acting() -> None:
        try:
            act()
        finally:
            connections.close_all()

    await asyncio.to_thread(acting)


async def when(condition: Callable[[], object]) -> None:
    """Once it holds; it is looked at between two turns of the event loop."""
    while not condition():  # noqa: ASYNC110 - nobody could set an event: what is waited for is not the test's own
        await asyncio.sleep(0.001)
