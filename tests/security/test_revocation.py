"""A certificate that is revoked opens nothing from then on (W21)."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from django.core.management import call_command
from django.core.management.base import CommandError

from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.models import AuditEvent
from registration.approvals import services
from registration.keys import key_history
from registration.models import IssuedCertificate
from registration.pki import kubeconfigs
from tests import factories as make
from tests import requests
from tests.actors import ROOT, grant, person, rule
from tests.security.callers import CLUSTERS, Caller
from tests.security.test_credentials import question

pytestmark = [pytest.mark.usefixtures("fresh_hub"), pytest.mark.contract("W21")]

ACCEPT = rule("update", "managedclusters/accept", groups="register.open-cluster-management.io", names="edge")


@pytest.fixture
def agent() -> Caller:
    """The agent of an accepted cluster, with the certificate that its request got."""
    make.cluster("edge")
    requests.ask("edge-1", requests.agent_pem("edge"), cluster="edge")
    services.accept_cluster(ROOT, "edge")
    make.settle()
    chain = base64.b64decode(requests.row("edge-1").doc["status"]["certificate"])
    der = x509.load_pem_x509_certificate(chain).public_bytes(serialization.Encoding.DER)
    return Caller({"ocmconsole.peer_certificate": der})


def issued() -> IssuedCertificate:
    return IssuedCertificate.objects.get(cluster="edge")


def test_every_certificate_that_a_request_brings_is_known(agent: Caller) -> None:
    assert agent.get(f"{CLUSTERS}/edge").code == 200
    found = issued()
    assert (found.request, found.revoked_at) == ("edge-1", None)
    assert found.common_name == "system:open-cluster-management:edge:agent"
    assert found.key_fingerprint == requests.row("edge-1").key_fingerprint


def test_a_revoked_certificate_is_refused_at_the_next_request_and_its_watch_ends(
    agent: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = question(agent, f"{CLUSTERS}?fieldSelector=metadata.name=edge", monkeypatch)
    assert may_go_on()
    services.revoke_certificate(ROOT, issued().fingerprint, reason="the node was stolen")
    assert agent.get(f"{CLUSTERS}/edge").code == 401
    assert not may_go_on()


def test_who_may_accept_a_cluster_may_revoke_its_certificates_and_it_is_recorded(agent: Caller) -> None:
    ana = person("ana")
    grant(ana, ACCEPT)
    first = services.revoke_certificate(ana, issued().fingerprint.upper(), reason="stolen")
    again = services.revoke_certificate(ana, issued().fingerprint, reason="lost")
    assert (first.revoked_by, first.revocation_reason) == ("ana", "stolen")
    assert again.revocation_reason == "stolen"
    event = AuditEvent.objects.get(act="certificate:revoke")
    assert (event.user, event.name) == ("ana", "edge")
    assert event.reason.endswith(f"{first.fingerprint}: stolen")


def test_nobody_else_may_and_the_attempt_is_recorded(agent: Caller) -> None:
    with pytest.raises(errors.Forbidden):
        services.revoke_certificate(person("mallory"), issued().fingerprint, reason="spite")
    assert agent.get(f"{CLUSTERS}/edge").code == 200
    assert AuditEvent.objects.get(user="mallory").outcome == AuditEvent.Outcome.DENIED


def test_a_persons_certificate_takes_the_right_to_sign() -> None:
    kubeconfigs.of_user(ROOT, "li", groups=(), lifetime=timedelta(hours=1))
    certificate = IssuedCertificate.objects.get(common_name="li")
    ana = person("ana")
    grant(ana, ACCEPT)
    with pytest.raises(errors.Forbidden, match="right to sign"):
        services.revoke_certificate(ana, certificate.fingerprint, reason="left")
    grant(ana, rule("sign", "signers", groups="certificates.k8s.io", names="kubernetes.io/kube-apiserver-client"))
    assert services.revoke_certificate(ana, certificate.fingerprint, reason="left").revoked_at


def test_at_the_command_line(agent: Caller, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("revoke_certificate", issued().fingerprint, "--reason", "stolen")
    assert capsys.readouterr().out == "system:open-cluster-management:edge:agent revoked\n"
    assert agent.get(f"{CLUSTERS}/edge").code == 401
    with pytest.raises(CommandError, match="no certificate 00 was issued here"):
        call_command("revoke_certificate", "00", "--reason", "stolen")


@pytest.mark.contract("D9")
def test_the_key_of_a_revoked_certificate_is_a_strangers(agent: Caller) -> None:
    fingerprint = issued().key_fingerprint
    assert not key_history.is_unknown_key("edge", fingerprint)
    services.revoke_certificate(ROOT, issued().fingerprint, reason="stolen")
    assert key_history.is_unknown_key("edge", fingerprint)
