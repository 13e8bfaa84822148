"""A managed cluster and its agent, played with openssl and kubectl.

Only the agent's report of its status is sent by a plain HTTPS client with the issued certificate: `kubectl patch` reads
a status before it patches it, which an agent may not. Called by the tests of this folder that need a cluster.
"""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from tests.conformance.commands import Doc, Kubectl, eventually

API_VERSION = "cluster.open-cluster-management.io/v1"
PATH = f"/apis/{API_VERSION}/managedclusters"
MANAGED = "managedcluster.cluster.open-cluster-management.io"
MANY = "managedclusters.cluster.open-cluster-management.io"
CLUSTER_LABEL = "open-cluster-management.io/cluster-name"
LEASE = "managed-cluster-lease"
HOLD = '[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/hold"}]'
AVAILABLE = "ManagedClusterConditionAvailable"


def managed(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Doc:
    """The document of a ManagedCluster as a person would write it."""
    metadata: Doc = {"name": name} | ({"labels": labels} if labels else {})
    wanted = {"hubAcceptsClient": False, **spec}
    return {"apiVersion": API_VERSION, "kind": "ManagedCluster", "metadata": metadata, "spec": wanted}


def settle(admin: Kubectl, name: str) -> None:
    """Until the hub has added its own finalizer and taint, so that what comes then meets no write of the hub."""
    path = "jsonpath={.metadata.finalizers[*]} {.spec.taints[*].key}"
    eventually(lambda: len(admin("get", "mcl", name, "-o", path).split()) == 2)


def hold(admin: Kubectl, name: str) -> None:
    """A finalizer of somebody else, beside the hub's own."""
    settle(admin, name)
    admin("patch", "mcl", name, "--type=json", "-p", HOLD)


def wait_until_only_held(admin: Kubectl, name: str) -> None:
    held = '["example.com/hold"]'
    eventually(lambda: admin("get", "mcl", name, "-o", "jsonpath={.metadata.finalizers}") == held)


def let_go(admin: Kubectl, name: str) -> None:
    admin("patch", "mcl", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


class Cluster:
    def __init__(self, name: str, folder: Path, *, admin: Kubectl, bootstrap: Kubectl) -> None:
        self.name = name
        self.folder = folder
        self.admin = admin
        self.bootstrap = bootstrap
        self.group = f"system:open-cluster-management:{name}"
        self.user = f"{self.group}:agent1"
        self.request_name = f"{name}-x7k2p"

    # ------------------------------------------------------------------------------------- registration, step by step

    def announce(self, **spec: Any) -> str:
        return self.bootstrap("create", "-f", "-", stdin=managed(self.name, **spec))

    def ask_for_certificate(self) -> str:
        return self.bootstrap("create", "-f", "-", stdin=self.request(self.certificate_request()))

    def approve(self) -> str:
        return self.admin("certificate", "approve", self.request_name)

    def accept(self, accepts: str = "true") -> str:
        patch = f'{{"spec":{{"hubAcceptsClient":{accepts}}}}}'
        return self.admin("patch", "managedcluster", self.name, "--type=merge", "-p", patch)

    def collect_certificate(self) -> Path:
        """With the bootstrap identity, as the agent does."""
        path = self.folder / "agent.crt"
        issued = eventually(
            lambda: self.bootstrap("get", "csr", self.request_name, "-o", "jsonpath={.status.certificate}")
        )
        path.write_bytes(base64.b64decode(issued))
        return path

    def join(self, **spec: Any) -> Cluster:
        """All of it, up to a certificate that the hub lets in."""
        self.announce(**spec)
        self.ask_for_certificate()
        self.approve()
        self.accept()
        eventually(lambda: self.admin("get", "leases", "-n", self.name, "--ignore-not-found", "-o", "name"))
        return self

    # ------------------------------------------------------------------------------------------------ keys and openssl

    @cached_property
    def key(self) -> Path:
        path = self.folder / "agent.key"
        self.openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(path))
        return path

    def certificate_request(self) -> bytes:
        path = self.folder / "agent.csr"
        groups = f"/O={self.group}/O=system:open-cluster-management:managed-clusters"
        self.openssl("req", "-new", "-key", str(self.key), "-subj", f"{groups}/CN={self.user}", "-out", str(path))
        return path.read_bytes()

    def request(self, pem: bytes) -> Doc:
        """The CertificateSigningRequest that carries it."""
        return {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": self.request_name, "labels": {CLUSTER_LABEL: self.name}},
            "spec": {
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["digital signature", "key encipherment", "client auth"],
                "request": base64.b64encode(pem).decode(),
            },
        }

    def openssl(self, *arguments: str) -> str:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, f"openssl {' '.join(arguments)}:\n{done.stderr}"
        return done.stdout

    # -------------------------------------------------------------------------------------------------- as the agent

    @cached_property
    def agent(self) -> Kubectl:
        """With the issued certificate."""
        hub = self.admin.hub
        user = {"client-certificate": str(self.collect_certificate()), "client-key": str(self.key)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "hub", "cluster": {"server": hub.api_url, "certificate-authority": str(hub.ca)}}],
            "users": [{"name": "agent", "user": user}],
            "contexts": [{"name": "agent", "context": {"cluster": "hub", "user": "agent", "namespace": self.name}}],
            "current-context": "agent",
        }
        path = self.folder / "agent.kubeconfig"
        path.write_text(json.dumps(config))
        return self.admin.as_(path)

    @cached_property
    def https(self) -> httpx.Client:
        context = ssl.create_default_context(cafile=str(self.admin.hub.ca))
        context.load_cert_chain(self.collect_certificate(), self.key)
        return httpx.Client(base_url=self.admin.hub.api_url, verify=context, timeout=100, trust_env=False)

    def renew_lease(self) -> Doc:
        """A heartbeat; again when the hub, which renews the lease of a cluster that it lets in, was faster."""
        return eventually(self._renew_lease)

    def _renew_lease(self) -> Doc | None:
        """The lease is read and put back with the time of now."""
        lease = self.agent.read("lease", LEASE)
        lease["spec"]["renewTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        done = self.agent.attempt("replace", "-f", "-", stdin=lease)
        assert done.returncode == 0 or "(Conflict)" in done.stderr, done.stderr
        return lease if done.returncode == 0 else None

    def report(self, status: str = "True", reason: str = "ManagedClusterAvailable") -> None:
        """Status of Available by merge patch with uid and resourceVersion (W15), again when the hub was faster."""
        eventually(lambda: self._report(status, reason).status_code != httpx.codes.CONFLICT)

    def _report(self, status: str, reason: str) -> httpx.Response:
        seen = self.https.get(f"{PATH}/{self.name}").raise_for_status().json()
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        said = {"type": AVAILABLE, "status": status, "reason": reason, "message": "", "lastTransitionTime": now}
        others = [each for each in seen.get("status", {}).get("conditions", []) if each["type"] != AVAILABLE]
        metadata = {part: seen["metadata"][part] for part in ("uid", "resourceVersion")}
        patch = {"metadata": metadata, "status": {"conditions": [*others, said]}}
        headers = {"Content-Type": "application/merge-patch+json"}
        answer = self.https.patch(f"{PATH}/{self.name}/status", content=json.dumps(patch), headers=headers)
        assert answer.status_code in {httpx.codes.OK, httpx.codes.CONFLICT}, answer.text
        return answer

    # ------------------------------------------------------------------------------------------------- as the admin

    def condition(self, type_: str = AVAILABLE) -> str:
        """Its status, or nothing."""
        path = f'jsonpath={{.status.conditions[?(@.type=="{type_}")].status}}'
        return self.admin("get", "mcl", self.name, "-o", path)

    def taints(self) -> list[str]:
        found = self.admin("get", "mcl", self.name, "-o", "jsonpath={.spec.taints[*].key}")
        return found.split()
