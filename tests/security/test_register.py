"""Certificates that the hub did not issue, and those of somebody who had a name before its account (D26, D24)."""

from __future__ import annotations

import base64
import importlib
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from clusters.models import ClusterFacts
from ocmconsole.accounts import people
from ocmconsole.console import attention, checkup
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.watch import change_log
from registration import hub_setup
from registration.approvals import services
from registration.keys import certificate_register, key_lines
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import IssuedCertificate, KeyLine, UnknownCertificate
from registration.pki import agent_names, ca, issuing, kubeconfigs
from tests import factories as make
from tests import requests
from tests.actors import ROOT, grant, person, rule
from tests.security.callers import CLUSTERS, Caller, forged, holder, known

pytestmark = pytest.mark.usefixtures("fresh_hub")
LIST = rule("list", "managedclusters", groups="cluster.open-cluster-management.io")


@pytest.fixture(autouse=True)
def _nothing_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_register, "_reported", {})


def shows(der: bytes, address: str = "203.0.113.9") -> Caller:
    return Caller({"ocmconsole.peer_certificate": der, "REMOTE_ADDR": address})


def agent_der(cluster: str) -> bytes:
    group = agent_names.group_of(cluster)
    return forged(f"{group}:agent", group)


# ---------------------------------------------------------------- D26: refused, and an incident


@pytest.mark.contract("D26")
@pytest.mark.parametrize("who", ["master", "agent", "person"])
def test_a_certificate_of_our_own_ca_that_the_hub_did_not_issue_is_refused_and_kept_as_an_incident(who: str) -> None:
    make.cluster("edge", accepted=True)
    make.settle()
    person("ana")
    der = {"master": forged("root", "system:masters"), "agent": agent_der("edge"), "person": forged("ana")}[who]
    for _ in range(3):
        assert shows(der).get(f"{CLUSTERS}/edge").code == 401
    found = UnknownCertificate.objects.get()
    assert (found.pk, found.times, found.address) == (ca.parse_certificate(der).fingerprint, 1, "203.0.113.9")
    told = AuditEvent.objects.get(act="certificate:unknown")
    assert (told.user, told.outcome, told.address) == (found.common_name, "denied", "203.0.113.9")
    assert found.serial in told.reason


P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def altered(der: bytes) -> bytes:
    """The same certificate with the other valid form of its ECDSA signature, which needs no key to make."""
    signature = x509.load_der_x509_certificate(der).signature
    r, s = decode_dss_signature(signature)
    other = encode_dss_signature(r, P256_ORDER - s)
    body = der[4:]  # SEQUENCE with a length of two bytes
    body = body[: -len(signature) - 3] + b"\x03" + bytes([len(other) + 1]) + b"\0" + other
    return b"\x30\x82" + len(body).to_bytes(2) + body


@pytest.mark.contract("D26")
@pytest.mark.parametrize("way", ["refuse", "accept"])
def test_an_altered_copy_of_a_certificate_opens_nothing_and_is_no_incident(way: str, settings: Any) -> None:
    settings.OCMCONSOLE_UNKNOWN_CERTIFICATES = way
    person("ana")
    grant(person("ana"), LIST)
    der = known(forged("ana"))
    copy = altered(der)
    assert ca.parse_certificate(copy).fingerprint != ca.parse_certificate(der).fingerprint
    assert shows(der).get(CLUSTERS).code == 200
    assert shows(copy).get(CLUSTERS).code == 401
    services.revoke_certificate(ROOT, ca.parse_certificate(der).fingerprint, reason="lost")
    assert {shows(each).get(CLUSTERS).code for each in (der, copy)} == {401}
    assert not UnknownCertificate.objects.exists()
    assert IssuedCertificate.objects.filter(common_name="ana").count() == 1


@pytest.mark.contract("D26")
def test_an_incident_is_shown_to_admins_on_the_overview_the_page_of_the_ca_and_by_doctor() -> None:
    shows(forged("root", "system:masters")).get(CLUSTERS)
    found = [item for item in attention.find_attention_items(ROOT, timezone.now()) if item.key == "incidents"]
    assert [(item.count, item.tone) for item in found] == [(1, "danger")]
    assert not [
        item for item in attention.find_attention_items(person("ana"), timezone.now()) if item.key == "incidents"
    ]
    assert any("'root' that the hub did not issue was shown" in each for each in checkup.hub_problems()["certificates"])
    client = Client()
    client.force_login(User.objects.create_superuser("rita"), "django.contrib.auth.backends.ModelBackend")
    page = client.get(found[0].url.partition("#")[0]).content.decode()
    assert "Certificates of this CA that the hub did not issue (1)" in page
    assert UnknownCertificate.objects.get().serial in page
    for number in range(checkup.MOST_SHOWN + 1):
        shows(forged(f"user-{number}")).get(CLUSTERS)
    said = [each for each in checkup.hub_problems()["certificates"] if "did not issue" in each]
    assert len(said) == checkup.MOST_SHOWN + 1
    assert said[-1] == "2 more certificates that the hub did not issue: see the page Hub CA"


@pytest.mark.contract("D26")
def test_incidents_are_bounded_and_counted_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_register, "MOST_INCIDENTS", 3)
    for number in range(5):
        assert shows(forged(f"user-{number}")).get(CLUSTERS).code == 401
    assert UnknownCertificate.objects.count() == 3
    der = forged("user-0")
    UnknownCertificate.objects.all().delete()
    monkeypatch.setattr(certificate_register, "QUIET_SECONDS", 0.0)
    for _ in range(4):
        assert shows(der).get(CLUSTERS).code == 401
    assert UnknownCertificate.objects.get().times == 4


@pytest.mark.contract("D26")
def test_accept_records_it_at_its_first_use_in_the_line_of_its_cluster(settings: Any) -> None:
    settings.OCMCONSOLE_UNKNOWN_CERTIFICATES = "accept"
    make.cluster("edge", accepted=True)
    make.settle()
    der = agent_der("edge")
    for _ in range(2):
        assert shows(der).get(f"{CLUSTERS}/edge").code == 200
    row = IssuedCertificate.objects.get(cluster="edge")
    assert (row.pk, list(row.lines.all())) == (ca.parse_certificate(der).fingerprint, [KeyLine.objects.get()])
    assert AuditEvent.objects.filter(act="certificate:record", name="edge").count() == 1
    assert not UnknownCertificate.objects.exists()
    requests.ask("edge-2", requests.agent_pem("edge"), cluster="edge")
    key = requests.row("edge-2").key_fingerprint
    services.accept_cluster(ROOT, "edge", override=services.Override(key, "read out to me"))
    assert shows(der).get(f"{CLUSTERS}/edge").code == 401


@pytest.mark.contract("D26", "D19")
def test_accept_does_not_bring_a_line_back_that_has_ended(settings: Any) -> None:
    settings.OCMCONSOLE_UNKNOWN_CERTIFICATES = "accept"
    make.cluster("edge")
    requests.ask("edge-1", requests.agent_pem("edge"), cluster="edge")
    services.accept_cluster(ROOT, "edge")
    make.settle()
    services.revoke_all(ROOT, "edge", reason="stolen")
    assert shows(agent_der("edge")).get(f"{CLUSTERS}/edge").code == 401
    assert key_lines.open_line("edge") is None


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """The act happens once, after a first use was decided and before it is recorded."""
    takes, acts = key_lines.takes, [act]

    def asked(cluster: str, certificate: Any) -> bool:
        answer = takes(cluster, certificate)
        if acts:
            assert answer
            acts.pop()()
        return answer

    monkeypatch.setattr(key_lines, "takes", asked)


@pytest.mark.contract("D26", "D19")
@pytest.mark.parametrize("way", ["revoked", "overridden", "recorded and revoked"])
def test_a_line_that_ends_while_a_certificate_is_first_used_does_not_come_back(
    way: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.OCMCONSOLE_UNKNOWN_CERTIFICATES = "accept"
    make.cluster("edge")
    requests.ask("edge-1", requests.agent_pem("edge"), cluster="edge")
    services.accept_cluster(ROOT, "edge")
    make.settle()
    KeyLine.objects.update(begun_at=timezone.now() - timedelta(minutes=1))
    if way == "overridden":  # the certificate of the accepted key, as a hub that was restored does not know it
        der = serialized(requests.row("edge-1").doc["status"]["certificate"])
        IssuedCertificate.objects.all().delete()
    else:
        der = agent_der("edge")

    def end() -> None:
        if way == "overridden":
            requests.ask("edge-2", requests.agent_pem("edge"), cluster="edge")
            key = requests.row("edge-2").key_fingerprint
            services.accept_cluster(ROOT, "edge", override=services.Override(key, "read out to me"))
            return
        if way == "recorded and revoked":
            assert shows(der).get(f"{CLUSTERS}/edge").code == 200
        services.revoke_all(ROOT, "edge", reason="stolen")

    meanwhile(monkeypatch, end)
    for _ in range(2):
        assert shows(der).get(f"{CLUSTERS}/edge").code == 401
    assert KeyLine.objects.filter(ended_at=None).count() == (way == "overridden")
    honoured = IssuedCertificate.objects.filter(pk=ca.parse_certificate(der).fingerprint, revoked_at=None)
    assert not honoured.exists()


def serialized(encoded: str) -> bytes:
    """DER of a request's certificate."""
    return x509.load_pem_x509_certificate(base64.b64decode(encoded)).public_bytes(serialization.Encoding.DER)


@pytest.mark.contract("D26")
def test_two_requests_that_are_a_certificates_first_use_both_succeed_and_record_it_once(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.OCMCONSOLE_UNKNOWN_CERTIFICATES = "accept"
    make.cluster("edge", accepted=True)
    make.settle()
    der, codes = agent_der("edge"), []
    meanwhile(monkeypatch, lambda: codes.append(shows(der).get(f"{CLUSTERS}/edge").code))
    codes.append(shows(der).get(f"{CLUSTERS}/edge").code)
    assert codes == [200, 200]
    assert AuditEvent.objects.filter(act="certificate:record", name="edge").count() == 1
    assert IssuedCertificate.objects.get(cluster="edge").lines.count() == 1


@pytest.mark.contract("D26")
@pytest.mark.parametrize("signer", ["example.com/house", agent_names.SIGNER])
def test_a_forged_certificate_is_not_made_known_by_a_requests_status(signer: str) -> None:
    robot = person("robot")
    certificates = "certificates.k8s.io"
    grant(
        robot,
        rule("get patch", "certificatesigningrequests", groups=certificates),
        rule("patch", "certificatesigningrequests/status", groups=certificates),
        rule("sign", "signers", groups=certificates, names=signer),
    )
    requests.ask("laundry", requests.pem("li", []), cluster="", by=make.ADMIN, signerName=signer)
    der = forged("root", "system:masters")
    pem = x509.load_der_x509_certificate(der).public_bytes(serialization.Encoding.PEM)
    encoded = base64.b64encode(pem).decode()
    verbs.edit(
        robot,
        CSR,
        Key("", "laundry"),
        lambda doc: doc.setdefault("status", {}).update(certificate=encoded),
        subresource="status",
    )
    assert not IssuedCertificate.objects.filter(common_name="root").exists()
    assert shows(der).get(CLUSTERS).code == 401
    assert UnknownCertificate.objects.get().pk == ca.parse_certificate(der).fingerprint


@pytest.mark.contract("D26")
def test_what_the_hub_issues_is_known_at_once() -> None:
    kubeconfigs.of_user(ROOT, "li", groups=("system:masters",), lifetime=timedelta(hours=1))
    assert IssuedCertificate.objects.filter(common_name="li").exists()
    assert holder("root", "system:masters").get(CLUSTERS).code == 200


@pytest.mark.contract("D26")
def test_an_admins_kubeconfig_that_the_register_does_not_know_is_made_anew_at_the_next_start(settings: Any) -> None:
    path = settings.OCMCONSOLE_HOME / "admin.kubeconfig"
    hub_setup.ensure_hub()
    before = path.read_text()
    hub_setup.ensure_hub()
    assert path.read_text() == before
    IssuedCertificate.objects.all().delete()
    hub_setup.ensure_hub()
    assert path.read_text() != before


@pytest.mark.contract("D24")
def test_a_certificate_for_a_name_of_the_hub_opens_nothing_no_matter_who_signed_it() -> None:
    from tests.security.callers import known

    subject = "system:ocmconsole:registration"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(issuing, "_check_names", lambda *_: None)
        der = known(forged(subject, "system:masters"))
    assert shows(der).get(CLUSTERS).code == 401


# ---------------------------------------------------------------- D24: a name before its account


def make_account(name: str) -> User:
    user = User(username=name)
    people.save_user(ROOT, user)
    return user


@pytest.mark.contract("D24")
@pytest.mark.parametrize("way", ["create", "rename"])
def test_a_certificate_from_before_an_account_does_not_speak_for_it(way: str) -> None:
    earlier, other = holder("ana"), holder("li")
    assert earlier.get("/version").code == 200
    if way == "create":
        make_account("ana")
    else:
        user = make_account("zoe")
        user.username = "ana"
        people.save_user(ROOT, user)
    grant(person("ana"), LIST)
    assert earlier.get(CLUSTERS).code == 401
    assert other.get("/version").code == 200
    row = IssuedCertificate.objects.get(common_name="ana")
    assert row.revocation_reason == certificate_register.NAMED
    assert AuditEvent.objects.get(act="certificate:revoke").reason == f"ana {row.pk}: {certificate_register.NAMED}"
    assert holder("ana").get(CLUSTERS).code == 200


@pytest.mark.contract("D24")
def test_a_superuser_made_at_the_command_line_ends_earlier_certificates_of_the_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    earlier, before = holder("rita"), change_log.rights()
    assert earlier.get("/version").code == 200
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", "long enough for this")
    call_command("createsuperuser", interactive=False, username="rita", email="rita@example.com", verbosity=0)
    assert earlier.get("/version").code == 401
    assert change_log.rights() > before
    assert AuditEvent.objects.get(act="certificate:revoke").entry_point == "cli"


@pytest.mark.contract("D24")
def test_other_changes_of_an_account_end_no_certificate() -> None:
    user = make_account("ana")
    mine = holder("ana")
    user.email = "ana@example.com"
    people.save_user(ROOT, user)
    assert mine.get("/version").code == 200


@pytest.mark.contract("D24")
def test_what_is_signed_while_the_account_is_made_is_revoked_from_its_beginning() -> None:
    requests.ask("ana-1", requests.pem("ana", []), cluster="", by=make.ADMIN)
    User.objects.create(username="ana")
    from registration.admission.request_admission import certificate_is_remembered

    row = requests.row("ana-1")
    pem = x509.load_der_x509_certificate(forged("ana")).public_bytes(serialization.Encoding.PEM)
    signed = {**row.doc, "status": {"certificate": base64.b64encode(pem).decode()}}
    found = certificate_is_remembered(certificate_register.CONTROLLER, row.doc, signed)
    assert [each.revocation_reason for each in found if isinstance(each, IssuedCertificate)] == [
        certificate_register.NAMED
    ]


# ---------------------------------------------------------------- an existing database


@pytest.mark.contract("D26", "D24")
def test_an_upgrade_completes_the_register_and_ends_what_is_older_than_its_account() -> None:
    make.cluster("edge", accepted=True)
    make.settle()
    der = agent_der("edge")
    read = ca.parse_certificate(der)
    ClusterFacts.objects.update_or_create(
        cluster="edge",
        defaults={
            "certificate_fingerprint": read.fingerprint,
            "certificate_not_before": read.not_before,
            "certificate_not_after": read.not_after,
        },
    )
    earlier, later = holder("ana"), holder("li")
    for name, delay in (("ana", timedelta(minutes=2)), ("li", timedelta())):
        User.objects.create(username=name, date_joined=timezone.now() + delay)
    importlib.import_module("registration.migrations.0008_unknown_certificates").complete(apps, None)
    assert shows(der).get(f"{CLUSTERS}/edge").code == 200
    assert KeyLine.objects.get(cluster="edge").certificates.get().pk == read.fingerprint
    assert (earlier.get("/version").code, later.get("/version").code) == (401, 200)


@pytest.mark.contract("D26", "D19")
def test_an_upgrade_opens_no_line_that_has_ended_for_a_certificate_of_the_facts() -> None:
    make.cluster("edge", accepted=True)
    make.settle()
    der, now = agent_der("edge"), timezone.now()
    read = ca.parse_certificate(der)
    ClusterFacts.objects.update_or_create(
        cluster="edge",
        defaults={
            "certificate_fingerprint": read.fingerprint,
            "certificate_not_before": read.not_before,
            "certificate_not_after": read.not_after,
        },
    )
    KeyLine.objects.create(cluster="edge", begun_at=now, ended_at=now, ended_by="li", end_reason="stolen")
    importlib.import_module("registration.migrations.0008_unknown_certificates").complete(apps, None)
    assert shows(der).get(f"{CLUSTERS}/edge").code == 401
    assert key_lines.open_line("edge") is None
    facts = ClusterFacts.objects.get(cluster="edge")
    assert (facts.certificate_revoked_at, facts.certificate_revocation_reason) == (now, "stolen")


def test_the_text_of_the_incident_names_what_is_needed_to_find_it() -> None:
    shown = certificate_register._shown(ca.parse_certificate(forged("ana", "devs")))
    assert re.fullmatch(r"'ana', groups devs, serial [0-9a-f]+, SHA-256 [0-9a-f]{64}, valid .* to .* UTC", shown)
