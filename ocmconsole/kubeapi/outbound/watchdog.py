"""Ends a connection after a time in all: timeouts of sockets begin anew with each byte that comes."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self


class Watchdog:
    """For one connection, while the block runs; what waits for the other side then fails or sees the end."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self.has_bitten = False
        self._connection = connection
        self._timer = threading.Timer(seconds, self._bite)
        self._timer.daemon = True

    def watch(self, connection: socket.socket) -> None:
        """Another object for the same connection, as TLS makes one."""
        self._connection = connection

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _bite(self) -> None:
        self.has_bitten = True
        with suppress(OSError):
            socket.socket.shutdown(self._connection, socket.SHUT_RDWR)
