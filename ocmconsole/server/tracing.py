"""Traces by OpenTelemetry, sent to ``OCMCONSOLE_TRACES`` over OTLP/HTTP by a thread of its own.

The libraries are the extra ``ocmconsole[traces]``, imported here alone and only where the setting is set. Spans wait in
memory, ``MOST_WAITING`` at most: while the collector is away or slow what is more is dropped, and nobody waits for it.

Invariants: of an error a span has the class, never its text, which may quote what was sent or stored; of SQL the
statement without its values. A caller's ``traceparent`` counts if its address is one of ``OCMCONSOLE_TRACES_CALLERS``.
Started by ``serve``, each server behind a proxy, each Celery worker and ``work --follow``.
"""

from __future__ import annotations

import os
import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import metadata
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar

from django.conf import settings
from django.db.backends.signals import connection_created

from ocmconsole.kubeapi import spans

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Span

T = TypeVar("T")

MOST_WAITING = 4_096  # spans, of some 2 KiB
EXPORT_SECONDS = 5.0  # for one batch
EVERY_MILLISECONDS = 2_000  # between two batches
FAREWELL_SECONDS = 1.0  # for what waits when the process ends
LONGEST_STATEMENT = 1_000  # characters
SERVER_ERROR = 500  # from this status on a request has failed

_processor: BatchSpanProcessor | None = None
_beginning = threading.Lock()


def begin() -> None:
    """Trace from now on, if the setting says so; again changes nothing."""
    global _processor  # noqa: PLW0603 - one for the process
    if not settings.OCMCONSOLE_TRACES:
        return
    with _beginning:
        if _processor is not None:
            return
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - an optional package
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - as above
        from opentelemetry.sdk.trace import TracerProvider, sampling  # noqa: PLC0415 - as above
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - as above

        exporter = OTLPSpanExporter(
            f"{settings.OCMCONSOLE_TRACES}/v1/traces",
            headers=settings.OCMCONSOLE_TRACES_HEADERS,
            timeout=EXPORT_SECONDS,
        )
        _processor = BatchSpanProcessor(exporter, max_queue_size=MOST_WAITING, schedule_delay_millis=EVERY_MILLISECONDS)
        about = {
            "service.name": os.environ.get("OTEL_SERVICE_NAME", "ocmconsole"),
            "service.version": _version(),
            "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
        }
        provider = TracerProvider(sampler=sampling.ALWAYS_ON, resource=Resource.create(about), shutdown_on_exit=False)
        provider.add_span_processor(_processor)
        spans.tracer = _Tracer(provider.get_tracer("ocmconsole"))
        connection_created.connect(_watch_statements, dispatch_uid="ocmconsole.traces")


def end() -> None:
    """Send what waits, for a moment."""
    global _processor
    processor, _processor, spans.tracer = _processor, None, None
    if processor is not None:
        last = threading.Thread(target=processor.shutdown, name="traces-end", daemon=True)
        last.start()
        last.join(FAREWELL_SECONDS)


class _Tracer:
    """As ``spans.Tracer``."""

    def __init__(self, tracer: Any) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - an optional package
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        self._trace, self._tracer = trace, tracer
        self._propagator = TraceContextTextMapPropagator()

    def _is_recording(self) -> bool:
        recording: bool = self._trace.get_current_span().is_recording()
        return recording

    def root(self, name: str, attributes: spans.Attributes, *, often: bool) -> AbstractContextManager[object]:
        if self._is_recording() or _is_chosen(often=often):
            return self._recording(name, attributes)
        return nullcontext()

    def span(self, name: str, attributes: spans.Attributes) -> AbstractContextManager[object]:
        return self._recording(name, attributes) if self._is_recording() else nullcontext()

    def statement(self, sql: object, vendor: str) -> AbstractContextManager[object]:
        """Values are not in it: they go to the database beside it."""
        if not self._is_recording():
            return nullcontext()
        text = " ".join(str(sql)[: 2 * LONGEST_STATEMENT].split())[:LONGEST_STATEMENT]
        attributes: spans.Attributes = {
            "db.system.name": vendor,
            "db.query.text": text,
        }
        return self._recording(f"SQL {text.partition(' ')[0].upper()[:16]}", attributes, kind="CLIENT")

    @contextmanager
    def _recording(self, name: str, attributes: spans.Attributes, kind: str = "INTERNAL") -> Iterator[None]:
        with self._tracer.start_as_current_span(
            name,
            kind=self._trace.SpanKind[kind],
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                self._fail(span, type(error).__name__)
                raise

    def _fail(self, span: Span, kind: str) -> None:
        span.set_attribute("error.type", kind)
        span.set_status(self._trace.StatusCode.ERROR)

    def request(self, method: str, listener: str, caller: tuple[str, str], *, often: bool) -> _RequestSpan | None:
        parent = self._parent(*caller)
        if parent is None:
            if not _is_chosen(often=often):
                return None
        elif not self._trace.get_current_span(parent).get_span_context().trace_flags.sampled:
            return None
        span = self._tracer.start_span(
            f"{method} {listener}",
            context=parent,
            kind=self._trace.SpanKind.SERVER,
            attributes={"http.request.method": method, "ocmconsole.listener": listener},
        )
        return _RequestSpan(self._trace, span)

    def _parent(self, address: str, traceparent: str) -> Context | None:
        """None unless a caller who may say so gave a valid one."""
        if not traceparent or not _may_name_parent(address):
            return None
        found: Context = self._propagator.extract({"traceparent": traceparent})
        return found if self._trace.get_current_span(found).get_span_context().is_valid else None

    def say(self, name: str, attributes: spans.Attributes) -> None:
        span = self._trace.get_current_span()
        if span.is_recording():
            span.set_attributes(attributes)
            if name:
                span.update_name(name)


class _RequestSpan:
    """As ``spans.RequestSpan``."""

    def __init__(self, trace: Any, span: Span) -> None:
        self._trace, self._span, self._has_ended = trace, span, False

    def carry(self, act: Callable[..., T], *arguments: Any) -> T:
        with self._trace.use_span(self._span, record_exception=False, set_status_on_exception=False):
            return act(*arguments)

    def answered(self, status: int) -> None:
        self._span.set_attribute("http.response.status_code", status)
        if status >= SERVER_ERROR:
            self._span.set_status(self._trace.StatusCode.ERROR)

    def end(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._span.end()


def _version() -> str:
    """Of the wheel; a checkout is not installed."""
    try:
        return metadata.version("ocmconsole")
    except metadata.PackageNotFoundError:
        return "checkout"


def _is_chosen(*, often: bool) -> bool:
    share = settings.OCMCONSOLE_TRACES_HEARTBEATS if often else settings.OCMCONSOLE_TRACES_SAMPLE
    return share > random.random()  # noqa: S311 - which are looked at is no secret


def _may_name_parent(address: str) -> bool:
    if not settings.OCMCONSOLE_TRACES_CALLERS:
        return False
    try:
        found = ip_address(address)
    except ValueError:  # of a Unix socket, for one
        return False
    return any(found in network for network in settings.OCMCONSOLE_TRACES_CALLERS)


def _watch_statements(connection: Any, **_: object) -> None:
    if _trace_statement not in connection.execute_wrappers:
        connection.execute_wrappers.append(_trace_statement)


def _trace_statement(
    execute: Callable[..., T],
    sql: object,
    params: object,
    many: bool,  # noqa: FBT001 - Django's signature
    context: dict[str, Any],
) -> T:
    tracer = spans.tracer
    if not isinstance(tracer, _Tracer):
        return execute(sql, params, many, context)
    with tracer.statement(sql, context["connection"].vendor):
        return execute(sql, params, many, context)
