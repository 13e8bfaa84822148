"""Client certificates over TLS: the key is proven in the handshake, what the certificate is worth is answered after it.

As a real API server answers (measured on 1.36): 401 for one that is expired, of an unknown CA or not for clients; 200
for a valid one without digitalSignature.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from django.conf import settings
from django.db import connections

from ocmconsole.server import serving
from registration import hub_setup
from tests.serving.listening import Site, listening

pytestmark = [pytest.mark.contract("W30", "W21"), pytest.mark.django_db(transaction=True)]

DAY = timedelta(days=1)
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


class House:
    """A CA that the hub trusts for clients, or does not."""

    def __init__(self, *extensions: x509.ExtensionType) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "CA of the house")])
        found: list[tuple[x509.ExtensionType, bool]] = [(x509.BasicConstraints(ca=True, path_length=None), True)]
        found += [(extension, True) for extension in extensions]
        self.certificate = self._sign(self.name, self.key.public_key(), found, starts=-2 * DAY, ends=DAY)
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM)

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        extensions: list[tuple[x509.ExtensionType, bool]],
        *,
        starts: timedelta,
        ends: timedelta,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        number = x509.random_serial_number()
        builder = x509.CertificateBuilder(self.name, subject, key, number, now + starts, now + ends)
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self.key, hashes.SHA256())

    def client(
        self,
        name: str = "raj",
        *,
        usage: x509.ObjectIdentifier = CLIENT,
        ends: timedelta = DAY,
        digital_signature: bool = True,
    ) -> bytes:
        """Certificate and key, PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        key_usage = dict.fromkeys(
            ("content_commitment", "data_encipherment", "key_agreement", "key_cert_sign", "crl_sign"), False
        )
        key_usage |= {"encipher_only": False, "decipher_only": False, "key_encipherment": True}
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.ExtendedKeyUsage([usage]), False),
            (x509.KeyUsage(digital_signature=digital_signature, **key_usage), True),
        ]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key.public_key(), extensions, starts=-DAY, ends=ends)
        encoding = serialization.Encoding.PEM
        return certificate.public_bytes(encoding) + key.private_bytes(
            encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


@pytest.fixture
def house(tmp_path: Path, settings: Any) -> House:
    house = House()
    trust(house, tmp_path, settings)
    return house


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    from ocmconsole import asgi

    hub_setup.ensure_hub()
    application = asgi.api_application
    monkeypatch.setattr(application, "pool", ThreadPoolExecutor(1))
    with listening(application, secure=serving.ssl_context(settings.OCMCONSOLE_HOME), loop="uvloop") as site:
        yield site
    application.is_stopping = False
    application.pool.submit(connections.close_all).result()
    application.pool.shutdown()


def ask(site: Site, pair: bytes, directory: Path) -> httpx.Response:
    context = ssl.create_default_context(cafile=str(settings.OCMCONSOLE_HOME / "ca.crt"))
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    (directory / "client.pem").write_bytes(pair)
    context.load_cert_chain(directory / "client.pem")
    with httpx.Client(verify=context, trust_env=False, timeout=60) as client:
        return client.get(site.url("/version", scheme="https"))


@pytest.mark.parametrize("digital_signature", [True, False])
def test_a_valid_certificate_is_known(site: Site, house: House, tmp_path: Path, *, digital_signature: bool) -> None:
    assert ask(site, house.client(digital_signature=digital_signature), tmp_path).status_code == 200


@pytest.mark.usefixtures("house")
def test_one_of_an_unknown_ca_is_401(site: Site, tmp_path: Path) -> None:
    unauthorized(ask(site, House().client(), tmp_path))


def test_an_expired_one_is_401(site: Site, house: House, tmp_path: Path) -> None:
    unauthorized(ask(site, house.client(ends=-timedelta(hours=1)), tmp_path))


def test_one_for_servers_only_is_401(site: Site, house: House, tmp_path: Path) -> None:
    unauthorized(ask(site, house.client(usage=SERVER), tmp_path))


def test_the_log_says_why_and_whose_it_was(
    site: Site, house: House, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "registration.keys.client_certificates")
    pair = house.client("cluster-7", ends=-timedelta(hours=1))
    for _ in range(2):
        unauthorized(ask(site, pair, tmp_path))
    lines = [record.getMessage() for record in caplog.records if "refused a client certificate" in record.message]
    assert len(lines) == 1  # once a minute
    serial = f"{x509.load_pem_x509_certificate(pair).serial_number:x}"
    assert "not valid at this time" in lines[0]
    assert "cluster-7" in lines[0]
    assert serial in lines[0]


def test_what_a_ca_forbids_itself_is_kept(site: Site, tmp_path: Path, settings: Any) -> None:
    """Its name constraints: TLS looked after them before."""
    only = x509.DirectoryName(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "raj")]))
    bounded = House(x509.NameConstraints(permitted_subtrees=[only], excluded_subtrees=None))
    trust(bounded, tmp_path, settings)
    assert ask(site, bounded.client("raj"), tmp_path).status_code == 200
    unauthorized(ask(site, bounded.client("li"), tmp_path))


def trust(house: House, directory: Path, settings: Any) -> None:
    settings.OCMCONSOLE_CLIENT_CA_FILE = str(directory / "house.crt")
    (directory / "house.crt").write_bytes(house.pem)


def unauthorized(answer: httpx.Response) -> None:
    assert answer.status_code == 401
    assert (answer.json()["kind"], answer.json()["reason"]) == ("Status", "Unauthorized")
    assert answer.json()["message"] == "Unauthorized"
