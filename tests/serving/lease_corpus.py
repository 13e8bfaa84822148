"""Requests for leases that both paths must answer alike: a corpus, and callers who are refused.

Each is sent to two leases that are alike, to one by each path; what is compared is everything but names, numbers and
the moments that the hub itself writes. Run by tests/serving over HTTP/1.1 and by tests/proxy over HTTP/2.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ocmconsole.core.protobuf_fields import LEASE
from ocmconsole.kubeapi.formats.protobuf import MAGIC
from tests.serving.leases import (
    AGENT,
    AGENTS,
    JSON,
    ORDINARY,
    PATH,
    PROTOBUF,
    Agent,
    Answer,
    Body,
    Doc,
    Scene,
    compact,
    moment,
    protobuf,
    told,
)
from tests.unit.kubeapi.protobuf_encoder import chunk, encode, encode_message

FAST, SLOW = (
    "lp-fast",
    "lp-slow",
)  # the leases; of one length, so that bytes of one body are at the same place in the other
Twins = tuple[Agent, Agent]


def twins_of(scene: Scene, suffix: str = "") -> Twins:
    """One by the lease path, one by the other; each has renewed at every server."""
    fast, slow = scene.agent(f"{FAST}{suffix}"), scene.agent(f"{SLOW}{suffix}")
    for _ in range(2 if not scene.beside else 6 * (1 + len(scene.beside))):
        at = moment()
        for agent, headers in ((fast, AGENTS), (slow, ORDINARY)):
            assert agent.renew(agent.ask(**headers).doc, at, **headers).status == 200
    return fast, slow


# ---------------------------------------------------------------- cases


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


def reordered(lease: Doc) -> Doc:
    return {
        name: dict(reversed(part.items())) if isinstance(part, dict) else part for name, part in reversed(lease.items())
    }


def read(name: str, accept: str = "", agent: str = AGENT, method: str = "GET", *, is_fast: bool = False, query: str = "") -> Case:  # fmt: skip
    return Case(name, method, headers=(("Accept", accept or JSON), ("User-Agent", agent)), query=query, is_fast=is_fast)


def text(body: bytes) -> Body:
    return lambda _: body


def respelled(old: bytes, new: bytes) -> Body:
    return lambda lease: compact(lease).replace(old, new, 1)


def in_chunks(lease: Doc) -> bytes:
    body = compact(lease)
    return b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (9, body[:9], len(body) - 9, body[9:])


def protobuf_of(*parts: Callable[[Doc], bytes]) -> Body:
    """With the parts of the object in this order."""
    kind = chunk(1, chunk(1, b"coordination.k8s.io/v1") + chunk(2, b"Lease"))
    return lambda lease: (
        MAGIC + kind + chunk(2, b"".join(part(lease) for part in parts)) + chunk(3, b"") + chunk(4, b"")
    )


def part_of(number: int) -> Callable[[Doc], bytes]:
    """A field of the object: 1 is metadata, 2 is spec."""
    field = LEASE.fields[number]
    return lambda lease: chunk(number, encode_message(lease[field.name], field.type))  # type: ignore[arg-type] # a Message


META, SPEC = part_of(1), part_of(2)

CASES = [
    read("get", is_fast=True),
    read("get anything", "*/*", is_fast=True),
    read("get as a Go client", f"{PROTOBUF},{JSON}", is_fast=True),
    read("get a table", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
    read("get metadata", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
    read("get yaml", "application/yaml"),
    read("get protobuf alone", PROTOBUF),
    read("get cbor or json", f"application/cbor,{JSON}", is_fast=True),
    read("get nonsense", "text/html"),
    read("get as a person", agent="curl/8.0"),
    read("get pretty", query="?pretty=true"),
    read("get with a version", query="?resourceVersion=0"),
    read("get with a slash", query="/"),
    read("get its status", query="/status"),
    read("get its neighbour", query="2"),
    read("head", method="HEAD"),
    Case("protobuf", spell=protobuf, media=PROTOBUF, is_fast=True),
    Case("json", is_fast=True),
    Case("json for who takes gzip", headers=(("Accept-Encoding", "gzip, deflate"),), is_fast=True),
    Case("json with blanks", spell=lambda lease: json.dumps(lease, indent=2).encode(), is_fast=True),
    Case("json with a newline", spell=lambda lease: compact(lease) + b"\n", is_fast=True),
    Case("json in another order", make=reordered, is_fast=True),
    Case("json with an escape", spell=respelled(b'"managed-', b'"\\u006danaged-'), is_fast=True),
    Case("protobuf again", spell=protobuf, media=PROTOBUF, is_fast=True),
    Case("json with a charset", media="application/json; charset=utf-8"),
    Case("json in capitals", media="Application/JSON"),
    Case("json as protobuf", media=PROTOBUF),
    Case("protobuf as json", spell=protobuf),
    Case("protobuf the other way round", spell=protobuf_of(SPEC, META), media=PROTOBUF, is_fast=True),
    Case("protobuf with a new field", spell=protobuf_of(META, SPEC, lambda _: chunk(99, b"new")), media=PROTOBUF, is_fast=True),
    Case("protobuf with a spec twice", spell=protobuf_of(META, SPEC, SPEC), media=PROTOBUF, is_fast=True),
    Case("protobuf without a spec", spell=protobuf_of(META), media=PROTOBUF),
    Case("protobuf without an object", spell=protobuf_of(), media=PROTOBUF),
    Case("yaml", media="application/yaml"),
    Case("said to be packed", headers=(("Content-Encoding", "gzip"),)),
    Case("if it matches", headers=(("If-Match", '"1"'),)),
    Case("no media type it knows", media="text/plain"),
    Case("nothing new"),
    Case("dry run", query="?dryRun=All"),
    Case("strict", query="?fieldValidation=Strict"),
    Case("to its status", query="/status"),
    Case("a manager by name", query="?fieldManager=somebody"),
    Case("another manager", headers=(("User-Agent", "other/v1"),)),
    Case("the first manager again", spell=protobuf, media=PROTOBUF),
    Case("and again", spell=protobuf, media=PROTOBUF, is_fast=True),
    Case("no user agent", headers=(("User-Agent", ""),)),
    Case("back from none", spell=protobuf, media=PROTOBUF),
    Case("impersonating", headers=(("Impersonate-User", "somebody"),)),
    Case("a token besides", headers=(("Authorization", "Bearer nonsense"),)),
    Case("a stale version", make=with_metadata(resourceVersion="1")),
    Case("a stale version in protobuf", make=with_metadata(resourceVersion="1"), spell=protobuf, media=PROTOBUF),
    Case("a version to come", make=with_metadata(resourceVersion="999999999")),
    Case("no version", make=without("metadata", "resourceVersion")),
    Case("version 0", make=with_metadata(resourceVersion="0")),
    Case("a version that is a number", make=with_metadata(resourceVersion=7)),
    Case("another uid", make=with_metadata(uid="00000000-0000-0000-0000-000000000000")),
    Case("another name", make=with_metadata(name="other")),
    Case("another namespace", make=with_metadata(namespace="other")),
    Case("no name", make=without("metadata", "name")),
    Case("no kind", make=without("kind")),
    Case("another kind", make=lambda lease: lease | {"kind": "Secret"}),
    Case("another version", make=lambda lease: lease | {"apiVersion": "coordination.k8s.io/v1beta1"}),
    Case("another kind in protobuf", spell=lambda lease: encode(lease, LEASE, "v1", "Secret"), media=PROTOBUF),
    Case("no metadata", make=without("metadata")),
    Case("no spec", make=without("spec")),
    Case("an unknown field", make=lambda lease: lease | {"spec": lease["spec"] | {"more": 1}}),
    Case("an unknown field of nothing", make=lambda lease: lease | {"status": None}),
    Case("a generation", make=with_metadata(generation=1)),
    Case("a field twice", spell=lambda lease: compact(lease)[:-1] + b',"kind":"Lease"}'),
    Case("a field twice inside", spell=respelled(b'"spec":{', b'"spec":{"leaseDurationSeconds":60,')),
    Case("a number for a time", make=changed(renewTime=1)),
    Case("no time", make=changed(renewTime=None)),
    Case("nonsense for a time", make=changed(renewTime="soon")),
    Case("the 30th of February", make=changed(renewTime="2026-02-30T00:00:00.000000Z")),
    Case("a leap second", make=changed(renewTime="2031-12-31T23:59:60.000000Z")),
    Case("24 o'clock", make=changed(renewTime="2031-12-31T24:00:00.000000Z")),
    Case("a small z", make=changed(renewTime="2031-01-01T00:00:00.000000z")),
    Case("digits of another script", make=changed(renewTime="2031-01-01T00:00:00.00000\u0661Z")),
    Case("seven decimals", make=changed(renewTime="2031-01-01T00:00:00.1234567Z")),
    Case("another zone", make=changed(renewTime="2026-02-01T02:00:00.000001+02:00")),
    Case("three decimals", make=changed(renewTime="2026-02-01T02:00:00.123Z")),
    Case("the year 9999", make=changed(renewTime="9999-12-31T23:59:59.999999Z"), is_fast=True),
    Case("the year 0", make=changed(renewTime="0000-01-01T00:00:00.000000Z")),
    Case("a time taken back", make=changed(renewTime="2026-02-01T02:00:00.000001Z")),
    Case("and on again", is_fast=True),
    Case("a duration", make=changed(leaseDurationSeconds=61)),
    Case("the same duration as a fraction", make=changed(leaseDurationSeconds=61.0)),
    Case("true for a duration", make=changed(leaseDurationSeconds=True)),
    Case("a negative duration", make=changed(leaseDurationSeconds=-1)),
    Case("no end of a duration", make=changed(leaseDurationSeconds=10**40)),
    Case("another holder", make=changed(holderIdentity="me")),
    Case("half a character", make=changed(holderIdentity="\ud800")),
    Case("NUL", make=with_metadata(annotations={"a": "\0"})),
    Case("after all that", spell=protobuf, media=PROTOBUF, is_fast=True),
    Case("an annotation", make=with_metadata(annotations={"a": "\x1e \x1f rv- ü"})),
    Case("with the annotation", is_fast=True),
    Case("with the annotation in protobuf", spell=protobuf, media=PROTOBUF, is_fast=True),
    Case("with the annotation unescaped", spell=lambda lease: json.dumps(lease, ensure_ascii=False).encode(), is_fast=True),
    Case("labels of nothing", make=with_metadata(labels=None)),
    Case("a finalizer", make=with_metadata(finalizers=["example.com/held"])),
    Case("with the finalizer"),
    Case("no finalizer any more", make=without("metadata", "finalizers")),
    Case("managed fields forgotten", make=with_metadata(managedFields=[{}])),
    Case("managed fields left out", make=without("metadata", "managedFields")),
    Case("cut short", spell=lambda lease: protobuf(lease)[:-200], media=PROTOBUF),
    Case("no magic", spell=lambda lease: protobuf(lease)[4:], media=PROTOBUF),
    Case("no body", spell=text(b"")),
    Case("no body of protobuf", spell=text(b""), media=PROTOBUF),
    Case("an empty object", spell=text(b"{}")),
    Case("a list", spell=text(b"[]")),
    Case("no json", spell=text(b"{")),
    Case("two objects", spell=lambda lease: compact(lease) + b"{}"),
    Case("a byte order mark", spell=lambda lease: b"\xef\xbb\xbf" + compact(lease)),
    Case("no UTF-8", spell=respelled(b'"Lease"', b'"Lease\xe9"')),
    Case("not a number", spell=lambda lease: compact(lease)[:-1] + b',"x":NaN}'),
    Case("deep", spell=text(b"[" * 2000 + b"]" * 2000)),
    Case("large", make=with_metadata(annotations={"a": "x" * 300_000})),
    Case("a merge patch", "PATCH", spell=text(b'{"metadata":{"labels":{"a":"b"}}}'), media="application/merge-patch+json"),
    Case("with the label", spell=protobuf, media=PROTOBUF, is_fast=True),
    Case("a post", "POST"),
    Case("a delete", "DELETE", spell=text(b"")),
]  # fmt: skip
# What HTTP/2 has no words for, or a proxy lets nobody say.
OVER_HTTP_1 = [
    Case("a certificate besides", headers=(("X-Client-Certificate", "nonsense"),)),
    Case("in chunks", spell=in_chunks, headers=(("Transfer-Encoding", "chunked"),)),
    Case("waits to be asked for", headers=(("Expect", "100-continue"),)),
    Case("keeps the connection", headers=(("Connection", "keep-alive"),), is_fast=True),
    Case("ends the connection", headers=(("Connection", "close"),)),
    Case("and begins another", is_fast=True),
]
# What the lease path answers, each with the two before it, which may prepare it. Of the others, one path gives both answers.
OF_LEASE_PATH = [case for number, case in enumerate(CASES) if any(each.is_fast for each in CASES[number : number + 3])]


def assert_same(scene: Scene, twins: Twins, case: Case) -> None:
    """Answers, rows and log of both paths; and whether the lease path has answered."""
    headers: dict[str, Any] = {name.replace("-", "_"): value for name, value in case.headers}
    bodies: list[bytes | None] = [None, None]
    if case.method not in {"GET", "HEAD"}:
        renewal, headers = moment(), {"Content_Type": case.media} | headers
        bodies = [case.body(scene.lease(agent.name), renewal) for agent in twins]
    before = scene.batched().total()
    fast, slow = (
        agent.ask(case.method, body, query=case.query, **headers, **extra)
        for agent, body, extra in zip(twins, bodies, (AGENTS, ORDINARY), strict=True)
    )
    assert_alike(fast, slow)
    assert scene.batched().total() - before == case.is_fast
    if case.is_fast:
        assert fast.status == 200
    assert told(scene.stored(FAST)) == told(scene.stored(SLOW))


def assert_alike(fast: Answer, slow: Answer) -> None:
    assert fast.status == slow.status, (fast.body, slow.body)
    assert told(fast.body) == told(slow.body), (fast.body, slow.body)
    assert fast.shown_headers == slow.shown_headers


# ---------------------------------------------------------------- refusals


def deleted(scene: Scene, name: str) -> None:
    scene.fleet.remove(name)


# By what was done to a cluster, the status of what its agent sends from then on.
ENDS: dict[str, tuple[Callable[[Scene, str], None], int]] = {
    "revoked": (Scene.revoke, 401),
    "away": (Scene.send_away, 403),
    "gone": (deleted, 403),
}


def assert_same_refusals(scene: Scene, how: str) -> None:
    """Of agents that both paths knew; nothing of what they send is written."""
    end, status = ENDS[how]
    twins = twins_of(scene, f"-{how}")
    for agent in twins:
        end(scene, agent.name)
    before, stored = scene.batched(), [scene.stored(agent.name) for agent in twins]
    assert_refused(scene, twins, status)
    assert scene.batched() == before
    assert [scene.stored(agent.name) for agent in twins] == stored


def assert_refused(scene: Scene, twins: Twins, status: int, *, path: str = "") -> None:
    """GET and PUT as JSON and protobuf, also of an old version and of nonsense."""
    leases = [scene.lease(agent.name) for agent in twins]
    at = moment()
    for lease in leases:
        lease["spec"]["renewTime"] = at
    stale = with_metadata(resourceVersion="1")
    asked: list[tuple[str, Body, str]] = [
        ("GET", text(b""), JSON),
        ("PUT", compact, JSON),
        ("PUT", protobuf, PROTOBUF),
        ("PUT", lambda lease: compact(stale(lease)), JSON),
        ("PUT", text(b"{"), JSON),
    ]
    for method, spell, media in asked:
        answers = []
        for agent, lease, headers in zip(twins, leases, (AGENTS, ORDINARY), strict=True):
            more: dict[str, Any] = {"body": spell(lease), "Content_Type": media} if method == "PUT" else {}
            answers.append(agent.ask(method, path=path or PATH.format(agent.name), **more, **headers))
        assert answers[0].status == status, answers[0].body
        assert_alike(*answers)
