"""Keys and requests of simulated agents, by cryptography: a program started for each would cost more than the fleet."""

from __future__ import annotations

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from registration.agent.keys import AgentSubject, ClientCertificate, KeyAndRequest, KeyToolError


class CryptographyTool:
    """As ``registration.agent.keys.OpenSSL``, in this process. Names have at most 64 characters here."""

    async def make_request(self, subject: AgentSubject) -> KeyAndRequest:
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [(NameOID.ORGANIZATION_NAME, each) for each in sorted(subject.organizations)]
        name = x509.Name([x509.NameAttribute(*each) for each in [*parts, (NameOID.COMMON_NAME, subject.common_name)]])
        request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return KeyAndRequest(pem.decode(), request.public_bytes(serialization.Encoding.PEM).decode())

    async def read_chain(self, chain: str) -> ClientCertificate:
        try:
            read = x509.load_pem_x509_certificates(chain.encode())
        except ValueError as error:
            raise KeyToolError(str(error)) from error
        subject = read[0].subject
        named = {
            oid: [str(each.value) for each in subject.get_attributes_for_oid(oid)]
            for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME)
        }
        (common_name,) = named[NameOID.COMMON_NAME] or [""]
        return ClientCertificate(
            AgentSubject(
                common_name,
                frozenset(named[NameOID.ORGANIZATION_NAME]),
                frozenset(named[NameOID.ORGANIZATIONAL_UNIT_NAME]),
            ),
            max(each.not_valid_before_utc for each in read),
            min(each.not_valid_after_utc for each in read),
        )
