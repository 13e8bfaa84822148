"""The hub's certificate authority: its files in the home, and what it signs. No Django models.

Invariant: a request is signed exactly as it was read and judged; its subject is copied as encoded, because an agent
compares and asks again for ever when anything differs (W24).
Callers: registration's validators and reconcilers, commands that issue kubeconfigs, the serve command,
ocmconsole.server.serving.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import (
    CertificateIssuerPrivateKeyTypes,
    CertificatePublicKeyTypes,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ocmconsole.environment import home as files
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.actor import OWN_PREFIX
from registration.pki import x509_reading
from registration.pki.x509_reading import (
    Certificate,
    Request,
    Roots,
    is_of,
    parse_certificate,
    parse_request,
    trusted_client,
)

__all__ = [
    "Authority",
    "AuthorityError",
    "Certificate",
    "Request",
    "Roots",
    "ensure_authority",
    "is_of",
    "load_authority",
    "parse_certificate",
    "parse_request",
    "trusted_client",
]

CA_LIFETIME = timedelta(days=3650)  # ten years
LONGEST_HOST = 253  # characters: RFC 1123
HOST = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.ASCII)  # RFC 1123
SERVING_LIFETIME = timedelta(days=365)  # of the hub's own certificate
SERVING_RENEWAL = timedelta(days=30)  # before its end
BACKDATED = timedelta(minutes=5)  # W24: ``notBefore`` lies back, so that a slow clock does not find it in the future
LONGEST_COMMON_NAME = 64  # characters, as in X.509
MASTERS = "system:masters"
CLIENT_AUTH = "client auth"
KEY_USAGES = {"digital signature": "digital_signature", "key encipherment": "key_encipherment"}


class AuthorityError(Exception):
    """The files in the home are no usable authority; the text says which and why."""


# ---------------------------------------------------------------- the authority


@dataclass(frozen=True, slots=True)
class Authority:
    """The issuing certificate, what is above it, and its key. ``ca_pem`` is what kubeconfigs and cluster-info carry."""

    chain: tuple[x509.Certificate, ...]
    key: CertificateIssuerPrivateKeyTypes
    ca_pem: bytes

    @property
    def certificate(self) -> x509.Certificate:
        return self.chain[0]

    def sign_client(self, csr_pem: bytes, *, usages: Sequence[str], lifetime: timedelta, now: datetime) -> bytes:
        """PEM, leaf first. Alternative names are left out: a client is known by its subject (K12).

        Raises ValueError, as a sentence for the request's Failed condition, for what this signer does not sign.
        """
        csr = x509_reading.load_request(csr_pem)
        request = parse_request(csr_pem)
        _check_usages(usages)
        if request.size_flaw:
            raise ValueError(request.size_flaw)
        if not request.signature_valid:
            raise ValueError("the request is not signed by the key it carries")
        if not request.common_name:
            raise ValueError("the request has no common name")
        _check_names(request.common_name, *request.organizations)
        if MASTERS in request.organizations:  # never signed (W24)
            raise ValueError(f"the group {MASTERS} is not given to a certificate request")
        if not request.key_is_strong:
            raise ValueError(f"a key of type {request.key_text} is not signed")
        with x509_reading.value_errors_only("certificate request"):
            leaf = self._issue(csr.subject, csr.public_key(), _client_extensions(usages), lifetime, now)
        if leaf.subject.public_bytes() != csr.subject.public_bytes():
            raise ValueError("the subject cannot be copied exactly")
        return self._with_chain(leaf)

    def issue_client(
        self, common_name: str, organizations: Sequence[str], lifetime: timedelta, now: datetime
    ) -> tuple[bytes, bytes]:
        """Certificate and new key for the kubeconfig of a person. Raises ValueError for a name X.509 cannot carry."""
        if not 0 < len(common_name.encode()) <= LONGEST_COMMON_NAME:
            raise ValueError(f"a common name has 1 to {LONGEST_COMMON_NAME} bytes")
        if any(not name or x509_reading.CONTROL.search(name) for name in (common_name, *organizations)):
            raise ValueError("a name is empty or holds control characters")
        _check_names(common_name, *organizations)
        groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
        subject = x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        key = ec.generate_private_key(ec.SECP256R1())
        usages = ("digital signature", "key encipherment", CLIENT_AUTH)
        leaf = self._issue(subject, key.public_key(), _client_extensions(usages), lifetime, now)
        return self._with_chain(leaf), _key_pem(key)

    def _issue(
        self,
        subject: x509.Name,
        key: CertificatePublicKeyTypes,
        extensions: Iterable[tuple[x509.ExtensionType, bool]],
        lifetime: timedelta,
        now: datetime,
    ) -> x509.Certificate:
        not_after = min(now + lifetime, self.certificate.not_valid_after_utc)
        if not_after <= now:
            raise ValueError("the lifetime is over before it begins, or the hub's CA has expired")
        builder = _builder(subject, key, now - BACKDATED, not_after)
        builder = builder.issuer_name(self.certificate.subject)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_authority_identifier(self.certificate), critical=False)
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self.key, _digest(self.key))

    def _with_chain(self, leaf: x509.Certificate) -> bytes:
        """Intermediate certificates are sent with the chain; the root is not, because trusting it means having it."""
        return b"".join(
            x509_reading.as_pem(item) for item in (leaf, *(item for item in self.chain if item.issuer != item.subject))
        )


def ensure_authority(home: Path, names: Collection[str], *, now: datetime | None = None) -> Authority:
    """The authority of a home, made on first use, with a serving certificate for exactly these names and addresses.

    Raises AuthorityError. Two processes may start at once: the second finds what the first has made.
    """
    now = now or clock.now()
    wanted = _general_names(names)
    with files.locked(home):
        if not (home / "ca.crt").exists():
            _create(home, now)
        authority = load_authority(home, now=now)
        if not _serves(home, authority, wanted, now):
            _issue_serving(home, authority, wanted, now)
    return authority


def load_authority(home: Path, *, now: datetime | None = None) -> Authority:
    """The authority that is already in a home, for processes that only sign. Raises AuthorityError."""
    try:
        with x509_reading.value_errors_only(f"authority in {home}"):
            pem = (home / "ca.crt").read_bytes()
            chain = tuple(x509.load_pem_x509_certificates(pem))
            key = _load_key(home / "ca.key")
            _check_authority(chain, key, now or clock.now())
    except (OSError, ValueError) as error:
        raise AuthorityError(str(error)) from error
    return Authority(chain, key, pem)


def _check_authority(chain: tuple[x509.Certificate, ...], key: CertificateIssuerPrivateKeyTypes, now: datetime) -> None:
    issuing = chain[0]
    if issuing.public_key() != key.public_key():
        raise AuthorityError("ca.key is not the key of the first certificate in ca.crt")
    for item in chain:
        if flaw := x509_reading.size_flaw(item.public_key()):
            raise AuthorityError(f"a key in ca.crt, of {item.subject.rfc4514_string()}, is refused: {flaw}")
    if not x509_reading.may_issue(issuing):
        raise AuthorityError("the first certificate in ca.crt is not a CA that may sign certificates")
    if not x509_reading.lives(issuing, now):
        raise AuthorityError(f"the first certificate in ca.crt is valid until {issuing.not_valid_after_utc} only")
    for below, above in pairwise(chain):
        if not x509_reading.is_issued_by(below, above):
            raise AuthorityError("ca.crt is not a chain: each certificate must be signed by the one after it")


def _create(home: Path, now: datetime) -> None:
    """Key first: a key alone is what an interrupted start leaves, and the next one goes on with it."""
    path = home / "ca.key"
    if not path.exists():
        files.write_file(path, _key_pem(ec.generate_private_key(ec.SECP256R1())), secret=True)
    try:
        with x509_reading.value_errors_only(f"key {path}"):
            key = _load_key(path)
    except (OSError, ValueError) as error:
        raise AuthorityError(str(error)) from error
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"ocmconsole hub {secrets.token_hex(4)}")])
    usage = _key_usage("key_cert_sign", "crl_sign", "digital_signature")
    builder = _builder(subject, key.public_key(), now - BACKDATED, now + CA_LIFETIME).issuer_name(subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.add_extension(usage, critical=True).sign(key, _digest(key))
    files.write_file(home / "ca.crt", x509_reading.as_pem(certificate), secret=False)


# ---------------------------------------------------------------- the serving certificate


def is_served(home: Path, names: Collection[str]) -> bool:
    """Whether the serving certificate in the home is in order for these names. Raises AuthorityError."""
    now = clock.now()
    return _serves(home, load_authority(home, now=now), _general_names(names), now)


def _serves(home: Path, authority: Authority, wanted: list[x509.GeneralName], now: datetime) -> bool:
    """Whether the serving files are whole, ours, for these names, and last a while."""
    try:
        leaf, *above = x509.load_pem_x509_certificates((home / "serving.crt").read_bytes())
        key = _load_key(home / "serving.key")
        names = list(leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        end = authority.certificate.not_valid_after_utc
    except (OSError, TypeError, ValueError, UnsupportedAlgorithm, x509.ExtensionNotFound):
        return False
    return (
        leaf.public_key() == key.public_key()
        and names == wanted
        and authority._with_chain(leaf) == b"".join(x509_reading.as_pem(item) for item in (leaf, *above))  # noqa: SLF001 - same module
        and x509_reading.is_issued_by(leaf, authority.certificate)
        and leaf.not_valid_before_utc <= now <= leaf.not_valid_after_utc
        # A new one would last longer: none outlives the CA.
        and (now <= leaf.not_valid_after_utc - SERVING_RENEWAL or leaf.not_valid_after_utc >= end)
    )


def _issue_serving(home: Path, authority: Authority, wanted: list[x509.GeneralName], now: datetime) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.SubjectAlternativeName(wanted), False),
        (_key_usage("digital_signature"), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
    ]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ocmconsole")])
    leaf = authority._issue(subject, key.public_key(), extensions, SERVING_LIFETIME, now)  # noqa: SLF001 - same module
    files.write_file(home / "serving.key", _key_pem(key), secret=True)
    files.write_file(home / "serving.crt", authority._with_chain(leaf), secret=False)  # noqa: SLF001 - same module


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


# ---------------------------------------------------------------- X.509


def _check_usages(usages: Sequence[str]) -> None:
    if CLIENT_AUTH not in usages:
        raise ValueError(f"the usages do not include {CLIENT_AUTH}")
    if extra := sorted(set(usages) - {CLIENT_AUTH, *KEY_USAGES}):
        raise ValueError(f"a client certificate is not signed for {', '.join(extra)}")


def _check_names(*names: str) -> None:
    """D24: no certificate is signed for names of the hub's own parts."""
    if own := [name for name in names if name.startswith(OWN_PREFIX)]:
        raise ValueError(f"{own[0]} is a name of the hub itself; nothing is signed for it")


def _client_extensions(usages: Sequence[str]) -> list[tuple[x509.ExtensionType, bool]]:
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False)
    ]
    if bits := [KEY_USAGES[usage] for usage in usages if usage in KEY_USAGES]:
        extensions.append((_key_usage(*bits), True))
    return extensions


def _key_usage(*bits: str) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature="digital_signature" in bits,
        content_commitment=False,
        key_encipherment="key_encipherment" in bits,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign="key_cert_sign" in bits,
        crl_sign="crl_sign" in bits,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    subject: x509.Name, key: CertificatePublicKeyTypes, not_before: datetime, not_after: datetime
) -> x509.CertificateBuilder:
    serial = secrets.randbits(128) | 1 << 127  # never short, never zero
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key).serial_number(serial)
    builder = builder.not_valid_before(not_before).not_valid_after(not_after)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _authority_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        own = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())  # type: ignore[arg-type] # a CA's key can sign
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _digest(key: CertificateIssuerPrivateKeyTypes) -> hashes.SHA256 | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey) else hashes.SHA256()


def _load_key(path: Path) -> CertificateIssuerPrivateKeyTypes:
    """Raises OSError, TypeError (encrypted), ValueError, UnsupportedAlgorithm."""
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(
        key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey
    ):
        raise TypeError(f"{path.name} holds a key that cannot sign")
    return key


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
