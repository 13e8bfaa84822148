"""Kubeconfigs: where an API server is, whom to trust and who one is there; in, text and files, out, plain values.

Reads what kubectl reads of a current context, but for exec plugins and passwords. Writes the hub's kubeconfig as
upstream's agent does (G24), so that other components of the managed cluster can use it.
"""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a sixteenth of the time, where PyYAML has libyaml
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")  # where Kubernetes mounts it into each pod


class KubeconfigError(ValueError):
    """The text says nothing that can be used; the message names the part."""


@dataclass(frozen=True, slots=True)
class ApiEndpoint:
    """An API server. ``authority`` is PEM, empty for what the machine trusts; ``name`` is that of the cluster entry."""

    server: str
    authority: str = ""
    name: str = "hub"
    proxy: str = ""
    tls_name: str = ""
    is_unverified: bool = False


@dataclass(frozen=True, slots=True)
class Login:
    """A token, a file that holds one and may change, or a certificate with its key, both PEM."""

    token: str = ""
    token_file: Path | None = None
    certificate: str = ""
    key: str = ""

    def bearer(self) -> str:
        """The token now, empty without one. OSError when its file cannot be read."""
        return self.token_file.read_text().strip() if self.token_file else self.token


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    endpoint: ApiEndpoint
    login: Login


def read_kubeconfig(path: Path) -> Kubeconfig:
    """The current context of a file. KubeconfigError if it cannot be read or says nothing usable."""
    try:
        return parse_kubeconfig(path.read_text(encoding="utf-8"), path.parent)
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{path} cannot be read: {error}") from error
    except KubeconfigError as error:
        raise KubeconfigError(f"{path}: {error}") from error


def parse_kubeconfig(text: str, folder: Path) -> Kubeconfig:
    """The current context; files that it names are relative to the folder. KubeconfigError names what is missing."""
    try:
        config = yaml.load(text, Loader=LOADER)  # noqa: S506 - either is a safe one
    except yaml.YAMLError as error:
        raise KubeconfigError("it is not YAML") from error
    if not isinstance(config, dict):
        raise KubeconfigError("it is empty, or no kubeconfig")
    context = _named(config, "context", str(config.get("current-context") or ""))
    name = str(context.get("cluster") or "")
    cluster, user = _named(config, "cluster", name), _named(config, "user", str(context.get("user") or ""))
    server = str(cluster.get("server") or "")
    if not server.startswith(("https://", "http://")):
        raise KubeconfigError(f"server {server!r} is no address")
    endpoint = ApiEndpoint(
        server.rstrip("/"),
        _content(cluster, "certificate-authority", folder),
        name,
        str(cluster.get("proxy-url") or ""),
        str(cluster.get("tls-server-name") or ""),
        cluster.get("insecure-skip-tls-verify") is True,
    )
    return Kubeconfig(endpoint, _login(user, folder))


def _login(user: dict[str, Any], folder: Path) -> Login:
    if path := user.get("tokenFile"):
        return Login(token_file=folder / str(path))
    if token := user.get("token"):
        return Login(token=str(token))
    certificate, key = (_content(user, part, folder) for part in ("client-certificate", "client-key"))
    if not (certificate and key):
        raise KubeconfigError("the user has neither token nor certificate with key")
    return Login(certificate=certificate, key=key)


def _named(config: dict[str, Any], what: str, name: str) -> dict[str, Any]:
    entries = config.get(f"{what}s")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(what), dict):
            found: dict[str, Any] = entry[what]
            return found
    raise KubeconfigError(f"there is no {what} {name!r}")


def _content(part: dict[str, Any], name: str, folder: Path) -> str:
    """PEM from the kubeconfig or from the file that it names; empty without either."""
    if data := part.get(f"{name}-data"):
        try:
            return base64.b64decode(str(data), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise KubeconfigError(f"{name}-data is not base64 of PEM") from error
    if path := part.get(name):
        try:
            return (folder / str(path)).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise KubeconfigError(f"{name} cannot be read: {error}") from error
    return ""


def in_cluster(folder: Path = SERVICE_ACCOUNT) -> Kubeconfig:
    """The API of the cluster in which this process is a pod. KubeconfigError outside of one."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (folder / "token").exists():
        raise KubeconfigError("this is no pod: name the managed cluster with --spoke-kubeconfig")
    address = f"[{host}]" if ":" in host else host
    endpoint = ApiEndpoint(f"https://{address}:{port}", (folder / "ca.crt").read_text(), "spoke")
    return Kubeconfig(endpoint, Login(token_file=folder / "token"))


def hub_kubeconfig(endpoint: ApiEndpoint) -> str:
    """As upstream's agent writes it: the files ``tls.crt`` and ``tls.key`` beside it are the credential (G24)."""
    cluster: dict[str, Any] = {"server": endpoint.server}
    if endpoint.authority:
        cluster["certificate-authority-data"] = base64.b64encode(endpoint.authority.encode()).decode()
    options = {"proxy-url": endpoint.proxy, "tls-server-name": endpoint.tls_name}
    cluster |= {name: value for name, value in options.items() if value}
    cluster |= {"insecure-skip-tls-verify": True} if endpoint.is_unverified else {}
    user = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    context = {"cluster": endpoint.name, "user": "default-auth", "namespace": "configuration"}
    doc = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": endpoint.name, "cluster": cluster}],
        "users": [{"name": "default-auth", "user": user}],
        "contexts": [{"name": "default-context", "context": context}],
        "current-context": "default-context",
    }
    return yaml.safe_dump(doc, sort_keys=False)
