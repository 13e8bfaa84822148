"""Several processes that write and several that send: each line leaves once, in order. Over TLS, only to who is known."""

from __future__ import annotations

import threading
from datetime import timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from django.db import connection
from django.utils import timezone

from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.models import AuditEvent, OutboundPosition
from ocmconsole.kubeapi.outbound import outlets, sending, signatures
from ocmconsole.kubeapi.storage import audit, incarnations
from tests import receivers
from tests.security.test_audit_outside import read, send
from tests.security.test_audit_seals import note

pytestmark = pytest.mark.contract("D11")

WRITERS, ENTRIES = 4, 30


def webhook_to(receiver: receivers.HttpReceiver, settings: Any, scheme: str = "http") -> None:
    settings.OCMCONSOLE_AUDIT_WEBHOOK = f"{scheme}://127.0.0.1:{receiver.port}/"
    settings.OCMCONSOLE_AUDIT_WEBHOOK_SECRET = (signatures.secret_of(receivers.SECRET),)
    settings.OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES = (ip_network("127.0.0.1"),)


def write(number: int) -> None:
    for index in range(ENTRIES):
        actor = Actor(user=f"writer-{number}", entry_point=EntryPoint.API)
        audit.entry_of(actor, "managedcluster:update", resource="tests", name=f"n{index}", diff=[]).save()
    connection.close()


def follow(outlet: outlets.Outlet, stopping: threading.Event) -> None:
    sending.follow(outlet, stopping)
    connection.close()


@pytest.mark.django_db(transaction=True)
def test_many_writers_and_two_senders_give_each_receiver_every_entry_once_and_in_order(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "LOOK_SECONDS", 0.01)
    incarnations.ensure_first()
    settings.OCMCONSOLE_AUDIT_STREAM = tmp_path / "audit.jsonl"
    stopping = threading.Event()
    with receivers.http_receiver() as receiver:
        webhook_to(receiver, settings)
        senders = [
            threading.Thread(target=follow, args=(outlet, stopping))
            for outlet in outlets.configured()
            for _ in range(2)
        ]
        writers = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
        for thread in (*senders, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        newest = AuditEvent.objects.order_by("-pk").values_list("pk", flat=True)[0]
        for _ in range(6_000):
            if OutboundPosition.objects.filter(entry=newest, busy_until=None).count() == 2:
                break
            threading.Event().wait(0.02)
        stopping.set()
        for thread in senders:
            thread.join()
    numbers = list(AuditEvent.objects.order_by("pk").values_list("pk", flat=True))
    assert len(numbers) >= WRITERS * ENTRIES
    assert [line["data"]["id"] for line in receiver.lines] == numbers
    assert [line["data"]["id"] for line in read(tmp_path / "audit.jsonl")] == numbers


def made_certificate(path: Path) -> Path:
    """Of 127.0.0.1, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "receiver")])
    now = timezone.now()
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(made.public_bytes(pem) + secret)
    return path


@pytest.mark.django_db
def test_only_a_receiver_whose_certificate_is_trusted_is_told_anything(settings: Any, tmp_path: Path) -> None:
    note(2)
    certificate = made_certificate(tmp_path / "receiver.pem")
    with receivers.http_receiver(certificate=certificate) as receiver:
        webhook_to(receiver, settings, "https")
        assert send() == 0
        assert "certificate is not trusted" in OutboundPosition.objects.get().problem
        assert receiver.messages == []
        settings.OCMCONSOLE_WEBHOOK_CA_FILE = str(certificate)
        OutboundPosition.objects.update(due=None)
        assert send() == 1
    assert len(orjson.loads(receiver.bodies[0])["data"]) == 2
