"""The listeners: who may connect, what the application learns of it, and how the server stops."""

from __future__ import annotations

import asyncio
import base64
import logging
import multiprocessing
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ocmconsole import serving
from registration import ca
from tests.lanes.listening import LOOPS, Site, listening, read_all, read_until

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

DAY = timedelta(days=1)
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
pytestmark = pytest.mark.contract("W30")


class Peer:
    """Answers with the certificate of the connection, and streams for ever at ``/stream``."""

    def __init__(self) -> None:
        self.stopped = asyncio.Event()

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:  # noqa: ARG002 - ASGI's signature
        assert scope["type"] == "http"
        extensions: dict[str, object] = dict(scope["extensions"] or {})
        certificate = extensions["ocmconsole.peer_certificate"]
        assert certificate is None or isinstance(certificate, bytes)
        await send({"type": "http.response.start", "status": 200, "headers": [], "trailers": False})
        if scope["path"] == "/stream":
            await self.stopped.wait()
        body = base64.b64encode(certificate or b"")
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def stop(self) -> None:
        self.stopped.set()


class Pair(NamedTuple):
    certificate: bytes
    key: bytes

    @property
    def der(self) -> bytes:
        return x509.load_pem_x509_certificate(self.certificate).public_bytes(serialization.Encoding.DER)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


class Issuer:
    """A CA of its own: a root, or an intermediate below one."""

    def __init__(self, title: str, above: Issuer | None = None) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])
        self.certificate = (above or self).sign(self.subject, self.key, is_ca=True)

    def sign(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_ca: bool = False) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )
        if not is_ca:
            builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def client(self, common_name: str = "raj") -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        return Pair(self.sign(subject, key).public_bytes(serialization.Encoding.PEM), key_pem(key))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    ca.ensure(home, ["localhost", "127.0.0.1"])
    return home


@pytest.fixture(scope="module")
def agent(home: Path) -> Pair:
    return Pair(*ca.load(home).issue_client("ana", ["devs"], DAY, datetime.now(UTC)))


@pytest.fixture(scope="module")
def other() -> Issuer:
    return Issuer("Other CA")


@contextmanager
def api(home: Path, *, client_cas: bytes = b"", loop: str = "asyncio") -> Iterator[Site]:
    with listening(Peer(), tls=serving.ssl_context(home, client_cas), loop=loop) as site:
        yield site


def client_context(home: Path, directory: Path, pair: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(home / "ca.crt"))
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if pair:
        file = directory / "client.pem"
        file.write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(file)
    return context


def ask(site: Site, context: ssl.SSLContext) -> bytes:
    """The certificate that the application saw. Raises httpx.TransportError when the handshake fails."""
    with httpx.Client(verify=context, trust_env=False, timeout=10) as client:
        return base64.b64decode(client.get(site.url("/", scheme="https")).content)


# ---------------------------------------------------------------- who may connect


@pytest.mark.parametrize("loop", list(LOOPS))
class TestHandshake:
    def test_without_a_certificate_one_is_nobody(self, home: Path, tmp_path: Path, loop: str) -> None:
        with api(home, loop=loop) as site:
            assert ask(site, client_context(home, tmp_path)) == b""

    def test_the_application_sees_the_hubs_certificate(
        self, home: Path, tmp_path: Path, agent: Pair, loop: str
    ) -> None:
        with api(home, loop=loop) as site:
            assert ask(site, client_context(home, tmp_path, agent)) == agent.der

    def test_every_request_of_a_connection_has_it(self, home: Path, tmp_path: Path, agent: Pair, loop: str) -> None:
        context = client_context(home, tmp_path, agent)
        with api(home, loop=loop) as site, httpx.Client(verify=context, trust_env=False) as client:
            answers = {client.get(site.url("/", scheme="https")).content for _ in range(3)}
        assert answers == {base64.b64encode(agent.der)}

    def test_two_clients_are_not_confused(
        self, home: Path, tmp_path: Path, agent: Pair, other: Issuer, loop: str
    ) -> None:
        second = other.client()
        with api(home, client_cas=other.pem, loop=loop) as site:
            for pair in (agent, second, agent, second):
                assert ask(site, client_context(home, tmp_path, pair)) == pair.der

    def test_a_certificate_of_a_stranger_fails_in_the_handshake(
        self, home: Path, tmp_path: Path, other: Issuer, loop: str
    ) -> None:
        with api(home, loop=loop) as site, pytest.raises(httpx.TransportError):
            ask(site, client_context(home, tmp_path, other.client()))

    def test_a_handshake_that_does_not_go_on_is_given_up(
        self, home: Path, tmp_path: Path, loop: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(serving, "HEAD_SECONDS", 0.3)
        with api(home, loop=loop) as site, site.connect() as silent, site.connect() as begun:
            begun.sendall(bytes.fromhex("160301020001"))  # the first bytes of a ClientHello
            for connection in (silent, begun):
                assert read_all(connection) == b""
            context = client_context(home, tmp_path)
            with context.wrap_socket(site.connect(), server_hostname="127.0.0.1") as secure:
                assert read_all(secure) == b""  # after the handshake nothing came

    def test_plain_http_on_the_tls_port_gets_silence(
        self, home: Path, loop: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with api(home, loop=loop) as site, site.connect() as connection:
            connection.sendall(GET)
            assert b"HTTP" not in read_all(connection)
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_an_expired_certificate_fails_in_the_handshake(home: Path, tmp_path: Path) -> None:
    past = datetime.now(UTC) - 2 * DAY
    expired = Pair(*ca.Authority.issue_client(ca.load(home), "ana", [], DAY, past))
    with api(home) as site, pytest.raises(httpx.TransportError):
        ask(site, client_context(home, tmp_path, expired))


def test_the_root_above_the_hubs_intermediate_vouches_for_nobody(tmp_path: Path) -> None:
    root = Issuer("Org Root")
    middle = Issuer("Org Issuing CA", above=root)
    home = tmp_path / "home"
    home.mkdir()
    (home / "ca.crt").write_bytes(middle.pem + root.pem)
    (home / "ca.key").write_bytes(key_pem(middle.key))
    ca.ensure(home, ["127.0.0.1"])
    good, bad = middle.client("agent"), root.client("somebody of the organisation")
    with api(home) as site:
        assert ask(site, client_context(home, tmp_path, good)) == good.der
        with pytest.raises(httpx.TransportError):
            ask(site, client_context(home, tmp_path, bad))


def test_a_client_that_trusts_only_the_root_accepts_the_served_chain(tmp_path: Path) -> None:
    root = Issuer("Org Root")
    middle = Issuer("Org Issuing CA", above=root)
    (tmp_path / "ca.crt").write_bytes(middle.pem + root.pem)
    (tmp_path / "ca.key").write_bytes(key_pem(middle.key))
    ca.ensure(tmp_path, ["127.0.0.1"])
    with api(tmp_path) as site:
        assert ask(site, ssl.create_default_context(cadata=root.pem.decode())) == b""


def test_tls_is_12_at_least_and_http11_is_agreed(home: Path, tmp_path: Path) -> None:
    context = client_context(home, tmp_path)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        api(home) as site,
        site.connect() as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        assert connection.selected_alpn_protocol() == "http/1.1"
        assert connection.version() in {"TLSv1.2", "TLSv1.3"}
    assert serving.ssl_context(home).minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_client_ca_file_that_holds_no_ca_is_refused_at_start(home: Path, agent: Pair) -> None:
    with pytest.raises(ValueError, match="is not a CA"):
        serving.ssl_context(home, agent.certificate)


def test_the_console_has_no_certificates() -> None:
    with listening(Peer()) as site:
        assert httpx.get(site.url("/"), trust_env=False).content == b""


# ---------------------------------------------------------------- the whole server


def run_server(home: Path, ports: tuple[int, int], channel: Connection, loop: str) -> None:
    """In a process of its own, because signals are for processes."""
    api_app, console_app = Peer(), Peer()

    async def main() -> None:
        await serving.serve(
            api_app,
            console_app,
            api_address=("127.0.0.1", ports[0]),
            console_address=("127.0.0.1", ports[1]),
            tls=serving.ssl_context(home),
            on_ready=lambda: channel.send("ready"),
        )

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())


def free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        return one.getsockname()[1], two.getsockname()[1]


@pytest.mark.parametrize(("loop", "number"), [("asyncio", signal.SIGTERM), ("uvloop", signal.SIGINT)])
def test_a_signal_ends_both_listeners_and_their_streams_within_five_seconds(
    home: Path, tmp_path: Path, loop: str, number: signal.Signals
) -> None:
    ports = free_ports()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=run_server, args=(home, ports, theirs, loop))
    process.start()
    try:
        assert ours.poll(20)
        with ExitStack() as stack:
            secure = client_context(home, tmp_path)
            streams = [stack.enter_context(connect(port, secure if port == ports[0] else None)) for port in ports * 5]
            for stream in streams:
                stream.sendall(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
                read_until(stream, b"\r\n\r\n")
            idle = [stack.enter_context(connect(port, secure if port == ports[0] else None)) for port in ports]
            started = time.monotonic()
            assert process.pid is not None
            os.kill(process.pid, number)
            for stream in streams:
                assert read_all(stream).endswith(b"0\r\n\r\n")
            for connection in idle:
                assert read_all(connection) == b""
        process.join(10)
        assert time.monotonic() - started < 5
        assert process.exitcode == 0
    finally:
        process.kill()
        process.join()


@contextmanager
def connect(port: int, context: ssl.SSLContext | None) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        if context is None:
            yield plain
            return
        with context.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=True) as secure:
            yield secure


def test_an_address_in_use_is_an_os_error_and_leaves_nothing_open(home: Path) -> None:
    async def main(ports: tuple[int, int]) -> None:
        await serving.serve(
            Peer(),
            Peer(),
            api_address=("127.0.0.1", ports[0]),
            console_address=("127.0.0.1", ports[1]),
            tls=serving.ssl_context(home),
            on_ready=lambda: None,
        )

    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = free_ports()[0], taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            asyncio.run(main(ports))
        socket.create_server(("127.0.0.1", ports[0])).close()
