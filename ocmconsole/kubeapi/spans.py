"""Spans of traces, as the code says them while it works; ``server.tracing`` sends them where traces are on.

Invariants: nothing of OpenTelemetry is imported here; where traces are off a call is one comparison. No document,
header, query or text of an error is given: what a span says is what it was, on what, and how it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Attributes = Mapping[str, str | int]


class RequestSpan(Protocol):
    """Of one request; begun and ended on the event loop."""

    def carry(self, act: Callable[..., T], *arguments: Any) -> T:
        """Call it, on any thread, so that the spans in it are children of this one."""

    def answered(self, status: int) -> None: ...

    def end(self) -> None:
        """May be called again, which changes nothing."""


class Tracer(Protocol):
    """What ``server.tracing`` puts here."""

    def root(self, name: str, attributes: Attributes, *, often: bool) -> AbstractContextManager[object]: ...

    def span(self, name: str, attributes: Attributes) -> AbstractContextManager[object]: ...

    def request(self, method: str, listener: str, caller: tuple[str, str], *, often: bool) -> RequestSpan | None: ...

    def say(self, name: str, attributes: Attributes) -> None: ...


_NOTHING: Attributes = {}
_NONE: AbstractContextManager[object] = nullcontext()
tracer: Tracer | None = None


def root(name: str, attributes: Attributes = _NOTHING, *, often: bool = False) -> AbstractContextManager[object]:
    """Work that nobody waits for: a trace of its own, or a part of the one around it. ``often``: as heartbeats are."""
    return _NONE if tracer is None else tracer.root(name, attributes, often=often)


def span(name: str, attributes: Attributes = _NOTHING) -> AbstractContextManager[object]:
    """A part of what is traced around it, and nothing where nothing is."""
    return _NONE if tracer is None else tracer.span(name, attributes)


def request(method: str, listener: str, address: str, traceparent: str, *, often: bool) -> RequestSpan | None:
    """None where this one is not traced. ``traceparent`` is as it came; whose counts, the setting says."""
    return None if tracer is None else tracer.request(method, listener, (address, traceparent), often=often)


def say(name: str, attributes: Attributes) -> None:
    """Of what is traced around: a better name than it began with, and more about it."""
    if tracer is not None:
        tracer.say(name, attributes)
