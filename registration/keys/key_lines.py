"""Lines of keys (D19): which keys and certificates of a cluster name belong together, and how a line begins and ends.

Invariants: at most one line of a name is open; a certificate that is honoured belongs to open lines only. A line begins
when a key is accepted under a name that has none, or that has others (override, D9); a renewal by the identity's own
certificate extends the line of that certificate, a repair token (D29) the one for which it was minted; deleting the
ManagedCluster changes nothing. A line ends when another begins, or when all that a cluster holds is revoked, and its
unexpired certificates and repair tokens end with it.

The functions that end or extend return unsaved rows: their callers save them in the transaction of the decision, and
call them under the counter's lock, so that two decisions about one name see each other. Called by ``decisions``,
``request_admission``, ``services``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.storage import audit, plain_sql
from registration.keys import key_history, repair_tokens
from registration.keys.key_history import KeyOverride
from registration.models import AcceptedKey, IssuedCertificate, KeyLine
from registration.pki.ca import BACKDATED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from django.db.models import Model, QuerySet

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from registration.pki.x509_reading import Certificate

REPLACED = "Another key was accepted for this cluster."
CERTIFICATE = "cert:"
OF_KEY = """id IN (SELECT line_id FROM registration_acceptedkey WHERE cluster IN ({marks}) AND fingerprint = %s)
            ORDER BY id"""
OPEN = "cluster = %s AND ended_at IS NULL ORDER BY id"


# ---------------------------------------------------------------- reads


def open_line(cluster: str) -> KeyLine | None:
    return KeyLine.objects.filter(cluster=cluster, ended_at=None).first()


def certificates_of(cluster: str, now: datetime) -> QuerySet[IssuedCertificate]:
    """Every certificate that gives rights of the cluster and is neither expired nor revoked, newest first.

    Those of its agents, those whose subject names its groups, and those of add-ons that its agents asked for.
    """
    of_lines = IssuedCertificate.lines.through.objects.filter(keyline__cluster=cluster).values("issuedcertificate_id")
    found = IssuedCertificate.objects.filter(
        Q(cluster=cluster) | Q(pk__in=of_lines), revoked_at=None, not_after__gt=now
    )
    return found.order_by("-not_before", "pk")


def of_request(doc: Doc) -> list[KeyLine]:
    """The lines that the certificate of an approved request belongs to."""
    if names := key_history.names_of(doc):
        fingerprint = key_history.requested(doc).key_fingerprint
        return plain_sql.rows_where(KeyLine.objects, OF_KEY.format(marks=plain_sql.marks(names)), *names, fingerprint)
    asker = key_history.asker_of_request(doc)
    return (
        list(KeyLine.objects.filter(certificates=asker.credential.removeprefix(CERTIFICATE))) if asker.certified else []
    )


def ended_among(lines: list[KeyLine]) -> KeyLine | None:
    return next((line for line in lines if line.ended_at is not None), None)


# ---------------------------------------------------------------- a key is accepted


def accepted(actor: Actor, cluster: str, doc: Doc, override: KeyOverride | None) -> Iterator[Model]:
    """Rows that an approved request leaves for one of the clusters that it names; none for a key of the open line.

    The reason of an override for this cluster and key is stored with the key.
    """
    request = key_history.requested(doc)
    keys = {key.fingerprint: key for key in key_history.present_keys(cluster)}
    key = keys.get(request.key_fingerprint)
    if key is not None and not key_history.is_unknown_key(cluster, request.key_fingerprint):
        return
    is_renewal = key_history.asks_as_itself(doc, cluster) and key_history.is_renewal(
        doc, key_history.asker_of_request(doc), cluster
    )
    repair = None if is_renewal or override is not None else repair_tokens.continued_by(doc, cluster)
    line = open_line(cluster) if is_renewal or repair else None
    if line is None:
        how = AcceptedKey.How.OVERRIDE if keys else AcceptedKey.How.ACCEPT
        line = KeyLine(cluster=cluster, begun_at=clock.now())
        if not is_renewal:
            # A line is begun with a key, which stays: a name without any has none to end.
            yield from ended(actor, cluster, REPLACED) if keys else _revoked_all(actor, cluster, REPLACED)
        yield line
    if is_renewal:
        how = AcceptedKey.How.RENEWAL
    elif repair is not None:
        how = AcceptedKey.How.REPAIR
    key = key or AcceptedKey(cluster=cluster, fingerprint=request.key_fingerprint)
    key.line, key.how = line, how
    key.key = request.key_text[:64]
    key.accepted_by, key.accepted_at = actor.user[:320], clock.now()
    key.reason = key_history.reason_of(override, cluster, request.key_fingerprint)
    if repair is not None:
        key.accepted_by = repair.created_by
        key.reason = f"The repair token {repair.pk}, minted by {repair.created_by}, vouched for it."
        yield _repaired(actor, cluster, f"{key.fingerprint}: {key.reason}")
    key.request, key.request_uid = doc["metadata"]["name"], doc["metadata"]["uid"]
    yield key


def _repaired(actor: Actor, cluster: str, reason: str) -> Model:
    place = {"resource": MANAGED_CLUSTER.resource, "namespace": "", "name": cluster}
    return audit.entry_of(actor, "managedcluster:repair", verb="update", reason=reason, diff=[], **place)


# ---------------------------------------------------------------- a certificate that the register did not know


def takes(cluster: str, certificate: Certificate) -> bool:
    """Whether a certificate that was issued elsewhere, or before a restore, may belong to the open line of a name.

    It does when its key is one of the line, or when it was issued since the line began. A name without any line takes
    every one; a name whose lines have all ended takes none.
    """
    line = open_line(cluster)
    if line is None:
        return not KeyLine.objects.filter(cluster=cluster).exists()
    if certificate.not_before + BACKDATED >= line.begun_at:
        return certificate.key_fingerprint not in key_history.closed_keys([cluster]).get(cluster, ())
    return not key_history.is_unknown_key(cluster, certificate.key_fingerprint)


def joined_rows(actor: Actor, cluster: str, certificate: Certificate) -> Iterator[Model]:
    """Rows that put a certificate, which is stored already, and its key into the open line of a name."""
    line = open_line(cluster)
    if line is None:
        line = KeyLine(cluster=cluster, begun_at=clock.now())
        yield line
    if not AcceptedKey.objects.filter(cluster=cluster, fingerprint=certificate.key_fingerprint).exists():
        yield AcceptedKey(
            cluster=cluster,
            fingerprint=certificate.key_fingerprint,
            key="",
            how=AcceptedKey.How.RECORDED,
            line=line,
            accepted_by=actor.user,
            accepted_at=clock.now(),
            request="",
            request_uid="",
        )
    yield IssuedCertificate.lines.through(issuedcertificate_id=certificate.fingerprint, keyline=line)


# ---------------------------------------------------------------- a line ends


def ended(actor: Actor, cluster: str, reason: str) -> Iterator[Model]:
    """The open line of a name ends, every certificate that still gives rights of it is revoked, repair tokens end."""
    now = clock.now()
    for line in plain_sql.rows_where(KeyLine.objects, OPEN, cluster):
        line.ended_at, line.ended_by, line.end_reason = now, actor.user[:320], reason
        yield line
    yield from _revoked_all(actor, cluster, reason)
    yield from tokens.ended_repairs(actor, cluster, reason)


def _revoked_all(actor: Actor, cluster: str, reason: str) -> Iterator[Model]:
    for certificate in certificates_of(cluster, clock.now()):
        yield from revoked_rows(actor, certificate, cluster, reason)


def revoked_rows(actor: Actor, certificate: IssuedCertificate, cluster: str, reason: str) -> Iterator[Model]:
    """The row of a certificate that is revoked for a cluster, and its audit entry under the cluster's name."""
    certificate.revoked_at, certificate.revoked_by = clock.now(), actor.user[:320]
    certificate.revocation_reason = reason
    yield certificate
    yield audit.entry_of(
        actor,
        "certificate:revoke",
        verb="update",
        resource=MANAGED_CLUSTER.resource,
        namespace="",
        name=cluster,
        reason=f"{certificate.common_name} {certificate.pk}: {reason}",
        diff=[],
    )
