"""Agents that renew leases of a served hub, each by requests that are exactly as they are written here.

Over HTTP/1.1 to a server, or over HTTP/2 to a proxy before several.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import yaml

from ocmconsole.core.protobuf_fields import LEASE
from tests.fleet import RBAC, Fleet
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
IDLE = 300.0  # seconds, less than a server keeps a connection that nobody uses
_moments = count(1)


def moment() -> str:
    """A later one each time, and the same for both leases of a case."""
    return f"{datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=next(_moments)):%Y-%m-%dT%H:%M:%S}.000001Z"


# In JSON, with indents or not, and in YAML.
BY_CHANCE = [
    (re.compile(rb"lp-(fast|slow)"), b"lp-it"),
    (re.compile(rb":open-cluster-management:lp-it([-a-z]*):\w+"), rb":agent\1"),
    (re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), b"uid"),
    (re.compile(rb"""(resourceVersion"?: ?)["']\d+["']"""), rb"\1rv"),
    (re.compile(rb"""\b((?:time|creationTimestamp)"?: ?)["'][^"']+["']"""), rb"\1time"),
    (re.compile(rb'"\d+[ms](\d+s)?"'), b"age"),
]


# Its entries are in the order of their times, in whole seconds, and of their managers' names within one.
MANAGERS = re.compile(rb'(?<="managedFields":\[)\{.*?\}(?=\])')


def told(content: object) -> bytes:
    shown = content if isinstance(content, bytes) else repr(content).encode()
    for pattern, instead in BY_CHANCE:
        shown = pattern.sub(instead, shown)
    return MANAGERS.sub(lambda found: b",".join(sorted(re.split(rb",(?=\{)", found[0]))), shown)


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
    """A certificate on one connection to a server, whose requests are exactly as they are written here.

    After a while without one it is another connection: the server closes those that are idle.
    """

    name: str
    address: str
    context: ssl.SSLContext
    connection: Any = field(init=False)
    asked: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        found = urlsplit(self.address)
        self.connection = HTTPSConnection(str(found.hostname), found.port, context=self.context, timeout=60)

    def ask(
        self, method: str = "GET", body: bytes | None = None, *, path: str = "", query: str = "", **headers: Any
    ) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {"User-Agent": AGENT, "Accept": f"{PROTOBUF},{JSON}"} | named
        return self.send(method, (path or PATH.format(self.name)) + query, body, sent)

    def send(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        if monotonic() - self.asked > IDLE:
            self.connection.close()
        self.connection.request(method, target, body, headers)
        answer = self.connection.getresponse()
        self.asked = monotonic()
        content = answer.read()
        return Answer(answer.status, answer.getheaders(), content)

    def renew(self, lease: Doc, at: str = "", **headers: str) -> Answer:
        return self.ask("PUT", protobuf(lease | {"spec": lease["spec"] | {"renewTime": at or moment()}}), Content_Type=PROTOBUF, **headers)  # fmt: skip


class AgentOverHttp2(Agent):
    def __post_init__(self) -> None:
        self.connection = httpx.Client(
            base_url=self.address, verify=self.context, http1=False, http2=True, timeout=60, trust_env=False
        )
        del self.connection.headers["accept-encoding"]

    def send(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        answer = self.connection.request(method, target, content=body, headers=headers)
        return Answer(answer.status_code, answer.headers.multi_items(), answer.content)


def protobuf(lease: Doc) -> bytes:
    return encode(lease, LEASE, "coordination.k8s.io/v1", "Lease")


def compact(lease: Doc) -> bytes:
    return json.dumps(lease, separators=(",", ":")).encode()


def batched(admin: httpx.Client) -> dict[str, int]:
    """As ``Scene.batched``, of one server."""
    return {thread: int(float(number)) for thread, number in BATCHED.findall(admin.get("/metrics").text)}


@dataclass(frozen=True)
class Scene:
    """``beside`` are further servers of the hub. Agents call its first server, or what is at ``address``."""

    hub: Hub
    fleet: Fleet
    beside: Sequence[Hub] = ()
    address: str = ""
    over: type[Agent] = Agent
    opened: list[Agent] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for agent in self.opened:
            agent.connection.close()

    def connect(self, name: str, address: str, context: ssl.SSLContext) -> Agent:
        self.opened.append(self.over(name, address, context))
        return self.opened[-1]

    def agent(self, name: str) -> Agent:
        """A cluster that joined; the hub has seen its certificate."""
        joined = self.fleet.join(name)
        context = joined.client._transport._pool._ssl_context  # type: ignore[attr-defined]
        return self.connect(name, self.address or self.hub.api_url, context)

    def batched(self) -> Counter[str]:
        """How many requests the lease path has answered, reads and writes."""
        found = Counter(batched(self.fleet.admin))
        for server in self.beside:
            with server.client(pair=server.admin_pair()) as admin:
                found.update(batched(admin))
        return found

    def lease(self, name: str) -> Doc:
        """As it is stored. The log may have forgotten its change: it keeps those of leases for two minutes."""
        with self.hub.reading() as ask:
            ((wire,),) = ask(f"SELECT wire FROM clusters_lease WHERE namespace = '{name}'")  # noqa: S608 - a name of this file
        found: Doc = json.loads(wire)
        return found

    def stored(self, name: str) -> list[Any]:
        """The row of a lease, and what the log says of its newest change."""
        with self.hub.reading() as ask:
            row = ask(
                "SELECT l.wire, l.labels, l.deleted_at, l.renew_time, l.duration, c.wire, c.resource, c.verb, c.before, "  # noqa: S608 - a name of this file
                "l.resource_version - c.revision, c.size - length(c.wire) FROM clusters_lease l "
                f"JOIN kubeapi_change c ON c.revision = l.resource_version WHERE l.namespace = '{name}'"
            )
        return list(row)

    def revoke(self, name: str) -> None:
        """Every certificate of a cluster, by another process."""
        with self.hub.reading() as ask:
            found = ask(f"SELECT fingerprint FROM registration_issuedcertificate WHERE cluster = '{name}'")  # noqa: S608 - as above
        for (fingerprint,) in found:
            self.hub.manage("revoke_certificate", fingerprint, "--reason", "stolen")

    def person(self, name: str, folder: Path) -> ssl.SSLContext:
        """The certificate of a new account that may read and renew every lease."""
        self.hub.manage(
            "shell", "-c", f"from django.contrib.auth.models import User; User.objects.create(username='{name}')"
        )
        kubeconfig = self.hub.manage("user_kubeconfig", name)
        named = {"metadata": {"name": name}}
        rules = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"]}]
        bound = named | {
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": name}],
        }
        for plural, doc in (("clusterroles", named | {"rules": rules}), ("clusterrolebindings", bound)):
            self.fleet.admin.post(f"/apis/{RBAC}/v1/{plural}", json=doc).raise_for_status()
        user = yaml.safe_load(kubeconfig)["users"][0]["user"]
        pair = folder / f"{name}.pem"
        pair.write_bytes(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
        return self.hub.tls(pair)

    def send_away(self, name: str) -> None:
        self.fleet.patch(name, {"spec": {"hubAcceptsClient": False}})
