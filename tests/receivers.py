"""Receivers on loopback, as stand outside of a hub: an HTTP server, listeners of syslog, a mail server. Real sockets, no doubles."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

import orjson

SECRET = f"whsec_{base64.b64encode(b'outside' * 4).decode()}"


@dataclass
class HttpReceiver:
    """Keeps what it answers with 200: ``answers`` says that of each body, or ``answer``. ``before`` runs before."""

    port: int
    answer: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    before: Callable[[], None] = lambda: None
    answers: Callable[[bytes], int] | None = None
    bodies: list[bytes] = field(default_factory=list)
    secret: str = SECRET
    messages: list[str] = field(default_factory=list)  # ids of all that came, also of what was not taken
    came_with: list[dict[str, str]] = field(default_factory=list)  # headers of those

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [line for body in self.bodies for line in orjson.loads(body)["data"]]

    @property
    def once(self) -> list[dict[str, Any]]:
        """As a receiver keeps them that drops what it has."""
        return list({line["id"]: line for line in self.lines}.values())


@contextmanager
def http_receiver(port: int = 0, certificate: Path | None = None, *, signed: bool = True) -> Iterator[HttpReceiver]:
    """With a certificate, a file with its key, over TLS."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert not signed or is_signed(self.headers, body, receiver.secret)
            receiver.messages.append(self.headers["webhook-id"] or "")
            receiver.came_with.append(dict(self.headers.items()))
            receiver.before()
            answer = receiver.answers(body) if receiver.answers else receiver.answer
            if answer == 200:
                receiver.bodies.append(body)
            self.send_response(answer)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    receiver = HttpReceiver(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


def is_signed(headers: Any, body: bytes, secret: str = SECRET) -> bool:
    """As a receiver checks it, written from the scheme's description and not with the hub's code."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    right = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return f"v1,{right}" in headers["webhook-signature"].split()


@dataclass
class SyslogListener:
    """``target`` is what the hub's setting says; ``drops`` ends each connection without reading."""

    target: str
    raw: list[bytes] = field(default_factory=list)
    drops: bool = False

    @property
    def messages(self) -> list[bytes]:
        return list(self.raw)


@contextmanager
def syslog_listener(way: str, folder: Path) -> Iterator[SyslogListener]:
    """``unix``, ``udp`` or ``tcp``."""
    family = socket.AF_UNIX if way == "unix" else socket.AF_INET
    kind = socket.SOCK_STREAM if way == "tcp" else socket.SOCK_DGRAM
    with socket.socket(family, kind) as listening:
        listening.bind(str(folder / "log") if way == "unix" else ("127.0.0.1", 0))
        target = f"unix:{folder / 'log'}" if way == "unix" else f"{way}://127.0.0.1:{listening.getsockname()[1]}"
        listener = SyslogListener(target)
        if way == "tcp":
            listening.listen()
        run = _accept if way == "tcp" else _receive
        stopping = threading.Event()
        thread = threading.Thread(target=run, args=(listening, listener, stopping), daemon=True)
        listening.settimeout(0.05)
        thread.start()
        try:
            yield listener
        finally:
            stopping.set()
            thread.join()


def _receive(listening: socket.socket, listener: SyslogListener, stopping: threading.Event) -> None:
    while not stopping.is_set():
        try:
            listener.raw.append(listening.recv(70_000))
        except TimeoutError:
            continue


def _accept(listening: socket.socket, listener: SyslogListener, stopping: threading.Event) -> None:
    while not stopping.is_set():
        try:
            connection, _ = listening.accept()
        except TimeoutError:
            continue
        with connection, connection.makefile("rb") as stream:
            if listener.drops:
                continue
            connection.settimeout(60)
            while length := _length(stream):
                listener.raw.append(stream.read(length))


def _length(stream: Any) -> int:
    """RFC 6587: a number, a blank, so many octets."""
    digits = b""
    while (byte := stream.read(1)) not in {b" ", b""}:
        digits += byte
    return int(digits or 0)


@dataclass
class MailListener:
    """``answer`` is what it says to the end of a mail."""

    port: int
    answer: str = "250 taken"
    recipients: list[list[str]] = field(default_factory=list)
    mails: list[bytes] = field(default_factory=list)


@contextmanager
def mail_listener() -> Iterator[MailListener]:
    """RFC 5321, as much of it as a client without options says."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            recipients: list[str] = []
            self._say("220 here")
            while line := self.rfile.readline():
                word = line[:4].upper().strip()
                if word == b"RCPT":
                    recipients.append(line.decode().partition("<")[2].partition(">")[0])
                if word == b"DATA":
                    self._say("354 go on")
                    mail = b"".join(iter(self.rfile.readline, b".\r\n"))
                    if listener.answer.startswith("250"):
                        listener.mails.append(mail)
                        listener.recipients.append(recipients)
                    self._say(listener.answer)
                else:
                    self._say("221 bye" if word == b"QUIT" else "250 ok")

        def _say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        listener = MailListener(server.server_address[1])
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield listener
        finally:
            server.shutdown()
