"""Rights that end while agents renew: nothing that is sent after the acknowledgement succeeds, by either path.

Two servers on one home and database; on PostgreSQL the Redis between them is gone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext
from threading import Event
from typing import Any

import pytest

from tests import servers
from tests.conftest import StartHub
from tests.fleet import Fleet
from tests.serving.leases import AGENTS, ORDINARY, Agent, Scene

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]

DEACTIVATE = """
from django.contrib.auth.models import User
from ocmconsole.accounts import people
from ocmconsole.kubeapi.access.session import actor_for
lea = User.objects.get(username="lea")
lea.is_active = False
people.save_user(actor_for(User.objects.get(username="admin")), lea)
"""
FIRST = 10  # requests of each agent before its right ends
PAUSE_SECONDS = 0.01  # of each agent between two requests: the right ends in a process of its own, which wants its turn
REFUSALS = 3  # of each kind of request, that every path must have given before a test ends


@pytest.fixture(scope="module")
def scene(start_hub: StartHub) -> Iterator[Scene]:
    """At the first of two servers."""
    with ExitStack() as stack:
        redis = stack.enter_context(ExitStack())
        settings = {}
        if "TEST_DATABASE_URL" in os.environ:
            settings["REDIS_URL"] = f"{redis.enter_context(servers.redis_server())}/0"
        first = stack.enter_context(start_hub(**settings))
        second = first.beside()
        second.start("server")
        stack.callback(second.stop, "server")
        fleet = stack.enter_context(Fleet(first))
        scene = stack.enter_context(Scene(first, fleet, [second]))
        redis.close()
        yield scene


# ---------------------------------------------------------------- how rights end


def deleted(scene: Scene, name: str) -> None:
    scene.fleet.remove(name)


ENDS: dict[str, tuple[Callable[[Scene, str], None], int]] = {
    "revoked": (Scene.revoke, 401),
    "sent-away": (Scene.send_away, 403),
    "deleted": (deleted, 403),
}


# ---------------------------------------------------------------- agents that go on


@dataclass
class Beat:
    """One request: when it was sent, and what came of it."""

    method: str
    sent: float
    status: int


Way = tuple[Agent, dict[str, Any]]  # with the headers of the path


def ways_of(scene: Scene, name: str, context: SSLContext) -> list[Way]:
    """A connection to each server for each path; each has renewed the lease."""
    addresses = [server.api_url for server in (scene.hub, *scene.beside)]
    ways = [(scene.connect(name, address, context), kind) for address in addresses for kind in (AGENTS, ORDINARY)]
    for agent, headers in ways:
        while agent.renew(agent.ask(**headers).doc, **headers).status != 200:
            pass
    return ways


def assert_ends(
    ways: list[Way], end: Callable[[], object], status: int, is_begun: Callable[[], bool] = lambda: True
) -> None:
    """All go on while the right ends, until each was refused some times: whatever is sent after ``end`` returned.

    It ends when each has sent some requests, and ``is_begun``.
    """
    beats: list[list[Beat]] = [[] for _ in ways]
    over = Event()
    with ThreadPoolExecutor(len(ways)) as pool:
        running = [
            pool.submit(beating, agent, headers, over, done) for (agent, headers), done in zip(ways, beats, strict=True)
        ]
        while not (min(map(len, beats)) >= FIRST and is_begun()) and not any(each.done() for each in running):
            time.sleep(0.02)
        end()
        acknowledged = time.monotonic()
        over.set()
        for each in running:
            each.result()
    for done in beats:
        late = {beat.status for beat in done if beat.sent > acknowledged}
        assert late <= {status, 429}  # who is refused again and again has to wait (D23)
        assert {beat.status for beat in done} >= {200, status}
    assert 200 in {beat.status for done in beats for beat in done if beat.method == "PUT"}


def beating(agent: Agent, headers: dict[str, Any], over: Event, beats: list[Beat]) -> None:
    """GET and PUT; ``over`` says that the right has ended."""
    lease = agent.ask(**headers).doc
    refused = {"GET": 0, "PUT": 0}
    while not over.is_set() or min(refused.values()) < REFUSALS:
        for method in refused:
            sent = time.monotonic()
            answer = agent.ask(**headers) if method == "GET" else agent.renew(lease, **headers)
            beats.append(Beat(method, sent, answer.status))
            time.sleep(PAUSE_SECONDS)
            if answer.status == 200:
                lease = answer.doc
            if over.is_set():
                refused[method] += 1


@pytest.mark.contract("H7", "H10", "H31", "D19", "D26")
@pytest.mark.parametrize("how", [*ENDS])
def test_what_is_sent_after_the_acknowledgement_is_refused_by_every_server_and_path(scene: Scene, how: str) -> None:
    end, status = ENDS[how]
    name = f"le-{how}"
    ways = ways_of(scene, name, scene.agent(name).context)
    before = scene.batched()

    def is_begun() -> bool:
        """Of renewals that are not too late, many were on the lease path."""
        return scene.batched()["writer"] >= before["writer"] + FIRST

    assert_ends(ways, lambda: end(scene, name), status, is_begun)
    assert scene.batched()["reader"] >= before["reader"] + FIRST
    with scene.hub.reading() as ask:
        ((rows,),) = ask(f"SELECT count(*) FROM clusters_lease WHERE namespace = '{name}'")  # noqa: S608 - a name of this file
    assert rows == 1


@pytest.mark.contract("H8", "S91")
def test_who_is_let_in_again_goes_on_with_the_same_certificate(scene: Scene) -> None:
    agent = scene.agent("le-back")
    there = scene.connect("le-back", scene.beside[0].api_url, agent.context)
    for each in (agent, there):
        while each.renew(each.ask().doc).status != 200:
            pass
    scene.send_away("le-back")
    assert {agent.ask().status, there.ask().status} == {403}
    scene.fleet.patch("le-back", {"spec": {"hubAcceptsClient": True}})
    deadline = time.monotonic() + 120
    while agent.ask().status != 200 or there.ask().status != 200:
        assert time.monotonic() < deadline
    before = scene.batched().total()
    assert agent.renew(agent.ask().doc).status == 200
    assert there.renew(there.ask().doc).status == 200
    assert scene.batched().total() >= before + 3  # the first renewal is over what the hub wrote at the acceptance (K15)


@pytest.mark.contract("W21")
def test_nothing_that_a_deactivated_person_sends_renews_a_lease_at_either_server(scene: Scene, tmp_path: Path) -> None:
    """A person is never remembered by the lease path, whatever the certificate's requests look like."""
    scene.agent("le-person")
    context = scene.person("lea", tmp_path)
    ways, before = ways_of(scene, "le-person", context), scene.batched()
    assert_ends(ways, lambda: scene.hub.manage("shell", "-c", DEACTIVATE), 401)
    assert scene.batched() == before
