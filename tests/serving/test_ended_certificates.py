"""A connection keeps the certificate of its handshake; the hub closes it when that has ended."""

from __future__ import annotations

import base64
import http.client
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from tests.hub import Hub

PATH = "/apis/cluster.open-cluster-management.io/v1/managedclusters"


@pytest.fixture
def certificate(hub: Hub, tmp_path: Path) -> Path:
    """Certificate and key of a person, in one file."""
    user = yaml.safe_load(hub.manage("user_kubeconfig", "kept-open"))["users"][0]["user"]
    parts = [base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")]
    path = tmp_path / "client.pem"
    path.write_bytes(b"\n".join(parts))
    return path


def host(hub: Hub) -> str:
    return urlsplit(hub.api_url).netloc


def answer(connection: http.client.HTTPSConnection, **headers: str) -> tuple[int, bool]:
    """Its status, and whether the connection ends with it."""
    connection.request("GET", PATH, headers=headers)
    found = connection.getresponse()
    found.read()
    return found.status, found.will_close


@pytest.mark.contract("W21")
def test_a_connection_whose_certificate_was_revoked_is_closed_with_the_refusal(hub: Hub, certificate: Path) -> None:
    fingerprint = x509.load_pem_x509_certificate(certificate.read_bytes()).fingerprint(hashes.SHA256()).hex()
    with closing(http.client.HTTPSConnection(host(hub), context=hub.tls(certificate))) as connection:
        assert answer(connection) == (403, False)
        hub.manage("revoke_certificate", fingerprint, "--reason", "a newer one is there")
        assert answer(connection) == (401, True)


@pytest.mark.contract("W21")
def test_a_wrong_token_does_not_end_the_connection(hub: Hub) -> None:
    with closing(http.client.HTTPSConnection(host(hub), context=hub.tls())) as connection:
        assert answer(connection, Authorization="Bearer nonsense") == (401, False)
