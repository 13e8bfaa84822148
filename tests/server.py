"""A Kubernetes API as its clients know it: an address, a CA and the kubeconfig of an admin, and nothing else.

Called by tests that may run against somebody else's hub. What only a hub of our own has is in tests/hub.py.
"""

from __future__ import annotations

import base64
import hashlib
import os
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

CERTIFICATE = ("client-certificate", "client-key")


@dataclass(frozen=True)
class Server:
    """``home`` is a folder with ``ca.crt`` and ``admin.kubeconfig``; clients keep their caches there."""

    home: Path
    api_url: str

    @property
    def ca(self) -> Path:
        return self.home / "ca.crt"

    @property
    def admin_kubeconfig(self) -> Path:
        return self.home / "admin.kubeconfig"

    def tls(self, pair: Path | None = None) -> ssl.SSLContext:
        """Trusts the server's CA; ``pair`` is a file with a client's certificate and key."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if pair is not None:
            context.load_cert_chain(pair)
        return context

    def client(self, *, pair: Path | None = None, **headers: str) -> httpx.Client:
        """An HTTP client of the API, anonymous unless a certificate or a header says who it is."""
        return httpx.Client(base_url=self.api_url, verify=self.tls(pair), headers=headers, timeout=100, trust_env=False)

    def admin(self) -> httpx.Client:
        """As the kubeconfig says: with a token or with a certificate."""
        if token := self._admin_user().get("token"):
            return self.client(Authorization=f"Bearer {token}")
        return self.client(pair=self.admin_pair())

    def admin_pair(self) -> Path:
        """Certificate and key of the admin in one file."""
        user = self._admin_user()
        path = self.home / "admin.pem"
        path.touch(mode=0o600)
        path.write_bytes(b"".join(base64.b64decode(user[f"{part}-data"]) for part in CERTIFICATE))
        return path

    def _admin_user(self) -> dict[str, Any]:
        user: dict[str, Any] = yaml.safe_load(self.admin_kubeconfig.read_text())["users"][0]["user"]
        return user

    def kubeconfig(self, path: Path, token: str) -> Path:
        """One for the holder of a token."""
        cluster = {"server": self.api_url, "certificate-authority-data": encoded(self.ca)}
        path.write_text(yaml.safe_dump(_config(cluster, {"token": token})))
        return path

    def kubectl(
        self, binary: Path, *arguments: str, kubeconfig: Path | None = None, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """As the admin unless another kubeconfig is given; discovery is cached per server and binary."""
        command = [*self._kubectl(binary, kubeconfig), *arguments]
        environment = self._kubectl_environment()
        return subprocess.run(
            command, input=stdin, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    @contextmanager
    def kubectl_running(
        self, binary: Path, *arguments: str, kubeconfig: Path | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """One that goes on until it is left, such as a watch; its output is read line by line."""
        command = [*self._kubectl(binary, kubeconfig), *arguments]
        with subprocess.Popen(
            command, env=self._kubectl_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def _kubectl(self, binary: Path, kubeconfig: Path | None) -> list[str]:
        cache = self.home / f"kubectl-{hashlib.sha256(bytes(binary)).hexdigest()[:8]}"
        return [str(binary), f"--kubeconfig={kubeconfig or self.admin_kubeconfig}", f"--cache-dir={cache}"]

    def _kubectl_environment(self) -> dict[str, str]:
        # A command ends before its garbage matters: to look for it takes a quarter of its CPU time.
        return {**os.environ, "HOME": str(self.home), "NO_PROXY": "127.0.0.1", "KUBECONFIG": "", "GOGC": "off"}


def elsewhere(home: Path, url: str, kubeconfig: Path) -> Server:
    """Somebody else's: the current context of the kubeconfig says whom to trust and who the admin is."""
    config = yaml.safe_load(kubeconfig.read_text())
    context = _named(config, "context", config["current-context"])
    cluster, user = _named(config, "cluster", context["cluster"]), _named(config, "user", context["user"])
    trusted = _content(cluster, "certificate-authority", kubeconfig.parent)
    assert trusted, "the kubeconfig must name the CA of the server"
    if "tokenFile" in user:
        token = {"token": (kubeconfig.parent / user["tokenFile"]).read_text().strip()}
    else:
        token = {"token": user["token"]} if "token" in user else {}
    pair = {f"{part}-data": found for part in CERTIFICATE if (found := _content(user, part, kubeconfig.parent))}
    assert token or len(pair) == len(CERTIFICATE), "the admin of the kubeconfig needs a token or a certificate"
    server = Server(home, url.rstrip("/"))
    server.ca.write_bytes(base64.b64decode(trusted))
    known = {"server": server.api_url, "certificate-authority-data": trusted}
    server.admin_kubeconfig.touch(mode=0o600)
    server.admin_kubeconfig.write_text(yaml.safe_dump(_config(known, token or pair)))
    return server


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _named(config: dict[str, Any], what: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each[what] for each in config[f"{what}s"] if each["name"] == name)
    return found


def _content(part: dict[str, Any], name: str, folder: Path) -> str:
    """In base64, from the kubeconfig or from a file that it names."""
    if name in part:
        return encoded(folder / part[name])
    return str(part.get(f"{name}-data", ""))


def _config(cluster: dict[str, str], user: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "user"}}],
        "current-context": "hub",
    }
