"""For Prometheus: what waits for a decision, and which certificates end, by the buckets that the console shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.health import metrics
from registration.certificates import issued_certificates, key_watch
from registration.models import CertificateSigningRequest
from registration.pki import ca

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric


@metrics.reads
def requests() -> Iterator[Metric]:
    waiting = CertificateSigningRequest.objects.filter(state=CertificateSigningRequest.State.PENDING).count()
    said = "Certificate requests that nobody has decided."
    yield metrics.GaugeMetricFamily("ocmconsole_certificate_requests_pending", said, value=waiting)


@metrics.reads
def certificates() -> Iterator[Metric]:
    """Clients by bucket, of which ``week`` and ``month`` are in ``in-use`` too; overdue ones; the hub's own by role."""
    now = clock.now()
    said = "Client certificates of agents; those that end within a week or a month are in use too."
    family = metrics.GaugeMetricFamily("ocmconsole_client_certificates", said, labels=["bucket"])
    for bucket, count in issued_certificates.count_by_bucket(issued_certificates.of_clusters(), now).items():
        family.add_metric([bucket.value or "in-use"], count)
    yield family
    said = "Client certificates of agents that end within a week and should have been renewed by now."
    overdue = issued_certificates.count_overdue(now)
    yield metrics.GaugeMetricFamily("ocmconsole_client_certificates_overdue", said, value=overdue)
    said = "How long a certificate of the hub itself is still valid."
    family = metrics.GaugeMetricFamily("ocmconsole_hub_certificate_valid_seconds", said, labels=["certificate"])
    for name, end in ca.certificate_ends(settings.OCMCONSOLE_HOME).items():
        family.add_metric([name], (end - now).total_seconds())
    yield family


@metrics.reads
def keys() -> Iterator[Metric]:
    """A key in the home answers while it can be read."""
    said = "Whether the key of a CA of the hub signs: 0 while it, or the token that holds it, is away or refuses."
    family = metrics.GaugeMetricFamily("ocmconsole_ca_key_answers", said, labels=["ca"])
    for role, answers in key_watch.watch.answering().items():
        family.add_metric([role.value], float(answers))
    yield family
