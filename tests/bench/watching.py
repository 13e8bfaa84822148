"""Thousands of open watches in one client: opened on threads, then read by one, which knows when each saw a change."""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.bench.callers import Caller

OPENERS = 8
PATIENCE = 60.0
SIZE = 65_536


class SilentError(RuntimeError):
    """A watch did not see what it should, or ended."""


@dataclass(eq=False)
class Watch:
    connection: ssl.SSLSocket
    tail: bytes = b""

    def read(self) -> bytes:
        """What has come, with a little of what came before: a mark may lie across two reads."""
        seen = self.tail
        while True:
            try:
                chunk = self.connection.recv(SIZE)
            except ssl.SSLWantReadError:
                break
            if not chunk:
                raise SilentError("a watch was ended")
            seen += chunk
        self.tail = seen[-64:]
        return seen


@contextmanager
def opened(caller: Caller, paths: Iterable[str], *, until: bytes) -> Iterator[list[Watch]]:
    """One connection each, open when ``until`` has come."""
    watches: list[Watch] = []

    def open_one(path: str) -> None:
        watches.append(_open(caller, path, until))

    try:
        with ThreadPoolExecutor(OPENERS) as pool:
            list(pool.map(open_one, paths))
        yield watches
    finally:
        for watch in watches:
            watch.connection.close()


def _open(caller: Caller, path: str, until: bytes) -> Watch:
    address = urlsplit(caller.url)
    plain = socket.create_connection((address.hostname, address.port), timeout=PATIENCE)
    connection = caller.tls.wrap_socket(plain, server_hostname=address.hostname)
    headers = "".join(f"{name}: {value}\r\n" for name, value in caller.headers.items())
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\n{headers}\r\n".encode())
    seen = b""
    while until not in seen:
        chunk = connection.recv(SIZE)
        if not chunk or not seen.startswith(b"HTTP/1.1 200 "[: len(seen)]):
            raise SilentError(f"{path}: {seen[:300]!r}")
        seen += chunk
    connection.setblocking(False)
    return Watch(connection)


def latencies(watches: list[Watch], mark: bytes, write: Callable[[], None]) -> list[float]:
    """How long after the beginning of ``write`` each watch saw the mark, in the order of arrival."""
    waiting, taken = set(watches), []
    with selectors.DefaultSelector() as selector:
        for watch in watches:
            selector.register(watch.connection, selectors.EVENT_READ, watch)
        began = time.monotonic()
        write()
        while waiting:
            ready = selector.select(PATIENCE)
            if not ready:
                raise SilentError(f"{len(waiting)} of {len(watches)} watches saw nothing for {PATIENCE:.0f} s")
            for key, _ in ready:
                if mark in key.data.read() and key.data in waiting:
                    taken.append(time.monotonic() - began)
                    waiting.discard(key.data)
    return taken
