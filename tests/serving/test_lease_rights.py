"""Rights that end while agents renew: nothing that is sent after the acknowledgement succeeds, by either path.

Two servers on one home and database; on PostgreSQL the Redis between them is gone.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import yaml

from tests import servers
from tests.conftest import StartHub
from tests.fleet import RBAC, Fleet
from tests.hub import Hub
from tests.serving.leases import AGENTS, ORDINARY, Agent, Scene, batched

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DEACTIVATE = """
from django.contrib.auth.models import User
from ocmconsole.accounts import people
from ocmconsole.kubeapi.access.session import actor_for
lea = User.objects.get(username="lea")
lea.is_active = False
people.save_user(actor_for(User.objects.get(username="admin")), lea)
"""
REFUSALS = 3  # of each kind of request, that every path must have given before a test ends


@dataclass(frozen=True)
class Pair:
    """A scene at the first of two servers."""

    scene: Scene
    second: Hub

    def batched(self) -> float:
        """How many requests for leases both servers have answered by the lease path."""
        with self.second.client(pair=self.second.admin_pair()) as admin:
            return sum(self.scene.batched().values()) + sum(batched(admin).values())


@pytest.fixture(scope="module")
def pair(start_hub: StartHub) -> Iterator[Pair]:
    with ExitStack() as stack:
        redis = stack.enter_context(ExitStack())
        settings = {}
        if "TEST_DATABASE_URL" in os.environ:
            settings["REDIS_URL"] = f"{redis.enter_context(servers.redis_server())}/0"
        first = stack.enter_context(start_hub(**settings))
        fleet = stack.enter_context(Fleet(first))
        scene = stack.enter_context(Scene(first, fleet))
        second = first.beside()
        second.start("server")
        stack.callback(second.stop, "server")
        redis.close()
        yield Pair(scene, second)


# ---------------------------------------------------------------- how rights end


def revoked(scene: Scene, name: str) -> None:
    with scene.hub.reading() as ask:
        found = ask(f"SELECT fingerprint FROM registration_issuedcertificate WHERE cluster = '{name}'")  # noqa: S608 - a name of this file
    for (fingerprint,) in found:
        scene.hub.manage("revoke_certificate", fingerprint, "--reason", "stolen")


def sent_away(scene: Scene, name: str) -> None:
    scene.fleet.patch(name, {"spec": {"hubAcceptsClient": False}})


def deleted(scene: Scene, name: str) -> None:
    scene.fleet.remove(name)


ENDS: dict[str, tuple[Callable[[Scene, str], None], set[int]]] = {
    "revoked": (revoked, {401}),
    "sent-away": (sent_away, {403}),
    "deleted": (deleted, {403}),
}


# ---------------------------------------------------------------- agents that go on


@dataclass
class Beat:
    """One request: when it was sent, and what came of it."""

    method: str
    sent: float
    status: int


def beating(agent: Agent, over: Event, headers: dict[str, Any]) -> list[Beat]:
    """GET and PUT until each was refused some times; ``over`` says that the right has ended."""
    beats: list[Beat] = []
    lease = agent.ask(**headers).doc
    refused = {"GET": 0, "PUT": 0}
    while not over.is_set() or min(refused.values()) < REFUSALS:
        for method in refused:
            sent = time.monotonic()
            answer = agent.ask(**headers) if method == "GET" else agent.renew(lease, **headers)
            beats.append(Beat(method, sent, answer.status))
            if answer.status == 200:
                lease = answer.doc
            if over.is_set():
                refused[method] += 1
    return beats


@pytest.mark.contract("H7", "H10", "H31", "D19", "D26")
@pytest.mark.parametrize("how", [*ENDS])
def test_what_is_sent_after_the_acknowledgement_is_refused_by_every_server_and_path(pair: Pair, how: str) -> None:
    end, statuses = ENDS[how]
    scene, name = pair.scene, f"le-{how}"
    joined = scene.agent(name)
    addresses = (scene.hub.api_url, pair.second.api_url)
    ways = [
        (scene.connect(name, address, joined.context), kind) for address in addresses for kind in (AGENTS, ORDINARY)
    ]
    for agent, headers in ways:
        while agent.renew(agent.ask(**headers).doc, **headers).status != 200:
            pass
    before, over = pair.batched(), Event()
    with ThreadPoolExecutor(len(ways)) as pool:
        running = [pool.submit(beating, agent, over, headers) for agent, headers in ways]
        while pair.batched() < before + 20:
            time.sleep(0.02)
        end(scene, name)
        acknowledged = time.monotonic()
        over.set()
        beats = [beat for each in running for beat in each.result()]
    late = [beat for beat in beats if beat.sent > acknowledged]
    assert {beat.status for beat in late} <= statuses | {429}  # who is refused again and again has to wait (D23)
    assert {beat.status for beat in beats} >= statuses
    assert {beat.status for beat in beats if beat.method == "PUT"} >= {200}
    with scene.hub.reading() as ask:
        ((rows,),) = ask(f"SELECT count(*) FROM clusters_lease WHERE namespace = '{name}'")  # noqa: S608 - a name of this file
    assert rows == 1


@pytest.mark.contract("H8", "S91")
def test_who_is_let_in_again_goes_on_with_the_same_certificate(pair: Pair) -> None:
    scene = pair.scene
    agent = scene.agent("le-back")
    there = scene.connect("le-back", pair.second.api_url, agent.context)
    for each in (agent, there):
        while each.renew(each.ask().doc).status != 200:
            pass
    sent_away(scene, "le-back")
    assert {agent.ask().status, there.ask().status} == {403}
    scene.fleet.patch("le-back", {"spec": {"hubAcceptsClient": True}})
    deadline = time.monotonic() + 60
    while agent.ask().status != 200 or there.ask().status != 200:
        assert time.monotonic() < deadline
    before = pair.batched()
    assert agent.renew(agent.ask().doc).status == 200
    assert there.renew(there.ask().doc).status == 200
    assert pair.batched() >= before + 3  # the first renewal is over what the hub wrote at the acceptance (K15)


@pytest.mark.contract("W21")
def test_a_deactivated_person_renews_no_lease_at_either_server(pair: Pair, tmp_path: Path) -> None:
    """A person is never remembered by the lease path, whatever the certificate's requests look like."""
    scene = pair.scene
    scene.agent("le-person")
    scene.hub.manage("shell", "-c", "from django.contrib.auth.models import User; User.objects.create(username='lea')")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(scene.hub.manage("user_kubeconfig", "lea"))
    name = {"metadata": {"name": "lea"}}
    rules = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"]}]
    bound = name | {
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "lea"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "lea"}],
    }
    for plural, doc in (("clusterroles", name | {"rules": rules}), ("clusterrolebindings", bound)):
        scene.fleet.admin.post(f"/apis/{RBAC}/v1/{plural}", json=doc).raise_for_status()
    user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
    both = tmp_path / "pair.pem"
    both.write_bytes(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
    context = scene.hub.tls(both)
    people = [scene.connect("le-person", address, context) for address in (scene.hub.api_url, pair.second.api_url)]
    for person in people:
        for _ in range(3):
            assert person.renew(person.ask().doc).status == 200
    lease = people[0].ask().doc
    scene.hub.manage("shell", "-c", DEACTIVATE)
    assert {person.renew(lease).status for person in people} == {401}
    assert {person.ask().status for person in people} == {401}
