"""For Prometheus: clusters by their state, in the words of ``status`` (K43), and the last look at leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.health import fleet_counts, status_sql
from clusters.models import ManagedCluster, Serving
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.health import metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric


@metrics.reads
def clusters_by_state() -> Iterator[Metric]:
    family = metrics.GaugeMetricFamily("ocmconsole_clusters", "Clusters by their state.", labels=["state"])
    found = fleet_counts.counted(ManagedCluster.objects.all(), clock.now())
    for rank, word in enumerate(status_sql.WORST_FIRST):
        family.add_metric([word.value], found[rank,])
    yield family


@metrics.reads
def sweeps() -> Iterator[Metric]:
    """Nothing of a hub that has never served."""
    seen = Serving.objects.values_list("seen", flat=True).first()
    if seen is not None:
        said = "How long ago leases were looked at for silence."
        age = (clock.now() - seen).total_seconds()
        yield metrics.GaugeMetricFamily("ocmconsole_sweep_age_seconds", said, value=age)
