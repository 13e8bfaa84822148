"""Identities that are made through the API alone, with the rights of an admin: accounts, bootstrap tokens, agents.

Called by conftest, and by tests that need somebody with rights of their own.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.conformance.wire.api import Api, Doc, eventually, worked
from tests.conformance.wire.documents import (
    CERTIFICATES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    RBAC,
    REQUESTS,
    pem,
    request_spec,
)

HEX = "0123456789abcdefghijklmnopqrstuvwxyz"
# What `clusteradm init` gives the bearer of a bootstrap token.
BOOTSTRAP_RULES = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create", "get", "list", "watch"]},
    {"apiGroups": ["cluster.open-cluster-management.io"], "resources": ["managedclusters"], "verbs": ["get", "create"]},
]  # fmt: skip


def rule(verbs: str, resources: str, *, group: str = "", names: Sequence[str] = ()) -> Doc:
    """Verbs and resources are separated by blanks."""
    made: Doc = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    return made | ({"resourceNames": [*names]} if names else {})


def token_of(admin: Api, namespace: str, account: str, **spec: object) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    token: str = admin.create(path, {"spec": {"expirationSeconds": 3600, **spec}})["status"]["token"]
    return token


def account(admin: Api, namespace: str, name: str, *rules: Doc, within: str = "") -> str:
    """A service account and its token; the rules hold everywhere, or within a namespace."""
    admin.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    if rules:
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        grant(admin, f"{namespace}-{name}", [*rules], subject, within=within)
    return token_of(admin, namespace, name)


def grant(admin: Api, name: str, rules: list[Doc], subject: Doc, *, within: str = "") -> None:
    role, binding = CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS
    kind = "ClusterRole"
    if within:
        role, binding = (f"/apis/{RBAC}/namespaces/{within}/{plural}" for plural in ("roles", "rolebindings"))
        kind = "Role"
    admin.create(role, {"metadata": {"name": name}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    admin.create(binding, {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]})


def bootstrap_token(admin: Api, **data: str) -> str:
    """The bearer text; ``data`` changes what the secret holds."""
    identity, secret = ("".join(secrets.choice(HEX) for _ in range(length)) for length in (6, 16))
    fields = {
        "token-id": identity,
        "token-secret": secret,
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:managedcluster",
        **{name.replace("_", "-"): value for name, value in data.items()},
    }
    doc = {
        "metadata": {"name": f"bootstrap-token-{identity}"},
        "type": "bootstrap.kubernetes.io/token",
        "data": {name: base64.b64encode(value.encode()).decode() for name, value in fields.items()},
    }
    admin.create("/api/v1/namespaces/kube-system/secrets", doc)
    return f"{identity}.{secret}"


def let_join(admin: Api, token: str) -> None:
    """The rights of an agent that comes for the first time, for the bearer of a bootstrap token."""
    user = f"system:bootstrap:{token.partition('.')[0]}"
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    grant(admin, f"join-{token.partition('.')[0]}", BOOTSTRAP_RULES, subject)


def approve(admin: Api, name: str, decision: str = "Approved") -> Doc:
    """As `kubectl certificate approve` does, once more when somebody else wrote to it."""

    def put() -> Doc | None:
        seen = admin.read(f"{REQUESTS}/{name}")
        said = {"type": decision, "status": "True", "reason": "KubectlApprove", "message": "tested"}
        seen["status"] = {**seen.get("status", {}), "conditions": [*seen.get("status", {}).get("conditions", []), said]}
        answer = admin.put(f"{REQUESTS}/{name}/approval", seen)
        return worked(answer) if answer.status_code != 409 else None

    return eventually(put)


def certified(admin: Api, folder: Path, name: str, user: str, groups: Sequence[str]) -> Path:
    """Certificate and key in one file: a request is made, approved and signed through the API."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = request_spec(pem(user, *groups, key=key))
    admin.create(
        REQUESTS,
        {"apiVersion": CERTIFICATES, "kind": "CertificateSigningRequest", "metadata": {"name": name}, "spec": request},
    )
    approve(admin, name)
    issued = eventually(lambda: admin.read(f"{REQUESTS}/{name}").get("status", {}).get("certificate"))
    path = folder / f"{name}.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.touch(mode=0o600)
    path.write_bytes(base64.b64decode(issued) + private)
    return path
