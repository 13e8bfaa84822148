"""Random writes, restarts, pauses, slow readers, compaction: no event is lost, told twice or out of order.

``WATCH_SECONDS`` is how long it goes on, ``WATCH_SEED`` where the dice begin.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice

import httpx
import pytest

from tests.crash import stored
from tests.selection import FULL
from tests.watch.follower import Follower, Interest
from tests.watch.history import History, Matches
from tests.watch.site import Impatient, Site
from tests.watch.streams import PARTIAL, PLAIN, TABLE, Doc, Threads, events, revision_of
from tests.watch.trouble import Trouble
from tests.watch.writers import GROUP, LARGE, MapWriter, SetWriter, Writer, color

SEED = int(os.environ.get("WATCH_SEED", "7"))
SECONDS = float(os.environ.get("WATCH_SECONDS", "25" if FULL else "5"))
MAPS, SETS = "configmaps", f"managedclustersets.{GROUP}"
NAMESPACES = ("even", "odd")
CATCH_UP_SECONDS = 400.0
PATIENCE = 60.0

pytestmark = pytest.mark.timeout(1_800 + 2 * SECONDS)

# What a selector means, in the test's own words.
SELECTIONS: list[tuple[dict[str, str], Matches]] = [
    ({}, bool),
    ({"labelSelector": "color=red"}, lambda doc: color(doc) == "red"),
    ({"labelSelector": "color in (red,green)"}, lambda doc: color(doc) in {"red", "green"}),
    ({"labelSelector": "color notin (red)"}, lambda doc: color(doc) != "red"),
    ({"labelSelector": "!color"}, lambda doc: color(doc) is None),
    ({"fieldSelector": "metadata.name=n3"}, lambda doc: doc["metadata"]["name"] == "n3"),
    (
        {"fieldSelector": "metadata.name!=n3", "labelSelector": "color"},
        lambda doc: doc["metadata"]["name"] != "n3" and color(doc) is not None,
    ),
]


def interests() -> list[Interest]:
    anything, red, few, unlike, without, one, both = SELECTIONS
    odd, everywhere = f"/api/v1/namespaces/odd/{MAPS}", f"/api/v1/{MAPS}"

    def maps(path: str, selection: tuple[dict[str, str], Matches], accept: str = PLAIN, **more: float) -> Interest:
        query, matches = selection
        if path == odd:
            return Interest(
                path, MAPS, lambda doc: doc["metadata"]["namespace"] == "odd" and matches(doc), query, accept, **more
            )
        return Interest(path, MAPS, matches, query, accept, **more)

    def sets(version: str, selection: tuple[dict[str, str], Matches], accept: str = PLAIN) -> Interest:
        query, matches = selection
        return Interest(f"/apis/{GROUP}/{version}/managedclustersets", SETS, matches, query, accept)

    table = {"includeObject": "Object"}
    return [
        maps(everywhere, anything),
        maps(odd, red),
        maps(odd, unlike),
        maps(everywhere, without),
        maps(odd, one),
        maps(everywhere, both, PARTIAL),
        maps(odd, (few[0] | table, few[1]), TABLE),
        maps(everywhere, anything, pause=0.02),
        maps(everywhere, anything, stall=6.0),
        sets("v1beta2", anything),
        sets("v1beta1", red),
        sets("v1alpha1", (unlike[0] | table, unlike[1]), TABLE),
    ]


# ---------------------------------------------------------------- the test


@pytest.mark.contract("W11", "W12", "W139", "W140", "W163")
def test_every_follower_gets_what_the_log_says(site: Site) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(server.client(pair=site.pair)) for server in site.servers]
        for name in NAMESPACES:
            clients[0].post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
        history, threads = History(site.servers[0], [MAPS, SETS]), Threads()
        writers: list[Writer] = [
            MapWriter(clients, f"/api/v1/namespaces/{NAMESPACES[number % 2]}/{MAPS}", SEED + number, large)
            for number, large in enumerate([0.0, 0.0, LARGE])
        ]
        writers.append(SetWriter(clients, SEED))
        followers = [
            Follower(site.servers, site.pair, interest, history, SEED + number)
            for number, interest in enumerate(interests())
        ]
        for follower in followers:
            stack.callback(follower.close)
        _let_it_happen(site, history, writers, followers, threads)
        _assert_all_is_told(clients[0], history, followers)
    assert sum(writer.done for writer in writers) > 100
    assert sum(follower.expiries for follower in followers) > 0


def _let_it_happen(
    site: Site, history: History, writers: list[Writer], followers: list[Follower], threads: Threads
) -> None:
    stopping, recorded, goals = threading.Event(), threading.Event(), dict[str, int]()
    threads.start(lambda: history.record(recorded))
    for writer in writers:
        threads.start(lambda writer=writer: writer.run(stopping))  # type: ignore[misc] # bound now
    time.sleep(0.5)

    def is_done(follower: Follower) -> bool:
        return follower.position >= goals.get(follower.interest.resource, 2**63)

    for follower in followers:
        threads.start(lambda follower=follower: follower.follow(is_done))  # type: ignore[misc] # bound now
    Trouble(site, history, random.Random(SEED)).go_on(SECONDS)  # noqa: S311 - a repeatable choice
    until = time.monotonic() + 3 * PATIENCE
    while not any(follower.expiries for follower in followers) and time.monotonic() < until:
        site.forget(keep=0, moment=history.noted())  # on a slow machine nobody may have stalled yet
    stopping.set()
    _wait_for_rest(site, history)
    goals |= {resource: history.newest(resource) for resource in (MAPS, SETS)}
    recorded.set()
    for follower in followers:
        follower.in_haste = True
    threads.join(CATCH_UP_SECONDS, lambda: f"{goals}\n" + "\n".join(map(str, followers)))


def _wait_for_rest(site: Site, history: History) -> None:
    """The hub itself writes to sets, a little later than their owners."""
    newest = -1
    while stored.work_left(site.servers[0]) or newest != (newest := max(history.newest(MAPS), history.newest(SETS))):
        time.sleep(3)
        history.catch_up()


def _assert_all_is_told(client: httpx.Client, history: History, followers: list[Follower]) -> None:
    for follower in followers:
        interest = follower.interest
        for stretch in follower.stretches:
            assert stretch.before == history.state(interest.resource, interest.matches, stretch.started)
            expected = history.expected(interest.resource, interest.matches, stretch.started, stretch.position)
            assert [event[:2] for event in stretch.seen] == [event[:2] for event in expected], interest
            for (_, revision, shown), (_, _, doc) in zip(stretch.seen, expected, strict=True):
                assert _known(interest, shown) == _known(interest, doc), revision
        listed = client.get(interest.path, params=interest.query).json()
        present = {doc["metadata"]["uid"]: doc["metadata"]["resourceVersion"] for doc in listed["items"]}
        assert {uid: doc["metadata"]["resourceVersion"] for uid, doc in follower.store.items()} == present, interest


def _known(interest: Interest, doc: Doc) -> Doc:
    """What can be told from the log: other versions say the rest in other words."""
    is_whole = interest.accept != PARTIAL and interest.resource == MAPS
    return doc if is_whole else doc["metadata"]


# ---------------------------------------------------------------- two servers, one hub


@pytest.fixture
def two(site: Site) -> tuple[Impatient, Impatient]:
    if len(site.servers) < 2:
        pytest.skip("SQLite has one server")
    first, second = site.servers
    return first, second


class Duet:
    """Writes through one server, watches through the other."""

    def __init__(self, site: Site, writes: Impatient, watches: Impatient, namespace: str) -> None:
        self.path = f"/api/v1/namespaces/{namespace}/{MAPS}"
        with ExitStack() as stack:
            self.writer = stack.enter_context(writes.client(pair=site.pair))
            self.watcher = stack.enter_context(watches.client(pair=site.pair))
            self.writer.post("/api/v1/namespaces", json={"metadata": {"name": namespace}})
            self._wait_for_what_the_hub_puts_there()
            self.close = stack.pop_all().close

    def _wait_for_what_the_hub_puts_there(self) -> None:
        """A worker does it in its own time, which may be in the middle of a test."""
        until = time.monotonic() + 3 * PATIENCE
        while self.writer.get(f"{self.path}/kube-root-ca.crt").status_code != 200:
            assert time.monotonic() < until, "the namespace has no CA"
            time.sleep(0.05)

    def write(self, name: str) -> int:
        answer = self.writer.post(self.path, json={"metadata": {"name": name}})
        assert answer.status_code == 201, answer.text
        return revision_of(answer.json())

    def head(self) -> str:
        return str(revision_of(self.writer.get(self.path).json()))

    def stream(self, after: str) -> Iterator[Doc]:
        return events(self.watcher, self.path, resourceVersion=after, timeoutSeconds="60")


@pytest.fixture(params=["there", "back"])
def duet(request: pytest.FixtureRequest, site: Site, two: tuple[Impatient, Impatient]) -> Iterator[Duet]:
    writes, watches = two if request.param == "there" else reversed(two)
    duet = Duet(site, writes, watches, f"duet-{request.param}")
    yield duet
    duet.close()


def _names(stream: Iterator[Doc], count: int) -> list[str]:
    """Without what the hub itself puts into each new namespace."""
    names = (event["object"]["metadata"]["name"] for event in stream)
    return list(islice((name for name in names if name != "kube-root-ca.crt"), count))


@pytest.mark.contract("W12", "W139")
def test_a_watch_gets_what_was_written_through_the_other_server(duet: Duet) -> None:
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(_names, duet.stream(duet.head()), 3)
        for name in ("one", "two", "three"):
            time.sleep(0.5)
            duet.write(name)
        assert told.result(PATIENCE) == ["one", "two", "three"]


@pytest.mark.contract("W12", "W163")
def test_it_gets_it_also_while_redis_is_away_and_writers_are_not_held_up(site: Site, duet: Duet) -> None:
    assert site.redis is not None
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(_names, duet.stream(duet.head()), 4)
        with site.redis.away():
            for name in ("away-one", "away-two"):
                duet.write(name)  # is answered while it is away
            time.sleep(2)
        duet.write("returned-one")
        duet.write("returned-two")
        assert told.result(PATIENCE) == ["away-one", "away-two", "returned-one", "returned-two"]


@pytest.mark.contract("W12", "W140")
def test_a_server_that_slept_while_history_was_cut_skips_nothing_silently(
    site: Site, two: tuple[Impatient, Impatient]
) -> None:
    duet = Duet(site, *two, "asleep")
    came_from = duet.head()
    stream = duet.stream(came_from)
    for name in ("replayed", "followed"):
        duet.write(name)
        assert _names(stream, 1) == [name]
    with two[1].paused():
        duet.write("meanwhile")
        time.sleep(1.5)
        site.compact(keep=0, age="1s")
    duet.write("after")
    assert list(stream) == []  # ended before its time, and without what came after the gap
    (expired,) = duet.stream(came_from)
    assert expired["object"]["code"] == 410
    duet.close()
