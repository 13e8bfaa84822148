"""Syslog as receiver: messages as RFC 5424 writes them, over a Unix socket, UDP or TCP (RFC 6587, counted octets).

Over TCP the hub ends its side after each batch and waits until the receiver, which has read all of it by then, ends its
own: a connection that breaks proves nothing. A datagram is taken when the system has it; UDP may lose it on its way.
"""

from __future__ import annotations

import re
import socket
from datetime import UTC
from time import sleep
from typing import TYPE_CHECKING, NamedTuple

from ocmconsole.kubeapi.outbound.delivery import DeliveryError, shortened
from ocmconsole.kubeapi.outbound.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocmconsole.kubeapi.outbound.delivery import OutboundLine

FACILITY = 13  # RFC 5424: log audit
WARNING, INFORMATIONAL = 4, 6  # RFC 5424: severities of a refusal and of all else
LARGEST_DATAGRAM = 60_000  # bytes; UDP carries 65,507
# UDP: a receiver that finds so many at once in its queue, and then a pause, keeps up; of 500 at once rsyslog lost 134.
AT_ONCE, PAUSE_SECONDS = 10, 0.002
LONGEST_NAME = 255  # RFC 5424: characters of HOSTNAME
SECONDS = 20.0  # that a receiver is given to take a batch


class SyslogTarget(NamedTuple):
    """``way`` is ``unix``, ``udp`` or ``tcp``; ``host`` is the path of a Unix socket."""

    way: str
    host: str
    port: int = 0


class SyslogReceiver:
    def __init__(self, target: SyslogTarget, hub_name: str) -> None:
        self._target = target
        self._host = re.sub(r"[^!-~]", "-", hub_name)[:LONGEST_NAME] or "-"

    def deliver(self, lines: Sequence[OutboundLine]) -> None:
        try:
            if self._target.way == "tcp":
                self._stream(lines)
            else:
                self._datagrams(lines)
        except OSError as error:
            raise DeliveryError(f"syslog does not take it: {error.strerror or error}") from error

    def _message(self, line: OutboundLine, body: bytes) -> bytes:
        priority = FACILITY * 8 + (WARNING if line.is_refusal else INFORMATIONAL)
        time = line.time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return f"<{priority}>1 {time} {self._host} ocmconsole - {line.type} - ".encode() + body

    def _datagrams(self, lines: Sequence[OutboundLine]) -> None:
        family, address = self._address()
        with socket.socket(family, socket.SOCK_DGRAM) as sender:
            sender.settimeout(SECONDS)
            sender.connect(address)
            for number, line in enumerate(lines, 1):
                message = self._message(line, line.body)
                if len(message) > LARGEST_DATAGRAM:
                    message = self._message(line, shortened(line.body))
                sender.send(message)
                if self._target.way == "udp" and number % AT_ONCE == 0:
                    sleep(PAUSE_SECONDS)

    def _address(self) -> tuple[int, str | tuple[object, ...]]:
        if self._target.way == "unix":
            return socket.AF_UNIX, self._target.host
        found = socket.getaddrinfo(self._target.host, self._target.port, type=socket.SOCK_DGRAM)
        return found[0][0], found[0][4]

    def _stream(self, lines: Sequence[OutboundLine]) -> None:
        messages = [self._message(line, line.body) for line in lines]
        with socket.create_connection((self._target.host, self._target.port), timeout=SECONDS) as connection:
            connection.settimeout(2 * SECONDS)  # the watchdog is sooner
            with Watchdog(connection, SECONDS) as watchdog:
                connection.sendall(b"".join(b"%d %s" % (len(message), message) for message in messages))
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass
            if watchdog.has_bitten:
                raise DeliveryError(f"syslog did not end the connection within {SECONDS:.0f} s")
