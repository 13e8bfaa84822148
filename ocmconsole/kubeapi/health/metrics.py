"""What Prometheus scrapes from ``/metrics`` of the API listener: requests of this process, and the state of the hub.

Requests are counted in memory, also those without a valid credential, which leave no audit entry (D11). The state is
read from the database when somebody scrapes, by the readers that apps have registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from django.db.models import Min
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.process_collector import ProcessCollector

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.health import disk_space
from ocmconsole.kubeapi.models import Change, WorkItem
from ocmconsole.kubeapi.storage import audit_chain, database_clock
from ocmconsole.kubeapi.watch import change_log

if TYPE_CHECKING:
    from prometheus_client.core import Metric

__all__ = ["CONTENT_TYPE", "GaugeMetricFamily", "count_request", "exposition", "histogram", "reads"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
UNAUTHORIZED = 401  # the status of HTTP that is counted apart: failed credentials
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Upper limits of the buckets: from one row to a whole fleet.
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)

Reader = Callable[[], "Iterable[Metric]"]
_registry = CollectorRegistry()
_readers: list[Reader] = []
_requests = Counter(
    "ocmconsole_requests", "Requests that were answered.", ("listener", "method", "code"), registry=_registry
)
_seconds = Histogram(
    "ocmconsole_request_seconds",
    "Time until the answer began; a watch counts until its stream opens.",
    ("listener",),
    buckets=SECONDS,
    registry=_registry,
)
_unauthorized = Counter(
    "ocmconsole_unauthorized", "Requests whose credential was not accepted (D11).", registry=_registry
)
_held_back = Counter(
    "ocmconsole_held_back", "Requests that a limit for each identity refused (D23).", ("limit",), registry=_registry
)
ProcessCollector(registry=_registry)


def count_request(listener: str, method: str, code: int, seconds: float) -> None:
    """Count a request; a method that a client made up does not make a series of its own."""
    counter, histogram = _series(listener, method if method in METHODS else "other", code)
    counter.inc()
    histogram.observe(seconds)
    if code == UNAUTHORIZED:
        _unauthorized.inc()


@cache
def _series(listener: str, method: str, code: int) -> tuple[Counter, Histogram]:
    """To find them by their labels takes longer than to count."""
    return _requests.labels(listener, method, str(code)), _seconds.labels(listener)


def held_back(limit: str, count: int) -> None:
    _held_back.labels(limit).inc(count)


def unauthorized() -> int:
    """How many requests of this process had no valid credential."""
    return int(_unauthorized._value.get())  # noqa: SLF001 - the library offers no other way to read a counter


def reads(reader: Reader) -> Reader:
    """Register what is read when somebody scrapes."""
    _readers.append(reader)
    return reader


def histogram(name: str, documentation: str, labels: Sequence[str], buckets: Sequence[float]) -> Histogram:
    """One more that this process observes."""
    return Histogram(name, documentation, labels, buckets=buckets, registry=_registry)


def exposition() -> bytes:
    return generate_latest(_registry)


class _State:
    """All readers as one collector."""

    def collect(self) -> Iterator[Metric]:
        for reader in _readers:
            yield from reader()

    def describe(self) -> list[Metric]:
        return []


_registry.register(_State())


@reads
def machinery() -> Iterator[Metric]:
    """The log, the work that waits, the audit."""
    now, now_of_work = clock.now(), database_clock.now()
    oldest = WorkItem.objects.filter(due__lte=now_of_work).aggregate(oldest=Min("due"))["oldest"]
    seal = audit_chain.newest_seal()
    unsealed_since = audit_chain.oldest_unsealed(seal)
    for name, said, value in (
        ("revision", "The newest resourceVersion.", change_log.newest_revision()),
        ("changes", "Changes that watches can still be given.", Change.objects.count()),
        ("work_items", "Work that reconcilers owe.", WorkItem.objects.count()),
        (
            "work_item_age_seconds",
            "How long the oldest due work waits.",
            (now_of_work - oldest).total_seconds() if oldest else 0,
        ),
        ("audit_unsealed", "Audit entries that are not sealed yet.", audit_chain.count_unsealed(seal)),
        (
            "audit_unsealed_age_seconds",
            "How old the oldest audit entry is that is not sealed yet.",
            (now - unsealed_since).total_seconds() if unsealed_since else 0,
        ),
    ):
        yield GaugeMetricFamily(f"ocmconsole_{name}", said, value=value)


@reads
def disk() -> Iterator[Metric]:
    with suppress(OSError):
        used = disk_space.used_percent() / 100
        said = "How full the disk of the SQLite file is, or of the home."
        yield GaugeMetricFamily("ocmconsole_disk_used_ratio", said, value=used)
