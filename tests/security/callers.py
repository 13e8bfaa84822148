"""Callers of the hub's own entry, each with a credential of its own; everything is real but the network."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.conf import settings
from django.test import Client

from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import IssuedCertificate
from registration.pki import agent_names, ca
from tests import factories as make
from tests.factories import Doc

API: dict[str, Any] = {"ocmconsole.listener": "api"}
CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True)
class Answer:
    code: int
    doc: Doc

    @property
    def message(self) -> str:
        return str(self.doc.get("message", ""))


@dataclass(frozen=True)
class Caller:
    """Somebody at the API listener."""

    environ: dict[str, Any] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, doc: Doc, **headers: str) -> Answer:
        return self.send("POST", path, doc, headers=headers)

    def send(
        self,
        method: str,
        path: str,
        doc: Doc | None = None,
        kind: str = "application/json",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Answer:
        named: dict[str, Any] = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
        body = b"" if doc is None else json.dumps(doc).encode()
        client = Client(raise_request_exception=False, **API, **self.environ)
        response = client.generic(method, path, body, content_type=kind, **named)
        return Answer(response.status_code, json.loads(response.content or b"{}"))


def holder(user: str, *groups: str) -> Caller:
    """Somebody with a certificate of the hub's own CA, as the hub has issued it."""
    return Caller({"ocmconsole.peer_certificate": known(forged(user, *groups))})


def forged(user: str, *groups: str, around: timedelta = timedelta()) -> bytes:
    """DER, signed with the hub's CA by somebody who has its key: valid for a day, and for ``around`` before and after."""
    begin, lifetime = datetime.now(UTC) - around, timedelta(days=1) + 2 * around
    pem, _ = ca.client_authority(settings.OCMCONSOLE_HOME).issue_client(user, groups, lifetime, begin)
    return x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)


def known(der: bytes) -> bytes:
    """Enter a certificate into the register, as the hub does with each that it issues."""
    IssuedCertificate.of(ca.parse_certificate(der)).save()
    return der


def bearer(token: str) -> Caller:
    return Caller({"HTTP_AUTHORIZATION": f"Bearer {token}"})


def agent_of(cluster: str) -> Caller:
    return holder(
        f"{agent_names.group_of(cluster)}:agent1", agent_names.group_of(cluster), agent_names.MANAGED_CLUSTERS
    )


def signing_request(common_name: str, organizations: Iterable[str]) -> str:
    """PKCS#10 with a new key, as ``spec.request`` holds it."""
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def request_for(cluster: str, name: str, *, speaks_for: str = "") -> Doc:
    """What an agent of ``speaks_for`` posts under the label of a cluster."""
    group = agent_names.group_of(speaks_for or cluster)
    spec = {
        "signerName": agent_names.SIGNER,
        "usages": sorted(agent_names.AGENT_USAGES),
        "request": signing_request(f"{group}:agent1", [group, agent_names.MANAGED_CLUSTERS]),
    }
    return make.document(CSR, name, spec=spec, labels={agent_names.CLUSTER_LABEL: cluster})
