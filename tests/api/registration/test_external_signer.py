"""Somebody else signs, with a CA that the hub trusts for clients (W21, W23, W24)."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from django.test import Client

from clusters.models import ClusterFacts
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import MASTERS
from ocmconsole.kubeapi.kinds import Key
from registration import reconcilers
from registration.keys import client_certificates
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import AcceptedKey
from registration.pki import agent_names
from tests import factories as make
from tests import requests
from tests.actors import grant, person, rule

pytestmark = pytest.mark.django_db

CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CERTIFICATES = "certificates.k8s.io"


class Signer:
    """A certificate authority that is not the hub's."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "CA of the house")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = self._builder(self.name, self.key.public_key())
        self.certificate = builder.add_extension(constraints, critical=True).sign(self.key, hashes.SHA256())

    def _builder(self, subject: x509.Name, key: Any) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return x509.CertificateBuilder(
            self.name, subject, key, x509.random_serial_number(), now - timedelta(minutes=5), now + timedelta(days=1)
        )

    def sign(self, subject: x509.Name, key: Any) -> x509.Certificate:
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return self._builder(subject, key).add_extension(usage, critical=False).sign(self.key, hashes.SHA256())

    def sign_request(self, pem: bytes) -> x509.Certificate:
        csr = x509.load_pem_x509_csr(pem)
        return self.sign(csr.subject, csr.public_key())

    def person(self, common_name: str, organizations: Sequence[str]) -> x509.Certificate:
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
        subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        return self.sign(subject, ec.generate_private_key(ec.SECP256R1()).public_key())


@pytest.fixture
def signer(tmp_path: Path, settings: Any) -> Signer:
    make.hub(tmp_path, settings)
    made = Signer()
    path = tmp_path / "others.pem"
    path.write_bytes(made.certificate.public_bytes(Encoding.PEM))
    settings.OCMCONSOLE_CLIENT_CA_FILE = str(path)
    settings.OCMCONSOLE_CSR_SIGNER = "external"
    return made


def showing(certificate: x509.Certificate) -> Client:
    """A client of the API listener that shows a certificate."""
    environ: Any = {"ocmconsole.listener": "api", "ocmconsole.peer_certificate": certificate.public_bytes(Encoding.DER)}
    return Client(**environ)


def approved(name: str = "c1-a") -> bytes:
    make.cluster("c1")
    pem = requests.agent_pem("c1")
    requests.ask(name, pem, cluster="c1")
    make.accept("c1")
    verbs.edit(
        make.ADMIN,
        CSR,
        Key("", name),
        lambda doc: reconcilers.add_decision(doc, "Approved", "Test", ""),
        subresource="approval",
    )
    make.settle()
    return pem


def fill(client: Client, certificate: x509.Certificate, name: str = "c1-a") -> Any:
    doc = client.get(f"{REQUESTS}/{name}").json()
    doc["status"]["certificate"] = base64.b64encode(certificate.public_bytes(Encoding.PEM)).decode()
    return client.put(f"{REQUESTS}/{name}/status", json.dumps(doc), content_type="application/json")


@pytest.mark.contract("W23", "W24", "W21", "H14")
def test_an_agent_works_with_the_certificate_that_somebody_else_has_signed(signer: Signer) -> None:
    pem = approved()
    assert requests.state("c1-a") == "Approved"  # the hub leaves it to the other
    robot = signer.person("signing-robot", ["robots"])
    grant(
        person("signing-robot"),
        rule("get list watch", "certificatesigningrequests", groups=CERTIFICATES),
        rule("update", "certificatesigningrequests/status", groups=CERTIFICATES),
        rule("sign", "signers", groups=CERTIFICATES, names=agent_names.SIGNER),
    )
    certificate = signer.sign_request(pem)
    assert fill(showing(robot), certificate).status_code == 200
    make.settle()
    assert requests.state("c1-a") == "Issued"
    assert (
        ClusterFacts.objects.get(cluster="c1").certificate_fingerprint == certificate.fingerprint(hashes.SHA256()).hex()
    )
    assert AcceptedKey.objects.get().request == "c1-a"
    agent = showing(certificate)
    assert agent.get(f"{CLUSTERS}/c1").status_code == 200
    assert agent.get(f"{CLUSTERS}/c2").status_code == 403
    actor = client_certificates.actor_of_certificate(certificate.public_bytes(Encoding.DER))
    assert (actor.user, actor.groups) == (requests.agent("c1").user, requests.agent("c1").groups[:2])


@pytest.mark.contract("H36", "D9")
def test_that_agent_renews_with_it(signer: Signer) -> None:
    certificate = signer.sign_request(approved())
    body = requests.document("c1-b", requests.agent_pem("c1"), cluster="c1")
    answer = showing(certificate).post(REQUESTS, json.dumps(body), content_type="application/json")
    assert answer.status_code == 201
    make.settle()
    assert requests.state("c1-b") == "Approved"
    assert AcceptedKey.objects.get(request="c1-b").how == AcceptedKey.How.RENEWAL


@pytest.mark.contract("W23")
def test_signing_without_the_right_is_refused(signer: Signer) -> None:
    pem = approved()
    robot = signer.person("signing-robot", ["robots"])
    grant(
        person("signing-robot"),
        rule("get", "certificatesigningrequests", groups=CERTIFICATES),
        rule("update", "certificatesigningrequests/status", groups=CERTIFICATES),
    )
    refused = fill(showing(robot), signer.sign_request(pem))
    assert refused.status_code == 403
    assert f'not permitted to sign requests with signerName "{agent_names.SIGNER}"' in refused.json()["message"]
    assert requests.state("c1-a") == "Approved"


@pytest.mark.contract("W21", "W24")
def test_a_client_of_another_ca_has_its_name_and_groups_and_never_the_masters(signer: Signer) -> None:
    certificate = signer.person("ana", ["developers", MASTERS, "operators"])
    actor = client_certificates.actor_of_certificate(certificate.public_bytes(Encoding.DER))
    assert (actor.user, actor.groups) == ("ana", ("developers", "operators"))
    assert showing(certificate).get(CLUSTERS).status_code == 403
    grant(person("ana"), rule("list", "managedclusters", groups="cluster.open-cluster-management.io"))
    assert showing(certificate).get(CLUSTERS).status_code == 200


@pytest.mark.contract("W21", "W30")
def test_a_ca_that_is_not_named_vouches_for_nobody(signer: Signer, settings: Any) -> None:
    der = signer.person("ana", []).public_bytes(Encoding.DER)
    settings.OCMCONSOLE_CLIENT_CA_FILE = ""
    with pytest.raises(errors.Unauthorized):
        client_certificates.actor_of_certificate(der)


@pytest.mark.contract("W21")
def test_a_deactivated_person_loses_that_certificate_too(signer: Signer) -> None:
    from django.contrib.auth import get_user_model

    get_user_model().objects.create_user("ana", is_active=False)
    assert showing(signer.person("ana", [])).get(CLUSTERS).status_code == 401
