"""Who is believed about the client behind a connection."""

from __future__ import annotations

import base64
import os
import ssl
import stat
import sys
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.server import addresses, proxy
from ocmconsole.server.proxy import BAD_CERTIFICATE, Client, Proxies
from tests import preloaded
from tests.serving.conftest import Serve

pytestmark = pytest.mark.contract("W30")

ROOT = Path(__file__).resolve().parents[2]
SECRET = "s" * 32
DER = b"0\x82a certificate"
PEM = quote(ssl.DER_cert_to_PEM_cert(DER))
PROXIES = Proxies((ip_network("10.0.0.5"), ip_network("fd00::/64")), SECRET)
SAID = {proxy.CERTIFICATE: PEM, proxy.ADDRESS: "192.0.2.7", proxy.SCHEME: "https", proxy.SECRET: SECRET}
BEHIND = Client("192.0.2.7", DER, "https")


def connected(address: str, certificate: bytes | None = None, *, is_local: bool = False) -> Client:
    return Client(address, certificate, "http", is_local)


@pytest.mark.parametrize("address", ["10.0.0.5", "fd00::17", "::ffff:10.0.0.5"])
def test_a_known_address_with_the_secret_is_believed(address: str) -> None:
    assert PROXIES.client(connected(address, b"the proxy's own"), dict(SAID)) == BEHIND


def test_a_unix_socket_needs_no_secret() -> None:
    said = {name: value for name, value in SAID.items() if name != proxy.SECRET}
    assert Proxies().client(connected("", is_local=True), said) == BEHIND


@pytest.mark.parametrize(
    ("proxies", "address", "secret"),
    [
        (PROXIES, "10.0.0.6", SECRET),
        (PROXIES, "10.0.0.5", ""),
        (PROXIES, "10.0.0.5", SECRET[1:]),
        (PROXIES, "10.0.0.5", SECRET + "s"),
        (PROXIES, "10.0.0.5", "ß" * 32),
        (PROXIES, "", SECRET),
        (Proxies(), "10.0.0.5", ""),
        (Proxies(), "", ""),
    ],
)
def test_anybody_else_who_passes_on_a_certificate_is_nobody(proxies: Proxies, address: str, secret: str) -> None:
    said = SAID | {proxy.SECRET: secret}
    seen = connected(address, b"its own")
    assert proxies.client(seen, said) == Client(address, BAD_CERTIFICATE, "http")


def test_what_a_stranger_says_of_address_and_scheme_is_not_heard() -> None:
    said = {proxy.ADDRESS: "192.0.2.7", proxy.SCHEME: "https", proxy.SECRET: SECRET}
    seen = connected("10.0.0.6", b"its own")
    assert PROXIES.client(seen, said) == seen


def test_a_client_without_certificate_has_none_behind_a_proxy() -> None:
    said = {name: value for name, value in SAID.items() if name != proxy.CERTIFICATE}
    assert PROXIES.client(connected("10.0.0.5", b"the proxy's own"), said).certificate is None


@given(st.text())
def test_whatever_else_is_passed_on_is_a_bad_certificate(text: str) -> None:
    found = PROXIES.client(connected("10.0.0.5"), SAID | {proxy.CERTIFICATE: f"x{text}"}).certificate
    assert found == BAD_CERTIFICATE


@pytest.mark.parametrize("seen", [connected("10.0.0.5"), connected("10.0.0.6"), connected("", is_local=True)])
def test_no_view_ever_sees_what_proxies_say(seen: Client) -> None:
    headers = {"HTTP_ACCEPT": "text/html", **SAID}
    PROXIES.client(seen, headers)
    assert headers == {"HTTP_ACCEPT": "text/html"}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"TRUSTED_PROXY": "10.0.0.5"}, "OCMCONSOLE_TRUSTED_PROXY and OCMCONSOLE_PROXY_SECRET are set together"),
        ({"PROXY_SECRET": SECRET}, "OCMCONSOLE_TRUSTED_PROXY and OCMCONSOLE_PROXY_SECRET are set together"),
        ({"TRUSTED_PROXY": "nginx", "PROXY_SECRET": SECRET}, "must be addresses or networks"),
        ({"TRUSTED_PROXY": "10.0.0.5", "PROXY_SECRET": "short"}, "at least 32 characters"),
        ({"API_ADDRESS": "unix:/run/api.sock"}, "OCMCONSOLE_API_URL must be a http(s) URL"),
    ],
)
def test_settings_that_protect_nothing_stop_the_start(tmp_path: Path, settings: dict[str, str], why: str) -> None:
    said = {f"OCMCONSOLE_{name}": value for name, value in settings.items()}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OCMCONSOLE_")}
    done = preloaded.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env=environment | {"OCMCONSOLE_HOME": str(tmp_path), **said},
    )
    assert done.returncode == 1
    assert why in done.stderr


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_listener_on_a_unix_socket_is_for_its_owner_and_group_and_believes_them(
    tmp_path: Path, serve: Serve, loop: str
) -> None:
    path = tmp_path / "api.sock"
    serve("api", loop=loop, bound=addresses.listening_socket((f"unix:{path}", 0)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    transport = httpx.HTTPTransport(uds=str(path))
    said = {"X-Client-Certificate": PEM, "X-Real-IP": "192.0.2.7", "X-Forwarded-Proto": "https"}
    with httpx.Client(transport=transport, headers=said) as client:
        answer = client.get("http://hub/echo/x").json()
    assert answer["certificate"] == base64.b64encode(DER).decode()
    assert answer["meta"]["REMOTE_ADDR"] == "192.0.2.7"
    assert answer["meta"]["wsgi.url_scheme"] == "https"
    assert not [name for name in answer["meta"] if name in SAID]


def test_a_socket_that_a_killed_server_left_is_replaced(tmp_path: Path) -> None:
    address = (f"unix:{tmp_path / 'api.sock'}", 0)
    addresses.listening_socket(address).close()
    addresses.listening_socket(address).close()


def test_over_tcp_a_stranger_with_the_same_headers_is_not_believed(serve: Serve) -> None:
    said = {"X-Client-Certificate": PEM, "X-Real-IP": "192.0.2.7", "X-Proxy-Secret": SECRET}
    answer = httpx.get(serve("api").url("/echo/x"), headers=said, trust_env=False).json()
    assert answer["certificate"] == ""
    assert answer["meta"]["REMOTE_ADDR"] == "127.0.0.1"
