"""Agents that renew leases of a served hub, each by requests that are exactly as they are written here."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from itertools import count
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from ocmconsole.core.protobuf_fields import LEASE
from tests.fleet import Fleet
from tests.hub import Hub
from tests.unit.kubeapi.protobuf_encoder import encode

Doc = dict[str, Any]
Body = Callable[[Doc], bytes]

JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
AGENTS: dict[str, Any] = {}  # headers besides those of every request
ORDINARY: dict[str, Any] = {"X-Ordinary": "yes"}
AGENT = "registration/v0.16.0 (linux/amd64) kubernetes/$Format"
PATH = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/managed-cluster-lease"
BATCHED = re.compile(r'ocmconsole_lease_batch_sum\{thread="(\w+)"\} ([0-9.]+)')
_moments = count(1)


def moment() -> str:
    """A later one each time, and the same for both leases of a case."""
    return f"{datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=next(_moments)):%Y-%m-%dT%H:%M:%S}.000001Z"


# In JSON, with indents or not, and in YAML.
BY_CHANCE = [
    (re.compile(rb"lp-(fast|slow)"), b"lp-it"),
    (re.compile(rb":open-cluster-management:lp-it:\w+"), b":agent"),
    (re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), b"uid"),
    (re.compile(rb"""(resourceVersion"?: ?)["']\d+["']"""), rb"\1rv"),
    (re.compile(rb"""\b((?:time|creationTimestamp)"?: ?)["'][^"']+["']"""), rb"\1time"),
    (re.compile(rb'"\d+[ms](\d+s)?"'), b"age"),
]


def told(content: object) -> bytes:
    shown = content if isinstance(content, bytes) else repr(content).encode()
    for pattern, instead in BY_CHANCE:
        shown = pattern.sub(instead, shown)
    return shown


# ---------------------------------------------------------------- agents


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def doc(self) -> Doc:
        found: Doc = json.loads(self.body)
        return found

    @property
    def shown_headers(self) -> list[tuple[str, object]]:
        """Without values that differ by chance: names and numbers of one length or another are in the body."""
        chance = {"date", "content-length"}
        return [(name, "" if name in chance else told(value.encode())) for name, value in self.headers]


@dataclass
class Agent:
    """A certificate on one connection to a server, whose requests are exactly as they are written here."""

    name: str
    address: str
    context: ssl.SSLContext
    connection: HTTPSConnection = field(init=False)

    def __post_init__(self) -> None:
        found = urlsplit(self.address)
        self.connection = HTTPSConnection(str(found.hostname), found.port, context=self.context, timeout=60)

    def ask(
        self, method: str = "GET", body: bytes | None = None, *, path: str = "", query: str = "", **headers: Any
    ) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {"User-Agent": AGENT, "Accept": f"{PROTOBUF},{JSON}"} | named
        self.connection.request(method, (path or PATH.format(self.name)) + query, body, sent)
        answer = self.connection.getresponse()
        content = answer.read()
        return Answer(answer.status, answer.getheaders(), content)

    def renew(self, lease: Doc, at: str = "", **headers: str) -> Answer:
        return self.ask("PUT", protobuf(lease | {"spec": lease["spec"] | {"renewTime": at or moment()}}), Content_Type=PROTOBUF, **headers)  # fmt: skip


def protobuf(lease: Doc) -> bytes:
    return encode(lease, LEASE, "coordination.k8s.io/v1", "Lease")


def compact(lease: Doc) -> bytes:
    return json.dumps(lease, separators=(",", ":")).encode()


def batched(admin: httpx.Client) -> dict[str, float]:
    """How many requests a server has answered by the lease path, reads and writes."""
    return {thread: float(number) for thread, number in BATCHED.findall(admin.get("/metrics").text)}


@dataclass(frozen=True)
class Scene:
    hub: Hub
    fleet: Fleet
    opened: list[Agent] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for agent in self.opened:
            agent.connection.close()

    def connect(self, name: str, address: str, context: ssl.SSLContext) -> Agent:
        self.opened.append(Agent(name, address, context))
        return self.opened[-1]

    def agent(self, name: str, *, address: str = "") -> Agent:
        """A cluster that joined; the hub has seen its certificate."""
        joined = self.fleet.join(name)
        context = joined.client._transport._pool._ssl_context  # type: ignore[attr-defined]
        return self.connect(name, address or self.hub.api_url, context)

    def batched(self) -> dict[str, float]:
        return batched(self.fleet.admin)

    def stored(self, name: str) -> list[Any]:
        """The row of a lease, and what the log says of its newest change."""
        with self.hub.reading() as ask:
            row = ask(
                "SELECT l.wire, l.labels, l.deleted_at, l.renew_time, l.duration, c.wire, c.resource, c.verb, c.before, "  # noqa: S608 - a name of this file
                "l.resource_version - c.revision, c.size - length(c.wire) FROM clusters_lease l "
                f"JOIN kubeapi_change c ON c.revision = l.resource_version WHERE l.namespace = '{name}'"
            )
        return list(row)
