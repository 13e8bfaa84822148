"""Reads for rules, services and pages: requests of a cluster, and what waits for a decision."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from django.db.models import Exists, Max, OuterRef, Subquery

from clusters import queries as clusters
from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ClusterFacts, ManagedCluster
from ocmconsole.core.models import Namespace
from ocmconsole.kubeapi import clock, request_cache
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import plain_sql, reader
from registration import superseding
from registration.keys import key_history
from registration.kinds import CERTIFICATE_SIGNING_REQUEST
from registration.models import CertificateSigningRequest, Decline
from registration.pki import agent_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from django.db.models import QuerySet

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.kinds import Key

State = CertificateSigningRequest.State
TURNED_DOWN = (State.DENIED, State.FAILED)
SEVERAL = """SELECT mine.name FROM registration_certificatesigningrequest mine
             WHERE mine.cluster <> '' AND EXISTS (
                SELECT 1 FROM registration_certificatesigningrequest other WHERE other.cluster = mine.cluster
                AND other.addon = '' AND other.uid <> mine.uid AND other.state NOT IN ({turned_down}))
             AND mine.namespace = '' AND mine.name IN ({marks})"""
SUPERSEDED = "certificatesigningrequest:supersede"
GAVE_WAY = "superseded.request"  # the path in the diff of such a note: from which request to which
EVIDENCE = "managedcluster:evidence"
READ_OF_CLUSTERS = ("name", "created", "hub_accepts_client", "asked")
NEVER = datetime.max.replace(tzinfo=UTC)  # for a name whose rows went while they were read


def requests_of(cluster: str) -> QuerySet[Any]:
    """Every request that carries the cluster's label and no add-on's, newest first."""
    return requests_of_all([cluster])


def requests_of_all(clusters: Collection[str]) -> QuerySet[Any]:
    found = CertificateSigningRequest.objects.filter(cluster__in=clusters, addon="", signer=agent_names.SIGNER)
    return found.order_by("-created", "-resource_version")


def is_withheld(cluster: str) -> bool:
    """D5: whether somebody took the right to renew away from its agent on purpose."""
    return plain_sql.is_there(ClusterFacts, cluster=cluster, renewal_withheld=True)


def request_at(key: Key) -> CertificateSigningRequest | None:
    return cast("CertificateSigningRequest | None", reader.read_row(CERTIFICATE_SIGNING_REQUEST, key))


def undecided_requests(cluster: str) -> list[CertificateSigningRequest]:
    """Pending requests of a cluster, newest first; also those that give way and are about to be deleted."""
    return list(requests_of(cluster).filter(state=State.PENDING))


def waiting_requests(cluster: str) -> list[CertificateSigningRequest]:
    """Requests of a cluster that wait for a decision, newest first: pending ones that give way to no other (K11)."""
    return waiting_requests_of_all([cluster])[cluster]


def waiting_requests_of_all(clusters: Collection[str]) -> dict[str, list[CertificateSigningRequest]]:
    """The same by cluster name for all of them, with two queries."""
    found: dict[str, list[CertificateSigningRequest]] = {name: [] for name in clusters}
    for row in _undenied(clusters):
        found[row.cluster].append(row)
    return _waiting_among(found)


def waiting_among(name: str, rows: Iterable[CertificateSigningRequest]) -> list[CertificateSigningRequest]:
    """As ``waiting_requests``, where the requests of the cluster (``requests_of``) have been read already."""
    return _waiting_among({name: [row for row in rows if row.state not in TURNED_DOWN]})[name]


def _waiting_among(found: dict[str, list[CertificateSigningRequest]]) -> dict[str, list[CertificateSigningRequest]]:
    several = {name: rows for name, rows in found.items() if _may_give_way(rows)}
    gone = _giving_way(several)
    for name, rows in found.items():
        found[name] = [row for row in rows if row.state == State.PENDING and row.name not in gone.get(name, ())]
    return found


def among_several(names: Sequence[str]) -> set[str]:
    """Those of the named requests whose cluster has another request that was not turned down."""
    statement = SEVERAL.format(turned_down=plain_sql.marks(TURNED_DOWN), marks=plain_sql.marks(names))
    return {name for (name,) in plain_sql.rows(statement, *TURNED_DOWN, *names)}


def giving_way(cluster: str) -> dict[str, str]:
    """Names of the pending requests of a cluster that give way, each with the name of the one to which it does."""
    rows = list(_undenied([cluster]))
    return _giving_way({cluster: rows})[cluster] if _may_give_way(rows) else {}


def _undenied(clusters: Collection[str]) -> QuerySet[Any]:
    return requests_of_all(clusters).exclude(state__in=TURNED_DOWN)


def _may_give_way(rows: Sequence[CertificateSigningRequest]) -> bool:
    """One alone has nothing to give way to."""
    return len(rows) > 1 and any(row.state == State.PENDING for row in rows)


def _giving_way(requests: Mapping[str, Sequence[CertificateSigningRequest]]) -> dict[str, dict[str, str]]:
    askers = key_history.askers_of_requests([row.doc for rows in requests.values() for row in rows])
    return {
        name: superseding.giving_way([
            superseding.candidate(row.doc, askers[row.name], state=row.state, created=row.created) for row in rows
        ])
        for name, rows in requests.items()
    }  # fmt: skip


def superseded_notes(since: datetime) -> QuerySet[AuditEvent]:
    """Notes of requests that gave way to another one of the same asker, by the name of the cluster (K11)."""
    return AuditEvent.objects.filter(resource=MANAGED_CLUSTER.resource, namespace="", time__gte=since, act=SUPERSEDED)


def is_foreign_namespace(name: str) -> bool:
    """D18: there is a namespace of that name, and it is not this cluster's."""
    namespace = Namespace.objects.filter(name=name).first()
    return namespace is not None and namespace.labels.get(agent_names.CLUSTER_LABEL) != name


def facts_of(cluster: str) -> ClusterFacts:
    """What the hub knows of a name; an unsaved empty record when it knows nothing."""
    return plain_sql.row_by(ClusterFacts.objects, cluster=cluster) or ClusterFacts(cluster=cluster)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A name that waits: when its ManagedCluster was created, and when its newest pending request was."""

    created: datetime | None = None
    asked: datetime | None = None

    @property
    def since(self) -> datetime:
        return self.asked or self.created or NEVER


def waiting_names(actor: Actor) -> list[str]:
    """Names that ask to join and were neither accepted nor declined, among the clusters a person may see (D16).

    A request without a ManagedCluster waits too: somebody who may see every cluster decides about it.
    """
    return list(waiting(actor))


def waiting(actor: Actor) -> dict[str, Waiting]:
    """The same with their times, in the order of the names; two queries at most."""
    return request_cache.cached(("waiting", actor.user, actor.groups), lambda: _waiting(actor))


def _waiting(actor: Actor) -> dict[str, Waiting]:
    pending = CertificateSigningRequest.objects.filter(state=State.PENDING, addon="", signer=agent_names.SIGNER)
    pending = pending.exclude(cluster="").order_by()
    newest = pending.filter(cluster=OuterRef("name")).values("cluster").annotate(newest=Max("created")).values("newest")
    # Asked of each cluster that is outside: a list of all decisions would be as long as the fleet.
    decided = Exists(ClusterFacts.objects.filter(cluster=OuterRef("name")).exclude(decision=""))
    turned_away = Exists(Decline.objects.filter(cluster=OuterRef("name"), lifted_at=None))
    undecided = ManagedCluster.objects.filter(~decided, ~turned_away, hub_accepts_client=False, deleted_at=None)
    names = undecided.values("name").union(pending.values("cluster"))
    visible = clusters.clusters_for(actor).filter(name__in=names).order_by()
    found: dict[str, Waiting] = {}
    accepted = set()
    for name, created, accepts, asked in visible.annotate(asked=Subquery(newest)).values_list(*READ_OF_CLUSTERS):
        found[name] = Waiting(created, asked)
        if accepts:
            accepted.add(name)
    wait = (found.keys() - accepted) | _of_accepted(accepted)
    if clusters.sees_all(actor):
        for name, asked in pending.values_list("cluster").annotate(Max("created")):
            if name not in found:
                found[name] = Waiting(None, asked)
                wait.add(name)
    return {name: found[name] for name in sorted(wait)}


def _of_accepted(accepted: set[str]) -> set[str]:
    """Accepted clusters whose agent has no certificate that counts now: its request waits for a person."""
    counting = ClusterFacts.objects.filter(certificate_not_after__gt=clock.now(), certificate_revoked_at=None)
    able = set(counting.filter(cluster__in=accepted).values_list("cluster", flat=True))
    return {name for name, rows in waiting_requests_of_all(accepted - able).items() if rows}
