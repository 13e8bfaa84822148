"""What a proxy in front of a listener says of the client behind it: certificate, address and scheme.

Invariant: nobody else is believed. A proxy is known by the Unix socket that it connects to, or by its address
(``OCMCONSOLE_TRUSTED_PROXY``) together with ``OCMCONSOLE_PROXY_SECRET``. A certificate that anybody else passes on is a
bad credential, never an anonymous call. What is passed on is proven like any other:
``registration.keys.client_certificates`` checks chain, usage and dates at each request; only that the client holds the
key is the proxy's word. Called by ``request_environ``; by ``serving`` for connections that it leaves to a proxy.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import lru_cache
from hmac import compare_digest
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import unquote

Network = IPv4Network | IPv6Network

CERTIFICATE = "HTTP_X_CLIENT_CERTIFICATE"  # PEM, percent-encoded: nginx's $ssl_client_escaped_cert
ADDRESS = "HTTP_X_REAL_IP"
SCHEME = "HTTP_X_FORWARDED_PROTO"
SECRET = "HTTP_X_PROXY_SECRET"  # noqa: S105 - the header's name
BAD_CERTIFICATE = b""  # trusted by nobody
# What a proxy escapes of a certificate; the general way takes ten times as long, for each request of an agent.
ESCAPED = (("%0A", "\n"), ("%20", " "), ("%2B", "+"), ("%2F", "/"), ("%3D", "="))


@dataclass(frozen=True, slots=True)
class Client:
    """Who is at the other end: address, certificate (DER), scheme, and whether it is on a Unix socket."""

    address: str
    certificate: bytes | None
    scheme: str
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class Proxies:
    """Whom the hub believes. Without networks only a Unix socket is."""

    networks: tuple[Network, ...] = ()
    secret: str = ""

    def client(self, seen: Client, headers: dict[str, str]) -> Client:
        """The client behind the connection ``seen``. The headers that proxies use are taken out of ``headers``."""
        passed_on, address, scheme, secret = (headers.pop(name, "") for name in (CERTIFICATE, ADDRESS, SCHEME, SECRET))
        if not (seen.is_local or self._knows(seen.address, secret)):
            return Client(seen.address, BAD_CERTIFICATE, seen.scheme) if passed_on else seen
        certificate = _der(passed_on) if passed_on else None
        return Client(address or seen.address, certificate, scheme if scheme in {"http", "https"} else seen.scheme)

    def _knows(self, address: str, secret: str) -> bool:
        is_secret = bool(self.secret) and compare_digest(secret.encode(), self.secret.encode())
        return is_secret and self.is_address(address)

    def is_address(self, address: str) -> bool:
        """Whether a proxy may be there; without the secret that proves nothing."""
        return bool(address) and _is_in(self.networks, address)


@lru_cache(maxsize=1_024)
def _is_in(networks: tuple[Network, ...], address: str) -> bool:
    found = ip_address(address)
    if isinstance(found, IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    return any(found in network for network in networks)


def _der(escaped_pem: str) -> bytes:
    pem = escaped_pem
    for escape, plain in ESCAPED:
        pem = pem.replace(escape, plain)
    try:
        if "%" in pem:
            pem = unquote(escaped_pem, errors="strict")
        return ssl.PEM_cert_to_DER_cert(pem.strip())
    except ValueError:
        return BAD_CERTIFICATE
