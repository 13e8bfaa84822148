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
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
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
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.server import addresses, connections, serving, tls
from registration.pki import ca
from tests import servers
from tests.serving.listening import LOOP_NAMES, LOOPS, Site, listening, read_all, read_until

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


class Echo:
    """Answers with the body of the request."""

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:  # noqa: ARG002 - ASGI's signature
        body, more = b"", True
        while more:
            message = await receive()
            assert message["type"] == "http.request"
            body, more = body + message["body"], message["more_body"]
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": False})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def stop(self) -> None: ...


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

    def client(self, common_name: str = "raj", *, padding: int = 0) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        names += [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "x" * 50)] * (padding // 50)
        subject = x509.Name(names)
        return Pair(self.sign(subject, key).public_bytes(serialization.Encoding.PEM), key_pem(key))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    ca.ensure_authority(home, ["localhost", "127.0.0.1"])
    return home


@pytest.fixture(scope="module")
def agent(home: Path) -> Pair:
    return Pair(*ca.client_authority(home).issue_client("ana", ["devs"], DAY, datetime.now(UTC)))


@pytest.fixture(scope="module")
def other() -> Issuer:
    return Issuer("Other CA")


@contextmanager
def api(home: Path, *, loop: str = "asyncio") -> Iterator[Site]:
    with listening(Peer(), secure=serving.ssl_context(home), loop=loop) as site:
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
    with httpx.Client(verify=context, trust_env=False, timeout=60) as client:
        return base64.b64decode(client.get(site.url("/", scheme="https")).content)


# ---------------------------------------------------------------- who may connect


@pytest.mark.parametrize("loop", LOOP_NAMES)
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
        with api(home, loop=loop) as site, httpx.Client(verify=context, trust_env=False, timeout=60) as client:
            answers = {client.get(site.url("/", scheme="https")).content for _ in range(3)}
        assert answers == {base64.b64encode(agent.der)}

    def test_two_clients_are_not_confused(
        self, home: Path, tmp_path: Path, agent: Pair, other: Issuer, loop: str
    ) -> None:
        second = other.client()
        with api(home, loop=loop) as site:
            for pair in (agent, second, agent, second):
                assert ask(site, client_context(home, tmp_path, pair)) == pair.der

    def test_a_certificate_that_nobody_vouches_for_is_for_the_application_to_judge(
        self, home: Path, tmp_path: Path, other: Issuer, loop: str
    ) -> None:
        pair = other.client()
        with api(home, loop=loop) as site:
            assert ask(site, client_context(home, tmp_path, pair)) == pair.der

    def test_a_resumed_session_has_the_certificate_it_began_with(
        self, home: Path, tmp_path: Path, agent: Pair, loop: str
    ) -> None:
        context = client_context(home, tmp_path, agent)
        with api(home, loop=loop) as site:
            with context.wrap_socket(site.connect(), server_hostname="127.0.0.1") as first:
                first.sendall(GET)
                read_until(first, base64.b64encode(agent.der))
                session = first.session
            with context.wrap_socket(site.connect(), server_hostname="127.0.0.1", session=session) as second:
                second.sendall(GET)
                read_until(second, base64.b64encode(agent.der))
                assert second.session_reused

    def test_large_messages_arrive_whole_in_both_directions(self, home: Path, tmp_path: Path, loop: str) -> None:
        """Several records at a time, and records in several segments."""
        content = os.urandom(1_000_000)
        with listening(Echo(), secure=serving.ssl_context(home), loop=loop) as site:
            with httpx.Client(verify=client_context(home, tmp_path), trust_env=False, timeout=60) as client:
                assert client.post(site.url("/", scheme="https"), content=content).content == content
            with client_context(home, tmp_path).wrap_socket(site.connect(), server_hostname="127.0.0.1") as secure:
                secure.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300\r\n\r\n")
                for byte in content[:300]:
                    secure.sendall(bytes([byte]))
                read_until(secure, content[:300])

    def test_a_handshake_that_does_not_go_on_is_given_up(
        self, home: Path, tmp_path: Path, loop: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(serving, "HANDSHAKE_SECONDS", 0.3)
            with api(home, loop=loop) as site, site.connect() as silent, site.connect() as begun:
                begun.sendall(bytes.fromhex("160301020001"))  # the first bytes of a ClientHello
                for connection in (silent, begun):
                    assert read_all(connection) == b""
        monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
        with api(home, loop=loop) as site:
            context = client_context(home, tmp_path)
            with context.wrap_socket(site.connect(), server_hostname="127.0.0.1") as secure:
                assert read_all(secure) == b""  # after the handshake nothing came

    def test_plain_http_on_the_tls_port_gets_silence_and_a_line_in_the_log(
        self, home: Path, loop: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "ocmconsole.server.tls")
        with api(home, loop=loop) as site, site.connect() as connection:
            connection.sendall(GET)
            with suppress(ConnectionResetError):
                assert b"HTTP" not in read_all(connection)
        assert "a TLS handshake failed: http request" in caplog.text
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_nobody_shows_a_certificate_without_its_key(
    home: Path, tmp_path: Path, agent: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """The signature that proves it is changed on its way. In TLS 1.2 it travels in the clear."""
    caplog.set_level(logging.INFO, "ocmconsole.server.tls")
    context = client_context(home, tmp_path, agent)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    to_client, to_server = (ssl.MemoryBIO(), ssl.MemoryBIO()), (ssl.MemoryBIO(), ssl.MemoryBIO())
    client = context.wrap_bio(*to_client, server_hostname="127.0.0.1")
    server = serving.ssl_context(home).wrap_bio(*to_server)
    for _ in range(2):
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        to_server[0].write(b"".join(forged(record) for record in records(to_client[1].read())))
        with pytest.raises(ssl.SSLWantReadError):
            server.do_handshake()
        to_client[0].write(to_server[1].read())
    with pytest.raises(ssl.SSLError, match="DECRYPT_ERROR"):
        client.do_handshake()
    with pytest.raises(ssl.SSLError, match="has failed"):  # whatever comes now
        server.do_handshake()
    serial = f"{x509.load_pem_x509_certificate(agent.certificate).serial_number:x}"
    assert "CN=ana" in caplog.text
    assert serial in caplog.text


def records(content: bytes) -> Iterator[bytes]:
    while content:
        size = 5 + int.from_bytes(content[3:5])
        yield content[:size]
        content = content[size:]


def forged(record: bytes) -> bytes:
    """The last byte of a CertificateVerify is another one."""
    is_proof = record[0] == 22 and record[5] == 15
    return record[:-1] + bytes([record[-1] ^ 1]) if is_proof else record


def test_certificates_of_unusual_size_are_not_kept(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HANDSHAKE_SECONDS", 3.0)
    pair = Issuer("Verbose CA").client("raj", padding=20_000)
    with api(home) as site, pytest.raises(httpx.TransportError):
        ask(site, client_context(home, tmp_path, pair))


class Wire:
    """A handshake in memory between Python's ``ssl`` and the hub."""

    def __init__(self, home: Path, context: ssl.SSLContext) -> None:
        self.to_hub, self.to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = context.wrap_bio(self.to_client, self.to_hub, server_hostname="localhost")
        self.hub = tls.Context(home / "serving.crt", home / "serving.key").wrap_bio(self.to_hub, self.to_client)

    def shake(self) -> None:
        """Raises what the hub's side raises in the end: SSLWantReadError for an alert."""
        for _ in range(3):
            with suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            with suppress(ssl.SSLWantReadError):
                return self.hub.do_handshake()
        return self.hub.do_handshake()


def test_no_chain_is_built_and_verified_in_a_handshake(home: Path, tmp_path: Path) -> None:
    """Its signatures cost time, and nothing uses the verdict: the certificate is judged at each request."""
    above = [Issuer("Root")]
    for number in range(4):
        above.append(Issuer(f"Below {number}", above[-1]))
    pair = above[-1].client()
    chain = Pair(pair.certificate + b"".join(issuer.pem for issuer in reversed(above)), pair.key)
    wire = Wire(home, client_context(home, tmp_path, chain))
    wire.shake()
    assert wire.hub.certificate == pair.der
    assert len(wire.hub._tls.get_peer_cert_chain() or []) >= 5
    assert len(wire.hub._tls.get_verified_chain() or []) <= 2  # OpenSSL's least


def test_a_handshake_has_so_many_bytes(home: Path, tmp_path: Path) -> None:
    pair = Issuer("Verbose CA").client("raj", padding=30_000)
    with pytest.raises(ssl.SSLError, match="the client's handshake has more than 32768 bytes"):
        Wire(home, client_context(home, tmp_path, pair)).shake()


def test_a_certificate_that_only_openssl_can_read_fails_as_any_other(home: Path, tmp_path: Path) -> None:
    """It is of version 6 of X.509, which is none, and too large."""
    pair = Issuer("Odd CA").client("raj", padding=17_000)
    odd = pair.der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x05", 1)
    context = client_context(home, tmp_path, Pair(ssl.DER_cert_to_PEM_cert(odd).encode(), pair.key))
    with pytest.raises(ssl.SSLError, match="the handshake has failed"):
        Wire(home, context).shake()


def test_the_alert_for_a_broken_record_is_there_to_be_sent(home: Path, tmp_path: Path) -> None:
    wire = Wire(home, client_context(home, tmp_path))
    wire.shake()
    wire.to_client.read()
    wire.to_hub.write(b"\x17\x03\x03\x00\x20" + b"x" * 32)
    with pytest.raises(ssl.SSLError, match="bad record mac"):
        wire.hub.read()
    assert wire.to_client.pending


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=5), st.booleans())
def test_bytes_of_anybody_end_in_an_alert_or_in_waiting(home: Path, chunks: list[bytes], is_record: bool) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = serving.ssl_context(home).wrap_bio(incoming, outgoing)
    for chunk in chunks:
        incoming.write(b"\x16\x03\x01" + len(chunk).to_bytes(2, "big") + chunk if is_record else chunk)
        with suppress(ssl.SSLError):  # of which SSLWantReadError is one
            session.do_handshake()


def test_the_root_above_the_hubs_intermediate_vouches_for_nobody(tmp_path: Path) -> None:
    root = Issuer("Org Root")
    middle = Issuer("Org Issuing CA", above=root)
    home = tmp_path / "home"
    home.mkdir()
    (home / "ca.crt").write_bytes(middle.pem + root.pem)
    (home / "ca.key").write_bytes(key_pem(middle.key))
    ca.ensure_authority(home, ["127.0.0.1"])
    good, bad = middle.client("agent"), root.client("somebody of the organisation")
    roots = ca.Roots((home / "ca.crt").read_bytes())
    assert ca.trusted_client(good.der, roots)[1] == "hub"
    with pytest.raises(ValueError, match="not signed by a CA that the hub trusts"):
        ca.trusted_client(bad.der, roots)


def test_a_client_that_trusts_only_the_root_accepts_the_served_chain(tmp_path: Path) -> None:
    root = Issuer("Org Root")
    middle = Issuer("Org Issuing CA", above=root)
    (tmp_path / "ca.crt").write_bytes(middle.pem + root.pem)
    (tmp_path / "ca.key").write_bytes(key_pem(middle.key))
    ca.ensure_authority(tmp_path, ["127.0.0.1"])
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
    old = client_context(home, tmp_path)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with api(home) as site, site.connect() as plain, pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        old.wrap_socket(plain, server_hostname="localhost")


def test_the_console_has_no_certificates() -> None:
    with listening(Peer()) as site:
        assert httpx.get(site.url("/"), trust_env=False, timeout=60).content == b""


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
            secure=serving.ssl_context(home),
            on_ready=lambda: channel.send("ready"),
            ending=serving.GracefulStop(seconds=600),  # streams do not end by being cut off
        )

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())


def free_ports() -> tuple[int, int]:
    return servers.free_port(), servers.free_port()


@pytest.mark.parametrize(("loop", "number"), [("asyncio", signal.SIGTERM), ("uvloop", signal.SIGINT)])
def test_a_signal_ends_both_listeners_and_their_streams(
    home: Path, tmp_path: Path, loop: str, number: signal.Signals
) -> None:
    ports = free_ports()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=run_server, args=(home, ports, theirs, loop))
    process.start()
    try:
        assert ours.poll(60)
        with ExitStack() as stack:
            secure = client_context(home, tmp_path)
            streams = [stack.enter_context(connect(port, secure if port == ports[0] else None)) for port in ports * 5]
            for stream in streams:
                stream.sendall(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
                read_until(stream, b"\r\n\r\n")
            idle = [stack.enter_context(connect(port, secure if port == ports[0] else None)) for port in ports]
            assert process.pid is not None
            os.kill(process.pid, number)
            for stream in streams:
                assert read_all(stream).endswith(b"0\r\n\r\n")
            for connection in idle:
                assert read_all(connection) == b""
        process.join(60)
        assert process.exitcode == 0
    finally:
        process.kill()
        process.join()


@pytest.mark.contract("W30")
@pytest.mark.parametrize("loop", LOOP_NAMES)
def test_a_server_that_is_to_stop_leaves_idle_connections_of_a_proxy_to_it(loop: str) -> None:
    """It may be sending a request on one just then. Each answer says that its connection ends with it."""
    ending = serving.GracefulStop(seconds=60, is_proxy=lambda address: address == "127.0.0.1")
    with listening(Peer(), loop=loop, ending=ending) as site:
        idle, streaming, unused = (site.connect() for _ in range(3))
        with idle, streaming, unused:
            for _ in range(2):
                idle.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b"connection: close" not in read_until(idle, b"0\r\n\r\n")
            streaming.sendall(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
            read_until(streaming, b"\r\n\r\n")
            site.listener.should_exit = True
            read_until(streaming, b"0\r\n\r\n")  # the stream has ended, and its connection not
            with socket.socket() as late, pytest.raises(OSError, match="refused"):
                late.connect(("127.0.0.1", site.port))
            for connection in (idle, streaming, unused):
                connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                answer = read_all(connection)
                assert b"connection: close" in answer
                assert answer.endswith(b"0\r\n\r\n")


@contextmanager
def connect(port: int, context: ssl.SSLContext | None) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
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
            secure=serving.ssl_context(home),
            on_ready=lambda: None,
        )

    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = free_ports()[0], taken.getsockname()[1]
        with pytest.raises(
            addresses.AddressError, match=rf"cannot listen on 127.0.0.1:{ports[1]}: address already in use"
        ):
            asyncio.run(main(ports))
        socket.create_server(("127.0.0.1", ports[0])).close()
