"""Agents as the hub meets them: a bootstrap token, a key, a certificate, and the few requests that they send.

They act by the verbs with the credentials that they would show, so that nothing here can do what an agent may not.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from clusters.kinds import CLUSTERSET_LABEL, LEASE, LEASE_NAME, MANAGED_CLUSTER, ConditionType, conditions_of
from ocmconsole.core.tokens import tokens
from ocmconsole.demo.families import Family
from ocmconsole.kubeapi import clock, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.kubeapi.schema import conditions, times
from ocmconsole.kubeapi.schema.conditions import Condition
from registration.keys import client_certificates
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.pki import agent_names

KLUSTERLET = "registration/v1.1.0 (linux/amd64)"
# Label of leases that a demonstration keeps alive: every how many seconds, and by how many the clock is behind.
BEATS = "demo.ocmconsole.io/beats"
# Label of every cluster of a demonstration, so that nobody takes one for real and removal finds no other.
MARK = "demo.ocmconsole.io/fleet"
JOINED = Condition(ConditionType.JOINED, "True", "ManagedClusterJoined", "The agent holds its certificate.")
WELL = Condition(ConditionType.AVAILABLE, "True", "ManagedClusterAvailable", "The API server answers.")
UNWELL = Condition(
    ConditionType.AVAILABLE,
    "False",
    "ManagedClusterKubeAPIServerUnavailable",
    "The kube-apiserver is not ok, status code: 500, etcd did not answer within 2 s",
)


@dataclass(frozen=True)
class Outage:
    """Not heard after ``begin`` until ``end``; one that has no end goes on."""

    begin: datetime
    end: datetime | None = None


@dataclass
class Agent:
    """One agent of one cluster. ``skew`` is by how much its clock is behind the hub's."""

    name: str
    family: Family
    tokens: Mapping[str, str]
    address: str
    version: str
    lifetime: timedelta = timedelta(days=365)
    skew: timedelta = timedelta()
    skewed_since: datetime | None = None
    joined: datetime | None = None
    expected_until: datetime | None = None
    outages: list[Outage] = field(default_factory=list)
    requests: int = 0
    request_name: str = ""

    @cached_property
    def key(self) -> ec.EllipticCurvePrivateKey:
        return ec.generate_private_key(ec.SECP256R1())

    @property
    def bootstrap(self) -> Actor:
        actor = tokens.bootstrap_actor(self.tokens[self.family.token])
        assert actor is not None
        return replace(actor, address=self.address, user_agent=KLUSTERLET)

    @cached_property
    def certified(self) -> Actor:
        """By the certificate that the hub has issued."""
        pem = verbs.get(self.bootstrap, CSR, Key("", self.request_name))["status"]["certificate"]
        leaf = base64.b64decode(pem).decode().partition("-----END CERTIFICATE-----")
        actor = client_certificates.actor_of_certificate(ssl.PEM_cert_to_DER_cert(f"{leaf[0]}{leaf[1]}\n"))
        return replace(actor, address=self.address, user_agent=KLUSTERLET)

    # ------------------------------------------------------------ asking to join

    def register(self) -> None:
        labels = {**self.family.labels, CLUSTERSET_LABEL: self.family.clusterset, MARK: "true"}
        spec = {
            "managedClusterClientConfigs": [{"url": f"https://api.{self.name}.example:6443"}],
            "leaseDurationSeconds": 60,
        }
        _create(self.bootstrap, MANAGED_CLUSTER, {"name": self.name, "labels": labels}, spec)

    def request(self, *, speaks_for: str = "") -> None:
        """A certificate request; ``speaks_for`` is what its subject claims, else the name."""
        self.requests += 1
        self.request_name = f"{self.name}-{int(self.address.rpartition('.')[2]):03}{self.requests:02}"
        spec = {
            "signerName": agent_names.SIGNER,
            "usages": sorted(agent_names.AGENT_USAGES),
            "request": base64.b64encode(self._signing_request(speaks_for or self.name)).decode(),
            "expirationSeconds": int(self.lifetime.total_seconds()),
        }
        metadata = {"name": self.request_name, "labels": {agent_names.CLUSTER_LABEL: self.name}}
        _create(self.bootstrap, CSR, metadata, spec)

    def _signing_request(self, cluster: str) -> bytes:
        group = agent_names.group_of(cluster)
        parts = [
            (NameOID.ORGANIZATION_NAME, group),
            (NameOID.ORGANIZATION_NAME, agent_names.MANAGED_CLUSTERS),
            (NameOID.COMMON_NAME, f"{group}:{self.request_name[-5:]}"),
        ]
        subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
        made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(self.key, hashes.SHA256())
        return made.public_bytes(serialization.Encoding.PEM)

    # ------------------------------------------------------------ inside

    def join_only(self) -> None:
        """Nothing is said of how the cluster is."""
        self.report(JOINED)

    def report(self, *says: Condition) -> None:
        """Its conditions, and what the cluster has."""
        memory, pods = self.family.cores * 4, 750 if self.family.cores > 8 else 110  # noqa: PLR2004 - small machines
        has = {
            "version": {"kubernetes": self.version},
            "capacity": {"cpu": f"{self.family.cores}", "memory": f"{memory}Gi", "pods": f"{pods}"},
            "allocatable": {"cpu": f"{self.family.cores - 1}", "memory": f"{memory - 6}Gi", "pods": f"{pods}"},
            "clusterClaims": self._claims(),
        }
        say(self.certified, self.name, *(says or (JOINED, WELL)), **has)

    def _claims(self) -> list[Doc]:
        region = self.family.labels.get("region") or self.family.labels.get("country", "")
        claims = {
            "id.k8s.io": self.name,
            "kubeversion.open-cluster-management.io": self.version,
            "platform.open-cluster-management.io": self.family.platform,
            "product.open-cluster-management.io": self.family.product,
            "region.open-cluster-management.io": region,
        }
        return [{"name": name, "value": value} for name, value in claims.items() if value]

    def now(self) -> datetime:
        return clock.now()

    def beat(self) -> None:
        renew(self.certified, self.name, clock.now() - self.skew)

    def beats_on(self, every: int = 60) -> None:
        """From now on a demonstration keeps it alive."""
        labels = {BEATS: f"{every}.{int(self.skew.total_seconds())}"}
        renew(self.certified, self.name, clock.now() - self.skew, labels)


def say(actor: Actor, cluster: str, *says: Condition, **has: object) -> None:
    """Write the status: conditions, and other parts as they are given."""
    now = times.timestamp(clock.now())

    def change(doc: Doc) -> None:
        present = conditions_of(doc)
        for condition in says:
            present = conditions.set_condition(present, condition, now)
        doc["status"] = {**(doc.get("status") or {}), "conditions": present, **has}

    verbs.edit(actor, MANAGED_CLUSTER, Key("", cluster), change, subresource="status")


def renew(actor: Actor, cluster: str, at: datetime, labels: Mapping[str, str] | None = None) -> None:
    """A heartbeat, as the clock of the agent shows it."""
    key = Key(cluster, LEASE_NAME)
    lease = verbs.get(actor, LEASE, key)
    lease["spec"]["renewTime"] = times.micro_timestamp(at)
    lease["metadata"]["labels"] = {**(lease["metadata"].get("labels") or {}), **(labels or {})}
    verbs.update(actor, LEASE, key, lease)


def _create(actor: Actor, kind: Kind, metadata: Doc, spec: Doc) -> None:
    doc = {"apiVersion": kind.storage.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
    verbs.create(actor, kind, doc)
