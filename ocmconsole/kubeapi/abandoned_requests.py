"""Whether the client of the present request has gone away: what it gave up must not commit after its retry.

Invariant: a write of the API commits only while its client is connected, seen under the lock that makes commits serial.
The server says how to look, in the context of one request; reconcilers, commands and pages have no such client.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from ocmconsole.kubeapi import errors

IsGone = Callable[[], bool]

_is_gone: ContextVar[IsGone | None] = ContextVar("is_gone", default=None)


def watch_client(is_gone: IsGone) -> None:
    """For the rest of the present context, which must be that of one request."""
    _is_gone.set(is_gone)


def require_client() -> None:
    """Raises Timeout when the request was given up; nobody will read that."""
    is_gone = _is_gone.get()
    if is_gone is not None and is_gone():
        raise errors.Timeout("the client closed the connection before the request was done")
