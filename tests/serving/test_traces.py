"""Traces, as a collector on a socket gets them from a served hub, and a collector that hangs or is away."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, sleep
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests import servers
from tests.conftest import StartHub
from tests.fleet import CLUSTERS, Fleet
from tests.hub import Hub
from tests.serving.leases import Agent, Scene

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
NOT_SAMPLED = f"00-{'a' * 32}-00f067aa0ba902b7-00"
HIDDEN = "value-that-nobody-may-read"
SECRETS = "/api/v1/namespaces/default/secrets"
PATIENCE = 120.0  # seconds


@dataclass
class Span:
    name: str
    trace: str
    id: str
    parent: str
    about: dict[str, Any]
    seconds: float


@dataclass
class Collector:
    """Takes OTLP/HTTP. While ``open`` is not set it answers nothing."""

    url: str
    open: threading.Event = field(default_factory=threading.Event)
    bodies: list[bytes] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    came: int = 0

    @property
    def spans(self) -> list[Span]:
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        return [
            Span(
                span.name,
                span.trace_id.hex(),
                span.span_id.hex(),
                span.parent_span_id.hex(),
                {each.key: each.value.string_value or each.value.int_value for each in span.attributes},
                (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
            )
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def until(self, found: Callable[[list[Span]], list[Span]]) -> list[Span]:
        deadline = monotonic() + PATIENCE
        while not (spans := found(self.spans)):
            assert monotonic() < deadline, sorted({span.name for span in self.spans})
            sleep(0.1)
        return spans

    def named(self, name: str, **about: object) -> list[Span]:
        return self.until(
            lambda spans: [each for each in spans if each.name == name and about.items() <= each.about.items()]
        )


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.came += 1
            receiver.headers = {name.lower(): value for name, value in self.headers.items()}
            assert self.path == "/v1/traces"
            if not receiver.open.wait(60):
                return
            receiver.bodies.append(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.open.set()
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        collector.open.set()
        yield collector


@pytest.fixture(scope="module")
def traced(start_hub: StartHub, collector: Collector) -> Iterator[Hub]:
    sharing = {"TRACES_HEARTBEATS": "1", "TRACES_CALLERS": "127.0.0.1"}
    with start_hub(TRACES=collector.url, TRACES_HEADERS=f"x-api-key={HIDDEN}-2", **sharing) as hub:
        yield hub


@pytest.fixture(scope="module")
def agent(traced: Hub) -> Iterator[Agent]:
    with Fleet(traced) as fleet_, Scene(traced, fleet_) as scene:
        yield scene.agent("traced")


def below(spans: list[Span], root: Span) -> list[Span]:
    """Its descendants that have come."""
    found = [root]
    for parent in found:
        found += [span for span in spans if span.parent == parent.id]
    return found[1:]


def test_a_write_is_one_trace_from_the_request_to_its_statements_and_says_no_secret(
    traced: Hub, collector: Collector
) -> None:
    with traced.admin() as admin:
        wanted = {"metadata": {"name": "traced"}, "stringData": {"key": HIDDEN}, "type": "Opaque"}
        given = {"Authorization-Also": HIDDEN, "traceparent": PARENT}
        answer = admin.post(SECRETS, params={"fieldManager": HIDDEN}, json=wanted, headers=given)
        assert answer.status_code == 201, answer.text
        refused = admin.post(SECRETS, json=wanted)
        assert refused.status_code == 409
    request = collector.named("POST secrets", **{"http.response.status_code": 201})[0]
    assert request.trace == TRACE  # the caller's, who is trusted
    assert request.about["http.route"].endswith("namespaces/<namespace>/<resource>")
    parts = collector.until(lambda spans: [each for each in below(spans, request) if each.name == "commit"])
    assert parts[0].about["ocmconsole.resource"] == "secrets"
    statements = [each for each in below(collector.spans, parts[0]) if each.name.startswith("SQL")]
    assert any("kubeapi_change" in str(each.about["db.query.text"]) for each in statements)
    again = collector.named("POST secrets", **{"http.response.status_code": 409})[0]
    assert again.trace != TRACE
    assert collector.headers["x-api-key"] == f"{HIDDEN}-2"
    assert not any(HIDDEN.encode() in body for body in collector.bodies)


def test_a_callers_no_is_heard_and_pages_work_and_the_clock_are_traced(traced: Hub, collector: Collector) -> None:
    with traced.admin() as admin:
        admin.get(f"{CLUSTERS}/nobody", headers={"traceparent": NOT_SAMPLED})
    httpx.get(f"{traced.console_url}/login/", params={"next": f"/{HIDDEN}"}, timeout=60).raise_for_status()
    page = collector.named("GET /login/", **{"http.response.status_code": 200})[0]
    assert page.about["ocmconsole.listener"] == "console"
    collector.until(lambda spans: [each for each in spans if each.name.startswith("reconcile ")])
    sweep = collector.named("task clusters.tasks.sweep_leases")[0]
    collector.until(lambda spans: below(spans, sweep))
    assert not [each for each in collector.spans if each.trace == "a" * 32]
    assert not any(HIDDEN.encode() in body for body in collector.bodies)


def test_heartbeats_are_traced_on_their_own_path_and_a_watch_until_it_is_open(
    traced: Hub, agent: Agent, collector: Collector
) -> None:
    before = monotonic()
    parent = f"00-{'b' * 32}-00f067aa0ba902b7-01"
    assert agent.ask(traceparent=parent).status == 200
    assert agent.ask(traceparent=parent).status == 200  # the first may have come by the ordinary path
    read = collector.until(lambda spans: [each for each in spans if each.trace == "b" * 32 and each.name == "GET api"])[
        0
    ]
    assert read.about["http.response.status_code"] == 200
    collector.named("leases reader")
    with traced.admin() as admin, admin.stream("GET", CLUSTERS, params={"watch": "1"}) as watch:
        assert watch.status_code == 200
        opened = collector.named("GET managedclusters", **{"http.response.status_code": 200})  # while it is open
    assert all(each.seconds < monotonic() - before for each in opened)


def test_a_strangers_traceparent_is_not_followed(start_hub: StartHub) -> None:
    with collecting() as collector:
        collector.open.set()
        with start_hub(TRACES=collector.url) as hub:
            with hub.admin() as admin:
                admin.get(CLUSTERS, headers={"traceparent": PARENT}).raise_for_status()
                admin.get(CLUSTERS, headers={"traceparent": NOT_SAMPLED}).raise_for_status()
            collector.until(
                lambda spans: found if len(found := [s for s in spans if s.name == "GET managedclusters"]) > 1 else []
            )
    assert not [span for span in collector.spans if span.trace in {TRACE, "a" * 32}]


def test_a_collector_that_hangs_or_is_away_holds_nobody_up(start_hub: StartHub) -> None:
    with collecting() as collector:
        with start_hub(TRACES=collector.url) as hub, hub.admin() as admin:
            while not collector.came:
                admin.get(CLUSTERS).raise_for_status()
            for number in range(20):
                body = {"metadata": {"name": f"traced-{number}"}}
                assert admin.post("/api/v1/namespaces/default/configmaps", json=body).status_code == 201
        assert not collector.bodies  # it has not answered yet, and the hub has ended
    with start_hub(TRACES=f"http://127.0.0.1:{servers.free_port()}") as hub, hub.admin() as admin:
        for _ in range(20):
            admin.get(CLUSTERS).raise_for_status()
        assert "Traceback" not in hub.log("server")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TRACES", "collector:4318", "OCMCONSOLE_TRACES must be a http(s) URL"),
        ("TRACES_HEADERS", HIDDEN, "OCMCONSOLE_TRACES_HEADERS must be headers of HTTP"),
        ("TRACES_SAMPLE", "2", "OCMCONSOLE_TRACES_SAMPLE must be a number from 0 to 1"),
        ("TRACES_HEARTBEATS", "some", "OCMCONSOLE_TRACES_HEARTBEATS must be a number from 0 to 1"),
        ("TRACES_CALLERS", "collector", "OCMCONSOLE_TRACES_CALLERS must be addresses or networks"),
    ],
)
def test_what_is_no_value_of_a_setting_is_refused(
    name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.core.exceptions import ImproperlyConfigured

    from ocmconsole.environment import readers

    monkeypatch.setitem(os.environ, f"OCMCONSOLE_{name}", value)
    reading: dict[str, Callable[[str], object]] = {
        "TRACES": readers.collector,
        "TRACES_HEADERS": readers.headers,
        "TRACES_CALLERS": readers.networks,
    }

    def as_share(name: str) -> object:
        return readers.share(name, "1")

    with pytest.raises(ImproperlyConfigured) as refused:
        reading.get(name, as_share)(f"OCMCONSOLE_{name}")
    assert said in str(refused.value)
    assert HIDDEN not in str(refused.value)
