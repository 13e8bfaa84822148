"""The register of issued certificates: which client certificates the hub honours, and what it does with unknown ones.

Invariants: a certificate of the hub's own CA is honoured only if the register has it and nobody has revoked it (D26);
one that was issued between a backup and its restore is recorded at its first use.
So is one of another CA that gives rights of a cluster: it belongs to a line of keys as all others do (D19), and is
recorded at its first use. The register is read for each request, by primary key, so a revocation counts in every
process from the end of its transaction on.

A certificate signed with the hub's CA and not by the hub is an incident, kept in ``UnknownCertificate``, in the audit
and in the log, and shown to admins. The number of incidents kept is bounded. Called by ``client_certificates`` and by
the rules of requests.
"""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import DatabaseError
from django.db.models import F

from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.accounts import people
from ocmconsole.kubeapi import clock, errors, verbs, write_queue
from ocmconsole.kubeapi.access import authentication, authorization
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.health import outages
from ocmconsole.kubeapi.storage import audit, incarnations, only_reads, plain_sql
from registration.keys import key_lines
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import IssuedCertificate, UnknownCertificate
from registration.pki import agent_names
from registration.pki.ca import BACKDATED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import datetime

    from django.db.models import Model, QuerySet

    from registration.pki.x509_reading import Certificate

log = logging.getLogger(__name__)

CONTROLLER = Actor.controller("register")
# Incidents: rows kept in all, seconds between two writes about one certificate in one process, and how long after the
# last use one is shown as something to see to.
MOST_INCIDENTS = 1_000
QUIET_SECONDS = 60.0  # between two reports of the same unknown certificate
SHOWN = timedelta(days=7)  # since an unknown certificate was last seen
NAMED = "An account of this name was made."
DELETED = "The account of this name was deleted or renamed."


def require_honoured(certificate: Certificate, issuer: str, address: str) -> None:
    """Raises Unauthorized. ``issuer`` is ``hub`` or ``other``, as ``ca.trusted_client`` says."""
    found = plain_sql.row_by(IssuedCertificate.objects, fingerprint=certificate.fingerprint)
    if found is not None:
        if found.revoked_at is not None:
            raise errors.Unauthorized
        if found.authority != certificate.authority:
            _note_in_use(certificate)
    elif _is_altered_copy(certificate):
        log.warning("an altered copy of a certificate in the register is refused: %s", _shown(certificate))
        raise errors.Unauthorized
    elif issuer == "hub" and not _may_be_unknown(certificate):
        _report(certificate, address)
        raise errors.Unauthorized
    elif (issuer == "hub" or agent_names.clusters_named(certificate)) and not _record(certificate):
        raise errors.Unauthorized


def _note_in_use(certificate: Certificate) -> None:
    """Under which CA it is in use: once for each certificate. What is lost or cannot be written is noted next time."""
    if outages.state.locked:
        return
    try:
        with write_queue.forgettable():
            IssuedCertificate.objects.filter(pk=certificate.fingerprint).update(authority=certificate.authority)
    except (DatabaseError, errors.ApiError) as error:
        log.info("that a certificate is in use could not be noted: %s", error)


def _may_be_unknown(certificate: Certificate) -> bool:
    """D26: issued after the backup that this hub was restored from; or the setting lets every one in."""
    issued = certificate.not_before + BACKDATED
    return settings.OCMCONSOLE_UNKNOWN_CERTIFICATES == "accept" or incarnations.is_lost(issued)


@authentication.lists_honoured_certificates
def honoured(fingerprints: Collection[str]) -> dict[str, datetime]:
    """Those of the register that nobody has revoked, and when each expires. One query.

    Only such as are known to be in use under a CA: a CA that is retired takes those with it (``ca_rotation``).
    """
    rows = IssuedCertificate.objects.filter(pk__in=list(fingerprints), revoked_at=None).exclude(authority="")
    return dict(rows.values_list("pk", "not_after"))


def authorities(fingerprints: Collection[str]) -> dict[str, str]:
    """Of those that nobody has revoked, the CA under which each is known to be in use, "" for none. One query."""
    rows = IssuedCertificate.objects.filter(pk__in=list(fingerprints), revoked_at=None)
    return dict(rows.values_list("pk", "authority"))


def _is_altered_copy(certificate: Certificate) -> bool:
    """Whether the register has this certificate with another signature.

    Of an ECDSA signature anybody can make a second one that is valid too, so the holder of a certificate, a revoked one
    also, can change its fingerprint. What is signed stays the same: the serial, the key and the name.
    """
    same = {name: getattr(certificate, name) for name in ("common_name", "serial", "key_fingerprint")}
    return IssuedCertificate.objects.filter(**same).exists()


# ---------------------------------------------------------------- recorded at first use


def _record(certificate: Certificate) -> bool:
    """Put an unknown certificate that is to be honoured into the register.

    False when its line of keys has ended, or when it is in the register meanwhile and revoked. A refusal takes no
    counter; what is recorded is decided once more under its lock, where no line ends and no other request records it.
    """
    clusters = agent_names.clusters_named(certificate)
    is_honoured = _may_join(clusters, certificate)

    def record() -> Iterator[Model]:
        nonlocal is_honoured
        known = IssuedCertificate.objects.filter(pk=certificate.fingerprint).first()
        is_honoured = known.revoked_at is None if known is not None else _may_join(clusters, certificate)
        if known is not None or not is_honoured:
            return
        kind, name = (MANAGED_CLUSTER, clusters[0]) if clusters else (CSR, "")
        place = {"resource": kind.resource, "namespace": "", "name": name}
        yield audit.entry_of(
            batch.actor, "certificate:record", verb="update", reason=_shown(certificate), diff=[], **place
        )
        agent = agent_names.agent_name(certificate.common_name)
        cluster = agent.cluster if agent is not None and clusters == (agent.cluster,) else ""
        yield IssuedCertificate.of(certificate, cluster=cluster)
        for each in clusters:
            yield from key_lines.joined_rows(CONTROLLER, each, certificate)

    if is_honoured:
        with verbs.batch(CONTROLLER) as batch:
            batch.records.append(record)
    return is_honoured


def _may_join(clusters: tuple[str, ...], certificate: Certificate) -> bool:
    if all(key_lines.takes(cluster, certificate) for cluster in clusters):
        return True
    log.warning("a certificate of a line of keys that has ended is refused: %s", _shown(certificate))
    return False


# ---------------------------------------------------------------- names of accounts


@people.when_named
def certificates_of_earlier_bearers_end(actor: Actor, username: str) -> Iterator[Model]:
    """D24: a certificate that was issued before an account of its name existed does not speak for that account."""
    yield from _ended_of(actor, username, NAMED)


@people.when_unnamed
def certificates_of_deleted_accounts_end(actor: Actor, username: str) -> Iterator[Model]:
    """D24: what spoke for an account ends with it, as it does while the account is deactivated."""
    yield from _ended_of(actor, username, DELETED)


def _ended_of(actor: Actor, username: str, why: str) -> Iterator[Model]:
    now = clock.now()
    if username:  # a certificate without a common name is nobody's
        for row in IssuedCertificate.objects.filter(common_name=username, revoked_at=None, not_after__gt=now):
            yield from ended_for_account(actor, row, why)


def ended_for_account(actor: Actor, row: IssuedCertificate, why: str = NAMED) -> Iterator[Model]:
    """The row, revoked because its name is an account's or was, and the audit entry of that."""
    row.revoked_at, row.revoked_by, row.revocation_reason = clock.now(), actor.user[:320], why
    yield row
    text = f"{row.common_name} {row.pk}: {why}"
    place = {"resource": CSR.resource, "namespace": "", "name": row.request}
    yield audit.entry_of(actor, "certificate:revoke", verb="update", reason=text, diff=[], **place)


# ---------------------------------------------------------------- incidents


def incidents() -> QuerySet[UnknownCertificate]:
    """Those that were used lately, newest first."""
    found = UnknownCertificate.objects.filter(last_seen__gte=clock.now() - SHOWN)
    return found.order_by("-last_seen", "pk")


_reported: dict[str, float] = {}
_reporting = threading.Lock()


def _report(certificate: Certificate, address: str) -> None:
    """Keep an incident. A database that does not take it stops no refusal."""
    with _reporting:
        if monotonic() - _reported.get(certificate.fingerprint, float("-inf")) < QUIET_SECONDS:
            return
        if len(_reported) >= MOST_INCIDENTS:
            _reported.clear()
        _reported[certificate.fingerprint] = monotonic()
    what = "a certificate of the hub's CA that the hub did not issue is refused, from %s: %s"
    log.error(what, address, _shown(certificate))
    if only_reads.is_set():
        return
    try:
        _keep(certificate, address)
    except DatabaseError:
        log.exception("the incident could not be kept")


def _keep(certificate: Certificate, address: str) -> None:
    now = clock.now()
    rows = UnknownCertificate.objects
    if rows.filter(pk=certificate.fingerprint).update(last_seen=now, times=F("times") + 1, address=address[:64]):
        return
    if rows.count() >= MOST_INCIDENTS:
        return
    rows.get_or_create(
        fingerprint=certificate.fingerprint,
        defaults={
            "common_name": certificate.common_name[:320],
            "organizations": ", ".join(certificate.organizations),
            "serial": certificate.serial[:40],
            "key_fingerprint": certificate.key_fingerprint,
            "not_before": certificate.not_before,
            "not_after": certificate.not_after,
            "address": address[:64],
            "first_seen": now,
            "last_seen": now,
        },
    )
    who = Actor(user=certificate.common_name, credential=f"cert:{certificate.fingerprint}"[:120], address=address)
    asked = authorization.Attributes("authenticate", resource="certificates", name=certificate.fingerprint)
    text = f"signed with the hub's CA, and not issued by the hub: {_shown(certificate)}"
    audit.record_denial(who, asked, text, act="certificate:unknown")


def _shown(certificate: Certificate) -> str:
    groups = ", ".join(certificate.organizations) or "none"
    begins, ends = (f"{moment:%Y-%m-%d %H:%M}" for moment in (certificate.not_before, certificate.not_after))
    return (
        f"{certificate.common_name!r}, groups {groups}, serial {certificate.serial}, "
        f"SHA-256 {certificate.fingerprint}, valid {begins} to {ends} UTC"
    )
