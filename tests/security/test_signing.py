"""Whose keys and names are neither signed nor trusted: RSA keys of odd sizes, names of the hub's own parts (D24)."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from django.conf import settings

from registration import hub_setup
from registration.pki import agent_names, ca, x509_reading
from tests import requests
from tests.security.callers import REQUESTS, holder

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("fresh_hub")
SMALL = rsa.generate_private_key(65537, 1024)  # noqa: S505 - that it is small is the point


# ---------------------------------------------------------------- sizes of keys


def public_key(bits: int) -> rsa.RSAPublicKey:
    """Nobody knows its private key, as nobody waits for one of that size in a test."""
    return rsa.RSAPublicNumbers(65537, (1 << bits) - 1).public_key()


def request_with(key: rsa.RSAPublicKey) -> bytes:
    """PKCS#10 for an agent of edge with a signature of nobody."""
    spki = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    group = agent_names.group_of("edge")
    parts = [(NameOID.ORGANIZATION_NAME, group), (NameOID.COMMON_NAME, f"{group}:agent")]
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in parts]).public_bytes()
    info = _tlv(0x30, b"\x02\x01\x00" + subject + spki + b"\xa0\x00")
    algorithm = bytes.fromhex("300d06092a864886f70d01010b0500")
    whole = _tlv(0x30, info + algorithm + _tlv(0x03, b"\x00" + b"\x01" * (key.key_size // 8)))
    text = base64.encodebytes(whole)
    return b"-----BEGIN CERTIFICATE REQUEST-----\n" + text + b"-----END CERTIFICATE REQUEST-----\n"


def _tlv(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = size.to_bytes((size.bit_length() + 7) // 8 or 1, "big")
    return bytes([tag]) + (bytes([size]) if size < 128 else bytes([0x80 | len(length)]) + length) + content


@pytest.mark.contract("K12", "W23")
@pytest.mark.parametrize("bits", [512, 1024, 2047, 8193, 16384])
def test_a_request_with_an_rsa_key_of_another_size_is_refused_with_the_reason_and_not_stored(bits: int) -> None:
    doc = requests.document("odd", request_with(public_key(bits)), cluster="edge")
    answer = holder("root", "system:masters").post(REQUESTS, doc)
    assert answer.code == 422
    cause = answer.doc["details"]["causes"][0]
    assert cause["field"] == "spec.request"
    assert cause["message"].endswith(
        f"a key of type RSA {bits} is neither signed nor trusted: RSA keys have 2048 to 8192 bits"
    )
    assert holder("root", "system:masters").get(f"{REQUESTS}/odd").code == 404


@pytest.mark.parametrize(("bits", "is_refused"), [(2047, True), (2048, False), (8192, False), (8193, True)])
def test_the_limits_themselves_are_allowed(bits: int, is_refused: bool) -> None:
    assert bool(x509_reading.size_flaw(public_key(bits))) is is_refused
    assert x509_reading.is_strong(public_key(bits)) is not is_refused


def authority(key: Any) -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "brought")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    builder = (
        builder.serial_number(7).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=9))
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_a_ca_that_is_brought_along_with_such_a_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(authority(SMALL))
    (tmp_path / "ca.key").write_bytes(
        SMALL.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    with pytest.raises(ca.AuthorityError, match=r"a key in ca\.crt, of CN=brought, is refused: a key of type RSA 1024"):
        ca.client_authority(tmp_path)


def test_a_bundle_of_client_cas_with_such_a_key_is_refused() -> None:
    hub = authority(ec.generate_private_key(ec.SECP256R1()))
    with pytest.raises(ValueError, match="the key of CN=brought is refused: a key of type RSA 1024"):
        _ = ca.Roots(hub=hub, others=authority(SMALL)).anchors


def test_serve_says_so_in_one_sentence_and_does_not_start(tmp_path: Path, settings: Any) -> None:
    bundle = tmp_path / "others.pem"
    bundle.write_bytes(authority(SMALL))
    settings.OCMCONSOLE_CLIENT_CA_FILE = str(bundle)
    with pytest.raises(
        ca.AuthorityError, match=f"OCMCONSOLE_CLIENT_CA_FILE={bundle}: .* is neither signed nor trusted"
    ):
        hub_setup.ensure_hub()


# ---------------------------------------------------------------- names of the hub itself


@pytest.mark.contract("D24")
@pytest.mark.parametrize(
    ("name", "groups"), [("system:ocmconsole:registration", []), ("zoe", ["system:ocmconsole:registration"])]
)
def test_nothing_is_signed_for_a_name_of_the_hub(name: str, groups: list[str]) -> None:
    doc = requests.document("own", requests.pem(name, groups), cluster="")
    answer = holder("root", "system:masters").post(REQUESTS, doc)
    assert answer.code == 403
    assert "with system:ocmconsole:registration, a name of the hub itself, is not allowed" in answer.message
    with pytest.raises(ValueError, match="is a name of the hub itself"):
        ca.client_authority(settings.OCMCONSOLE_HOME).issue_client(name, groups, timedelta(hours=1), datetime.now(UTC))
    with pytest.raises(ValueError, match="is a name of the hub itself"):
        ca.client_authority(settings.OCMCONSOLE_HOME).sign_client(
            requests.pem(name, groups), usages=requests.USAGES, lifetime=timedelta(hours=1), now=datetime.now(UTC)
        )
