"""A certificate authority that is not the hub's: what a hub may trust beside its own (S62)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(hours=1)


class Provider:
    def __init__(self, folder: Path) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "provider")])
        builder = self._builder(self.name, self.key.public_key())
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(constraints, critical=True).add_extension(usage, critical=True)
        own = builder.sign(self.key, hashes.SHA256())
        self.ca = folder / "provider.crt"
        self.ca.write_bytes(own.public_bytes(serialization.Encoding.PEM))

    def sign(self, pem: bytes) -> bytes:
        """The certificate that a request asks for."""
        asked = x509.load_pem_x509_csr(pem)
        key = asked.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = self._builder(asked.subject, key).add_extension(usage, critical=False)
        signed = builder.add_extension(authority, critical=False).sign(self.key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - timedelta(minutes=5)).not_valid_after(now + LIFETIME)
