"""One POST to an address that somebody gave the hub: never to a private network unless that is allowed.

The name is resolved once, each of its addresses is judged, and the connection goes to the address that was judged, so
that a name which means something else a moment later leads nowhere else. No redirect is followed, no proxy is asked, at
most ``LONGEST_ANSWER`` bytes are read, and all of it ends after ``SECONDS``.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from ocmconsole.kubeapi.outbound.delivery import DeliveryError
from ocmconsole.kubeapi.outbound.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Network = IPv4Network | IPv6Network
    Address = IPv4Address | IPv6Address
    Place = tuple[object, ...]  # as the socket module has it

SECONDS = 20.0  # for everything after the name is resolved
PATIENCE_SECONDS = 1.0  # with the rest of an answer
CONNECT_SECONDS = 5.0  # for one of several addresses
LONGEST_ANSWER = 64 * 1024  # bytes
PORTS = {"https": 443, "http": 80}
TRANSLATED = IPv6Network("64:ff9b::/96")  # RFC 6052: IPv4 addresses behind a translator


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    retry_after: str = ""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004 - the class of HTTP


def post(
    url: str, body: bytes, headers: Mapping[str, str], *, private: Sequence[Network] = (), ca_file: str = ""
) -> HttpAnswer:
    """Raises DeliveryError for an address that may not be asked and for one that does not answer."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    until = monotonic() + SECONDS
    connection = _connected(_allowed(host, port, private), until)
    try:
        with Watchdog(connection, until - monotonic()) as watchdog:
            if parts.scheme == "https":
                connection = _secured(connection, host, ca_file, watchdog)
            return _exchange(connection, parts, body, headers)
    except (OSError, http.client.HTTPException, ValueError) as error:
        late = f"no answer within {SECONDS:.0f} s" if watchdog.has_bitten else ""
        raise DeliveryError(late or _words(error)) from error
    finally:
        connection.close()


def _allowed(host: str, port: int, private: Sequence[Network]) -> Sequence[tuple[int, Place]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise DeliveryError("its name is not known") from error
    places = [(family, place) for family, _, _, _, place in found]
    kept = [(family, place) for family, place in places if is_allowed(_address(place), private)]
    if not kept:
        problem = "its address is private, and OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES does not allow it"
        raise DeliveryError(problem)
    return kept


def _address(place: Place) -> Address:
    return ip_address(str(place[0]).partition("%")[0])


def is_allowed(address: Address, private: Sequence[Network]) -> bool:
    """An address that leads to another, as those of translators do, is judged by both."""
    return all(_is_public(each) or any(each in network for network in private) for each in _meant(address))


def _meant(address: Address) -> Iterator[Address]:
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        yield address.ipv4_mapped
    elif isinstance(address, IPv6Address) and address in TRANSLATED:
        yield IPv4Address(int(address) & 0xFFFFFFFF)
    else:
        yield address
    if isinstance(address, IPv6Address) and address.sixtofour:
        yield address.sixtofour


def _is_public(address: Address) -> bool:
    is_site_local = isinstance(address, IPv6Address) and address.is_site_local  # Python calls it global
    return address.is_global and not (address.is_multicast or address.is_reserved or is_site_local)


def _connected(places: Sequence[tuple[int, Place]], until: float) -> socket.socket:
    problem: OSError | None = None
    for family, place in places:
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.settimeout(max(0.1, min(CONNECT_SECONDS, until - monotonic())))
        try:
            connection.connect(place)
        except OSError as error:
            connection.close()
            problem = error
        else:
            connection.settimeout(2 * SECONDS)  # the watchdog is sooner
            return connection
    raise DeliveryError(_words(problem)) from problem


def _secured(connection: socket.socket, host: str, ca_file: str, watchdog: Watchdog) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=ca_file or None)
    secured = context.wrap_socket(connection, server_hostname=host, do_handshake_on_connect=False)
    watchdog.watch(secured)
    try:
        secured.do_handshake()
    except OSError:
        secured.close()
        raise
    return secured


def _exchange(connection: socket.socket, parts: SplitResult, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
    client = http.client.HTTPConnection("receiver")  # it is connected already
    client.sock = connection
    target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    host = parts.netloc.rpartition("@")[2]
    client.request("POST", target, body, {"Host": host, "Connection": "close", **headers})
    answer = client.getresponse()
    connection.settimeout(PATIENCE_SECONDS)
    with suppress(OSError, http.client.HTTPException):
        answer.read(LONGEST_ANSWER)  # so that it ends well; what it says does not matter
    return HttpAnswer(answer.status, answer.headers.get("Retry-After", ""))


def _words(error: BaseException | None) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "it does not answer"
    if isinstance(error, http.client.HTTPException):
        return "its answer is not HTTP"
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
