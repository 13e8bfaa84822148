"""Durations of scheduling for Prometheus, with upstream's names, labels and buckets (H46, P34).

Counted in the process that schedules: the server, or a Celery worker, which nobody scrapes. What brakes hold is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from django.db.models import Sum

from ocmconsole.kubeapi.health import metrics
from ocmconsole.kubeapi.kinds import Key
from placements.models import EvictionBrake, HeldEvictions

if TYPE_CHECKING:
    from prometheus_client.core import Metric

NAME = "placement_scheduling"
BUCKETS = tuple(10.0**exponent for exponent in range(-6, 4))  # seconds
LONGEST_LIST = 10_000  # of runs that were begun and go on later; one that never does is forgotten

_scheduling = metrics.histogram(
    "scheduling_scheduling_duration_seconds",
    "How long in seconds it takes to schedule a placement.",
    ("name",),
    BUCKETS,
)
_binding = metrics.histogram(
    "scheduling_bind_duration_seconds",
    "How long in seconds it takes to bind a placement to placementDecisions.",
    ("name",),
    BUCKETS,
)
_plugin = metrics.histogram(
    "scheduling_plugin_duration_seconds",
    "How long in seconds a plugin runs for a placement.",
    ("name", "plugin_type", "plugin_name"),
    BUCKETS,
)
_cel = metrics.histogram(
    "scheduling_cel_runtime_duration_seconds",
    "How long in seconds CEL expressions validation runs for a placement.",
    ("name",),
    BUCKETS,
)
_begun: dict[Key, float] = {}


def begin(key: Key) -> None:
    """A run of this placement begins, or goes on."""
    if len(_begun) >= LONGEST_LIST:
        _begun.clear()
    _begun.setdefault(key, perf_counter())


@contextmanager
def binding(key: Key) -> Iterator[None]:
    """Around what is written for a placement: what came before was scheduling."""
    start = perf_counter()
    _scheduling.labels(NAME).observe(start - _begun.pop(key, start))
    try:
        yield
    finally:
        _binding.labels(NAME).observe(perf_counter() - start)


@contextmanager
def plugin(type_: str, name: str) -> Iterator[None]:
    """Around a step of the pipeline, as ``pipeline.Observe``: ``filter``, ``prioritizer`` or ``cel``."""
    start = perf_counter()
    try:
        yield
    finally:
        seconds = perf_counter() - start
        if type_ == "cel":
            _cel.labels(NAME).observe(seconds)
        else:
            _plugin.labels(NAME, type_, name).observe(seconds)


@metrics.reads
def evictions_that_wait() -> Iterator[Metric]:
    """D27: brakes that stand, and evictions that they hold in all placements."""
    brakes = metrics.GaugeMetricFamily("ocmconsole_eviction_brakes", "Brakes on evictions that stand (D27).")
    brakes.add_metric([], EvictionBrake.objects.filter(ended=None).count())
    held = metrics.GaugeMetricFamily(
        "ocmconsole_evictions_held", "Evictions that brakes hold, in all placements (D27)."
    )
    held.add_metric([], HeldEvictions.objects.aggregate(total=Sum("count"))["total"] or 0)
    yield from (brakes, held)
