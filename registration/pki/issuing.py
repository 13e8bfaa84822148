"""Signing: certificates of clients and of the hub itself, by an authority of the hub. No files, no Django models.

Invariant: a request is signed exactly as it was read and judged; its subject is copied as encoded, because an agent
compares and asks again for ever when anything differs (W24).
Callers reach this through ``registration.pki.ca``; ``authority_files`` and ``serving_certificate`` build on it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519
from cryptography.hazmat.primitives.asymmetric.types import (
    CertificateIssuerPrivateKeyTypes,
    CertificatePublicKeyTypes,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ocmconsole.kubeapi.access.actor import OWN_PREFIX
from registration.pki import external_keys, x509_reading
from registration.pki.x509_reading import parse_request

CA_LIFETIME = timedelta(days=3650)  # ten years
BACKDATED = timedelta(minutes=5)  # W24: ``notBefore`` lies back, so that a slow clock does not find it in the future
LONGEST_COMMON_NAME = 64  # characters, as in X.509
MASTERS = "system:masters"
CLIENT_AUTH = "client auth"
KEY_USAGES = {"digital signature": "digital_signature", "key encipherment": "key_encipherment"}


# ---------------------------------------------------------------- the authority


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA: its issuing certificate, what is above it, and its key.

    ``others`` are trusted beside it while a rotation is under way: CAs of which it takes the place, or which were to
    take its place. ``ca_pem`` holds the certificates of all of them; that of serving is what kubeconfigs carry.
    """

    chain: tuple[x509.Certificate, ...]
    key: CertificateIssuerPrivateKeyTypes
    ca_pem: bytes
    others: tuple[Authority, ...] = ()

    @property
    def certificate(self) -> x509.Certificate:
        return self.chain[0]

    @property
    def key_fingerprint(self) -> str:
        """As ``Certificate.authority`` has it."""
        return x509_reading.fingerprint_of(self.certificate.public_key())

    @property
    def key_place(self) -> str:
        """The URI of a key that is not in the home, else empty."""
        return external_keys.place_of(self.key)

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
            leaf = self.issue(csr.subject, csr.public_key(), _client_extensions(usages), lifetime, now)
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
        leaf = self.issue(subject, key.public_key(), _client_extensions(usages), lifetime, now)
        return self._with_chain(leaf), key_pem(key)

    def cross_sign(self, other: x509.Certificate, now: datetime) -> x509.Certificate:
        """Another CA's name and key as one that this CA vouches for: who trusts this one trusts what the other signs.

        Raises ValueError where this one has expired.
        """
        end = min(other.not_valid_after_utc, self.certificate.not_valid_after_utc)
        if end <= now:
            raise ValueError("a CA that has expired vouches for nobody")
        builder = builder_of(other.subject, other.public_key(), now - BACKDATED, end)
        builder = _as_ca(builder.issuer_name(self.certificate.subject))
        builder = builder.add_extension(_authority_identifier(self.certificate), critical=False)
        return builder.sign(self.key, digest_of(self.key))

    def issue(
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
        builder = builder_of(subject, key, now - BACKDATED, not_after)
        builder = builder.issuer_name(self.certificate.subject)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_authority_identifier(self.certificate), critical=False)
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self.key, digest_of(self.key))

    def has_signed(self, pem: bytes) -> bool:
        """Whether the first certificate of a text is of this CA. Raises ValueError."""
        return x509_reading.is_issued_by(x509_reading.load_certificate(pem), self.certificate)

    @property
    def intermediates(self) -> tuple[x509.Certificate, ...]:
        """Sent with what it signs; the root is not, because trusting it means having it."""
        return tuple(item for item in self.chain if item.issuer != item.subject)

    def _with_chain(self, leaf: x509.Certificate) -> bytes:
        return b"".join(x509_reading.as_pem(item) for item in (leaf, *self.intermediates))


def new_root(key: CertificateIssuerPrivateKeyTypes, begin: datetime, now: datetime) -> x509.Certificate:
    """A certificate of its own for the key of a new CA, valid from ``begin``, which may lie back."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"ocmconsole hub {secrets.token_hex(4)}")])
    builder = builder_of(subject, key.public_key(), begin, now + CA_LIFETIME).issuer_name(subject)
    return _as_ca(builder).sign(key, digest_of(key))


def _as_ca(builder: x509.CertificateBuilder) -> x509.CertificateBuilder:
    usage = key_usage("key_cert_sign", "crl_sign", "digital_signature")
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.add_extension(usage, critical=True)


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
        extensions.append((key_usage(*bits), True))
    return extensions


def key_usage(*bits: str) -> x509.KeyUsage:
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


def builder_of(
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


def digest_of(key: CertificateIssuerPrivateKeyTypes) -> hashes.SHA256 | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey) else hashes.SHA256()


def key_pem(key: CertificateIssuerPrivateKeyTypes) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
