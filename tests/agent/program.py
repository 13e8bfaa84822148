"""OCM's own registration agent, or another program with its options, where TEST_REGISTRATION_AGENT names one.

A second hub stands for its cluster: it has the Secrets, and no nodes, so the agent reports no status. This module is
its kubelet: it puts the bootstrap Secret into the file that is mounted, and starts an agent that ends.
"""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests import servers
from tests.hub import Hub

PROGRAM = os.environ.get("TEST_REGISTRATION_AGENT", "")
needs_program = pytest.mark.skipif(not PROGRAM, reason="TEST_REGISTRATION_AGENT names no agent")
NAMESPACE = "open-cluster-management-agent"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
BOOTSTRAP, HUB = "bootstrap-hub-kubeconfig", "hub-kubeconfig-secret"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
PATIENCE = 300  # seconds


@dataclass
class Program:
    """``starts`` counts processes: one, as long as nobody and nothing has touched it."""

    cluster: Hub
    name: str
    folder: Path
    starts: int = 0
    process: subprocess.Popen[bytes] | None = None
    _ended: threading.Event = field(default_factory=threading.Event)
    _kubelet: threading.Thread | None = None

    @classmethod
    def on(cls, cluster: Hub, name: str, folder: Path) -> Program:
        (folder / "bootstrap").mkdir(parents=True)
        with cluster.admin() as client:
            for namespace in (NAMESPACE, "kube-system"):
                client.post("/api/v1/namespaces", json={"metadata": {"name": namespace}})
            known = {"metadata": {"name": "extension-apiserver-authentication"}, "data": {}}
            client.post("/api/v1/namespaces/kube-system/configmaps", json=known).raise_for_status()
        return cls(cluster, name, folder)

    def apply(self, manifest: str) -> None:
        """As `kubectl apply --server-side`; the agent that runs hears of it."""
        name = yaml.safe_load(manifest)["metadata"]["name"]
        with self.cluster.admin() as client:
            query = {"fieldManager": "kubectl", "force": "true"}
            client.patch(f"{SECRETS}/{name}", params=query, content=manifest, headers=APPLY).raise_for_status()

    def bootstrap(self, hub: Hub) -> None:
        """Mint a token of the hub and put its bootstrap kubeconfig in place."""
        path = self.folder / "bootstrap.kubeconfig"
        hub.manage("bootstrap_token", "create", "--kubeconfig", str(path))
        data = {"kubeconfig": base64.b64encode(path.read_bytes()).decode()}
        doc = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": BOOTSTRAP}, "data": data}
        self.apply(yaml.safe_dump(doc))

    @contextmanager
    def running(self) -> Iterator[None]:
        self._ended.clear()
        self._start()
        self._kubelet = threading.Thread(target=self._keep_up)
        self._kubelet.start()
        try:
            yield
        finally:
            self._ended.set()
            self._kubelet.join()
            assert self.process is not None
            servers.stop(self.process)

    def joins(self, hub: Hub) -> None:
        def is_let_in() -> bool:
            """Its request comes after its cluster: accepted between the two, it waits for its certificate."""
            hub.manage("accept", self.name, check=False)
            with hub.reading() as ask:
                found = ask("SELECT cluster FROM registration_issuedcertificate")
            return any(cluster == self.name for (cluster,) in found)

        assert until(is_let_in), self.log()
        with hub.admin() as client:
            often = {"spec": {"leaseDurationSeconds": 5}}
            client.patch(f"{CLUSTERS}/{self.name}", json=often, headers=MERGE).raise_for_status()
        self.is_heard(hub, time.time())

    def is_heard(self, hub: Hub, since: float) -> None:
        """Until it renews its lease after that moment."""

        def heard() -> bool:
            with hub.reading() as ask:
                rows = ask("SELECT namespace, renew_time FROM clusters_lease WHERE renew_time IS NOT NULL")
            return any(name == self.name and renewed >= since * 1_000_000 for name, renewed in rows)

        assert until(heard), self.log()

    def renews(self) -> None:
        """Its Secret is touched every other second: by itself it looks at its certificate every five minutes."""
        before = self.key()

        def renewed() -> bool:
            with self.cluster.admin() as client:
                touch = {"metadata": {"annotations": {"touched": str(time.time())}}}
                client.patch(f"{SECRETS}/{HUB}", json=touch, headers=MERGE).raise_for_status()
            time.sleep(2)
            return self.key() != before

        assert until(renewed), self.log()

    def key(self) -> str:
        """A digest of the public key of its certificate."""
        key = x509.load_pem_x509_certificate(self._kept(HUB)["tls.crt"]).public_key()
        return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def _kept(self, secret: str) -> dict[str, bytes]:
        with self.cluster.admin() as client:
            doc: dict[str, Any] = client.get(f"{SECRETS}/{secret}").raise_for_status().json()
        return {name: base64.b64decode(value) for name, value in doc["data"].items()}

    def _start(self) -> None:
        mounted = self.folder / "bootstrap" / "kubeconfig"
        mounted.write_bytes(self._kept(BOOTSTRAP)["kubeconfig"])
        options = {
            "kubeconfig": self.cluster.admin_kubeconfig,
            "spoke-cluster-name": self.name,
            "bootstrap-kubeconfig": mounted,
            "hub-kubeconfig-dir": self.folder / "hub-kubeconfig",
            "namespace": NAMESPACE,
            "listen": f"127.0.0.1:{servers.free_port()}",
        }
        command = [
            PROGRAM,
            "agent",
            "--disable-leader-election",
            *(f"--{key}={value}" for key, value in options.items()),
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True)
        self.starts += 1

    def _keep_up(self) -> None:
        while not self._ended.wait(0.5):
            assert self.process is not None
            if self.process.poll() is not None:
                self._start()


def until(seen: Callable[[], object]) -> bool:
    """Whether it comes to be so while anybody waits."""
    deadline = time.monotonic() + PATIENCE
    while not seen():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True
