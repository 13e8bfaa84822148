"""Clients that register while the hub is being killed: they try again until they are answered, and remember each yes."""

from __future__ import annotations

import base64
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.hub import Hub

Doc = dict[str, Any]

CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/managed-cluster-lease"
MERGE = {"Content-Type": "application/merge-patch+json"}
RENEWALS = 6
PATIENCE = 300.0


@dataclass(frozen=True)
class Acknowledged:
    """A write that was answered with success: where, of which object, and what the hub said it stored."""

    path: str
    uid: str
    revision: int
    spec: Doc


class Ledger:
    """What was acknowledged, in the order of the answers. Shared by all clients."""

    def __init__(self) -> None:
        self.writes: list[Acknowledged] = []
        self.answered = 0
        self.unanswered = 0
        self._lock = threading.Lock()

    def note(self, path: str, doc: Doc) -> None:
        metadata = doc["metadata"]
        write = Acknowledged(path, metadata["uid"], int(metadata["resourceVersion"]), doc["spec"])
        with self._lock:
            self.writes.append(write)

    def note_answered(self) -> None:
        with self._lock:
            self.answered += 1

    def note_lost(self) -> None:
        with self._lock:
            self.unanswered += 1


@dataclass(frozen=True)
class Caller:
    """One credential. A request without an answer is sent again; an answer of the hub's own failure is a failure.

    ``is_patient``: 503 is as good as no answer, where the database may be away.
    """

    client: httpx.Client
    ledger: Ledger
    is_patient: bool = False

    def get(self, path: str) -> tuple[int, Doc]:
        return self.send("GET", path)

    def send(
        self, method: str, path: str, body: Doc | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Doc]:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                answer = self.client.request(method, path, json=body, headers=headers)
            except httpx.TransportError:
                pass
            else:
                if not (self.is_patient and _says_away(answer)):
                    assert answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR, answer.text
                    return answer.status_code, answer.json()
            assert time.monotonic() < deadline, f"{method} {path} got no answer"
            self.ledger.note_lost()
            time.sleep(0.1)

    def write(self, method: str, path: str, body: Doc, *, at: str = "", headers: dict[str, str] | None = None) -> bool:
        """Whether it was acknowledged; False is a conflict, as when the answer to an earlier try was lost."""
        code, doc = self.send(method, path, body, headers)
        if code == HTTPStatus.CONFLICT:
            return False
        assert code in {HTTPStatus.OK, HTTPStatus.CREATED}, doc
        self.ledger.note(at or path.removesuffix("/approval"), doc)
        return True

    def create(self, path: str, doc: Doc) -> None:
        """Somebody else's object of that name would not be ours, and the names are."""
        at = f"{path}/{doc['metadata']['name']}"
        if not self.write("POST", path, doc, at=at):
            code, found = self.get(at)
            assert code == HTTPStatus.OK
            assert doc["spec"].items() <= found["spec"].items()


def _says_away(answer: httpx.Response) -> bool:
    return answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE and "Retry-After" in answer.headers


@dataclass
class Agent:
    """A cluster's agent, and beside it the person who lets the cluster in."""

    hub: Hub
    name: str
    bootstrap: Caller
    admin: Caller
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def request(self) -> str:
        return f"{self.name}-request"

    @property
    def spec(self) -> Doc:
        configs = [
            {"url": f"https://{self.name}.example.com:6443", "caBundle": base64.b64encode(self.name.encode()).decode()}
        ]
        return {"hubAcceptsClient": False, "leaseDurationSeconds": 60, "managedClusterClientConfigs": configs}

    def run(self) -> None:
        self.register()
        self.let_in()
        self.wait_for_certificate()
        for _ in range(RENEWALS):
            self.renew_lease()

    def register(self) -> None:
        group = "cluster.open-cluster-management.io/v1"
        self.bootstrap.create(
            CLUSTERS,
            {"apiVersion": group, "kind": "ManagedCluster", "metadata": {"name": self.name}, "spec": self.spec},
        )
        self.ask()

    def ask(self) -> None:
        """For a certificate: the first one, or with the certificate of the key before a further one."""
        labels = {"open-cluster-management.io/cluster-name": self.name}
        spec = {
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["digital signature", "key encipherment", "client auth"],
            "request": base64.b64encode(self.signed_request()).decode(),
        }
        self.bootstrap.create(
            REQUESTS,
            {
                "apiVersion": "certificates.k8s.io/v1",
                "kind": "CertificateSigningRequest",
                "metadata": {"name": self.request, "labels": labels},
                "spec": spec,
            },
        )

    def signed_request(self) -> bytes:
        group = f"system:open-cluster-management:{self.name}"
        names = [
            (NameOID.ORGANIZATION_NAME, group),
            (NameOID.ORGANIZATION_NAME, "system:open-cluster-management:managed-clusters"),
            (NameOID.COMMON_NAME, f"{group}:agent"),
        ]
        subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in names])
        request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(self.key, hashes.SHA256())
        return request.public_bytes(serialization.Encoding.PEM)

    def let_in(self) -> None:
        path = f"{REQUESTS}/{self.request}"
        while not (found := self.admin.get(path)[1]).get("status", {}).get("conditions"):
            decision = {"type": "Approved", "status": "True", "reason": "Test", "message": "known"}
            found["status"] = {"conditions": [decision]}
            self.admin.write("PUT", f"{path}/approval", found)
        accepted = {"spec": {"hubAcceptsClient": True}}
        while not self.admin.write("PATCH", f"{CLUSTERS}/{self.name}", accepted, headers=MERGE):
            pass  # lost against the hub's own writes too often

    def wait_for_certificate(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not (issued := self.bootstrap.get(f"{REQUESTS}/{self.request}")[1]["status"].get("certificate")):
            assert time.monotonic() < deadline, f"{self.name} got no certificate"
            time.sleep(0.2)
        private = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self.pair.touch(mode=0o600)
        self.pair.write_bytes(base64.b64decode(issued) + private)

    @property
    def pair(self) -> Path:
        return self.hub.home / f"{self.name}.pem"

    @cached_property
    def own(self) -> Caller:
        """With the certificate; there is one after ``wait_for_certificate``."""
        return Caller(self.hub.client(pair=self.pair), self.bootstrap.ledger, self.bootstrap.is_patient)

    def renew_lease(self) -> None:
        """As soon as the reconcilers let it; a lost race is run again."""
        path = LEASE.format(self.name)
        deadline = time.monotonic() + PATIENCE
        while True:
            code, lease = self.own.get(path)
            if code == HTTPStatus.OK:
                lease["spec"]["renewTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                if self.own.write("PUT", path, lease):
                    return
            else:
                assert code in {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}, lease
                assert time.monotonic() < deadline, lease
                time.sleep(0.2)
