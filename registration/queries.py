"""Reads for rules, services and pages: requests of a cluster, and what waits for a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters import queries as clusters
from clusters.models import ClusterFacts, ManagedCluster
from registration import identity
from registration.models import CertificateSigningRequest

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from ocmconsole.kubeapi.actor import Actor
    from ocmconsole.kubeapi.kinds import Key

State = CertificateSigningRequest.State


def requests_of(cluster: str) -> QuerySet[Any]:
    """Every request that carries the cluster's label and no add-on's, newest first."""
    return CertificateSigningRequest.objects.filter(cluster=cluster, addon="", signer=identity.SIGNER).order_by(
        "-created", "-resource_version"
    )


def request_at(key: Key) -> CertificateSigningRequest | None:
    found: CertificateSigningRequest | None = CertificateSigningRequest.objects.at(key).first()
    return found


def waiting_requests(cluster: str) -> list[CertificateSigningRequest]:
    """Undecided requests of a cluster, newest first."""
    return list(requests_of(cluster).filter(state=State.PENDING))


def facts_of(cluster: str) -> ClusterFacts:
    """What the hub knows of a name; an unsaved empty record when it knows nothing."""
    return ClusterFacts.objects.filter(cluster=cluster).first() or ClusterFacts(cluster=cluster)


def waiting_names(actor: Actor) -> list[str]:
    """Names that ask to join and were neither accepted nor declined, among the clusters a person may see (D16).

    A request without a ManagedCluster waits too: somebody who may see every cluster decides about it.
    """
    visible = clusters.clusters_for(actor)
    undecided = visible.filter(hub_accepts_client=False, deleted_at=None)
    declined = ClusterFacts.objects.exclude(decision="").values("cluster")
    names = set(undecided.exclude(name__in=declined).values_list("name", flat=True))
    pending = CertificateSigningRequest.objects.filter(state=State.PENDING, addon="", signer=identity.SIGNER)
    asking = set(pending.exclude(cluster="").values_list("cluster", flat=True))
    known = set(visible.filter(name__in=asking).values_list("name", flat=True))
    accepted = set(visible.filter(name__in=asking, hub_accepts_client=True).values_list("name", flat=True))
    return sorted(names | (known - accepted) | _of_accepted(accepted) | _without_cluster(actor, asking))


def _without_cluster(actor: Actor, asking: set[str]) -> set[str]:
    if not asking or not clusters.sees_all(actor):
        return set()
    return asking - set(ManagedCluster.objects.filter(name__in=asking).values_list("name", flat=True))


def _of_accepted(accepted: set[str]) -> set[str]:
    """Accepted clusters whose agent still has no certificate: its request waits for a person."""
    issued = ClusterFacts.objects.exclude(certificate_fingerprint="").filter(cluster__in=accepted)
    return accepted - set(issued.values_list("cluster", flat=True))
