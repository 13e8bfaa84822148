"""What is sent outside: signatures by the published scheme, addresses that may be asked, and settings that make no sense."""

from __future__ import annotations

import base64
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from ocmconsole.environment import readers
from ocmconsole.kubeapi.outbound import http_client, signatures
from ocmconsole.kubeapi.outbound.syslog import SyslogTarget


def test_a_message_is_signed_as_the_library_of_standard_webhooks_does() -> None:
    """As standardwebhooks 1.1.0, the reference library of the scheme, signs the same."""
    secret = signatures.secret_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLjSw")
    headers = signatures.signed_headers([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,q6KMVIJHk4Gs770FfR5f591Ftx7uVJSGl5wHV1ri978="
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330")


def test_while_a_secret_is_replaced_both_sign() -> None:
    signed = signatures.signed_headers([b"a" * 24, b"b" * 24], "m", 1, b"{}")["webhook-signature"]
    alone = [signatures.signed_headers([key * 24], "m", 1, b"{}")["webhook-signature"] for key in (b"a", b"b")]
    assert signed == " ".join(alone)


@pytest.mark.parametrize("text", ["", "whsec_", "whsec_!!!", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLjSw", "whsec_c2hvcnQ="])
def test_what_is_no_secret_is_refused_without_being_shown(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCMCONSOLE_X", text or ",")
    if not text:
        assert readers.signing_secrets("OCMCONSOLE_X") == ()
        return
    with pytest.raises(ImproperlyConfigured, match="OCMCONSOLE_X") as refused:
        readers.signing_secrets("OCMCONSOLE_X")
    assert text.removeprefix("whsec_") not in str(refused.value) or text == "whsec_"


def test_secrets_come_from_a_file(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text(f"whsec_{base64.b64encode(b's' * 32).decode()}\n")
    monkeypatch.setenv("OCMCONSOLE_X_FILE", str(tmp_path / "secret"))
    assert readers.signing_secrets("OCMCONSOLE_X") == (b"s" * 32,)


PRIVATE = ("127.0.0.1", "10.0.0.5", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.1", "224.0.0.1",
           "255.255.255.255", "::1", "::", "fe80::1", "fd00::1", "::ffff:10.0.0.5", "64:ff9b::a00:5", "2002:a00:5::1",
           "2001:db8::1", "ff02::1", "fec0::1")  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_asked_only_where_a_setting_allows_it(address: str) -> None:
    assert not http_client.is_allowed(ip_address(address), [ip_network("10.1.0.0/16")])
    everything = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    assert http_client.is_allowed(ip_address(address), everything)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822", "::ffff:93.184.216.34"]
)
def test_a_public_address_is_asked(address: str) -> None:
    assert http_client.is_allowed(ip_address(address), [])


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("unix:/dev/log", SyslogTarget("unix", "/dev/log")),
        ("udp://logs.example.com:514", SyslogTarget("udp", "logs.example.com", 514)),
        ("tcp://[::1]:601", SyslogTarget("tcp", "::1", 601)),
        ("", None),
    ],
)
def test_where_syslog_is_is_read(text: str, target: SyslogTarget | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCMCONSOLE_X", text)
    assert readers.syslog("OCMCONSOLE_X") == target


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (readers.syslog, "logs.example.com:514"),
        (readers.syslog, "tcp://logs.example.com"),
        (readers.syslog, "udp://:514"),
        (readers.syslog, "tcp://logs.example.com:99999"),
        (readers.syslog, "tcp://logs.example.com:²"),
        (readers.webhook, "https://siem.example.com/a b"),
        (readers.webhook, "https://siem.example.com/a\x01b"),
        (readers.webhook, "http://siem.example.com/x"),
        (readers.webhook, "ftp://siem.example.com"),
        (readers.webhook, "https://"),
        (readers.webhook, "https://hub:secret@siem.example.com/"),
        (readers.webhook, "https://siem.example.com:99999/"),
        (readers.networks, "10.0.0.1/8"),
    ],
)
def test_settings_that_mean_nothing_are_refused_by_name(
    reader: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCMCONSOLE_X", text)
    with pytest.raises(ImproperlyConfigured, match="OCMCONSOLE_X"):
        reader("OCMCONSOLE_X")
