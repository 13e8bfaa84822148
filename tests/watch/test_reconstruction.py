"""Random writers, watchers of every kind, restarts in between: nothing is lost, repeated or out of order."""

from __future__ import annotations

import random
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL
from typing import Any

import httpx
import pytest

from tests.hub import Hub
from tests.watch.streams import (
    END_OF_INITIAL,
    INITIAL,
    PARTIAL,
    PLAIN,
    TABLE,
    Doc,
    Log,
    Matches,
    Threads,
    Watcher,
    events,
    revision_of,
)

SEED = 7
WRITERS = 4
NAMES = [f"n{number}" for number in range(10)]
COLORS = ["red", "green", "blue", None]
MERGE = {"Content-Type": "application/merge-patch+json"}
CATCH_UP_SECONDS = 20


def color(doc: Doc) -> str | None:
    found: str | None = (doc["metadata"].get("labels") or {}).get("color")
    return found


# What a selector means, in the test's own words.
SELECTIONS: dict[str, tuple[dict[str, str], Matches]] = {
    "everything": ({}, bool),
    "equal": ({"labelSelector": "color=red"}, lambda doc: color(doc) == "red"),
    "one of": ({"labelSelector": "color in (red,green)"}, lambda doc: color(doc) in {"red", "green"}),
    "none of": ({"labelSelector": "color notin (red)"}, lambda doc: color(doc) != "red"),
    "without": ({"labelSelector": "!color"}, lambda doc: color(doc) is None),
    "name": ({"fieldSelector": "metadata.name=n3"}, lambda doc: doc["metadata"]["name"] == "n3"),
    "both": (
        {"fieldSelector": "metadata.name!=n3", "labelSelector": "color"},
        lambda doc: doc["metadata"]["name"] != "n3" and color(doc) is not None,
    ),
}


class Writer:
    """Creates, labels, changes and deletes at random; what others did first is no failure."""

    def __init__(self, client: httpx.Client, path: str, seed: int) -> None:
        self.client, self.path, self.dice = client, path, random.Random(seed)  # noqa: S311 - a repeatable choice
        self.done = 0

    def run(self, until: threading.Event) -> None:
        while not until.is_set():
            try:
                answer = self._write()
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            assert answer.status_code in {200, 201, 404, 409}, answer.text
            self.done += answer.is_success

    def _write(self) -> httpx.Response:
        name, chance = self.dice.choice(NAMES), self.dice.random()
        chosen = self.dice.choice(COLORS)
        if chance < 0.35:
            doc: dict[str, Any] = {"metadata": {"name": name}, "data": {"text": self.dice.randbytes(800).hex()}}
            if chosen:
                doc["metadata"]["labels"] = {"color": chosen}
            return self.client.post(self.path, json=doc)
        if chance < 0.6:
            body: Doc = {"metadata": {"labels": {"color": chosen}}}
        elif chance < 0.85:
            body = {"data": {"text": self.dice.randbytes(800).hex()}}
        else:
            return self.client.delete(f"{self.path}/{name}")
        return self.client.patch(f"{self.path}/{name}", json=body, headers=MERGE)


class Joiner:
    """Comes late, again and again: lists, and asks for initial events. What it was shown, and as of when."""

    def __init__(self, client: httpx.Client, path: str) -> None:
        self.client, self.path = client, path
        self.shown: list[tuple[Matches, int, dict[str, int]]] = []

    def run(self, until: threading.Event) -> None:
        while not until.is_set():
            for query, matches in SELECTIONS.values():
                try:
                    listed = self.client.get(self.path, params=query).json()
                    self._note(matches, revision_of(listed), listed["items"])
                    self._join(query, matches)
                except httpx.TransportError:
                    time.sleep(0.05)

    def _join(self, query: dict[str, str], matches: Matches) -> None:
        informer = Watcher(self.client, self.path, matches)
        for event in events(self.client, self.path, timeoutSeconds="5", **INITIAL, **query):
            informer.take(event["type"], event["object"])
            if END_OF_INITIAL in (event["object"]["metadata"].get("annotations") or {}):
                self._note(matches, informer.revision, list(informer.store.values()))
                return

    def _note(self, matches: Matches, revision: int, docs: list[Doc]) -> None:
        self.shown.append((matches, revision, {doc["metadata"]["uid"]: revision_of(doc) for doc in docs}))


@pytest.mark.contract("W11", "W12", "W139", "W163")
def test_every_watcher_sees_what_the_log_says(watched: Hub, pair: Path, admin: httpx.Client) -> None:
    admin.post("/api/v1/namespaces", json={"metadata": {"name": "many"}}).raise_for_status()
    path, stopping, caught_up, threads = (
        "/api/v1/namespaces/many/configmaps",
        threading.Event(),
        threading.Event(),
        Threads(),
    )
    with ExitStack() as stack:

        def client() -> httpx.Client:
            return stack.enter_context(watched.client(pair=pair))

        watchers = [Watcher(client(), path, matches, query) for query, matches in SELECTIONS.values()]
        everything, anything = SELECTIONS["everything"]
        few, some = SELECTIONS["one of"]
        watchers += [
            Watcher(client(), path, anything, everything, slowness=0.02),
            Watcher(client(), path, anything, everything, seconds=1),
            Watcher(client(), path, some, few, accept=PARTIAL),
            Watcher(client(), path, some, {**few, "includeObject": "Object"}, accept=TABLE),
            Watcher(client(), "/api/v1/configmaps", some, few | {"fieldSelector": "metadata.namespace=many"}),
        ]
        writers = [Writer(client(), path, SEED + number) for number in range(WRITERS)]
        joiner = Joiner(client(), path)
        for writer in writers:
            threads.start(lambda writer=writer: writer.run(stopping))  # type: ignore[misc] # bound now
        time.sleep(0.5)
        for watcher in watchers:  # while the writers write
            watcher.list()
            threads.start(lambda watcher=watcher: watcher.follow(caught_up.is_set))  # type: ignore[misc] # bound now
        threads.start(lambda: joiner.run(stopping))
        _disturb(watched)
        stopping.set()
        log = _wait_until_followed(watched, watchers)
        caught_up.set()
        _wake_everybody(admin, path)
        threads.join(30)
    assert sum(writer.done for writer in writers) > 100
    for watcher in watchers:
        _compare(log, watcher)
    assert len(joiner.shown) > 2 * len(SELECTIONS)
    for matches, revision, state in joiner.shown:
        assert state == log.state(_here(matches), revision), f"at {revision}"


def _wake_everybody(admin: httpx.Client, path: str) -> None:
    """An event for each selection: who waits for one sees that it is over."""
    admin.delete(f"{path}/n3")
    for name, labels in (("n3", {"color": "red"}), ("without", {}), ("both", {"color": "green"})):
        admin.post(path, json={"metadata": {"name": name, "labels": labels}}).raise_for_status()


def _disturb(hub: Hub) -> None:
    time.sleep(2)
    hub.stop("server")
    hub.start("server")
    time.sleep(2)
    hub.stop("server", SIGKILL)
    hub.start("server")
    time.sleep(2)


def _wait_until_followed(hub: Hub, watchers: list[Watcher]) -> Log:
    """The log after the last write, when everybody has seen as many events as he should or will not any more."""
    deadline = time.monotonic() + CATCH_UP_SECONDS
    time.sleep(0.5)
    log = Log.of(hub, "configmaps")
    for watcher in watchers:
        wanted = len(log.expected(_here(watcher.matches), watcher.started))
        while len(watcher.seen) < wanted and time.monotonic() < deadline:
            time.sleep(0.05)
    return log


def _here(matches: Matches) -> Matches:
    return lambda doc: doc["metadata"]["namespace"] == "many" and matches(doc)


def _compare(log: Log, watcher: Watcher) -> None:
    expected = log.expected(_here(watcher.matches), watcher.started)
    seen = [event for event in watcher.seen if event[1] <= log.changes[-1][0]]
    assert [event[:2] for event in seen] == [event[:2] for event in expected], watcher.query
    for (_, revision, shown), (_, _, doc) in zip(seen, expected, strict=True):
        if watcher.accept == PARTIAL:
            assert shown["metadata"] == doc["metadata"], revision
        else:
            assert shown == doc, revision
    if watcher.accept == PLAIN and watcher.seconds == 1:
        assert watcher.streams > 4
