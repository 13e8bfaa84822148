"""Chat by Apprise: taken or refused as any channel's, by a process that asks no private address and reads no file."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.test import Client

from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.kubeapi.outbound.delivery import DeliveryError
from ocmconsole.models import NotificationChannel, NotificationDelivery
from ocmconsole.notifications import channels, chat, services
from tests import receivers
from tests.actors import ROOT, signed_in
from tests.security.test_notifications import fell_silent, send, tell

pytestmark = pytest.mark.django_db

State = NotificationDelivery.State
SECRET = "x" * 26  # of a hook of Mattermost


@pytest.fixture
def service(settings: Any) -> Iterator[receivers.HttpReceiver]:
    """A Mattermost of which the hub knows the hook."""
    settings.OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES = (ip_network("127.0.0.1"),)
    with receivers.http_receiver(signed=False) as found:
        address = services.address_of("chat", f"mmost://127.0.0.1:{found.port}/{SECRET}")
        assert services.create_channel(ROOT, "team", "chat", address) == "", "nothing is signed"
        yield found


def test_a_message_arrives_as_the_service_wants_it(service: receivers.HttpReceiver) -> None:
    fell_silent("c1", "c2")
    assert tell() == 1
    (body,) = service.bodies
    said = orjson.loads(body)["text"]
    assert "Fell silent: 2: c1, c2" in said
    assert "/clusters/?status=silent" in said
    assert "Severity: critical" in said
    assert NotificationDelivery.objects.get().state == State.TAKEN


def test_what_it_answers_is_in_the_log_and_4xx_is_for_good(service: receivers.HttpReceiver) -> None:
    service.answer = 503
    services.test_channel(ROOT, "team")
    assert send() == 0
    row = NotificationDelivery.objects.get()
    assert (row.state, row.answer) == (State.WAITING, "it answered 503")
    service.answer = 403
    channels.try_at_once("team")
    assert send() == 0
    row.refresh_from_db()
    assert (row.state, row.answer) == (State.REFUSED, "it answered 403")


def test_no_private_address_is_asked_unless_it_is_allowed_nor_where_an_answer_leads(
    service: receivers.HttpReceiver, settings: Any
) -> None:
    with receivers.http_receiver(signed=False) as inside:
        settings.OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES = ()
        services.test_channel(ROOT, "team")
        assert send() == 0
        assert service.came_with == []
        assert "its address is private" in NotificationDelivery.objects.get().answer
        settings.OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES = (ip_network("127.0.0.1"),)
        service.answer, service.headers = 307, {"Location": f"http://127.0.0.2:{inside.port}/"}
        channels.try_at_once("team")
        assert send() == 0
        assert len(service.came_with) == 1
        assert "its address is private" in NotificationDelivery.objects.get().answer
        assert inside.came_with == []


@pytest.mark.parametrize("url", ["mailto://a:b@127.0.0.1:{port}?mode=insecure", "mqtt://127.0.0.1:{port}/topic", "irc://127.0.0.1:{port}/#a"])  # fmt: skip
def test_other_ways_than_http_are_judged_too(url: str, settings: Any) -> None:
    settings.OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES = ()
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.setblocking(False)
        receiver = chat.ChatReceiver(url.format(port=listening.getsockname()[1]))
        with pytest.raises(DeliveryError):
            receiver.deliver([channels.line_of(_message())])
        with pytest.raises(BlockingIOError):
            listening.accept()


def _message() -> Any:
    services.create_channel(ROOT, "other", "mail", "a@b.example")
    services.test_channel(ROOT, "other")
    return NotificationDelivery.objects.get(channel="other").message


GUARDED = """
import sys
from ipaddress import ip_network
from ocmconsole.notifications.chat_process import Guard
sys.addaudithook(Guard([ip_network("127.0.0.1")], ""))
{act}
"""


@pytest.mark.parametrize(
    ("act", "is_allowed"),
    [
        ("open({secret!r}).read()", False),
        ("import os; os.open({secret!r}, os.O_RDONLY)", False),
        ("import pathlib; pathlib.Path({link!r}).read_bytes()", False),
        ("import subprocess; subprocess.run(['true'])", False),
        ("import os; os.system('true')", False),
        ("import os; os.fork()", False),
        ("import socket; socket.socket(socket.AF_UNIX).connect('/run/docker.sock')", False),
        ("import socket; socket.socket().connect(('10.0.0.1', 80))", False),
        ("import socket; socket.socket().connect(('localhost', 80))", False),
        ("import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('169.254.169.254', 53))", False),
        ("import socket; socket.socket(socket.AF_INET6).connect(('::ffff:10.0.0.1', 80))", False),
        ("import socket; socket.socket().connect_ex(('127.0.0.1', 1))", True),
        ("import json.tool, xml.dom, requests, certifi; open(certifi.where()).read()", True),
    ],
)
def test_the_process_reads_no_file_starts_no_program_and_judges_each_connection(
    act: str, is_allowed: bool, tmp_path: Path, settings: Any
) -> None:
    (tmp_path / "ca.key").write_text("a key")
    (tmp_path / "link").symlink_to(tmp_path / "ca.key")
    code = GUARDED.format(act=act.format(secret=str(tmp_path / "ca.key"), link=str(tmp_path / "link")))
    done = subprocess.run(
        [sys.executable, "-B", "-c", code], cwd=chat.ROOT, capture_output=True, timeout=300, check=False
    )
    assert (b"PermissionError" in done.stderr) is not is_allowed, done.stderr
    assert (done.returncode == 0) is is_allowed


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("nonsense", "Apprise knows no service"),
        ("https://receiver.example/", "Apprise knows no service"),
        ("mmost://chat.example/hook", "without TLS: write mmosts://"),
        ("mmosts://chat.example/hook?verify=no", "certificates are always verified"),
        ("syslog://", "a service elsewhere"),
        ("dbus://", "a service elsewhere"),
    ],
)
def test_an_address_that_makes_no_sense_is_refused_beside_its_field(address: str, said: str) -> None:
    answer = signed_in("root", is_superuser=True).post(
        "/notifications/-/add/", {"name": "team", "kind": "chat", "address": address}
    )
    assert answer.status_code == 400
    assert any(said.lower() in error.lower() for error in answer.context["form"].errors["address"])
    assert not NotificationChannel.objects.exists()


@pytest.mark.contract("D23")
def test_few_processes_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "WAIT_SECONDS", 0.01)
    with ExitStack() as others:
        for _ in range(chat.MOST_AT_ONCE):
            others.enter_context(chat._slots)
        assert chat.flaw_of("mmosts://chat.example/hook") == "messages of other channels are being sent"
    assert chat.flaw_of("mmosts://chat.example/hook") == ""


def test_the_address_is_encrypted_and_on_no_page(service: receivers.HttpReceiver) -> None:
    row = NotificationChannel.objects.get()
    assert row.address.startswith(stored_text.PREFIX)
    root: Client = signed_in("root", is_superuser=True)
    root.post("/notifications/team/test/")
    service.answer = 404
    send()
    for path in ("/notifications/", "/notifications/team/"):
        page = root.get(path).content.decode()
        assert "mmost://…" in page
        assert SECRET not in page
    assert root.post("/notifications/team/secret/").status_code != 200, "nothing is signed"


def test_without_the_package_page_and_log_say_what_to_install(
    service: receivers.HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "find_spec", lambda _: None)
    services.test_channel(ROOT, "team")
    assert send() == 0
    assert NotificationDelivery.objects.get().answer == chat.MISSING
    assert "ocmconsole[chat]" in signed_in("root", is_superuser=True).get("/notifications/-/add/").content.decode()
