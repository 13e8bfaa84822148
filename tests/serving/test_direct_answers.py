"""Requests of agents between the connection and their paths: over a real socket, before leases that a test holds back.

A head is sent twice: the second time it is known by its bytes, and no parser reads it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any
from urllib.parse import quote

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.server import proxy, serving
from ocmconsole.server.agents import known_heads, lease_path
from ocmconsole.server.agents.known_heads import KnownHead, KnownHeads
from ocmconsole.server.django_handler import django_handler
from ocmconsole.server.request_threads import RequestThreads
from tests.serving.leases import PATH
from tests.serving.listening import LOOP_NAMES, Site, listening, read_all
from tests.serving.test_connections import answers
from tests.serving.test_request_threads import eventually, get

SECRET = "s" * 32
PEM = "-----BEGIN CERTIFICATE-----\nYWdlbnQ=\n-----END CERTIFICATE-----\n"
LINES = [f"X-Client-Certificate: {quote(PEM, safe='')}", f"X-Proxy-Secret: {SECRET}", "User-Agent: agent/1"]
TARGET = PATH.format("c1")
READ = get(TARGET, *LINES)
NAMED = b'{"of": "%b"}'
PAGE = b"<!doctype html>"  # of Django, which has no such path here


@dataclass
class Agent:
    certificate: bytes
    actor: Actor = field(default_factory=lambda: Actor("system:agent", (), "cert:agent"))


@dataclass
class HeldLeases:
    """Leases whose answers wait while ``gate`` is closed; None for what only the ordinary way answers."""

    gate: threading.Event = field(default_factory=threading.Event)
    asked: list[tuple[str, bytes]] = field(default_factory=list)
    agents: dict[bytes, Agent] = field(default_factory=dict)
    is_ordinary: bool = False

    def find(self, digest: bytes, certificate: bytes) -> Agent:
        return self.agents.get(digest) or Agent(certificate)

    def known(self, digest: bytes) -> Agent | None:
        return self.agents.get(digest)

    def keep(self, digest: bytes, agent: Agent) -> None:
        self.agents[digest] = agent

    def forget(self, digest: bytes) -> None:
        self.agents.pop(digest, None)

    def read(self, asked: Sequence[tuple[Agent, str]]) -> list[bytes | None]:
        self.asked += [(namespace, b"") for _, namespace in asked]
        return self._answers([namespace.encode() for _, namespace in asked])

    def renew(self, asked: Sequence[Any]) -> list[bytes | None]:
        self.asked += [(each.namespace, each.body) for each in asked]
        return self._answers([each.body for each in asked])

    def watch(self, asked: Sequence[Any]) -> list[None]:
        return [None for _ in asked]

    def _answers(self, said: list[bytes]) -> list[bytes | None]:
        assert self.gate.wait(60)
        return [None if self.is_ordinary else NAMED % each for each in said]


@dataclass
class Served:
    site: Site
    leases: HeldLeases
    application: RequestThreads

    def in_flight(self) -> int:
        callers = self.application.callers
        return sum(each.in_flight for each in [*callers._known.values(), *callers._addresses.values()])


@pytest.fixture(params=LOOP_NAMES)
def served(request: pytest.FixtureRequest, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """The agent's heads are known, and nothing recognises what is parsed any more: only bytes lead to the leases."""
    settings.ROOT_URLCONF, settings.MIDDLEWARE = "tests.serving.site", []
    settings.OCMCONSOLE_TRUSTED_PROXIES = proxy.Proxies((ip_network("127.0.0.1"),), SECRET)
    settings.OCMCONSOLE_LIMIT_CPU = 0
    leases = HeldLeases()
    path = lease_path.LeasePath(leases)  # type: ignore[arg-type] # answers no watch
    application = RequestThreads("api", django_handler(), threads=1, judge=lambda _: True, leases=path)
    ending = serving.GracefulStop(seconds=60, is_proxy=lambda address: address == "127.0.0.1")
    leases.gate.set()
    with listening(application, loop=request.param, ending=ending) as site:
        with site.connect() as connection:
            for data in (READ, put(b"first")):
                connection.sendall(data)
                next(answers(connection))
        monkeypatch.setattr(lease_path, "recognise", lambda _: None)
        leases.asked.clear()
        yield Served(site, leases, application)
        leases.gate.set()
    application.pool.shutdown()
    path.end()


def put(body: bytes) -> bytes:
    return get(TARGET, *LINES, "Content-Type: application/json", f"Content-Length: {len(body)}", method="PUT") + body


@contextmanager
def held(served: Served) -> Iterator[None]:
    served.leases.gate.clear()
    yield
    served.leases.gate.set()


def was_asked(served: Served, times: int = 1) -> bool:
    return eventually(lambda: len(served.leases.asked) == times)


def test_what_comes_behind_a_request_waits_for_its_answer(served: Served) -> None:
    with served.site.connect() as connection:
        found = answers(connection)
        with held(served):
            connection.sendall(READ)
            assert was_asked(served)
            connection.sendall(put(b"x") + READ[:40])  # and a part of one more
            connection.sendall(READ[40:])
        assert next(found) == NAMED % b"c1"
        assert next(found).startswith(PAGE)  # two at once were parsed, which nothing recognises here
        assert next(found).startswith(PAGE)
        for body in (b"", b"y", b"longer", b""):
            connection.sendall(put(body) if body else READ)
            assert next(found) == NAMED % (body or b"c1")
    assert [body for _, body in served.leases.asked] == [b"", b"", b"y", b"longer", b""]


def test_who_hangs_up_before_the_answer_leaves_nothing(served: Served) -> None:
    with held(served):
        with served.site.connect() as connection:
            connection.sendall(READ)
            assert was_asked(served)
            assert served.in_flight() == 1
        assert eventually(lambda: not served.site.listener.server_state.connections)
    assert eventually(lambda: served.in_flight() == 0)
    served.leases.is_ordinary = True
    with held(served), served.site.connect() as connection:
        connection.sendall(READ)
        assert was_asked(served, 2)
        connection.close()
        assert eventually(lambda: not served.site.listener.server_state.connections)
    assert eventually(lambda: served.in_flight() == 0)


def test_what_the_path_leaves_is_parsed_and_answered_the_ordinary_way(served: Served) -> None:
    served.leases.is_ordinary = True
    with served.site.connect() as connection:
        found = answers(connection)
        with held(served):
            connection.sendall(put(b"left"))
            assert was_asked(served)
            connection.sendall(get("/echo/behind"))
        assert next(found).startswith(PAGE)
        assert b"behind" in next(found)
    assert eventually(lambda: served.in_flight() == 0)


def test_a_server_that_is_to_stop_answers_what_was_taken(served: Served) -> None:
    with served.site.connect() as connection:
        with held(served):
            connection.sendall(READ)
            assert was_asked(served)
            served.site.listener.should_exit = True
            assert eventually(lambda: served.site.listener.is_draining)
        answer = read_all(connection)
    assert answer.endswith(NAMED % b"c1")
    assert b"connection: close\r\n" in answer


@pytest.mark.contract("D23")
def test_known_heads_are_counted_as_others(served: Served, settings: Any) -> None:
    settings.OCMCONSOLE_LIMIT_REQUESTS, settings.OCMCONSOLE_LIMIT_BURST = 0.001, 3
    settings.OCMCONSOLE_LIMIT_IN_FLIGHT = 2
    with served.site.connect() as one, served.site.connect() as other, served.site.connect() as third:
        with held(served):
            for connection in (one, other):
                connection.sendall(READ)
            assert eventually(lambda: served.in_flight() == 2)
            third.sendall(READ)
            assert b"in flight" in next(answers(third))
        assert {next(answers(connection)) for connection in (one, other)} == {NAMED % b"c1"}
        for said in (NAMED % b"c1", None):
            one.sendall(READ)
            body = next(answers(one))
            assert body == said if said else b"requests a second" in body
    assert served.in_flight() == 0


def test_an_idle_connection_of_unparsed_requests_ends_in_its_time(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.site.listener.config.timeout_keep_alive = 1
    with served.site.connect() as connection:
        for _ in range(3):
            connection.sendall(READ)
            next(answers(connection))
        assert connection.recv(1) == b""


# ---------------------------------------------------------------- what is known of bytes

HEAD = KnownHead(b"d" * 32, "10.0.0.1", "agent/1", b"")
ORIGIN, ANOTHER = b"o" * 32, b"a" * 32


def test_a_head_is_that_of_its_connection_and_of_its_method() -> None:
    """Behind TLS all agents send the same lines: the certificate is the connection's."""
    heads, read, write = KnownHeads(), known_heads.taken_apart(READ), known_heads.taken_apart(put(b"x"))
    assert read is not None
    assert write is not None
    heads.keep(read, ORIGIN, HEAD)
    assert heads.find(read, ORIGIN) == HEAD
    assert heads.find(read, ANOTHER) is None
    assert heads.find(read._replace(is_write=True), ORIGIN) is None
    assert heads.find(read._replace(lines=read.lines.replace(b"YWd", b"YWe")), ORIGIN) is None
    heads.keep(read._replace(lines=b"\r\nA: b\r\n c\r\n"), ORIGIN, HEAD)
    assert heads.find(read._replace(lines=b"\r\nA: b\r\n c\r\n"), ORIGIN) is None


def test_what_is_known_is_bounded_and_what_is_used_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_heads, "MOST_HEADS", 8)
    heads, first = KnownHeads(), known_heads.taken_apart(READ)
    assert first is not None
    heads.keep(first, ORIGIN, HEAD)
    for number in range(50):
        heads.keep(first._replace(lines=b"\r\nA: %d\r\n" % number), ORIGIN, HEAD)
        assert heads.find(first, ORIGIN) == HEAD
    assert len(heads._used) + len(heads._before) <= 10


PIECES = [
    b"GET ", b"PUT ", b"/a/b", b"/a?watch=true&x=%3D1", b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", b"\r\n", b"\r\n\r\n", b"Host: x\r\n",
    b"Content-Length: 1\r\n", b"content-length:3\r\n", b"Content-Length: 03\r\n", b" 1\r\n", b"\tx\r\n", b"A: b\r\n", b"x", b"xyz", b"#f", b"//h/",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=9).map(b"".join))
def test_what_is_taken_apart_is_what_the_parser_reads(rest: bytes) -> None:
    for data in (rest, b"PUT /a HTTP/1.1\r\nHost: x\r\n" + rest, b"GET /a?b HTTP/1.1\r\n" + rest):
        found = known_heads.taken_apart(data)
        if found is None or b"\r\n " in found.lines or b"\r\n\t" in found.lines:
            continue
        read = Parsed()
        try:
            read.parser.feed_data(data)
        except httptools.HttpParserError:  # then its lines are never kept; with one length they are all the same
            assert all(not read.is_whole or name != b"a" for name, _ in read.headers)
            continue
        url = httptools.parse_url(read.url)
        assert read.is_whole
        assert (url.path, url.query or b"", read.body) == (found.path, found.query, found.body)


class Parsed:
    """What httptools calls."""

    def __init__(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.headers: list[tuple[bytes, bytes]] = []
        self.url = self.body = b""
        self.is_whole = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_whole = True
