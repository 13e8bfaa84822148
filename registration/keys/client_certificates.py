"""Reads client certificates: whose they are, and whether the hub still honours them (W21, W30).

TLS takes every certificate whose key the client proves to hold. What it is worth is decided here at each request,
answered with 401 like every bad credential, and logged with the reason.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from django.conf import settings

from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access import authentication, request_limits
from ocmconsole.kubeapi.access.actor import MASTERS, OWN_PREFIX, Actor
from registration.keys import certificate_register
from registration.pki import ca

if TYPE_CHECKING:
    from collections.abc import Mapping

# Certificates whose chain was checked, which takes 0.2 to 0.6 ms; 1.6 KB each, with the certificate. As many as the
# limits know: agents come in turns, so of fewer each would be forgotten when it is needed again.
REMEMBERED = request_limits.MOST_CREDENTIALS
LOGGED = 256  # certificates whose refusal is remembered; a larger number of bad ones is logged more often

logger = logging.getLogger(__name__)
_logged: dict[bytes, int] = {}


@authentication.reads_certificates
def actor_of_certificate(der: bytes, address: str = "") -> Actor:
    """User = CN, groups = every O. Dates are checked at each request, not once a connection. Raises Unauthorized.

    ``address`` is from where it is shown. Names of the hub's own parts are no client's (D24).
    """
    try:
        certificate, issuer = _verified(der, _roots())
        _check_now(certificate)
        certificate_register.require_honoured(certificate, issuer, address)
    except ValueError as error:
        _log_refusal(der, str(error))
        raise errors.Unauthorized from error
    except errors.Unauthorized:
        _log_refusal(der, "the hub does not honour it, or not any more")
        raise
    return _actor(certificate, issuer)


@authentication.reads_registered_certificates
def actors_of_registered_certificates(shown: Mapping[str, bytes]) -> dict[str, Actor]:
    """As ``actor_of_certificate``, by one query. Missing are those not in the register, revoked or not trusted.

    And those of which is to be noted under which CA they are in use.
    """
    found: dict[str, Actor] = {}
    try:
        roots = _roots()
    except ValueError:
        return found
    for fingerprint, authority in certificate_register.authorities(shown).items():
        with suppress(ValueError):
            certificate, issuer = _verified(shown[fingerprint], roots, authority)
            _check_now(certificate)
            if certificate.authority == authority:
                found[fingerprint] = _actor(certificate, issuer)
    return found


def _actor(certificate: ca.Certificate, issuer: str) -> Actor:
    groups = certificate.organizations
    if issuer != "hub":  # another CA makes no superuser
        groups = tuple(group for group in groups if group != MASTERS)
    return Actor(user=certificate.common_name, groups=groups, credential=f"cert:{certificate.fingerprint}"[:120])


def _check_now(certificate: ca.Certificate) -> None:
    """What time and people change. Raises ValueError."""
    if not certificate.not_before <= clock.now() <= certificate.not_after:
        raise ValueError("the certificate is not valid at this time")
    if not certificate.common_name:
        raise ValueError("the certificate has no common name")
    if any(name.startswith(OWN_PREFIX) for name in (certificate.common_name, *certificate.organizations)):
        raise ValueError("the certificate has a name of the hub's own parts")


def _log_refusal(der: bytes, reason: str) -> None:
    """Once a minute for each certificate: an agent with a bad one comes again and again."""
    minute = int(monotonic() // 60)
    if _logged.get(der) == minute:
        return
    if len(_logged) >= LOGGED:
        _logged.clear()
    _logged[der] = minute
    try:
        shown = ca.parse_certificate(der)
    except ValueError:
        logger.info("refused a client certificate: %s", reason)
    else:
        subject = {"CN": shown.common_name, "O": shown.organizations}
        logger.info("refused a client certificate: %s; subject %s, serial %s", reason, subject, shown.serial)


def _verified(der: bytes, roots: ca.Roots, checked_under: str = "") -> tuple[ca.Certificate, str]:
    """Signatures are checked once for each certificate; a change of the CAs forgets everything. Raises ValueError.

    ``checked_under``: the CA that the register has for the certificate of this fingerprint, as ``ca.trusted_client``.
    """
    checked = _checked(roots)
    found = checked.get(der)
    if found is None:
        found = checked[der] = ca.trusted_client(der, roots, checked_under=checked_under)
        if len(checked) > REMEMBERED:
            with suppress(KeyError, RuntimeError):  # another thread has done so
                del checked[next(iter(checked))]  # the first that was read
    return found


@lru_cache(maxsize=1)
def _checked(roots: ca.Roots) -> dict[bytes, tuple[ca.Certificate, str]]:  # noqa: ARG001 - of which it is
    return {}


# What was read last, and which versions of which files that was: see ``_roots``.
_read: list[tuple[tuple[str, str], tuple[tuple[int, int] | None, ...], ca.Roots]] = []


def _roots() -> ca.Roots:
    """Whom the hub trusts now: the files are looked at for each request, and read when one was replaced.

    One that cannot be used leaves the former in its place. Raises OSError, ValueError where there was none.
    """
    home, others = str(settings.OCMCONSOLE_HOME), settings.OCMCONSOLE_CLIENT_CA_FILE
    place = (home, others)
    versions = (_version(f"{home}/client-ca.crt"), _version(f"{home}/ca.crt"), _version(others) if others else None)
    before, seen, former = _read[0] if _read else (None, None, None)
    if former is not None and before == place and seen == versions:
        return former
    roots = ca.Roots(ca.client_file(Path(home)).read_bytes(), Path(others).read_bytes() if others else b"")
    found = _usable(roots, former if before == place else None)
    _read[:] = [(place, versions, found)]
    return found


def _version(path: str) -> tuple[int, int] | None:
    """Differs when the file was replaced or written; None while there is none. Asked for each request."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path takes three times as long
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _usable(roots: ca.Roots, former: ca.Roots | None) -> ca.Roots:
    try:
        _ = roots.anchors
    except ValueError as error:
        if former is None:
            raise
        logger.warning("the CAs of clients cannot be used, the former are trusted: %s", error)
        return former
    return roots
