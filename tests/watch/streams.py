"""Streams of events as clients read them, and threads that read several at a time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx

Doc = dict[str, Any]

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

    def join(self, seconds: float, why: Callable[[], str] = str) -> None:
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._failures:
            raise self._failures[0]
        assert not any(thread.is_alive() for thread in self._threads), f"somebody is not done: {why()}"
