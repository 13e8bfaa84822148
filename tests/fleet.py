"""A fleet that asks, joins, falls silent and goes, through the hub's API alone: what pages of a real hub show.

Agents here are the few requests that an agent sends, each with the credential it would have. Used by the browser's
journeys, the pictures of the documentation and nothing that needs a particular agent's timing.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import httpx
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.hub import Hub

Doc = dict[str, Any]

CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "rbac.authorization.k8s.io"
PREFIX = "system:open-cluster-management:"
USAGES = ["digital signature", "key encipherment", "client auth"]
MERGE = {"Content-Type": "application/merge-patch+json"}
KLUSTERLET = "registration/v1.1.0 (linux/amd64)"
PATIENCE = 120  # seconds for what takes one, on a machine that is busy with something else


class NotYet(RuntimeError):
    """The hub's controllers have something left to do."""


class Denied(NotYet):
    """The hub answered with a Status that was not expected."""


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass
class Fleet:
    """Clusters of one hub. Names of requests are the cluster's with a running number."""

    hub: Hub
    tokens: dict[str, str] = field(default_factory=dict)
    asked: int = 0
    clients: list[httpx.Client] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self.clients:
            client.close()

    def client(self, certificate: bytes, key: bytes) -> httpx.Client:
        """One that shows a certificate; it lives as long as the fleet."""
        context = ssl.create_default_context(cafile=str(self.hub.ca))
        with tempfile.NamedTemporaryFile() as both:
            Path(both.name).write_bytes(certificate + key)
            context.load_cert_chain(both.name)
        headers = {"User-Agent": KLUSTERLET}
        made = httpx.Client(base_url=self.hub.api_url, verify=context, timeout=100, trust_env=False, headers=headers)
        self.clients.append(made)
        return made

    @cached_property
    def admin(self) -> httpx.Client:
        user = yaml.safe_load(self.hub.admin_kubeconfig.read_text())["users"][0]["user"]
        certificate, key = (base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key"))
        return self.client(certificate, key)

    def mint(self, name: str) -> str:
        """A bootstrap token of that name, minted once."""
        if name not in self.tokens:
            printed = self.hub.manage("bootstrap_token", "create", "--name", name, "--uses", "500")
            self.tokens[name] = printed.partition("token=")[2].split()[0]
        return self.tokens[name]

    def register(self, name: str, *, token: str = "web-eu", labels: Doc | None = None) -> None:
        """An agent's first sign of life: a ManagedCluster that is not accepted."""
        spec = {
            "managedClusterClientConfigs": [{"url": f"https://api.{name}.example:6443"}],
            "leaseDurationSeconds": 60,
        }
        doc = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "spec": spec}
        with self._bootstrapped(token) as client:
            _ok(client.post(CLUSTERS, json=doc | {"metadata": {"name": name, "labels": labels or {}}}))
        eventually(lambda: self.must_be_tended(name))

    def names(self, *names: str) -> None:
        """Clusters that an admin wrote down: for what needs nothing but many."""
        for name in names:
            doc = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster"}
            _ok(self.admin.post(CLUSTERS, json=doc | {"metadata": {"name": name}}))

    def request(self, name: str, *, token: str = "web-eu", speaks_for: str = "", lifetime: int = 0) -> Agent:
        """A certificate request with a new key; ``speaks_for`` is what its subject claims, else the name."""
        self.asked += 1
        agent = Agent(self, name, f"{name}-{self.asked:05x}", speaks_for or name)
        spec: Doc = {
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": USAGES,
            "request": base64.b64encode(agent.signing_request()).decode(),
        }
        labels = {"open-cluster-management.io/cluster-name": name}
        doc = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": agent.request, "labels": labels},
            "spec": spec,
        }
        if lifetime:
            spec["expirationSeconds"] = lifetime
        with self._bootstrapped(token) as client:
            _ok(client.post(REQUESTS, json=doc))
        return agent

    def ask(self, name: str, *, token: str = "web-eu", labels: Doc | None = None, lifetime: int = 0) -> Agent:
        """What a new agent does: register, then ask for a certificate."""
        self.register(name, token=token, labels=labels)
        return self.request(name, token=token, lifetime=lifetime)

    def join(self, name: str, *, token: str = "web-eu", version: str = "v1.34.2", labels: Doc | None = None) -> Agent:
        """Asked, accepted, certified, joined and well."""
        agent = self.ask(name, token=token, labels=labels, lifetime=90 * 86_400)
        self.accept(agent)
        agent.report(version)
        agent.beat()
        return agent

    def accept(self, agent: Agent) -> None:
        path = f"{REQUESTS}/{agent.request}/approval"
        doc = _ok(self.admin.get(f"{REQUESTS}/{agent.request}"))
        approved = {
            "type": "Approved",
            "status": "True",
            "reason": "FleetApproves",
            "message": "Known to the operator.",
        }
        _ok(self.admin.put(path, json=doc | {"status": {"conditions": [approved]}}))
        self.patch(agent.name, {"spec": {"hubAcceptsClient": True}})

    def patch(self, name: str, change: Doc) -> None:
        _ok(self.admin.patch(f"{CLUSTERS}/{name}", json=change, headers=MERGE))

    def remove(self, name: str) -> None:
        _ok(self.admin.delete(f"{CLUSTERS}/{name}"))

    def hold(self, name: str) -> None:
        """A finalizer of somebody else, so that its removal hangs."""
        finalizers = self.cluster(name)["metadata"].get("finalizers") or []
        self.patch(name, {"metadata": {"finalizers": [*finalizers, "example.com/backup"]}})

    def cluster(self, name: str) -> Doc:
        return _ok(self.admin.get(f"{CLUSTERS}/{name}"))

    def let_look(self, user: str) -> None:
        """Everything about clusters and requests may be read, nothing decided."""
        rule = {"apiGroups": ["cluster.open-cluster-management.io", "certificates.k8s.io"], "resources": ["*"]}
        role = {"metadata": {"name": f"look-{user}"}, "rules": [rule | {"verbs": ["get", "list", "watch"]}]}
        bound = {
            "metadata": {"name": f"look-{user}"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"look-{user}"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
        }
        for plural, doc in (("clusterroles", role), ("clusterrolebindings", bound)):
            _ok(self.admin.post(f"/apis/{RBAC}/v1/{plural}", json=doc))

    def must_be_tended(self, name: str) -> None:
        """Its finalizer and its taint are there: what somebody reads from now on stays current."""
        doc = self.cluster(name)
        if not (doc["metadata"].get("finalizers") and doc["spec"].get("taints")):
            raise NotYet(f"the hub is not done with {name}")

    def must_be_gone(self, name: str) -> None:
        if self.admin.get(f"{CLUSTERS}/{name}").status_code != httpx.codes.NOT_FOUND:
            raise NotYet(f"{name} is still there")

    def must_be_silent(self, name: str) -> None:
        conditions = self.cluster(name)["status"]["conditions"]
        if not any(each["type"].endswith("Available") and each["status"] == "Unknown" for each in conditions):
            raise NotYet(f"{name} still counts as heard")

    @contextmanager
    def _bootstrapped(self, token: str) -> Iterator[httpx.Client]:
        with self.hub.client() as client:
            client.headers.update({"Authorization": f"Bearer {self.mint(token)}", "User-Agent": KLUSTERLET})
            yield client


@dataclass
class Agent:
    fleet: Fleet
    name: str
    request: str
    speaks_for: str
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def signing_request(self) -> bytes:
        group = f"{PREFIX}{self.speaks_for}"
        parts = [
            (NameOID.ORGANIZATION_NAME, group),
            (NameOID.ORGANIZATION_NAME, f"{PREFIX}managed-clusters"),
            (NameOID.COMMON_NAME, f"{group}:{self.request[-5:]}"),
        ]
        subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
        made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(self.key, hashes.SHA256())
        return made.public_bytes(serialization.Encoding.PEM)

    @cached_property
    def client(self) -> httpx.Client:
        """With the certificate that the hub issued; waits for it."""
        found: list[bytes] = []

        def issued() -> None:
            doc = _ok(self.fleet.admin.get(f"{REQUESTS}/{self.request}"))
            certificate = (doc.get("status") or {}).get("certificate")
            if not certificate:
                raise NotYet(f"{self.request} has no certificate")
            found.append(base64.b64decode(certificate))

        eventually(issued)
        key = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return self.fleet.client(found[0], key)

    def report(self, version: str = "v1.34.2", *, well: bool = True) -> None:
        """Joined, how the API server is, what the cluster has."""
        joined = {"type": "ManagedClusterJoined", "status": "True", "reason": "ManagedClusterJoined"}
        available = {
            "type": "ManagedClusterConditionAvailable",
            "status": "True" if well else "False",
            "reason": "ManagedClusterAvailable" if well else "ManagedClusterKubeAPIServerUnavailable",
        }
        texts = (
            "The agent holds its certificate.",
            "The API server answers." if well else "The API server is not well.",
        )
        stored = self._accepted()
        conditions = [
            {**condition, "message": text, "lastTransitionTime": f"{now()[:19]}Z"}
            for condition, text in zip((joined, available), texts, strict=True)
        ]
        kept = [
            each for each in stored["status"]["conditions"] if each["type"] not in {joined["type"], available["type"]}
        ]
        status = {
            "conditions": kept + conditions,
            "version": {"kubernetes": version},
            "capacity": {"cpu": "96", "memory": "384Gi", "pods": "750"},
            "allocatable": {"cpu": "92", "memory": "371Gi", "pods": "750"},
            "clusterClaims": [
                {"name": "platform.open-cluster-management.io", "value": "VMware"},
                {"name": "product.open-cluster-management.io", "value": "Kubernetes"},
            ],
        }
        _ok(self.client.patch(f"{CLUSTERS}/{self.name}/status", json={"status": status}, headers=MERGE))

    def _accepted(self) -> Doc:
        """Its cluster as it may read it, once rights and condition have followed the acceptance."""
        found: list[Doc] = []

        def accepted() -> None:
            doc = _ok(self.client.get(f"{CLUSTERS}/{self.name}"))
            if not (doc.get("status") or {}).get("conditions"):
                raise NotYet(f"{self.name} has no condition")
            found.append(doc)

        eventually(accepted)
        return found[0]

    def beat(self) -> None:
        """One heartbeat; the lease is there soon after the acceptance."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.name}/leases/managed-cluster-lease"

        def renewed() -> None:
            lease = _ok(self.client.get(path))
            _ok(self.client.put(path, json=lease | {"spec": lease["spec"] | {"renewTime": now()}}))

        eventually(renewed)  # a controller may be at the lease too


def _ok(answer: httpx.Response) -> Doc:
    if answer.is_error:
        raise Denied(f"{answer.request.method} {answer.request.url.path}: {answer.text}")
    doc: Doc = answer.json()
    return doc


def eventually(act: Callable[[], object]) -> None:
    """What the hub's controllers bring about takes a moment."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            act()
        except NotYet:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


# ---------------------------------------------------------------------------------------------------- one of each state


def populate(fleet: Fleet) -> None:
    """Waiting requests of every verdict, and clusters in every state that needs no years to come about."""
    _waiting(fleet)
    _decided(fleet)


def add_more(fleet: Fleet) -> None:
    """Healthy ones for a list that looks like one, and two that only time makes late and silent."""
    for name, version in (("eu-web-02", "v1.34.2"), ("eu-web-03", "v1.33.5"), ("eu-web-04", "v1.34.1")):
        fleet.join(name, version=version, labels={"env": "prod", "region": "eu-west"})
    fleet.join("store-fr-0412", token="stores", version="v1.33.5")
    fleet.join("payments-eu", token="stores")


def _waiting(fleet: Fleet) -> None:
    fleet.ask("eu-web-07", labels={"env": "prod", "region": "eu-west"}, lifetime=90 * 86_400)
    fleet.ask("eu-web-08", labels={"env": "prod", "region": "eu-west"}, lifetime=90 * 86_400)
    fleet.ask("edge-lyon-02", token="edge-fr", labels={"region": "lyon"})
    fleet.register("edge-porto-02", token="edge-fr")  # has not asked for a certificate
    fleet.ask("store-113", token="stores")  # a restarted agent: the second key counts
    fleet.request("store-113", token="stores")
    fleet.join("store-204", token="stores")  # seen before
    fleet.remove("store-204")
    eventually(lambda: fleet.must_be_gone("store-204"))
    fleet.ask("store-204", token="stores")
    fleet.register("lab-17", token="stores")  # the subject names another cluster
    fleet.request("lab-17", token="stores", speaks_for="payments")
    fleet.ask("payments", labels={"env": "prod", "team": "pay"}, lifetime=365 * 86_400)
    fleet.request("payments", token="stores", lifetime=365 * 86_400)  # two askers


def _decided(fleet: Fleet) -> None:
    fleet.join("eu-web-01", labels={"env": "prod", "region": "eu-west"})
    fleet.join("erp-de-01", token="stores", version="v1.33.8", labels={"region": "eu-central"})
    maintenance = {"key": "ocmconsole.io/maintenance", "value": "kernel", "effect": "NoSelectIfNew"}
    dedicated = {"key": "dedicated", "value": "payments", "effect": "NoSelect"}
    fleet.patch("erp-de-01", {"spec": {"taints": [dedicated, maintenance]}})
    fleet.join("ml-batch-02", token="stores", version="v1.34.1").report("v1.34.1", well=False)
    fleet.accept(fleet.ask("eu-web-06"))  # joining
    fleet.register("data-eu-11", token="stores")
    fleet.patch("data-eu-11", {"spec": {"hubAcceptsClient": True}})  # waits for its certificate
    fleet.join("core-se-03", token="stores")
    fleet.patch("core-se-03", {"spec": {"hubAcceptsClient": False}})
    fleet.join("lab-nl-04", token="stores", version="v1.31.4")
    fleet.hold("lab-nl-04")
    fleet.remove("lab-nl-04")
    fleet.ask("lab-nl-05", token="stores")
    fleet.hub.manage("decline", "lab-nl-05", "--reason", "Wrong token: this is a laptop of the lab.")
