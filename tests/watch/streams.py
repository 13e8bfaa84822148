"""Watchers that keep a store, as an informer does, and the log's own word on what they should have seen."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.hub import Hub

Doc = dict[str, Any]
Matches = Callable[[Doc], bool]

PLAIN = "application/json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
INITIAL = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
END_OF_INITIAL = "k8s.io/initial-events-end"


def events(client: httpx.Client, path: str, *, accept: str = PLAIN, **query: str) -> Iterator[Doc]:
    """Events of one stream until the server ends it. Raises httpx.TransportError when it is cut."""
    query = {"watch": "true", **query}
    with client.stream("GET", path, params=query, headers={"Accept": accept}) as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            yield json.loads(line)


def revision_of(doc: Doc) -> int:
    return int(doc["metadata"]["resourceVersion"])


@dataclass
class Watcher:
    """Follows one collection from a list to the end, through every interruption. It believes nothing twice.

    ``slowness`` is a pause after each event, ``seconds`` what it asks the server for as the length of a stream.
    """

    client: httpx.Client
    path: str
    matches: Matches
    query: dict[str, str] = field(default_factory=dict)
    accept: str = PLAIN
    slowness: float = 0.0
    seconds: int = 60
    started: int = 0
    revision: int = 0
    streams: int = 0
    store: dict[str, Doc] = field(default_factory=dict)
    seen: list[tuple[str, int, Doc]] = field(default_factory=list)

    def list(self) -> None:
        answer = self.client.get(self.path, params=self.query).json()
        self.started = self.revision = revision_of(answer)
        self.store = {doc["metadata"]["uid"]: doc for doc in answer["items"]}

    def follow(self, until: Callable[[], bool]) -> None:
        while not until():
            self.streams += 1
            with suppress(httpx.TransportError):  # the server is away: come back to where we were
                self._follow(until)
            time.sleep(0.05)

    def _follow(self, until: Callable[[], bool]) -> None:
        query = {**self.query, "resourceVersion": str(self.revision), "timeoutSeconds": str(self.seconds)}
        for event in events(self.client, self.path, accept=self.accept, allowWatchBookmarks="true", **query):
            self.take(event["type"], event["object"])
            time.sleep(self.slowness)
            if until():
                return

    def take(self, verb: str, shown: Doc) -> None:
        doc = shown["rows"][0]["object"] if shown["kind"] == "Table" else shown
        revision, uid = revision_of(doc), doc["metadata"].get("uid", "")
        if verb == "BOOKMARK":
            assert revision >= self.revision
            self.revision = revision
            return
        assert revision > self.revision, f"{verb} {revision} after {self.revision}"
        assert (uid in self.store) == (verb != "ADDED"), f"{verb} of {doc['metadata']}"
        self.revision = revision
        self.seen.append((verb, revision, doc))
        if verb == "DELETED":
            del self.store[uid]
        else:
            assert verb in {"ADDED", "MODIFIED"}
            self.store[uid] = doc


@dataclass(frozen=True)
class Log:
    """The change log of one resource, as the hub's database has it, followed by a model of its own."""

    changes: list[tuple[int, str, Doc]]

    @classmethod
    def of(cls, hub: Hub, resource: str) -> Log:
        with hub.reading() as query:
            rows = query("SELECT revision, verb, wire, resource FROM kubeapi_change ORDER BY revision")
        return cls([(revision, verb, json.loads(wire)) for revision, verb, wire, of in rows if of == resource])

    def expected(self, matches: Matches, after: int) -> list[tuple[str, int, Doc]]:
        """wire.md 5.5: enters, stays, leaves."""
        state: dict[str, Doc] = {}
        found: list[tuple[str, int, Doc]] = []
        for revision, verb, doc in self.changes:
            old = state.pop(doc["metadata"]["uid"], None)
            was = old is not None and matches(old)
            if verb != "DELETED":
                state[doc["metadata"]["uid"]] = doc
            stays = verb != "DELETED" and matches(doc)
            if revision <= after or not (was or stays):
                continue
            if stays:
                found.append(("MODIFIED" if was else "ADDED", revision, doc))
            else:
                assert old is not None
                found.append(("DELETED", revision, _at(old, revision)))
        return found

    def state(self, matches: Matches, at: int) -> dict[str, int]:
        """Revision by uid of what was there."""
        there: dict[str, Doc] = {}
        for revision, verb, doc in self.changes:
            if revision > at:
                break
            there[doc["metadata"]["uid"]] = doc
            if verb == "DELETED":
                del there[doc["metadata"]["uid"]]
        return {uid: revision_of(doc) for uid, doc in there.items() if matches(doc)}


def _at(doc: Doc, revision: int) -> Doc:
    return {**doc, "metadata": {**doc["metadata"], "resourceVersion": str(revision)}}


class Threads:
    """Threads whose failure fails the test that waits for them."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []

    def start(self, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - raised again in ``join``
                self._failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._failures:
            raise self._failures[0]
        assert not any(thread.is_alive() for thread in self._threads), "somebody is not done"
