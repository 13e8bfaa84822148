"""Reads certificate requests and certificates, and says which certificates the hub trusts. No Django models.

Invariants: a request is judged and signed as one reader sees it; a certificate speaks for somebody only when an anchor
signed it directly; of the hub's own chain only the issuing certificate is an anchor, so that an organisation's root
above it vouches for nobody here. Callers reach all of this through registration.pki.ca.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from OpenSSL import crypto

from ocmconsole.kubeapi import (
    clock,
)

LARGEST_REQUEST = 64 * 1024  # bytes of PEM; bounds parsing
# Bits of an RSA modulus: smaller ones can be factored, larger ones cost too much at each check of a signature (Go's
# own limit).
SMALLEST_RSA, LARGEST_RSA = 2048, 8192
CURVES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
PEM_START = re.compile(rb"-----BEGIN ([^\r\n-]*)-----")

# The name of an agent is longer than X.509's 64 characters whenever its cluster's is; every implementation takes it.
warnings.filterwarnings("ignore", message="Attribute's length must be", category=UserWarning)


# ---------------------------------------------------------------- requests


@dataclass(frozen=True, slots=True)
class Request:
    """What a PKCS#10 request asks for, in its own order and spelling."""

    common_name: str
    organizations: tuple[str, ...]
    organizational_units: tuple[str, ...]
    has_other_attributes: bool
    dns_names: tuple[str, ...]
    ip_addresses: tuple[str, ...]
    emails: tuple[str, ...]
    uris: tuple[str, ...]
    other_names: tuple[str, ...]
    key_text: str
    key_fingerprint: str
    key_is_strong: bool
    signature_valid: bool
    # Why the size of the key is refused, or "".
    size_flaw: str = ""

    @property
    def alternative_names(self) -> tuple[str, ...]:
        return (*self.dns_names, *self.ip_addresses, *self.emails, *self.uris, *self.other_names)


@lru_cache(maxsize=2_048)
def parse_request(pem: bytes) -> Request:
    """Rules, reconcilers and pages ask for the same few again and again.

    Raises ValueError, with Kubernetes' text for what is no request at all, and never anything else.
    """
    csr = load_request(pem)
    with value_errors_only("certificate request"):
        subject, names, key = _Subject.of(csr.subject), _alternative_names(csr), csr.public_key()
        return Request(
            common_name=subject.common_name,
            organizations=subject.organizations,
            organizational_units=subject.units,
            has_other_attributes=subject.has_others,
            dns_names=tuple(name.value for name in names if isinstance(name, x509.DNSName)),
            ip_addresses=tuple(str(name.value) for name in names if isinstance(name, x509.IPAddress)),
            emails=tuple(name.value for name in names if isinstance(name, x509.RFC822Name)),
            uris=tuple(name.value for name in names if isinstance(name, x509.UniformResourceIdentifier)),
            other_names=tuple(_shown(name) for name in names if not isinstance(name, _PLAIN_NAMES)),
            key_text=key_text(key),
            key_fingerprint=fingerprint_of(key),
            key_is_strong=is_strong(key),
            signature_valid=not size_flaw(key) and csr.is_signature_valid,
            size_flaw=size_flaw(key),
        )


_PLAIN_NAMES = (x509.DNSName, x509.IPAddress, x509.RFC822Name, x509.UniformResourceIdentifier)


def load_request(pem: bytes) -> x509.CertificateSigningRequest:
    """The first PEM block, and only if it is a request: checks and signing must read the same one."""
    if len(pem) > LARGEST_REQUEST:
        raise ValueError(f"must have at most {LARGEST_REQUEST} bytes")
    start = PEM_START.search(pem)
    if start is None or start[1] != b"CERTIFICATE REQUEST":
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    block, end, _ = pem[start.start() :].partition(b"-----END CERTIFICATE REQUEST-----")
    if not end:
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    with value_errors_only("certificate request"):
        return x509.load_pem_x509_csr(block + end + b"\n")


def _alternative_names(csr: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
    try:
        return list(csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def _shown(name: x509.GeneralName) -> str:
    if isinstance(name, x509.DirectoryName):
        return name.value.rfc4514_string()
    return name.type_id.dotted_string if isinstance(name, x509.OtherName) else str(name.value)


# ---------------------------------------------------------------- certificates


@dataclass(frozen=True, slots=True)
class Certificate:
    """What the hub reads in a certificate. ``serial`` and ``fingerprint`` (SHA-256 of the whole) are hexadecimal."""

    common_name: str
    organizations: tuple[str, ...]
    serial: str
    fingerprint: str
    not_before: datetime
    not_after: datetime
    key_fingerprint: str
    client_auth: bool
    # Fingerprint of the key of the CA that ``trusted_client`` found to have signed it, or "".
    authority: str = ""


def parse_certificate(pem_or_der: bytes) -> Certificate:
    """The first certificate of a PEM text, or a DER one. Raises ValueError and never anything else."""
    return described(load_certificate(pem_or_der))


def load_certificate(pem_or_der: bytes) -> x509.Certificate:
    with value_errors_only("certificate"):
        if PEM_START.search(pem_or_der):
            return x509.load_pem_x509_certificate(pem_or_der)
        return x509.load_der_x509_certificate(pem_or_der)


def described(certificate: x509.Certificate) -> Certificate:
    """Raises ValueError."""
    with value_errors_only("certificate"):
        subject = _Subject.of(certificate.subject)
        return Certificate(
            common_name=subject.common_name,
            organizations=subject.organizations,
            serial=f"{certificate.serial_number:x}",
            fingerprint=hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest(),
            not_before=certificate.not_valid_before_utc,
            not_after=certificate.not_valid_after_utc,
            key_fingerprint=fingerprint_of(certificate.public_key()),
            client_auth=_is_for(certificate, ExtendedKeyUsageOID.CLIENT_AUTH),
        )


def _is_for(certificate: x509.Certificate, purpose: x509.ObjectIdentifier) -> bool:
    try:
        return purpose in certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return False


# ---------------------------------------------------------------- trust


@dataclass(frozen=True, slots=True)
class Roots:
    """Who may vouch for clients, as PEM: the hub's file of client CAs and the content of OCMCONSOLE_CLIENT_CA_FILE.

    Of the hub's own, the first certificate of each chain may; there are two chains while the CA is rotated.
    A client's intermediate is not seen here, so a further CA's issuing certificates belong into its file.
    """

    hub: bytes
    others: bytes = b""

    @property
    def anchors(self) -> tuple[tuple[Literal["hub", "other"], x509.Certificate], ...]:
        """Raises ValueError for a file that holds something else than CAs."""
        return _anchors(self)


@lru_cache(maxsize=8)
def _anchors(roots: Roots) -> tuple[tuple[Literal["hub", "other"], x509.Certificate], ...]:
    with value_errors_only("client CA file"):
        hub = [chain[0] for chain in split_chains(x509.load_pem_x509_certificates(roots.hub))]
        others = x509.load_pem_x509_certificates(roots.others) if roots.others.strip() else []
        for anchor in (*hub, *others):
            if not may_issue(anchor):
                raise ValueError(f"{anchor.subject.rfc4514_string()} is not a CA")
            if flaw := size_flaw(anchor.public_key()):
                raise ValueError(f"the key of {anchor.subject.rfc4514_string()} is refused: {flaw}")
    return (*(("hub", anchor) for anchor in hub), *(("other", anchor) for anchor in others))


def trusted_client(
    der: bytes, roots: Roots, *, now: datetime | None = None, checked_under: str = ""
) -> tuple[Certificate, Literal["hub", "other"]]:
    """Check a client's certificate from end to end, and say who vouches for it. Raises ValueError.

    TLS checks nothing of it but that the client holds its key, so this is all there is. The dates that are returned are
    those at which certificate and anchor are both valid.

    cryptography's own verifier follows the rules of public web sites: it wants alternative names and refuses Ed25519,
    which clients of Kubernetes need not have and may use. OpenSSL's checks what an anchor forbids (name constraints),
    and knows critical extensions. Without intermediates a path is one signature.

    ``checked_under`` is the ``authority`` that was found for exactly these bytes before, in whatever process. OpenSSL,
    which takes two thirds of this, is not asked again then: the signature, names and dates are looked at as ever.
    """
    now = now or clock.now()
    leaf = load_certificate(der)
    certificate = described(leaf)
    if not certificate.not_before <= now <= certificate.not_after:
        raise ValueError("the certificate is not valid at this time")
    if not certificate.client_auth:
        raise ValueError("the certificate is not for client authentication")
    if any(item.critical and isinstance(item.value, x509.UnrecognizedExtension) for item in leaf.extensions):
        raise ValueError("the certificate has a critical extension that the hub does not know")
    if flaw := size_flaw(leaf.public_key()):
        raise ValueError(flaw)
    for issuer, anchor in roots.anchors:
        if lives(anchor, now) and is_issued_by(leaf, anchor):
            if _signer(anchor) != checked_under or not _is_like_any_of_its_key(leaf, anchor):
                _check_path(leaf, anchor, now)
            begin = max(certificate.not_before, anchor.not_valid_before_utc)
            end = min(certificate.not_after, anchor.not_valid_after_utc)
            return replace(certificate, not_before=begin, not_after=end, authority=_signer(anchor)), issuer
    raise ValueError("the certificate is not signed by a CA that the hub trusts")


@lru_cache(maxsize=64)
def _signer(anchor: x509.Certificate) -> str:
    return fingerprint_of(anchor.public_key())


def _is_like_any_of_its_key(leaf: x509.Certificate, anchor: x509.Certificate) -> bool:
    """Whether OpenSSL says the same of a path with this anchor and with any other certificate that is a CA of its key.

    What an anchor may say besides its key is then nothing, and the leaf points to the key alone.
    """
    identifier = _identifier_of_plain(anchor)
    try:
        above = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    except x509.ExtensionNotFound:
        return identifier is not None
    return above.key_identifier == identifier is not None and above.authority_cert_serial_number is None


@lru_cache(maxsize=64)
def _identifier_of_plain(anchor: x509.Certificate) -> bytes | None:
    """How certificates refer to its key; None where it has extensions that may forbid something."""
    if not all(isinstance(item.value, _PLAIN_EXTENSIONS) for item in anchor.extensions):
        return None
    try:
        return anchor.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    except x509.ExtensionNotFound:
        return None


_PLAIN_EXTENSIONS = (
    x509.BasicConstraints,
    x509.KeyUsage,
    x509.SubjectKeyIdentifier,
    x509.AuthorityKeyIdentifier,
)


def is_of(pem: bytes, authority: bytes) -> bool:
    """Whether one of the CAs of a file has signed the first certificate of another text. Raises ValueError."""
    leaf = load_certificate(pem)
    with value_errors_only("authority"):
        chains = split_chains(x509.load_pem_x509_certificates(authority))
    return any(is_issued_by(leaf, chain[0]) for chain in chains)


def _check_path(leaf: x509.Certificate, anchor: x509.Certificate, now: datetime) -> None:
    """What RFC 5280 says of a path, by OpenSSL. An intermediate is an anchor by itself. Raises ValueError."""
    store = crypto.X509Store()
    store.add_cert(crypto.X509.from_cryptography(anchor))
    store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
    store.set_time(now)
    try:
        crypto.X509StoreContext(store, crypto.X509.from_cryptography(leaf)).verify_certificate()
    except crypto.X509StoreContextError as error:
        raise ValueError(f"the certificate is not acceptable: {error}") from error


def check_served(
    leaf: x509.Certificate, above: Iterable[x509.Certificate], trusted: Iterable[x509.Certificate], now: datetime
) -> None:
    """A chain as a server shows it, by OpenSSL, for a client that trusts these. Raises ValueError."""
    store = crypto.X509Store()
    for each in trusted:
        store.add_cert(crypto.X509.from_cryptography(each))
    store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
    store.set_time(now)
    chain = [crypto.X509.from_cryptography(each) for each in above]
    try:
        crypto.X509StoreContext(store, crypto.X509.from_cryptography(leaf), chain).verify_certificate()
    except crypto.X509StoreContextError as error:
        raise ValueError(str(error)) from error


def split_chains(certificates: Sequence[x509.Certificate]) -> list[tuple[x509.Certificate, ...]]:
    """Certificates of a file as chains: each of a chain is signed by the one after it."""
    chains: list[tuple[x509.Certificate, ...]] = []
    for each in certificates:
        if chains and chains[-1][-1] != each and is_issued_by(chains[-1][-1], each):
            chains[-1] = (*chains[-1], each)
        else:
            chains.append((each,))
    return chains


def is_issued_by(leaf: x509.Certificate, issuer: x509.Certificate) -> bool:
    """By name and by signature; an equal name alone says nothing. Broken hashes are no signature."""
    try:
        if isinstance(leaf.signature_hash_algorithm, hashes.SHA1 | hashes.MD5):
            return False
        leaf.verify_directly_issued_by(issuer)
    except (InvalidSignature, UnsupportedAlgorithm, TypeError, ValueError):
        return False
    return True


def may_issue(certificate: x509.Certificate) -> bool:
    extensions = certificate.extensions
    try:
        if not extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
    except x509.ExtensionNotFound:
        return False
    try:
        return extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound:
        return True


def lives(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


# ---------------------------------------------------------------- X.509


@dataclass(frozen=True, slots=True)
class _Subject:
    common_name: str
    organizations: tuple[str, ...]
    units: tuple[str, ...]
    has_others: bool

    @classmethod
    def of(cls, name: x509.Name) -> _Subject:
        """Of several common names the last counts, as in Go, and the others are reported."""
        common = _values(name, NameOID.COMMON_NAME)
        groups, units = _values(name, NameOID.ORGANIZATION_NAME), _values(name, NameOID.ORGANIZATIONAL_UNIT_NAME)
        known = min(len(common), 1) + len(groups) + len(units)
        return cls(common[-1] if common else "", groups, units, has_others=len(list(name)) > known)


def _values(name: x509.Name, oid: x509.ObjectIdentifier) -> tuple[str, ...]:
    values = tuple(str(attribute.value) for attribute in name.get_attributes_for_oid(oid))
    if any(CONTROL.search(value) for value in values):
        raise ValueError("the subject holds control characters")
    return values


@contextmanager
def value_errors_only(what: str) -> Iterator[None]:
    """Everything that is wrong with foreign bytes is one ValueError."""
    try:
        yield
    except (
        ValueError,
        TypeError,
        UnsupportedAlgorithm,
        x509.DuplicateExtension,
        x509.InvalidVersion,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise ValueError(f"the {what} cannot be read: {error}") from error


def as_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def fingerprint_of(key: CertificatePublicKeyTypes) -> str:
    spki = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return f"SHA256:{hashlib.sha256(spki).hexdigest()}"


def is_strong(key: CertificatePublicKeyTypes) -> bool:
    """K12: RSA of 2,048 to 8,192 bits, the curves of NIST, Ed25519; nothing else gets a certificate."""
    if isinstance(key, rsa.RSAPublicKey):
        return not size_flaw(key)
    if isinstance(key, ec.EllipticCurvePublicKey):
        return key.curve.name in CURVES
    return isinstance(key, ed25519.Ed25519PublicKey)


def size_flaw(key: CertificatePublicKeyTypes) -> str:
    """Why an RSA key of this size is neither signed nor trusted, or ""."""
    if isinstance(key, rsa.RSAPublicKey) and not SMALLEST_RSA <= key.key_size <= LARGEST_RSA:
        sizes = f"RSA keys have {SMALLEST_RSA} to {LARGEST_RSA} bits"
        return f"a key of type {key_text(key)} is neither signed nor trusted: {sizes}"
    return ""


def key_text(key: CertificatePublicKeyTypes) -> str:
    if isinstance(key, ec.EllipticCurvePublicKey):
        return f"ECDSA {CURVES.get(key.curve.name, key.curve.name)}"
    if isinstance(key, rsa.RSAPublicKey):
        return f"RSA {key.key_size}"
    if isinstance(key, dsa.DSAPublicKey):
        return f"DSA {key.key_size}"
    return type(key).__name__.lstrip("_").removesuffix("PublicKey")
