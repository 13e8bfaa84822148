"""Typed readers of the environment: each gives what a setting means or refuses to start, naming the variable.

Called by ``settings`` alone. Raises ImproperlyConfigured for what cannot be meant.
"""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from ocmconsole.environment import home as files
from ocmconsole.environment.durations import parse_duration, span
from ocmconsole.kubeapi.outbound import signatures
from ocmconsole.kubeapi.outbound.syslog import SyslogTarget
from ocmconsole.second_approval.rules import Rule, parse_rules
from ocmconsole.server.proxy import Proxies

LAST_PORT = 65_535  # of TCP: 16 bits
SHORTEST_SECRET = 32  # characters
SHORTEST_RETENTION = timedelta(days=30)  # of the audit
SHORTEST_CONNECT_TIMEOUT = timedelta(seconds=2)  # libpq rounds one second up
UNIX = "unix:"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
MAIL_PORTS = {"smtp": 25, "smtps": 465, "smtp+starttls": 587}
WEBHOOK = "a https URL in ASCII without a user name, or a http URL on loopback"
SIZE = re.compile(r"([0-9]{1,15})(|Ki|Mi|Gi)")
UNITS = {"": 1, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}  # bytes
LARGEST_NUMBER = 1_000_000_000  # of any unit: more is a mistake, and far below what a database column holds

RESOURCE = re.compile(r"([a-z0-9-]+(\.[a-z0-9-]+)*)?/v[a-z0-9]+/[a-z0-9]+")
UPSTREAM_GATES = {
    "DefaultClusterSet": True,
    "ResourceCleanup": True,
    "ManagedClusterAutoApproval": False,
    "V1beta1CSRAPICompatibility": False,
    "PlacementDebugServer": False,
    "ClusterProfile": True,  # D25: off upstream
}
NOT_BUILT = {
    "ClusterImporter": "the Cluster API importer is not built",
    "SIGPlacementDecision": "the proposal KEP-5313 is provisional",
}


def text(name: str, default: str = "") -> str:
    """A variable, or the content of the file that ``<name>_FILE`` names."""
    if path := os.environ.get(f"{name}_FILE"):
        return Path(path).read_text(encoding="utf-8").strip()
    return os.environ.get(name, default)


def flag(name: str, *, default: bool) -> bool:
    value = text(name, "true" if default else "false").lower()
    if value not in {"true", "false"}:
        msg = f"{name} must be true or false, not {value!r}"
        raise ImproperlyConfigured(msg)
    return value == "true"


def choice(name: str, default: str, allowed: set[str]) -> str:
    value = text(name, default)
    if value not in allowed:
        msg = f"{name} must be one of {', '.join(sorted(allowed))}, not {value!r}"
        raise ImproperlyConfigured(msg)
    return value


def duration(name: str, default: str, *, least: timedelta = timedelta()) -> timedelta:
    try:
        found = parse_duration(text(name, default))
    except ImproperlyConfigured as error:
        msg = f"{name}: {error}"
        raise ImproperlyConfigured(msg) from error
    if found < least:
        msg = f"{name} must be at least {span(least)}, not {text(name, default)}"
        raise ImproperlyConfigured(msg)
    return found


def retention(name: str) -> timedelta | None:
    """How long to keep something, at least a month; None is for ever."""
    return duration(name, "", least=SHORTEST_RETENTION) if text(name) else None


def size(name: str, default: str, *, least: int) -> int:
    """Bytes, or with a unit of Kubernetes: ``65536``, ``64Ki``, ``2Mi``."""
    value = text(name, default)
    found = SIZE.fullmatch(value)
    if not found or (size := int(found[1]) * UNITS[found[2]]) < least:
        msg = f"{name} must be a number of bytes such as 65536, 64Ki or 2Mi, at least {least}, not {value!r}"
        raise ImproperlyConfigured(msg)
    return size


def cleanup_rights(name: str, default: str) -> timedelta | None:
    """A duration; ``unlimited`` is None."""
    return None if text(name, default) == "unlimited" else duration(name, default)


def number(name: str, default: int) -> int:
    """A whole number, not below zero."""
    value = text(name, str(default))
    if not value.isascii() or not value.isdecimal() or int(value) > LARGEST_NUMBER:
        msg = f"{name} must be a whole number from 0 to {LARGEST_NUMBER:,}, not {value!r}"
        raise ImproperlyConfigured(msg)
    return int(value)


def listed(name: str, default: str = "") -> list[str]:
    return [part.strip() for part in text(name, default).split(",") if part.strip()]


def second_approvals(name: str) -> dict[str, Rule]:
    """Which acts take more than one person: ``key-override,ca=3@security`` (``second_approval.rules``)."""
    try:
        return parse_rules(listed(name))
    except ValueError as error:
        msg = f"{name}: {error}"
        raise ImproperlyConfigured(msg) from error


def address(name: str, default: str) -> tuple[str, int]:
    """Host and port; a Unix socket is ``unix:/path`` with port 0."""
    value = text(name, default)
    if value.startswith(UNIX):
        return value, 0
    host, _, port = value.rpartition(":")
    if not host or not port.isdigit() or int(port) > LAST_PORT:
        msg = f"{name} must be host:port or unix:/path, not {value!r}"
        raise ImproperlyConfigured(msg)
    return host.strip("[]"), int(port)


def url(name: str, default: str) -> str:
    value = text(name, default).rstrip("/")
    if urlsplit(value).scheme not in {"http", "https"} or not urlsplit(value).hostname:
        msg = f"{name} must be a http(s) URL, not {value!r}"
        raise ImproperlyConfigured(msg)
    return value


def gates(name: str) -> dict[str, bool]:
    """Feature gates as upstream writes them: ``DefaultClusterSet=true,ResourceCleanup=false`` (H45)."""
    found = dict(UPSTREAM_GATES)
    for part in listed(name):
        gate, _, value = part.partition("=")
        if gate in NOT_BUILT and value.lower() == "true":
            msg = f"{name}: {gate} cannot be switched on: {NOT_BUILT[gate]}"
            raise ImproperlyConfigured(msg)
        if gate not in {*UPSTREAM_GATES, *NOT_BUILT} or value.lower() not in {"true", "false"}:
            msg = f"{name}: {part!r} is not a known gate with =true or =false"
            raise ImproperlyConfigured(msg)
        found[gate] = value.lower() == "true"
    return found


def resources(name: str, default: str) -> list[str]:
    """Types of objects as upstream writes them: ``group/version/resource``, the group of core being empty."""
    found = listed(name, default)
    for entry in found:
        if not RESOURCE.fullmatch(entry):
            msg = f"{name} must be group/version/resource, not {entry!r}"
            raise ImproperlyConfigured(msg)
    return found


def pairs(name: str) -> dict[str, str]:
    found = {}
    for part in listed(name):
        key, separator, value = part.partition("=")
        if not separator or not key:
            msg = f"{name} must be key=value,…, not {part!r}"
            raise ImproperlyConfigured(msg)
        found[key] = value
    return found


def collector(name: str) -> str:
    """Where traces go, or empty. What sends them is optional packages."""
    value = url(name, "") if text(name) else ""
    if value and any(
        find_spec(part) is None for part in ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter")
    ):
        msg = f"{name} needs the optional packages of ocmconsole[traces]: install them, or unset it"
        raise ImproperlyConfigured(msg)
    return value


def headers(name: str) -> dict[str, str]:
    """``name=value,…`` of HTTP. No message shows them, as they are secrets."""
    found = {}
    for part in listed(name):
        key, separator, value = part.partition("=")
        if not re.fullmatch("[A-Za-z0-9-]+", key) or not separator or not re.fullmatch("[ -~]+", value):
            msg = f"{name} must be headers of HTTP: name=value, parted by commas"
            raise ImproperlyConfigured(msg)
        found[key] = value
    return found


def share(name: str, default: str) -> float:
    """From 0, none, to 1, all."""
    value = text(name, default)
    if not re.fullmatch(r"0|1|[01]?\.[0-9]{1,9}", value) or float(value) > 1:
        msg = f"{name} must be a number from 0 to 1, such as 0.01, not {value!r}"
        raise ImproperlyConfigured(msg)
    return float(value)


def kept_secret(home: Path, file: str) -> str:
    """A secret that is made once and kept in the home, readable by its owner only."""
    path = home / file
    with files.locked(home):
        if not path.exists():
            files.write_file(path, secrets.token_urlsafe(48).encode(), secret=True)
    return path.read_text(encoding="ascii").strip()


def proxies(places: list[str], secret: str) -> Proxies:
    """Whom to believe about clients. An address alone proves nothing: other programs of that machine have it too."""
    try:
        networks = tuple(ip_network(place) for place in places)
    except ValueError as error:
        msg = f"OCMCONSOLE_TRUSTED_PROXY must be addresses or networks, such as 10.0.0.5,10.1.0.0/24: {error}"
        raise ImproperlyConfigured(msg) from error
    if bool(networks) != bool(secret):
        msg = "OCMCONSOLE_TRUSTED_PROXY and OCMCONSOLE_PROXY_SECRET are set together or not at all"
        raise ImproperlyConfigured(msg)
    if secret and len(secret) < SHORTEST_SECRET:
        msg = f"OCMCONSOLE_PROXY_SECRET must have at least {SHORTEST_SECRET} characters"
        raise ImproperlyConfigured(msg)
    return Proxies(networks, secret)


def issuer(name: str) -> str:
    """An OpenID provider. What it says over plain HTTP anybody on the way could say."""
    value = url(name, "") if text(name) else ""
    if value and not value.startswith("https:") and urlsplit(value).hostname not in LOOPBACK:
        msg = f"{name} must be a https URL, not {value!r}"
        raise ImproperlyConfigured(msg)
    return value


def path(name: str) -> Path | None:
    """A file or folder, or none."""
    return Path(text(name)) if text(name) else None


def syslog(name: str) -> SyslogTarget | None:
    """``unix:/dev/log``, ``udp://host:port`` or ``tcp://host:port``, or none."""
    value = text(name)
    if not value:
        return None
    if value.startswith(f"{UNIX}/"):
        return SyslogTarget("unix", value.removeprefix(UNIX))
    way, _, rest = value.partition("://")
    host, _, port = rest.rpartition(":")
    if way not in {"udp", "tcp"} or not host or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) <= LAST_PORT:
        msg = f"{name} must be unix:/path, udp://host:port or tcp://host:port, not {value!r}"
        raise ImproperlyConfigured(msg)
    return SyslogTarget(way, host.strip("[]"), int(port))


@dataclass(frozen=True, slots=True)
class MailServer:
    """``way`` is ``smtp``, ``smtps`` (TLS from the start) or ``smtp+starttls``."""

    way: str
    host: str
    port: int
    user: str = ""


def mail_server(name: str) -> MailServer | None:
    """``smtp+starttls://user@host:587``, or none. The password is a setting of its own, never a part of it."""
    value = text(name)
    if not value:
        return None
    try:
        parts = urlsplit(value)
        is_well = parts.scheme in MAIL_PORTS and bool(parts.hostname) and parts.password is None and parts.port != 0
        is_well = is_well and not (parts.path or parts.query or parts.fragment)
        # A password in plain text is for anybody on the way.
        is_well = is_well and not (parts.scheme == "smtp" and parts.username and parts.hostname not in LOOPBACK)
    except ValueError:
        is_well = False
    if not is_well:
        msg = (
            f"{name} must be smtps://host, smtp+starttls://host or smtp://host, with a port and a user if wanted and "
            "without a password; a user over plain smtp on loopback only"
        )
        raise ImproperlyConfigured(msg)
    user = unquote(parts.username or "")
    return MailServer(parts.scheme, parts.hostname or "", parts.port or MAIL_PORTS[parts.scheme], user)


def webhook(name: str) -> str:
    """Where something is sent, or empty. What is sent over plain HTTP anybody on the way reads.

    No message shows it, as some addresses are secrets.
    """
    value = text(name)
    if not value:
        return ""
    if not is_webhook(value):
        msg = f"{name} must be {WEBHOOK}"
        raise ImproperlyConfigured(msg)
    return value


def is_webhook(value: str) -> bool:
    try:
        parts = urlsplit(value)
        is_known = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
        is_plain = re.fullmatch("[!-~]+", value) is not None  # HTTP carries nothing else
        return is_known and is_plain and bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        return False


def signing_secrets(name: str) -> tuple[bytes, ...]:
    """Secrets of webhooks as Standard Webhooks writes them; all of them sign. No message shows one."""
    try:
        return tuple(signatures.secret_of(part) for part in listed(name))
    except ValueError as error:
        msg = f"{name}: {error}"
        raise ImproperlyConfigured(msg) from error


def networks(name: str) -> tuple[IPv4Network | IPv6Network, ...]:
    try:
        return tuple(ip_network(place) for place in listed(name))
    except ValueError as error:
        msg = f"{name} must be addresses or networks, such as 10.0.0.5,10.1.0.0/24: {error}"
        raise ImproperlyConfigured(msg) from error


def derived(scheme: str, place: tuple[str, int]) -> str:
    """The URL of an address; a Unix socket has none, so it must be said."""
    host, port = place
    if host.startswith(UNIX):
        return ""
    return f"{scheme}://{'127.0.0.1' if host in {'0.0.0.0', '::'} else host}:{port}"  # noqa: S104 - compared, not bound
