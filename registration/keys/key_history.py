"""What the hub remembers of a cluster's name: keys that were let in, and who was declined (D9, D10). Reads only.

Invariant: a known name keeps its keys. A new key is accepted with the identity's own certificate, or by an override
for exactly that key. The validators and records in ``admission`` hold that for every entry point; ``assessment`` shows
it, ``reconcilers`` and ``services`` check it first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from django.conf import settings

from clusters.kinds import ACCEPT_KEY
from clusters.models import ManagedCluster
from ocmconsole.kubeapi import request_cache
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import plain_sql
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.kinds import request_pem
from registration.models import AcceptedKey, Decline, IssuedCertificate
from registration.pki import agent_names, ca

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind
    from registration.pki.ca import Request


# ---------------------------------------------------------------- who asked


@dataclass(frozen=True, slots=True)
class Asker:
    """Who made an object, as the audit recorded it. Two credentials or two addresses are two askers (K7, K11)."""

    credential: str
    address: str
    user: str
    at: datetime | None = None
    certified: bool = False

    @property
    def same(self) -> tuple[str, str]:
        return self.credential, self.address


def creation_of(kind: Kind, name: str, uid: str) -> AuditEvent | None:
    """The audit entry of an object's creation: its evidence (ADR 2)."""
    found = plain_sql.rows_by(
        AuditEvent.objects, resource=kind.resource, namespace="", name=name, verb="create",
        outcome=AuditEvent.Outcome.ALLOWED.value, uid=uid,
    )  # fmt: skip
    return found[0] if found else None


def _creations(kind: Kind) -> QuerySet[AuditEvent]:
    return AuditEvent.objects.filter(
        resource=kind.resource, namespace="", verb="create", outcome=AuditEvent.Outcome.ALLOWED
    )


class Created(Protocol):
    """Who created an object: an audit entry, or what ``evidence_queries`` has read of one."""

    @property
    def user(self) -> str: ...

    @property
    def impersonator(self) -> str: ...

    @property
    def credential(self) -> str: ...

    @property
    def address(self) -> str: ...

    @property
    def time(self) -> datetime: ...


def asker_of(event: Created | None, *, user: str = "") -> Asker:
    """``user`` is what the object itself says, for when the audit has been cut."""
    if event is None:
        return Asker(f"user:{user}", "", user)
    # Each token of a service account has its own id, and a declined user can make another one.
    is_lasting = event.credential and not event.credential.startswith("jwt:") and not event.impersonator
    return Asker(
        credential=event.credential if is_lasting else f"user:{event.user}",
        address=event.address,
        user=event.user,
        at=event.time,
        certified=event.credential.startswith("cert:") and not event.impersonator,
    )


def asker_of_request(doc: Doc) -> Asker:
    return askers_of_requests([doc])[doc["metadata"]["name"]]


def askers_of_requests(docs: Collection[Doc]) -> dict[str, Asker]:
    """By the name of each request, in one query."""
    uids = {doc["metadata"]["name"]: doc["metadata"].get("uid", "") for doc in docs}
    events = _creations(CSR).filter(name__in=list(uids), uid__in=list(uids.values())).order_by("-pk") if uids else ()
    found = {event.name: event for event in events if uids[event.name] == event.uid}
    return {
        doc["metadata"]["name"]: asker_of(found.get(doc["metadata"]["name"]), user=doc["spec"].get("username", ""))
        for doc in docs
    }


# ---------------------------------------------------------------- keys


def names_of(doc: Doc) -> tuple[str, ...]:
    """The clusters as whose agent a certificate for this request would speak; none for signers of others."""
    if doc["spec"].get("signerName") != agent_names.SIGNER:
        return ()
    return agent_names.clusters_named(requested(doc))


def requested(doc: Doc) -> Request:
    return ca.parse_request(request_pem(doc))


def keys_of(cluster: str) -> QuerySet[AcceptedKey]:
    return AcceptedKey.objects.filter(cluster=cluster)


def present_keys(cluster: str) -> list[AcceptedKey]:
    """As ``keys_of``, read once for a page or decision."""
    return request_cache.cached(("keys", cluster), lambda: plain_sql.rows_by(AcceptedKey.objects, cluster=cluster))


def is_unknown_key(cluster: str, fingerprint: str) -> bool:
    known = {key.fingerprint for key in present_keys(cluster)}
    return is_strange(fingerprint, known, closed_keys([cluster]).get(cluster, ()) if known else ())


def is_strange(fingerprint: str, known: Collection[str], closed: Collection[str]) -> bool:
    """Whether the name has accepted keys, and this is none of them. A key whose line ended may be somebody else's."""
    return bool(known) and (fingerprint in closed or fingerprint not in known)


def closed_keys(clusters: Collection[str]) -> dict[str, set[str]]:
    """By cluster name, the keys that are of no use any more: of an ended line (D19), or of a revoked certificate."""
    revoked = IssuedCertificate.objects.filter(cluster__in=clusters, revoked_at__isnull=False)
    ended = AcceptedKey.objects.filter(cluster__in=clusters, line__ended_at__isnull=False)
    found: dict[str, set[str]] = {}
    for rows in (revoked.values_list("cluster", "key_fingerprint"), ended.values_list("cluster", "fingerprint")):
        for cluster, fingerprint in rows:
            found.setdefault(cluster, set()).add(fingerprint)
    return found


def is_revoked(credential: str) -> bool:
    """Whether the credential is a certificate of the hub's that opens nothing any more."""
    fingerprint = credential.removeprefix("cert:")
    return IssuedCertificate.objects.filter(pk=fingerprint, revoked_at__isnull=False).exists()


def is_renewal(doc: Doc, asker: Asker, cluster: str, is_revoked: Callable[[str], bool] = is_revoked) -> bool:
    """H36: whether a CSR was created with a valid certificate of exactly the name that it asks for, an agent's.

    It vouches for that cluster alone, whatever else the subject names, and for nothing once it has been revoked.
    """
    if not asks_as_itself(doc, cluster) or not asker.certified:
        return False
    return asker.user == requested(doc).common_name and not is_revoked(asker.credential)


def asks_as_itself(doc: Doc, cluster: str) -> bool:
    """Whether a CSR of an agent of the cluster was created by a user of the name that it asks for."""
    common_name = requested(doc).common_name
    agent = agent_names.agent_name(common_name)
    return agent is not None and agent.cluster == cluster and doc["spec"].get("username") == common_name


def is_barred(cluster: str, fingerprint: str, override: KeyOverride | None = None) -> bool:
    """D9: whether a key lacks the override that it needs for this name; never with ``OCMCONSOLE_ALLOW_REKEY``.

    ``override`` is that of the act itself; an annotation of the ManagedCluster, which only those write who may accept,
    counts as well.
    """
    if settings.OCMCONSOLE_ALLOW_REKEY or not is_unknown_key(cluster, fingerprint):
        return False
    return not (_covers(override, cluster, fingerprint) or _is_annotated(cluster, fingerprint))


@dataclass(frozen=True, slots=True)
class KeyOverride:
    """A user's statement that this key is the right one for the name, and why: ``given`` to the verb that approves.

    ``clusterset`` is the set into which the same act moves the cluster, if any.
    """

    cluster: str
    fingerprint: str
    reason: str = ""
    clusterset: str = ""


def reason_of(override: KeyOverride | None, cluster: str, fingerprint: str) -> str:
    """Why the key is the right one; empty without an override for it. An annotation has no reason."""
    return override.reason if override is not None and _covers(override, cluster, fingerprint) else ""


def _covers(override: KeyOverride | None, cluster: str, fingerprint: str) -> bool:
    return override is not None and (override.cluster, override.fingerprint) == (cluster, fingerprint)


def _is_annotated(cluster: str, fingerprint: str) -> bool:
    row = ManagedCluster.objects.filter(name=cluster).first()
    annotations = (row.doc["metadata"].get("annotations") or {}) if row else {}
    return annotations.get(ACCEPT_KEY) == fingerprint


# ---------------------------------------------------------------- declines


def declines_of(cluster: str) -> QuerySet[Decline]:
    """Those that nobody has lifted, newest first."""
    return Decline.objects.filter(cluster=cluster, lifted_at=None).order_by("-declined_at", "-pk")


def is_any_declined() -> bool:
    return plain_sql.is_there(Decline) and Decline.objects.filter(lifted_at=None).exists()


def present_declines(cluster: str) -> list[Decline]:
    """As ``declines_of``, read once for a page or decision."""
    return request_cache.cached(("declines", cluster), lambda: _read_declines(cluster))


def _read_declines(cluster: str) -> list[Decline]:
    condition = "cluster = %s AND lifted_at IS NULL ORDER BY declined_at DESC, id DESC"
    return plain_sql.rows_where(Decline.objects, condition, cluster)


def remember(cluster: str, keys: list[AcceptedKey], declines: list[Decline]) -> None:
    """The caller has read them: what ``present_keys`` and ``present_declines`` return from now on."""
    request_cache.remember(("keys", cluster), keys)
    request_cache.remember(("declines", cluster), declines)


def decline_of(cluster: str, fingerprint: str, asker: Asker) -> Decline | None:
    return decline_among(declines_of(cluster), fingerprint, asker)


def decline_among(declines: Iterable[Decline], fingerprint: str, asker: Asker) -> Decline | None:
    """D10: the decline that a request meets: of its key; or of its credential or the whole name, if it came later."""
    for decline in declines:
        if decline.fingerprint and decline.fingerprint == fingerprint:
            return decline
        is_meant = decline.scope == Decline.Scope.NAME or decline.credential == asker.credential
        if is_meant and (asker.at is None or asker.at > decline.declined_at):
            return decline
    return None
