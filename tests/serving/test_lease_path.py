"""The lease path against the ordinary one: the same answers and rows for a corpus of requests, and rights that end.

A header that no agent sends makes a request ordinary. Each case is sent to two leases that are alike, to one by each
path; what is compared is everything but names, numbers and the moments that the hub itself writes.
"""

from __future__ import annotations

import json
import re
import signal
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPException, HTTPSConnection
from itertools import count
from typing import Any, Self
from urllib.parse import urlsplit

import pytest

from ocmconsole.core.protobuf_fields import LEASE
from tests import fleet
from tests.conftest import StartHub
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
        """How many requests were answered by the lease path, reads and writes."""
        text = self.fleet.admin.get("/metrics").text
        return {thread: float(number) for thread, number in BATCHED.findall(text)}

    def stored(self, name: str) -> list[Any]:
        """The row of a lease, and what the log says of its newest change."""
        with self.hub.reading() as ask:
            row = ask(
                "SELECT l.wire, l.labels, l.deleted_at, l.renew_time, l.duration, c.wire, c.resource, c.verb, c.before, "  # noqa: S608 - a name of this file
                "l.resource_version - c.revision, c.size - length(c.wire) FROM clusters_lease l "
                f"JOIN kubeapi_change c ON c.revision = l.resource_version WHERE l.namespace = '{name}'"
            )
        return list(row)


@pytest.fixture(scope="module")
def scene(hub: Hub) -> Iterator[Scene]:
    with Fleet(hub) as fleet_, Scene(hub, fleet_) as scene:
        yield scene


@pytest.fixture(scope="module")
def twins(scene: Scene) -> tuple[Agent, Agent]:
    """One by the lease path, one by the other; each has renewed before."""
    fast, ordinary = scene.agent("lp-fast"), scene.agent("lp-slow")
    for at in (moment(), moment()):
        for agent, headers in ((fast, AGENTS), (ordinary, ORDINARY)):
            assert agent.renew(agent.ask(**headers).doc, at, **headers).status == 200
    return fast, ordinary


# ---------------------------------------------------------------- the same by both


def changed(**spec: object) -> Callable[[Doc], Doc]:
    return lambda lease: lease | {"spec": lease["spec"] | spec}


def with_metadata(**values: object) -> Callable[[Doc], Doc]:
    return lambda lease: lease | {"metadata": lease["metadata"] | values}


def without(*path: str) -> Callable[[Doc], Doc]:
    def drop(lease: Doc) -> Doc:
        copied: Doc = json.loads(json.dumps(lease))
        part = copied
        for name in path[:-1]:
            part = part[name]
        part.pop(path[-1], None)
        return copied

    return drop


@dataclass(frozen=True)
class Case:
    """``make`` gets the stored lease with a new renewTime; ``is_fast`` says whether the lease path answers it."""

    name: str
    method: str = "PUT"
    make: Callable[[Doc], Doc] = lambda lease: lease
    spell: Body = compact
    media: str = JSON
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    is_fast: bool = False

    def body(self, lease: Doc, renew_time: str) -> bytes:
        if self.name != "nothing new":
            lease.setdefault("spec", {})["renewTime"] = renew_time
        return self.spell(self.make(lease))


def reordered(lease: Doc) -> Doc:
    return {
        name: dict(reversed(part.items())) if isinstance(part, dict) else part for name, part in reversed(lease.items())
    }


def read(name: str, accept: str = "", agent: str = AGENT, method: str = "GET", *, is_fast: bool = False, query: str = "") -> Case:  # fmt: skip
    return Case(name, method, headers=(("Accept", accept or JSON), ("User-Agent", agent)), query=query, is_fast=is_fast)


def text(body: bytes) -> Body:
    return lambda _: body


CASES = [
    read("get", is_fast=True),
    read("get anything", "*/*", is_fast=True),
    read("get as a Go client", f"{PROTOBUF},{JSON}", is_fast=True),
    read("get a table", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
    read("get metadata", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
    read("get yaml", "application/yaml"),
    read("get protobuf alone", PROTOBUF),
    read("get nonsense", "text/html"),
    read("get as a person", agent="curl/8.0"),
    read("get pretty", query="?pretty=true"),
    read("get with a version", query="?resourceVersion=0"),
    read("head", method="HEAD"),
    Case("protobuf", spell=protobuf, media=PROTOBUF, is_fast=True),
    Case("json", is_fast=True),
    Case("json with blanks", spell=lambda lease: json.dumps(lease, indent=2).encode(), is_fast=True),
    Case("json with a newline", spell=lambda lease: compact(lease) + b"\n", is_fast=True),
    Case("json in another order", make=reordered, is_fast=True),
    Case("protobuf again", spell=protobuf, media=PROTOBUF, is_fast=True),
    Case("json with a charset", media="application/json; charset=utf-8"),
    Case("json as protobuf", media=PROTOBUF),
    Case("protobuf as json", spell=protobuf),
    Case("yaml", media="application/yaml"),
    Case("no media type it knows", media="text/plain"),
    Case("nothing new"),
    Case("dry run", query="?dryRun=All"),
    Case("strict", query="?fieldValidation=Strict"),
    Case("a manager by name", query="?fieldManager=somebody"),
    Case("another manager", headers=(("User-Agent", "other/v1"),)),
    Case("the first manager again", spell=protobuf, media=PROTOBUF),
    Case("and again", spell=protobuf, media=PROTOBUF, is_fast=True),
    Case("no user agent", headers=(("User-Agent", ""),)),
    Case("back from none", spell=protobuf, media=PROTOBUF),
    Case("impersonating", headers=(("Impersonate-User", "somebody"),)),
    Case("a token besides", headers=(("Authorization", "Bearer nonsense"),)),
    Case("a stale version", make=with_metadata(resourceVersion="1")),
    Case("no version", make=without("metadata", "resourceVersion")),
    Case("version 0", make=with_metadata(resourceVersion="0")),
    Case("a version that is a number", make=with_metadata(resourceVersion=7)),
    Case("another uid", make=with_metadata(uid="00000000-0000-0000-0000-000000000000")),
    Case("another name", make=with_metadata(name="other")),
    Case("another namespace", make=with_metadata(namespace="other")),
    Case("no name", make=without("metadata", "name")),
    Case("no kind", make=without("kind")),
    Case("another kind", make=lambda lease: lease | {"kind": "Secret"}),
    Case("another kind in protobuf", spell=lambda lease: encode(lease, LEASE, "v1", "Secret"), media=PROTOBUF),
    Case("no metadata", make=without("metadata")),
    Case("no spec", make=without("spec")),
    Case("an unknown field", make=lambda lease: lease | {"spec": lease["spec"] | {"more": 1}}),
    Case("a field twice", spell=lambda lease: compact(lease)[:-1] + b',"kind":"Lease"}'),
    Case("a number for a time", make=changed(renewTime=1)),
    Case("no time", make=changed(renewTime=None)),
    Case("nonsense for a time", make=changed(renewTime="soon")),
    Case("the 30th of February", make=changed(renewTime="2026-02-30T00:00:00.000000Z")),
    Case("another zone", make=changed(renewTime="2026-02-01T02:00:00.000001+02:00")),
    Case("three decimals", make=changed(renewTime="2026-02-01T02:00:00.123Z")),
    Case("a time taken back", make=changed(renewTime="2026-02-01T02:00:00.000001Z")),
    Case("and on again", is_fast=True),
    Case("a duration", make=changed(leaseDurationSeconds=60)),
    Case("the same duration as a fraction", make=changed(leaseDurationSeconds=60.0)),
    Case("true for a duration", make=changed(leaseDurationSeconds=True)),
    Case("a negative duration", make=changed(leaseDurationSeconds=-1)),
    Case("another holder", make=changed(holderIdentity="me")),
    Case("after all that", spell=protobuf, media=PROTOBUF, is_fast=True),
    Case("an annotation", make=with_metadata(annotations={"a": "\x1e \x1f rv-"})),
    Case("with the annotation", is_fast=True),
    Case("a finalizer", make=with_metadata(finalizers=["example.com/held"])),
    Case("with the finalizer"),
    Case("no finalizer any more", make=without("metadata", "finalizers")),
    Case("managed fields forgotten", make=with_metadata(managedFields=[{}])),
    Case("managed fields left out", make=without("metadata", "managedFields")),
    Case("cut short", spell=lambda lease: protobuf(lease)[:-200], media=PROTOBUF),
    Case("no magic", spell=lambda lease: protobuf(lease)[4:], media=PROTOBUF),
    Case("no body", spell=text(b"")),
    Case("an empty object", spell=text(b"{}")),
    Case("a list", spell=text(b"[]")),
    Case("no json", spell=text(b"{")),
    Case("not a number", spell=lambda lease: compact(lease)[:-1] + b',"x":NaN}'),
    Case("deep", spell=text(b"[" * 2000 + b"]" * 2000)),
    Case("large", make=with_metadata(annotations={"a": "x" * 300_000})),
    Case("a merge patch", "PATCH", spell=text(b'{"metadata":{"labels":{"a":"b"}}}'), media="application/merge-patch+json"),
    Case("with the label", spell=protobuf, media=PROTOBUF, is_fast=True),
    Case("a post", "POST"),
    Case("a delete", "DELETE", spell=text(b"")),
]  # fmt: skip

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


@pytest.mark.contract("W14", "W29", "W104")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_paths_answer_and_store_the_same(scene: Scene, twins: tuple[Agent, Agent], case: Case) -> None:
    headers: dict[str, Any] = {name.replace("-", "_"): value for name, value in case.headers}
    bodies: list[bytes | None] = [None, None]
    if case.method not in {"GET", "HEAD"}:
        renewal, headers = moment(), {"Content_Type": case.media} | headers
        bodies = [case.body(agent.ask(**ORDINARY).doc, renewal) for agent in twins]
    before = scene.batched()
    fast, ordinary = (
        agent.ask(case.method, body, query=case.query, **headers, **extra)
        for agent, body, extra in zip(twins, bodies, (AGENTS, ORDINARY), strict=True)
    )
    assert sum(scene.batched().values()) - sum(before.values()) == case.is_fast
    assert fast.status == ordinary.status, (fast.body, ordinary.body)
    assert told(fast.body) == told(ordinary.body)
    assert fast.shown_headers == ordinary.shown_headers
    if case.is_fast:
        assert fast.status == 200
    assert told(scene.stored("lp-fast")) == told(scene.stored("lp-slow"))


def test_the_rows_of_both_paths_agree_with_their_texts(scene: Scene) -> None:
    assert "agree" in scene.hub.manage("check_wire")


def test_who_may_not_is_refused_by_both_in_the_same_words(scene: Scene, twins: tuple[Agent, Agent]) -> None:
    fast, ordinary = twins
    scene.agent("lp-other")
    path = PATH.format("lp-other")
    for method in ("GET", "PUT"):
        body: dict[str, Any] = {} if method == "GET" else {"body": b"{}", "Content_Type": JSON}
        answers = [fast.ask(method, path=path, **body), ordinary.ask(method, path=path, **body, **ORDINARY)]
        assert [each.status for each in answers] == [403, 403]
        assert told(answers[0].body) == told(answers[1].body)


# ---------------------------------------------------------------- rights that end


def test_who_is_known_is_not_believed(scene: Scene) -> None:
    """The certificate is revoked in another process, and the next renewal is refused."""
    agent = scene.agent("lp-revoked")
    for _ in range(2):
        assert agent.renew(agent.ask().doc).status == 200
    before = scene.batched()["writer"]
    lease = agent.ask().doc
    assert agent.renew(lease).status == 200
    assert scene.batched()["writer"] == before + 1
    lease = agent.ask().doc
    with scene.hub.reading() as ask:
        fingerprints = ask("SELECT fingerprint FROM registration_issuedcertificate WHERE cluster = 'lp-revoked'")
    for (fingerprint,) in fingerprints:
        scene.hub.manage("revoke_certificate", fingerprint, "--reason", "stolen")
    assert agent.renew(lease).status == 401
    assert agent.ask().status == 401
    assert scene.batched()["writer"] == before + 1
    with scene.hub.reading() as ask:
        (wire,) = ask("SELECT wire FROM clusters_lease WHERE namespace = 'lp-revoked'")[0]
    assert json.loads(wire) == lease


def test_a_binding_that_goes_ends_the_right_to_renew(scene: Scene) -> None:
    """H7: also of an agent that renewed a moment ago by the lease path."""
    agent = scene.agent("lp-expelled")
    for _ in range(2):
        assert agent.renew(agent.ask().doc).status == 200
    lease = agent.ask().doc
    scene.fleet.patch("lp-expelled", {"spec": {"hubAcceptsClient": False}})
    bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/lp-expelled/rolebindings"

    def gone() -> None:
        names = [each["metadata"]["name"] for each in scene.fleet.admin.get(bindings).json()["items"]]
        if any(name.endswith(":registration") for name in names):
            raise fleet.NotYet(str(names))

    fleet.eventually(gone)
    assert agent.renew(lease).status == 403
    assert agent.ask().status == 403


def test_what_ends_by_one_server_ends_by_all(start_hub: StartHub) -> None:
    """Without a message: the database alone says so."""
    with start_hub() as own, Fleet(own) as fleet_, Scene(own, fleet_) as scene:
        _ends_by_all(scene)


def _ends_by_all(scene: Scene) -> None:
    """The second server of a home writes its address into the admin's kubeconfig: no hub that others share."""
    second = scene.hub.beside()
    try:
        second.start("server")
        agent = scene.agent("lp-moved", address=second.api_url)
        for _ in range(3):
            assert agent.renew(agent.ask().doc).status == 200
        lease = agent.ask().doc
        at_first = scene.connect("lp-moved", scene.hub.api_url, agent.context)
        assert at_first.renew(lease).status == 200
        conflict = agent.renew(lease)
        assert (conflict.status, conflict.doc["reason"]) == (409, "Conflict")
        lease = agent.ask().doc
        with scene.hub.reading() as ask:
            found = ask("SELECT fingerprint FROM registration_issuedcertificate WHERE cluster = 'lp-moved'")
        for (fingerprint,) in found:
            scene.hub.manage("revoke_certificate", fingerprint, "--reason", "stolen")
        assert agent.renew(lease).status == 401
        assert at_first.renew(lease).status == 401
    finally:
        second.stop_if_running()


# ---------------------------------------------------------------- watches, many at once, the end


def test_watchers_see_each_renewal_once_and_in_order(scene: Scene) -> None:
    agent = scene.agent("lp-watched")
    for _ in range(2):
        lease = agent.renew(agent.ask().doc).doc
    at = lease["metadata"]["resourceVersion"]
    path = "/apis/coordination.k8s.io/v1/namespaces/lp-watched/leases"
    with scene.fleet.admin.stream("GET", path, params={"watch": "true", "resourceVersion": at}) as stream:
        lines = stream.iter_lines()
        renewed = []
        for _ in range(10):
            lease = agent.renew(lease).doc
            renewed.append(("MODIFIED", lease))
        seen = [json.loads(next(lines)) for _ in renewed]
    assert [(event["type"], event["object"]) for event in seen] == renewed


def test_of_two_renewals_of_one_version_one_succeeds(scene: Scene) -> None:
    agent = scene.agent("lp-racing")
    for _ in range(2):
        lease = agent.renew(agent.ask().doc).doc
    others = [scene.connect("lp-racing", scene.hub.api_url, agent.context) for _ in range(6)]
    with ThreadPoolExecutor(len(others)) as pool:
        answers = [each.status for each in pool.map(lambda each: each.renew(lease), others)]
    assert sorted(answers) == [200] + [409] * 5


def test_a_kill_loses_no_acknowledged_renewal(start_hub: StartHub) -> None:
    """And no number is given twice or to nothing."""
    with start_hub() as hub, Fleet(hub) as fleet_, Scene(hub, fleet_) as scene:
        agents = [scene.agent(f"lp-{number}") for number in range(4)]
        acknowledged: dict[str, str] = {}

        def beat(agent: Agent) -> None:
            try:
                while True:
                    answer = agent.renew(agent.ask().doc)
                    if answer.status == 200:
                        acknowledged[agent.name] = answer.doc["metadata"]["resourceVersion"]
            except (OSError, HTTPException):  # the server is gone
                return

        with ThreadPoolExecutor(len(agents)) as pool:
            running = [pool.submit(beat, agent) for agent in agents]
            while sum(scene.batched().values()) < 200:
                pass
            hub.stop("server", signal.SIGKILL)
            for each in running:
                each.result()
        assert acknowledged.keys() == {agent.name for agent in agents}
        with hub.reading() as ask:
            rows = dict(ask("SELECT namespace, resource_version FROM clusters_lease"))
            ((entries, first, last),) = ask("SELECT count(*), min(revision), max(revision) FROM kubeapi_change")
            ((counter,),) = ask("SELECT value FROM kubeapi_revision")
        assert all(rows[name] >= int(revision) for name, revision in acknowledged.items())
        assert (entries, last) == (last - first + 1, counter)
        assert "agree" in hub.manage("check_wire")
