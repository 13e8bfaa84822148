"""The lease path against the ordinary one: the same answers and rows for a corpus of requests, and rights that end.

A header that no agent sends makes a request ordinary. Each case is sent to two leases that are alike, to one by each
path; what is compared is everything but names, numbers and the moments that the hub itself writes.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

import pytest

from ocmconsole.core.protobuf_fields import LEASE
from tests.conftest import StartHub
from tests.fleet import Fleet
from tests.hub import Hub
from tests.serving.leases import (
    AGENT,
    AGENTS,
    JSON,
    ORDINARY,
    PATH,
    PROTOBUF,
    Agent,
    Body,
    Doc,
    Scene,
    compact,
    moment,
    protobuf,
    told,
)
from tests.unit.kubeapi.protobuf_encoder import encode


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
