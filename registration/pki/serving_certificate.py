"""The certificate that the hub shows on its API, and its chain. No Django models.

While a new CA of serving takes the place of an old one, the chain also holds the new one as signed by the old: so
agents that trust only the old one find their way to it. That certificate is nowhere else; what agents are given to
trust are the CAs themselves. Nobody trusts only the new one before the old one is retired. Callers reach this through
``registration.pki.ca``. The key of the hub's own certificate is a file in the home, wherever that of the CA is: TLS
needs it for each connection.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ocmconsole.environment import home as files
from ocmconsole.kubeapi import clock
from registration.pki import authority_files, key_files, x509_reading
from registration.pki.authority_files import Phase
from registration.pki.external_keys import AuthorityError
from registration.pki.issuing import Authority, key_pem, key_usage

LONGEST_HOST = 253  # characters: RFC 1123
HOST = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.ASCII)  # RFC 1123
SERVING_LIFETIME = timedelta(days=365)  # of the hub's own certificate
SERVING_RENEWAL = timedelta(days=30)  # before its end


def ensure_authority(home: Path, names: Collection[str], *, now: datetime | None = None) -> Authority:
    """The authority of serving, made on first use, with a serving certificate for exactly these names and addresses.

    Raises AuthorityError. Two processes may start at once: the second finds what the first has made.
    """
    now = now or clock.now()
    wanted = _general_names(names)
    with files.locked(home):
        if not (home / "ca.crt").exists():
            authority_files.create(home, now)
        authority = authority_files.serving_authority(home, now=now)
        authority_files.require_keys(home, now)
        if not _serves(home, authority, wanted, now):
            _issue(home, authority, wanted, now)
    return authority


def is_served(home: Path, names: Collection[str]) -> bool:
    """Whether the serving certificate in the home is in order for these names. Raises AuthorityError.

    It may have further addresses: those at which other servers with this home listen.
    """
    now, others = clock.now(), further_addresses(home, names)
    return _serves(home, authority_files.serving_authority(home, now=now), _general_names([*names, *others]), now)


def certificate_ends(home: Path) -> dict[str, datetime]:
    """When the hub's own certificates end, by their role; no key is read, and a file that cannot be is left out."""
    places = {
        "client-ca": authority_files.client_file(home),
        "serving-ca": home / "ca.crt",
        "serving": home / "serving.crt",
    }
    ends = {}
    for name, path in places.items():
        with suppress(OSError, ValueError):
            ends[name] = x509_reading.parse_certificate(path.read_bytes()).not_after
    return ends


def further_addresses(home: Path, names: Collection[str]) -> list[str]:
    """IP addresses in the serving certificate that are not among the names; none where it cannot be read."""
    try:
        leaf = x509.load_pem_x509_certificates((home / "serving.crt").read_bytes())[0]
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return []
    return [text for each in found.get_values_for_type(x509.IPAddress) if (text := str(each)) not in names]


def _serves(home: Path, authority: Authority, wanted: list[x509.GeneralName], now: datetime) -> bool:
    """Whether the serving files are whole, ours, for these names, and last a while."""
    try:
        leaf, *above = x509.load_pem_x509_certificates((home / "serving.crt").read_bytes())
        key = key_files.load_key((home / "serving.key").read_bytes(), "serving.key")
        names = list(leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        end = authority.certificate.not_valid_after_utc
    except (OSError, TypeError, ValueError, UnsupportedAlgorithm, x509.ExtensionNotFound):
        return False
    return (
        leaf.public_key() == key.public_key()
        and names == wanted
        and _is_chain(above, authority, now)
        and x509_reading.is_issued_by(leaf, authority.certificate)
        and leaf.not_valid_before_utc <= now <= leaf.not_valid_after_utc
        # A new one would last longer: none outlives the CA.
        and (now <= leaf.not_valid_after_utc - SERVING_RENEWAL or leaf.not_valid_after_utc >= end)
    )


def _issue(home: Path, authority: Authority, wanted: list[x509.GeneralName], now: datetime) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.SubjectAlternativeName(wanted), False),
        (key_usage("digital_signature"), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
    ]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ocmconsole")])
    leaf = authority.issue(subject, key.public_key(), extensions, SERVING_LIFETIME, now)
    crosses = [each.cross_sign(authority.certificate, now) for each in _vouching(authority, now)]
    chain = (leaf, *authority.intermediates, *crosses, *_of_others(authority, now))
    files.write_file(home / "serving.key", key_pem(key), secret=True)
    files.write_file(home / "serving.crt", b"".join(map(x509_reading.as_pem, chain)), secret=False)


# ---------------------------------------------------------------- the chain


def _vouching(authority: Authority, now: datetime) -> list[Authority]:
    """Older CAs of which this one takes the place. After a roll-back none: everybody trusts the one that signs.

    OpenSSL tries one path only, so a certificate that nobody needs could keep others from theirs.
    """
    if authority_files.phase_of(authority) is not Phase.ROTATING:
        return []
    return [each for each in authority.others if x509_reading.lives(each.certificate, now)]


def _of_others(authority: Authority, now: datetime) -> list[x509.Certificate]:
    return [item for each in _vouching(authority, now) for item in each.intermediates]


def _is_chain(above: list[x509.Certificate], authority: Authority, now: datetime) -> bool:
    """Whether what follows the leaf is what ``_issue`` would write, except for serial numbers and dates."""
    own, vouching = authority.intermediates, _vouching(authority, now)
    crosses = above[len(own) : len(own) + len(vouching)]
    return (
        [*own, *crosses, *_of_others(authority, now)] == above
        and len(crosses) == len(vouching)
        and all(_vouches(cross, each, authority, now) for cross, each in zip(crosses, vouching, strict=True))
    )


def _vouches(cross: x509.Certificate, by: Authority, authority: Authority, now: datetime) -> bool:
    of = authority.certificate
    return (
        cross.subject == of.subject
        and cross.public_key() == of.public_key()
        and x509_reading.is_issued_by(cross, by.certificate)
        and x509_reading.lives(cross, now)
    )


# ---------------------------------------------------------------- names


def check_name(name: str) -> None:
    """Raises AuthorityError for what is no host that clients could reach: agents read every name of the certificate."""
    text = name.strip("[]").lower()
    try:
        address = ip_address(text)
    except ValueError:
        if len(text) > LONGEST_HOST or not HOST.fullmatch(text):
            raise AuthorityError(f"{name!r} is no name of a host") from None
    else:
        if address.is_unspecified or address.is_multicast:
            raise AuthorityError(f"{name} is no address of a host")


def _general_names(names: Collection[str]) -> list[x509.GeneralName]:
    if not names:
        raise AuthorityError("a serving certificate needs a name")
    return [_general_name(name) for name in sorted({name.strip("[]").lower() for name in names})]


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise AuthorityError(f"{name!r} cannot be a name in a serving certificate: {error}") from error
