"""Reads client certificates: whose they are, and whether the hub still honours them (W21, W30)."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from ocmconsole.kubeapi import authentication, errors
from ocmconsole.kubeapi.actor import MASTERS, Actor
from registration import ca, revocation

REMEMBERED = 20_000


@authentication.reads_certificates
def actor_of_certificate(der: bytes) -> Actor:
    """User = CN, groups = every O. Dates are checked at each request, not once a connection. Raises Unauthorized."""
    try:
        certificate, issuer = _verified(der, _roots())
    except ValueError as error:
        raise errors.Unauthorized from error
    now = datetime.now(UTC)
    if not certificate.not_before <= now <= certificate.not_after or not certificate.common_name:
        raise errors.Unauthorized
    revocation.require_honoured(certificate.fingerprint)
    groups = certificate.organizations
    if issuer != "hub":  # another CA makes no superuser
        groups = tuple(group for group in groups if group != MASTERS)
    return Actor(user=certificate.common_name, groups=groups, credential=f"cert:{certificate.fingerprint}"[:120])


@lru_cache(maxsize=REMEMBERED)
def _verified(der: bytes, roots: ca.Roots) -> tuple[ca.Certificate, str]:
    """Signatures are checked once for each certificate; a change of the CAs forgets everything."""
    return ca.trusted_client(der, roots)


@lru_cache(maxsize=1)
def _roots() -> ca.Roots:
    hub = (Path(settings.OCMCONSOLE_HOME) / "ca.crt").read_bytes()
    others = Path(settings.OCMCONSOLE_CLIENT_CA_FILE).read_bytes() if settings.OCMCONSOLE_CLIENT_CA_FILE else b""
    return ca.Roots(hub=hub, others=others)
