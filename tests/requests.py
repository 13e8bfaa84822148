"""Certificate requests as agents, impostors and people make them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ocmconsole.kubeapi.access.actor import AUTHENTICATED, Actor
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import CertificateSigningRequest
from registration.pki import agent_names
from tests import factories as make

Doc = dict[str, Any]

USAGES = ["digital signature", "key encipherment", "client auth"]
BOOTSTRAP = Actor(
    user="system:bootstrap:abcdef",
    groups=("system:bootstrappers", "system:bootstrappers:managedcluster", AUTHENTICATED),
)


def pem(
    common_name: str,
    organizations: Sequence[str],
    *,
    units: Sequence[str] = (),
    dns: Sequence[str] = (),
    key: Any = None,
) -> bytes:
    """A PKCS#10 request with a new P-256 key, or with the key that is given."""
    names = [(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    names += [(NameOID.ORGANIZATIONAL_UNIT_NAME, each) for each in units]
    names += [(NameOID.COMMON_NAME, common_name)] if common_name else []
    subject = x509.Name([x509.NameAttribute(oid, value, _validate=False) for oid, value in names])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if dns:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(each) for each in dns]), critical=False
        )
    made = builder.sign(key or ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


def agent_pem(cluster: str, agent: str = "agent") -> bytes:
    group = agent_names.group_of(cluster)
    return pem(f"{group}:{agent}", [group, agent_names.MANAGED_CLUSTERS])


def document(name: str, request: bytes, *, cluster: str, **spec: Any) -> Doc:
    wanted = {
        "signerName": agent_names.SIGNER,
        "usages": USAGES,
        "request": base64.b64encode(request).decode(),
        **spec,
    }
    return make.document(CSR, name, spec=wanted, labels={agent_names.CLUSTER_LABEL: cluster})


def ask(name: str, request: bytes, *, cluster: str, by: Actor = BOOTSTRAP, **spec: Any) -> Doc:
    return make.create(CSR, document(name, request, cluster=cluster, **spec), by=by)


def row(name: str) -> CertificateSigningRequest:
    found: CertificateSigningRequest = CertificateSigningRequest.objects.get(name=name)
    return found


def state(name: str) -> str:
    return str(row(name).state)


def agent(cluster: str, name: str = "agent") -> Actor:
    """The identity that a certificate for the cluster gives."""
    group = agent_names.group_of(cluster)
    groups = (group, agent_names.MANAGED_CLUSTERS, AUTHENTICATED)
    return Actor(user=f"{group}:{name}", groups=groups, credential=f"cert:of-{cluster}")
