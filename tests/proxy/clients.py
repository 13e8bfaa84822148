"""Clients that are at work while something happens to the hub: writers, watches that lose no event, kubectl.

Each remembers what it was answered, and what a person would have seen as a failure. A patient one tries again as clients of
Kubernetes do: after no answer, 429, 503, 504 and 507.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from tests.server import Server

MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}
TRY_AGAIN = frozenset({429, 502, 503, 504, 507})
PAUSE = 0.02  # between two writes of a writer
QUIET = 5.0  # until a watch that tells nothing is opened anew
LATER = 0.3  # until a patient client tries again
LONGEST = 120.0  # seconds until watches have seen what was written last; they see it at once

Doc = dict[str, Any]


class WorkingClient(threading.Thread):
    """Works until it is to stop."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.stopping = threading.Event()
        self.failures: list[str] = []

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:  # noqa: BLE001 - said by the test
            self.failures.append(f"{self.name}: {error!r}")

    def work(self) -> None:
        raise NotImplementedError


class Writer(WorkingClient):
    """Creates config maps, changes them twice and removes every second one. ``stored`` is what was acknowledged."""

    def __init__(self, name: str, connect: Callable[[], httpx.Client], *, is_patient: bool = False) -> None:
        super().__init__(name)
        self.client = connect()
        self.is_patient = is_patient
        self.stored: dict[str, str | None] = {}
        self.gone: list[str] = []  # what was not there to be deleted: a proxy had sent it twice, or it was lost
        self.answered = 0
        self.tried_again: Counter[str] = Counter()  # by what was answered
        self.slowest = 0.0

    def work(self) -> None:
        number = 0
        with self.client:
            while not self.stopping.is_set():
                number += 1
                name = f"{self.name}-{number}"
                self._write(name, "one", "POST", MAPS, {"metadata": {"name": name}, "data": {"by": "one"}})
                self._write(name, "two", "PATCH", f"{MAPS}/{name}", {"data": {"by": "two"}}, MERGE)
                self._write(
                    name, "three", "PUT", f"{MAPS}/{name}", {"metadata": {"name": name}, "data": {"by": "three"}}
                )
                if number % 2:
                    self._write(name, None, "DELETE", f"{MAPS}/{name}")

    def _write(
        self, name: str, left: str | None, method: str, path: str, body: Doc | None = None, headers: Doc | None = None
    ) -> None:
        if self.stopping.is_set():
            return
        began, again = time.monotonic(), False
        while True:
            code, text = self._send(method, path, body, headers)
            if code < HTTPStatus.BAD_REQUEST or (again and code in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}):
                break  # what was asked for again was done the first time
            if self.is_patient and method == "DELETE" and code == HTTPStatus.NOT_FOUND:
                self.gone.append(name)
                break
            if not self.is_patient or code not in TRY_AGAIN | {0} or self.stopping.is_set():
                if not (self.is_patient and self.stopping.is_set()):
                    self.failures.append(f"{method} {path}: {code} {text}")
                return
            again = True
            self.tried_again[f"{code} {_cause(text)}"] += 1
            time.sleep(LATER)
        self.stored[name] = left
        self.answered += 1
        self.slowest = max(self.slowest, time.monotonic() - began)
        time.sleep(PAUSE)

    def _send(self, method: str, path: str, body: Doc | None, headers: Doc | None) -> tuple[int, str]:
        try:
            answer = self.client.request(method, path, json=body, headers=headers)
        except httpx.TransportError as error:
            return 0, repr(error)
        return answer.status_code, answer.text

    def lost(self, present: dict[str, str | None]) -> list[str]:
        """Names whose acknowledged state is not what the hub has."""
        return [name for name, left in self.stored.items() if present.get(name) != left]


def _cause(text: str) -> str:
    """The message of a Status; of anything else its first line."""
    try:
        return str(json.loads(text)["message"]).rpartition("request: ")[2]
    except (ValueError, KeyError, TypeError):
        return text.strip().splitlines()[0][:60] if text.strip() else ""


class Watcher(WorkingClient):
    """Follows config maps from bookmark to bookmark: each event once, in order, none left out."""

    def __init__(self, name: str, connect: Callable[[], httpx.Client], *, is_patient: bool = False) -> None:
        super().__init__(name)
        self.connect = connect
        self.is_patient = is_patient
        self.seen: dict[str, str | None] = {}
        self.revision = 0
        self.ends: list[str] = []  # the type of the last event of each stream that has ended

    def work(self) -> None:
        with self.connect() as client:
            self._list(client)
            while not self.stopping.is_set():
                try:
                    self._follow(client)
                except httpx.ReadTimeout:  # nothing happened: the watch is opened anew
                    pass
                except httpx.TransportError as error:
                    if not self.is_patient:
                        raise
                    self.ends.append(type(error).__name__)
                    time.sleep(LATER)

    def _list(self, client: httpx.Client) -> None:
        while True:
            with suppress(httpx.TransportError):
                answer = client.get(MAPS)
                if answer.status_code == HTTPStatus.OK:
                    break
            assert self.is_patient
            time.sleep(LATER)
        found = answer.json()
        self.seen = {each["metadata"]["name"]: (each.get("data") or {}).get("by") for each in found["items"]}
        self.revision = int(found["metadata"]["resourceVersion"])

    def _follow(self, client: httpx.Client) -> None:
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": str(self.revision)}
        last = ""
        with client.stream("GET", MAPS, params=query, timeout=httpx.Timeout(60, read=QUIET)) as answer:
            if answer.status_code != HTTPStatus.OK:
                answer.read()
                assert self.is_patient, answer.text
                assert answer.status_code in TRY_AGAIN, answer.text
                time.sleep(LATER)
                return
            for line in answer.iter_lines():
                last = self._take(json.loads(line))
                if self.stopping.is_set():
                    return
        self.ends.append(last)

    def _take(self, event: Doc) -> str:
        kind: str = event["type"]
        assert kind != "ERROR", event
        metadata = event["object"]["metadata"]
        revision = int(metadata["resourceVersion"])
        assert revision > self.revision or (kind == "BOOKMARK" and revision == self.revision), (revision, self.revision)
        self.revision = revision
        if kind != "BOOKMARK":
            self.seen[metadata["name"]] = None if kind == "DELETED" else (event["object"].get("data") or {}).get("by")
        return kind


class Kubectl(WorkingClient):
    """``kubectl get -w`` again and again, as a person would type it: it ends with its watch, without a word."""

    def __init__(self, name: str, server: Server, binary: Path, *arguments: str) -> None:
        super().__init__(name)
        self.server, self.binary, self.arguments = server, binary, arguments
        self.runs = 0
        self.process: subprocess.Popen[str] | None = None

    def work(self) -> None:
        while not self.stopping.is_set():
            with self.server.kubectl_running(self.binary, *self.arguments) as self.process:
                self.runs += 1
                assert self.process.stdout is not None
                said = [line for line in self.process.stdout if line.startswith(("error", "Error", "Unable", "E1"))]
                code = self.process.wait()
            if not self.stopping.is_set() and (code or said):
                self.failures.append(f"{self.name}: {code} {said}")

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()


@dataclass(frozen=True)
class Crowd:
    """All of them."""

    clients: Sequence[WorkingClient]
    began: float = field(default_factory=time.monotonic)

    @property
    def writers(self) -> list[Writer]:
        return [each for each in self.clients if isinstance(each, Writer)]

    @property
    def watchers(self) -> list[Watcher]:
        return [each for each in self.clients if isinstance(each, Watcher)]

    @property
    def failures(self) -> list[str]:
        return [failure for each in self.clients for failure in each.failures]

    @property
    def answered(self) -> int:
        return sum(each.answered for each in self.writers)

    def lost(self, client: httpx.Client) -> list[str]:
        """Writes that were acknowledged and are not there, and what was gone without a watch that saw it deleted."""
        found = client.get(MAPS)
        found.raise_for_status()
        present = {each["metadata"]["name"]: (each.get("data") or {}).get("by") for each in found.json()["items"]}
        gone = [name for writer in self.writers for name in writer.gone if not self._saw_deleted(name)]
        return [name for writer in self.writers for name in writer.lost(present)] + gone

    def _saw_deleted(self, name: str) -> bool:
        return bool(self.watchers) and all(each.seen.get(name, "never there") is None for each in self.watchers)


@contextmanager
def at_work(clients: Sequence[WorkingClient]) -> Iterator[Crowd]:
    """Until the block ends: writers stop first, then what looks on."""
    with ExitStack() as stack:
        for each in clients:
            each.start()
            stack.callback(_end, each)
        yield Crowd(clients)
        for each in clients:
            if isinstance(each, Writer):
                _end(each)
        _wait_for_watchers(clients)


def _wait_for_watchers(clients: Sequence[WorkingClient]) -> None:
    """Until all of them have seen what was acknowledged; whether they have is the test's to say."""
    watchers = [each for each in clients if isinstance(each, Watcher)]
    writers = [each for each in clients if isinstance(each, Writer)]
    until = time.monotonic() + LONGEST
    while any(each.is_alive() and writer.lost(dict(each.seen)) for each in watchers for writer in writers):
        if time.monotonic() > until:
            return
        time.sleep(0.1)


def _end(client: WorkingClient) -> None:
    client.stopping.set()
    if isinstance(client, Kubectl):
        client.end()
    client.join(60)
