"""Plays recorded exchanges against a hub as their authors, with what this hub has answered in place of what was recorded.

The authors are the admin, the bootstrap ServiceAccount with the token that clusteradm asked for, and two agents with the
keys made here and the certificates that their watches bring. A read is repeated until it is answered as recorded, since
the hub works behind its answers; a write is sent once. Findings that no listed difference explains are what a test
looks at. Called by test_replay.
"""

from __future__ import annotations

import base64
import re
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import httpx
import orjson
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ocmconsole.core import protobuf_fields
from tests.conformance.replay.comparing import Doc, Finding, compare, plain
from tests.conformance.replay.describing import FORMS
from tests.conformance.replay.recording import Delivery, Exchange
from tests.hub import Hub
from tests.unit.kubeapi.protobuf_encoder import encode

PATIENCE = 120
CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLES = {
    "CertificateSigningRequest": protobuf_fields.CERTIFICATE_SIGNING_REQUEST,
    "Event": protobuf_fields.EVENT,
    "Lease": protobuf_fields.LEASE,
    "TokenRequest": protobuf_fields.TOKEN_REQUEST,
}
PLACEHOLDER = re.compile(r"\{([a-z].*?)\}")
UNREACHABLE = "cluster.open-cluster-management.io/unreachable"
AVAILABLE = "ManagedClusterConditionAvailable"
# The ends of the agents' user names, as recorded.
AGENTS = {"cluster1": "gtghl", "cluster2": "bllqx"}

Explains = Callable[[Finding], bool]


class Watch:
    """An open watch, read by a thread of its own; `events` only grows."""

    def __init__(self, client: httpx.Client, url: str, headers: dict[str, str]) -> None:
        self.events: list[Doc] = []
        self.read = 0
        self._stream = client.stream("GET", url, headers=headers, timeout=httpx.Timeout(100, read=None))
        self.response = self._stream.__enter__()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        try:
            for line in self.response.iter_lines():
                self.events.append(orjson.loads(line))
        except httpx.HTTPError:
            return  # the test has closed it

    def close(self) -> None:
        with suppress(OSError):  # the hub has ended it
            self.response.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._stream.__exit__(None, None, None)


class Player:
    def __init__(self, hub: Hub, folder: Path, explains: Explains) -> None:
        self.hub = hub
        self.folder = folder
        self.explains = explains
        self.findings: list[Finding] = []
        self.watches: dict[str, Watch] = {}
        self._patience = PATIENCE
        self._versions: dict[str, list[str]] = {}
        self._uids: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._hashes: dict[str, str] = {}
        self._token = ""
        self._clients: dict[str, httpx.Client] = {}
        self._keys = {cluster: ec.generate_private_key(ec.SECP256R1()) for cluster in AGENTS}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    # ------------------------------------------------------------------------------------------------------- one line

    def play(self, line: Exchange | Delivery) -> None:
        self.findings += self._await_delivery(line) if isinstance(line, Delivery) else self._exchange(line)

    def _exchange(self, exchange: Exchange) -> list[Finding]:
        if exchange.watch:
            return self._open_watch(exchange)
        if exchange.is_read:
            return self._patiently(lambda: self._ask(exchange))
        return self._ask(exchange)

    def _patiently(self, ask: Callable[[], list[Finding]]) -> list[Finding]:
        """Once something was otherwise in vain, what depends on it is not waited for again."""
        deadline = time.monotonic() + self._patience
        while (astray := self._unexplained(findings := ask())) and time.monotonic() < deadline:
            time.sleep(0.1)
        self._patience = 0 if astray else self._patience
        return findings

    def _unexplained(self, findings: list[Finding]) -> bool:
        return not all(map(self.explains, findings))

    # ------------------------------------------------------------------------------------------------------- exchanges

    def _ask(self, exchange: Exchange) -> list[Finding]:
        content = None if exchange.body is None else self._encoded(exchange)
        response = self._client(exchange.who).request(
            exchange.method, self._url(exchange), content=content, headers=_headers(exchange)
        )
        if response.status_code != exchange.status:
            return [Finding(exchange.id, "(status)", exchange.status, f"{response.status_code} {response.text}")]
        answer: Any = response.text
        if response.headers["Content-Type"].startswith("application/json"):
            answer = orjson.loads(response.content)
            self._learn(exchange, answer)
        return [*_compare_types(exchange, response), *_compare_answers(exchange, answer)]

    def _url(self, exchange: Exchange) -> str:
        url = f"{exchange.path}?{exchange.query}" if exchange.query else exchange.path
        return str(self._filled(url, exchange))

    def _encoded(self, exchange: Exchange) -> bytes:
        body = self._filled(exchange.body, exchange)
        if exchange.type == PROTOBUF:
            return encode(body, TABLES[body["kind"]], body["apiVersion"], body["kind"])
        return orjson.dumps(body)

    # --------------------------------------------------------------------------------------------------------- watches

    def _open_watch(self, exchange: Exchange) -> list[Finding]:
        watch = Watch(self._client(exchange.who), self._url(exchange), _headers(exchange))
        self._open.callback(watch.close)
        self.watches[exchange.id] = watch
        found = _compare_types(exchange, watch.response)
        if watch.response.status_code != exchange.status:
            found.append(Finding(exchange.id, "(status)", exchange.status, watch.response.status_code))
        first = exchange.first or []
        return [*found, *self._patiently(lambda: _compare_first(exchange, first, watch))]

    def _await_delivery(self, delivery: Delivery) -> list[Finding]:
        """The events up to the first whose object is as recorded; their types as recorded, runs taken as one."""
        watch = self.watches[delivery.watch]
        return self._patiently(lambda: self._look_for(delivery, watch))

    def _look_for(self, delivery: Delivery, watch: Watch) -> list[Finding]:
        found = [Finding(delivery.id, "(events)", delivery.types, [])]
        for end in range(watch.read, len(watch.events)):
            if watch.events[end]["type"] == "BOOKMARK":
                continue
            came = watch.events[watch.read : end + 1]
            found = _compare_delivery(delivery, came)
            if not self._unexplained(found):
                watch.read = end + 1
                break
        return found

    # --------------------------------------------------------------------------------------------------- what is learnt

    def _learn(self, exchange: Exchange, answer: Doc) -> None:
        items = answer.get("items", [answer])
        for doc in items:
            metadata = doc.get("metadata", {})
            if "uid" not in metadata:
                continue
            kind = doc.get("kind") or answer["kind"].removesuffix("List")
            name = self._remembered_name(kind, metadata)
            self._uids[name] = metadata["uid"]
            if version := metadata.get("resourceVersion"):
                self._versions.setdefault(name, []).append(version)
        if exchange.form == "index":
            urls = [each["serverRelativeURL"].partition("?hash=") for each in answer["paths"].values()]
            self._hashes = {path: hash_ for path, _, hash_ in urls}
        if answer.get("kind") == "TokenRequest":
            self._token = answer["status"]["token"]

    def _remembered_name(self, kind: str, metadata: Doc) -> str:
        """As placeholders say it: `Lease cluster1/managed-cluster-lease`, `csr cluster1`."""
        if kind == "CertificateSigningRequest":
            cluster = metadata["generateName"].removesuffix("-")
            self._names[cluster] = metadata["name"]
            return f"csr {cluster}"
        namespace = metadata.get("namespace")
        return f"{kind} {namespace}/{metadata['name']}" if namespace else f"{kind} {metadata['name']}"

    def _filled(self, value: Any, exchange: Exchange) -> Any:
        if isinstance(value, dict):
            return {name: self._filled(member, exchange) for name, member in value.items()}
        if isinstance(value, list):
            return [self._filled(member, exchange) for member in value]
        if not isinstance(value, str):
            return value
        return PLACEHOLDER.sub(lambda found: self._meaning(found[1], exchange), value)

    def _meaning(self, placeholder: str, exchange: Exchange) -> str:
        word, _, of = placeholder.partition(" ")
        meanings: dict[str, Callable[[], str]] = {
            "csr": lambda: self._names[of],
            "uid": lambda: self._uids[of],
            "version": lambda: self._version(of, exchange),
            "request": lambda: _base64(self._certificate_request(of)),
            "hash": lambda: self._hashes[exchange.path],
            "ca": lambda: _base64(self.hub.ca.read_bytes()),
            "time": lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "micro": lambda: _micro_time(of),
            "ignored": lambda: "what the hub takes from its own record",
        }
        return meanings[word]()

    def _version(self, of: str, exchange: Exchange) -> str:
        if exchange.stale:
            return self._versions[of][0]
        if exchange.path.endswith("/status"):
            # The agent has it from its watch; no later write of the hub's own may come between in a comparison.
            self._learn(exchange, self._settled(of.removeprefix("ManagedCluster ")))
        return self._versions[of][-1]

    def _settled(self, cluster: str) -> Doc:
        """H21: a cluster whose taint says what its condition says; the hub has nothing left to write."""
        deadline = time.monotonic() + PATIENCE
        while True:
            doc: Doc = self._client("admin").get(f"{CLUSTERS}/{cluster}").raise_for_status().json()
            tainted = any(taint["key"] == UNREACHABLE for taint in doc["spec"].get("taints", []))
            if tainted != _is_available(doc):
                return doc
            assert time.monotonic() < deadline, doc
            time.sleep(0.05)

    # -------------------------------------------------------------------------------------------------------- identities

    def _client(self, who: str) -> httpx.Client:
        if who not in self._clients:
            self._clients[who] = self._open.enter_context(self._made_client(who))
        return self._clients[who]

    def _made_client(self, who: str) -> httpx.Client:
        if who == "admin":
            return self.hub.client(pair=self.hub.admin_pair())
        if who == "bootstrap":
            return self.hub.client(Authorization=f"Bearer {self._token}")
        return self.hub.client(pair=self._agent_pair(who))

    def _agent_pair(self, cluster: str) -> Path:
        """The key made here and the certificate that the watch of the bootstrap identity has brought."""
        key = self._keys[cluster].private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path = self.folder / f"{cluster}.pem"
        path.touch(mode=0o600)
        path.write_bytes(base64.b64decode(self._issued(cluster)) + key)
        return path

    def _issued(self, cluster: str) -> str:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for event in (event for watch in self.watches.values() for event in [*watch.events]):
                issued = event["object"].get("status", {}).get("certificate")
                if issued and event["object"]["metadata"]["name"] == self._names[cluster]:
                    return str(issued)
            time.sleep(0.05)
        raise AssertionError(f"no watch has brought a certificate for {cluster}")

    def _certificate_request(self, cluster: str) -> bytes:
        group = f"system:open-cluster-management:{cluster}"
        names = [
            (NameOID.ORGANIZATION_NAME, group),
            (NameOID.ORGANIZATION_NAME, "system:open-cluster-management:managed-clusters"),
            (NameOID.COMMON_NAME, f"{group}:{AGENTS[cluster]}"),
        ]
        subject = x509.Name([x509.NameAttribute(oid, name) for oid, name in names])
        request = x509.CertificateSigningRequestBuilder().subject_name(subject)
        return request.sign(self._keys[cluster], hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


# ---------------------------------------------------------------------------------------------------------- comparisons


def _compare_types(exchange: Exchange, response: httpx.Response) -> list[Finding]:
    ours = response.headers["Content-Type"]
    differs = exchange.was_recorded and ours != exchange.answer_type
    return [Finding(exchange.id, "(content type)", exchange.answer_type, ours)] if differs else []


def _compare_answers(exchange: Exchange, answer: Any) -> list[Finding]:
    if exchange.form:
        return compare(exchange.id, exchange.answer, FORMS[exchange.form](answer))
    if exchange.answer is not None:
        recorded, ours = exchange.answer, plain(answer)
        return (
            compare(exchange.id, _set(recorded), _set(ours))
            if exchange.decoded
            else compare(exchange.id, recorded, ours)
        )
    if exchange.begins is not None:
        names = [item["metadata"]["name"] for item in exchange.begins]
        ours = [item for item in answer["items"] if item["metadata"]["name"] in names]
        return compare(exchange.id, exchange.begins, plain(ours))
    if exchange.text is not None:
        return compare(exchange.id, exchange.text.strip(), str(answer).strip())
    return []


def _set(value: Any) -> Any:
    """Without the fields that protobuf does not tell from unset ones."""
    if isinstance(value, dict):
        members = {name: _set(member) for name, member in value.items()}
        return {name: member for name, member in members.items() if member not in (None, "", {}, [])}
    return [_set(member) for member in value] if isinstance(value, list) else value


def _compare_first(exchange: Exchange, first: list[Doc], watch: Watch) -> list[Finding]:
    """What a watch begins with: each event as recorded, none left out and none more."""
    came = watch.events[: len(first)]
    watch.read = len(came)
    types = [event["type"] for event in came]
    wanted = [event["type"] for event in first]
    if types != wanted:
        return [Finding(exchange.id, "(events)", wanted, types)]
    return [
        finding
        for recorded, ours in zip(first, came, strict=True)
        for finding in compare(exchange.id, recorded["object"], plain(ours["object"]))
    ]


def _compare_delivery(delivery: Delivery, came: list[Doc]) -> list[Finding]:
    found = compare(delivery.id, delivery.last, plain(came[-1]["object"]))
    types = [event["type"] for event in came if event["type"] != "BOOKMARK"]
    if _runs(types) != _runs(delivery.types):
        found.append(Finding(delivery.id, "(events)", delivery.types, types))
    return found


def _runs(types: list[str]) -> list[str]:
    return [type_ for type_, _ in groupby(types)]


def _is_available(doc: Doc) -> bool:
    conditions = doc.get("status", {}).get("conditions", [])
    return any((each["type"], each["status"]) == (AVAILABLE, "True") for each in conditions)


def _headers(exchange: Exchange) -> dict[str, str]:
    headers = {"Accept": exchange.accept, "Accept-Encoding": "gzip"}
    return headers if exchange.body is None else headers | {"Content-Type": exchange.type}


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _micro_time(of: str) -> str:
    """`time` is now; `time 13 s ago` plays a renewal that was so old when the next thing happened."""
    age = int(of.split()[1]) if " " in of else 0
    return (datetime.now(UTC) - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
