"""Domain acts of registration, the same from every door: accept, decline, disconnect; credentials for people.

An act is one transaction. It is done as the signed-in person, by the verbs that kubectl reaches too.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import yaml
from django.conf import settings

from clusters.kinds import MANAGED_CLUSTER, spec_of
from clusters.models import ClusterFacts
from ocmconsole.kubeapi import authz, errors, rows, verbs
from ocmconsole.kubeapi.kinds import Key
from registration import ca, queries
from registration.admission import ACCEPT, cluster_of, decided
from registration.controllers import add_decision
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR

if TYPE_CHECKING:
    from ocmconsole.kubeapi.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.models import Resource
    from registration.models import CertificateSigningRequest

STALE = "The request changed while you were reading it; nothing was done. Look at it again."
MISSING = "you need the permission clusters.accept_managedcluster (in RBAC: update managedclusters/accept) for {name}"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a person had before his eyes when he decided: resourceVersions, which must still be the present ones."""

    cluster: str
    requests: Mapping[str, str]


def accept_cluster(actor: Actor, name: str, *, seen: Seen | None = None) -> list[str]:
    """Approve the newest fitting request of a cluster and let it in. Returns the names of the approved requests.

    Raises Forbidden, NotFound, Conflict (the page is stale), Invalid (a guarded name, D18).
    """
    row = verbs.existing(MANAGED_CLUSTER, Key("", name))
    require_accept(actor, name)
    asking = queries.waiting_requests(name)
    _require_unchanged(seen, row, asking)
    waiting = _chosen(asking)
    with verbs.batch(actor) as batch:
        batch.edit(MANAGED_CLUSTER, row.key, _accept, expect=seen.cluster if seen else "")
        for request in waiting:
            batch.edit(CSR, request.key, _approve, subresource="approval", expect=str(request.resource_version))
    return [request.name for request in waiting]


def decline_cluster(actor: Actor, name: str, *, reason: str, seen: Seen | None = None) -> list[str]:
    """Deny the waiting requests of a cluster and remember why. Returns the names of the denied requests (D10).

    A cluster that is accepted stays so: it loses the new request only.
    """
    require_accept(actor, name)
    row = rows.read(MANAGED_CLUSTER, Key("", name))
    waiting = queries.waiting_requests(name)
    _require_unchanged(seen, row, waiting)
    fitting = [request for request in waiting if cluster_of(request.doc) == name]
    is_accepted = row is not None and bool(spec_of(row.doc).get("hubAcceptsClient"))
    if row is None and not fitting:
        raise errors.not_found(MANAGED_CLUSTER.group, MANAGED_CLUSTER.plural, name)
    if is_accepted and not fitting:
        raise errors.Conflict(f"{name} is accepted and nothing of it waits; disconnect it instead.")
    with verbs.batch(actor) as batch:
        for request in fitting:
            batch.edit(
                CSR, request.key, _deny_with(reason), subresource="approval", expect=str(request.resource_version)
            )
        batch.note(MANAGED_CLUSTER, Key("", name), "managedcluster:decline", reason)
        if not is_accepted:
            batch.records.append(lambda: decided(actor, name, ClusterFacts.Decision.DECLINED, reason))
    return [request.name for request in fitting]


def disconnect_cluster(actor: Actor, name: str) -> None:
    """Withdraw the agent's rights; its certificate stays valid but may do nothing (H7)."""
    require_accept(actor, name)
    verbs.edit(actor, MANAGED_CLUSTER, Key("", name), _disconnect)


def may_accept(actor: Actor, name: str) -> authz.Decision:
    return authz.permitted(actor, ACCEPT, obj=rows.read(MANAGED_CLUSTER, Key("", name)), name=name)


def require_accept(actor: Actor, name: str) -> None:
    """A refusal names the permission that is missing, and is recorded."""
    if may_accept(actor, name).allowed:
        return
    asked = authz.Attributes(
        "update", "register.open-cluster-management.io", "managedclusters", "accept", name=name, version="v1"
    )
    authz.refuse(actor, asked, MISSING.format(name=name))


def _require_unchanged(seen: Seen | None, row: Resource | None, waiting: list[CertificateSigningRequest]) -> None:
    """What the person decided about is still what is there."""
    if seen is None:
        return
    requests = {request.name: str(request.resource_version) for request in waiting}
    if seen != Seen(str(row.resource_version) if row else "", requests):
        raise errors.Conflict(STALE)


def _chosen(waiting: list[CertificateSigningRequest]) -> list[CertificateSigningRequest]:
    """The newest fitting request of one requester; two requesters are for a person to tell apart (K7)."""
    fitting = [request for request in waiting if cluster_of(request.doc) == request.cluster]
    if len({request.username for request in fitting}) > 1:
        raise errors.Conflict(
            f"Several requesters ask for {fitting[0].cluster} with different credentials; decline one of them first."
        )
    return fitting[:1]


def _accept(doc: Doc) -> None:
    doc["spec"]["hubAcceptsClient"] = True


def _disconnect(doc: Doc) -> None:
    doc["spec"]["hubAcceptsClient"] = False


def _approve(doc: Doc) -> None:
    add_decision(doc, "Approved", "ConsoleApprove", "This CSR was approved with its cluster.")


def _deny_with(reason: str) -> verbs.Edit:
    def deny(doc: Doc) -> None:
        add_decision(doc, "Denied", "Declined", reason)

    return deny


# ---------------------------------------------------------------- kubeconfigs


def kubeconfig(server: str, *, user: str, credential: Mapping[str, str], cluster: str = "hub") -> str:
    """A kubeconfig with one cluster, user and context. ``credential`` is the user entry's content."""
    home = settings.OCMCONSOLE_HOME
    authority = base64.b64encode((home / "ca.crt").read_bytes()).decode()
    doc = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": user, "user": dict(credential)}] if credential else [],
        "contexts": [{"name": user or cluster, "context": {"cluster": cluster, "user": user}}] if credential else [],
        "current-context": (user or cluster) if credential else "",
    }
    return yaml.safe_dump(doc, sort_keys=False)


def user_kubeconfig(user: str, *, groups: tuple[str, ...], lifetime: timedelta) -> str:
    """A kubeconfig with a fresh client certificate of the hub's own CA."""
    certificate, key = ca.load(settings.OCMCONSOLE_HOME).issue_client(user, groups, lifetime, datetime.now(UTC))
    credential = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    return kubeconfig(settings.OCMCONSOLE_API_URL, user=user, credential=credential)


def bootstrap_kubeconfig(token: str) -> str:
    """What an agent's secret ``bootstrap-hub-kubeconfig`` holds (G4)."""
    return kubeconfig(settings.OCMCONSOLE_API_URL, user="bootstrap", credential={"token": token})


def is_usable(text: str, authority: bytes) -> bool:
    """Whether a kubeconfig names this hub and CA, and its certificate lasts another month."""
    try:
        doc = yaml.safe_load(text)
        cluster = doc["clusters"][0]["cluster"]
        certificate = ca.parse_certificate(base64.b64decode(doc["users"][0]["user"]["client-certificate-data"]))
    except (yaml.YAMLError, LookupError, TypeError, ValueError):
        return False
    return (
        cluster["server"] == settings.OCMCONSOLE_API_URL
        and base64.b64decode(cluster["certificate-authority-data"]) == authority
        and certificate.not_after > datetime.now(UTC) + timedelta(days=30)
    )
