"""A client that follows one collection, as an informer does, through every interruption, and believes nothing twice."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.hub import Hub
from tests.watch.history import Doc, Event, History, Matches
from tests.watch.streams import END_OF_INITIAL, INITIAL, PLAIN, events, revision_of

FORMS = ("list", "initial", "past")
LENGTHS = ("1", "3", "60")
SMALL_BUFFER = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)]


class GoneError(Exception):
    """The hub said 410: history is gone."""


@dataclass(frozen=True)
class Interest:
    """What a follower wants to see, in the words of the protocol and in those of the test.

    ``pause`` comes after each event, ``stall`` is how long it now and then does not read at all, unless it is in haste.
    """

    path: str
    resource: str
    matches: Matches
    query: dict[str, str] = field(default_factory=dict)
    accept: str = PLAIN
    pause: float = 0.0
    stall: float = 0.0


@dataclass
class Stretch:
    """From a known state to the last event before history was gone: what was told in between must be everything."""

    started: int
    position: int
    before: dict[str, int]
    seen: list[Event] = field(default_factory=list)


class Follower:
    """Asks any of the servers, each time another. Begins with a list, initial events, or somewhere in the past."""

    def __init__(self, servers: Sequence[Hub], pair: Path, interest: Interest, history: History, seed: int) -> None:
        self.interest, self.history = interest, history
        self.dice = random.Random(seed)  # noqa: S311 - a repeatable choice
        self.clients = [
            httpx.Client(
                base_url=hub.api_url,
                transport=httpx.HTTPTransport(
                    verify=hub.tls(pair), socket_options=SMALL_BUFFER if interest.stall else None, retries=0
                ),
                timeout=100,
            )
            for hub in servers
        ]
        self.store: dict[str, Doc] = {}
        self.stretches: list[Stretch] = []
        self.is_lost = True
        self.in_haste = False
        self.streams = self.cuts = self.expiries = 0

    @property
    def position(self) -> int:
        return -1 if self.is_lost else self.stretches[-1].position

    def __str__(self) -> str:
        told = sum(len(stretch.seen) for stretch in self.stretches)
        return (
            f"{self.interest.path} {self.interest.query}: {told} events in {len(self.stretches)} stretches, at {self.position}; "
            f"{self.streams} streams, {self.cuts} cut, {self.expiries} expired"
        )

    def close(self) -> None:
        for client in self.clients:
            client.close()

    def follow(self, until: Callable[[Follower], bool]) -> None:
        while not until(self):
            try:
                if self.is_lost:
                    self._begin(self.dice.choice(FORMS), until)
                else:
                    self._resume(until)
            except GoneError:
                self.expiries += 1
                self.is_lost = True
            except httpx.TransportError:  # the server is away, or has cut us off
                self.cuts += 1
                time.sleep(0.05)

    # ---------------------------------------------------------------- where it begins

    def _begin(self, form: str, until: Callable[[Follower], bool]) -> None:
        revisions = self.history.revisions(self.interest.resource)
        if form == "past" and revisions:
            revision = self.dice.choice(revisions)
            known = self.history.state(self.interest.resource, self.interest.matches, revision)
            self._start(revision, {uid: {"metadata": {"resourceVersion": str(at)}} for uid, at in known.items()})
        elif form == "initial":
            self._begin_with_state(until)
        else:
            answer = self._client().get(self.interest.path, params=self.interest.query)
            assert answer.is_success, answer.text
            listed = answer.json()
            self._start(revision_of(listed), {doc["metadata"]["uid"]: doc for doc in listed["items"]})

    def _begin_with_state(self, until: Callable[[Follower], bool]) -> None:
        """Initial events, and then the changes on the same stream."""
        state: dict[str, Doc] = {}
        for event in self._events(**INITIAL):
            doc = self._object(event)
            if not self.is_lost:
                self._take(event["type"], doc)
            elif END_OF_INITIAL in (doc["metadata"].get("annotations") or {}):
                self._start(revision_of(doc), state)
            else:
                assert doc["metadata"]["uid"] not in state or event["type"] != "ADDED", "told twice"
                self._apply(state, event["type"], doc)
            if not self.is_lost and until(self):
                return

    def _start(self, revision: int, store: dict[str, Doc]) -> None:
        self.store = store
        before = {uid: revision_of(doc) for uid, doc in store.items()}
        self.stretches.append(Stretch(revision, revision, before))
        self.is_lost = False

    # ---------------------------------------------------------------- how it goes on

    def _resume(self, until: Callable[[Follower], bool]) -> None:
        floor, came_from = self.history.floor(self.interest.resource), self.position
        for event in self._events(resourceVersion=str(came_from), allowWatchBookmarks="true"):
            assert came_from >= floor, f"no 410 at {came_from}, and history begins at {floor}"
            self._take(event["type"], self._object(event))
            if until(self):
                return
            self._dawdle()

    def _take(self, verb: str, doc: Doc) -> None:
        stretch, revision = self.stretches[-1], revision_of(doc)
        if verb == "BOOKMARK":
            assert revision >= stretch.position
        else:
            assert revision > stretch.position, f"{verb} {revision} after {stretch.position}"
            assert (doc["metadata"]["uid"] in self.store) == (verb != "ADDED"), f"{verb} of {doc['metadata']}"
            stretch.seen.append((verb, revision, doc))
            self._apply(self.store, verb, doc)
        stretch.position = revision

    @staticmethod
    def _apply(store: dict[str, Doc], verb: str, doc: Doc) -> None:
        if verb == "DELETED":
            del store[doc["metadata"]["uid"]]
        else:
            assert verb in {"ADDED", "MODIFIED"}
            store[doc["metadata"]["uid"]] = doc

    def _events(self, **query: str) -> Iterator[Doc]:
        self.streams += 1
        query = {**self.interest.query, **query, "timeoutSeconds": self.dice.choice(LENGTHS)}
        for event in events(self._client(), self.interest.path, accept=self.interest.accept, **query):
            if event["type"] == "ERROR":
                status = event["object"]
                assert (status["code"], status["reason"]) == (410, "Expired"), status
                assert self.position < self.history.floor(self.interest.resource), "410, but history is there"
                raise GoneError
            yield event

    def _client(self) -> httpx.Client:
        return self.dice.choice(self.clients)

    @staticmethod
    def _object(event: Doc) -> Doc:
        shown: Doc = event["object"]
        return shown["rows"][0]["object"] if shown["kind"] == "Table" else shown

    def _dawdle(self) -> None:
        if self.in_haste:
            return
        time.sleep(self.interest.pause)
        if self.interest.stall and self.dice.random() < 0.02:
            time.sleep(self.interest.stall)
