"""Where a listener listens: host and port, or a Unix socket, which is for a proxy of the same machine.

Called by ``serving``.
"""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

Address = tuple[str, int]  # host and port, or unix:/path and 0

UNIX = "unix:"
RECEIVE_BUFFER = 64 * 1024  # bytes: bounds what one read of a connection brings, and what its buffers grow to
BACKLOG = 2048  # connections that wait to be accepted
FIRST_PROBE_SECONDS = 120  # without traffic, until TCP asks whether the peer is there


class AddressError(OSError):
    """An address cannot be listened on; the text says which and why."""


def listening_socket(address: Address) -> socket.socket:
    """A listening socket. Raises AddressError."""
    host, port = address
    try:
        if host.startswith(UNIX):
            return _bind_unix(Path(host.removeprefix(UNIX)))
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:  # of which an unknown name is one
        shown = host if host.startswith(UNIX) else f"{host}:{port}"
        hint = "; is a hub running already?" if error.errno == errno.EADDRINUSE else ""
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror or error)
        raise AddressError(error.errno, f"cannot listen on {shown}: {reason.lower()}{hint}") from error
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)  # accepted connections inherit it
    # Likewise: an agent that vanished without a word is noticed while it is silent.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if idle := getattr(socket, "TCP_KEEPIDLE", None):
        listening.setsockopt(socket.IPPROTO_TCP, idle, FIRST_PROBE_SECONDS)
    return listening


def _bind_unix(path: Path) -> socket.socket:
    """For a proxy of the same machine. Peers that may open the socket are believed, so only owner and group may."""
    path.unlink(missing_ok=True)
    before = os.umask(0o117)
    try:
        return socket.create_server(str(path), family=socket.AF_UNIX, backlog=BACKLOG)
    finally:
        os.umask(before)
