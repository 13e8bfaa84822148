"""Clients of a hub with one keep-alive connection each, and several of them at once."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tests.bench import machine
from tests.hub import Hub

Doc = dict[str, Any]

JSON = "application/json"


class UnexpectedError(RuntimeError):
    """The hub answered what no client expects."""


@dataclass
class Caller:
    """One credential on one connection, which is opened at the first request and kept."""

    url: str
    tls: ssl.SSLContext
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, hub: Hub, *, pair: Path | None = None, token: str = "") -> Self:
        headers = {"Accept": JSON, "User-Agent": "bench"}
        return cls(hub.api_url, hub.tls(pair), headers | ({"Authorization": f"Bearer {token}"} if token else {}))

    @cached_property
    def connection(self) -> HTTPSConnection:
        address = urlsplit(self.url)
        return HTTPSConnection(str(address.hostname), address.port, context=self.tls, timeout=120)

    def begin(self, method: str, path: str, body: bytes | None = None, **headers: str) -> None:
        """Send a request; ``end`` has the answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, path, body, self.headers | named)

    def end(self) -> tuple[int, bytes]:
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        self.begin(method, path, body, **headers)
        return self.end()

    def must_bytes(self, path: str, **headers: str) -> bytes:
        """Raises UnexpectedError."""
        status, answer = self.ask("GET", path, None, **headers)
        if status >= 300:
            raise UnexpectedError(f"GET {path}: {status} {answer[:300]!r}")
        return answer

    def must(self, method: str, path: str, doc: Doc | None = None, *, media: str = JSON) -> Doc:
        """A document in JSON and the answer's. Raises UnexpectedError for a refusal."""
        body = None if doc is None else json.dumps(doc).encode()
        status, answer = self.ask(method, path, body, Content_Type=media)
        if status >= 300:
            raise UnexpectedError(f"{method} {path}: {status} {answer[:300]!r}")
        found: Doc = json.loads(answer)
        return found


@dataclass(frozen=True)
class Effort:
    """What a number of acts cost: by the wall clock, and in CPU seconds of all processes of the hub, database included.

    ``asking`` are CPU seconds of this process, which are in no figure: what the machine had left for the hub.
    """

    acts: int
    seconds: float
    cpu: float
    asking: float
    latencies: list[float]

    @property
    def per_second(self) -> float:
        return self.acts / self.seconds

    @property
    def per_cpu_second(self) -> float:
        return self.acts / self.cpu if self.cpu else 0.0

    def __str__(self) -> str:
        spread = ", ".join(f"{name} {value * 1000:.0f}" for name, value in percentiles(self.latencies).items())
        return f"{self.acts} in {self.seconds:.1f} s, {self.per_second:.0f}/s, {self.cpu:.1f} CPU s, asking {self.asking:.1f}, ms: {spread}"


def percentiles(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    last = len(ordered) - 1
    return {"p50": ordered[last // 2], "p95": ordered[round(last * 0.95)], "max": ordered[last]}


def for_seconds(seconds: float, act: Callable[[], object]) -> Iterator[object]:
    """Over and over, as a client that waits for its answer."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield act()


def together(workers: Sequence[Iterator[object]], *, settled: bool = False) -> Effort:
    """Each worker on a thread of its own, each of its steps an act.

    ``settled`` counts also what the hub does afterwards because of them.
    """
    machine.settle()
    before, own, began = machine.cpu_seconds(), time.process_time(), time.monotonic()
    with ThreadPoolExecutor(len(workers)) as pool:
        latencies = [each for taken in pool.map(_timed, workers) for each in taken]
    seconds, asking = time.monotonic() - began, time.process_time() - own
    if settled:
        machine.settle()
    return Effort(len(latencies), seconds, machine.cpu_seconds() - before, asking, latencies)


def _timed(worker: Iterator[object]) -> list[float]:
    taken, began = [], time.monotonic()
    for _ in worker:
        now = time.monotonic()
        taken.append(now - began)
        began = now
    return taken
