"""Certificates that a process has not seen: their first requests are on the lease path, if they are registered agents'.

A second server of the hub, which no cluster of these tests has called before.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from http.client import HTTPResponse
from pathlib import Path

import pytest

from registration.pki import ca
from tests.conftest import StartHub
from tests.fleet import Fleet
from tests.serving.lease_corpus import ENDS, assert_alike
from tests.serving.leases import AGENT, AGENTS, JSON, ORDINARY, PATH, PROTOBUF, Agent, Scene, moment, protobuf

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]

BURST = 40  # requests of one identity at once


@pytest.fixture(scope="module")
def scene(start_hub: StartHub) -> Iterator[Scene]:
    with ExitStack() as stack:
        first = stack.enter_context(start_hub(LIMIT_REQUESTS="1", LIMIT_BURST=str(BURST)))
        second = first.beside()
        second.start("server")
        stack.callback(second.stop, "server")
        fleet = stack.enter_context(Fleet(first))
        yield stack.enter_context(Scene(first, fleet, [second]))


def newcomer(scene: Scene, name: str, context: ssl.SSLContext | None = None) -> Agent:
    """At the second server; of a cluster that has joined at the first, unless another certificate is given."""
    return scene.connect(name, scene.beside[0].api_url, context or scene.agent(name).context)


def put_at_once(agent: Agent, body: bytes) -> int:
    """Head and body in one write, as Go's clients do."""
    lines = [f"PUT {PATH.format(agent.name)} HTTP/1.1", "Host: hub", f"User-Agent: {AGENT}", f"Accept: {JSON}"]
    lines += [f"Content-Type: {PROTOBUF}", f"Content-Length: {len(body)}", "", ""]
    agent.connection.connect()
    agent.connection.sock.sendall("\r\n".join(lines).encode() + body)
    answer = HTTPResponse(agent.connection.sock, method="PUT")
    answer.begin()
    answer.read()
    return answer.status


def test_the_first_get_of_a_certificate_is_on_the_lease_path(scene: Scene) -> None:
    agent, before = newcomer(scene, "ln-get"), scene.batched()
    fast = agent.ask()
    assert fast.status == 200
    assert scene.batched() - before == {"reader": 1}
    assert_alike(fast, agent.ask(**ORDINARY))


def test_the_first_put_of_a_certificate_is_on_the_lease_path(scene: Scene) -> None:
    known = scene.agent("ln-put")
    agent = newcomer(scene, "ln-put", known.context)
    # The first is over what the hub wrote at the acceptance (K15), which the ordinary path does.
    assert known.renew(known.ask().doc).status == 200
    lease = scene.lease("ln-put")
    lease["spec"]["renewTime"] = moment()
    before = scene.batched()
    assert put_at_once(agent, protobuf(lease)) == 200
    assert scene.batched() - before == {"writer": 1}
    assert scene.lease("ln-put")["spec"] == lease["spec"]


def test_the_first_watch_of_a_certificate_is_on_the_watch_path(scene: Scene) -> None:
    agent, before = newcomer(scene, "ln-watch"), scene.batched()
    path = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
    since = scene.fleet.cluster("ln-watch")["metadata"]["resourceVersion"]
    query = f"?watch=true&fieldSelector=metadata.name%3Dln-watch&resourceVersion={since}&timeoutSeconds=1"
    assert agent.ask(path=path, query=query, Accept=JSON).status == 200
    assert scene.batched()["watcher"] > before["watcher"]  # once more where it was asked whether it may go on


@pytest.mark.contract("H7", "H10", "D19", "D26")
@pytest.mark.parametrize("how", [*ENDS])
def test_who_has_no_right_any_more_is_refused_at_first_sight(scene: Scene, how: str) -> None:
    agent = newcomer(scene, f"ln-{how}")
    end, status = ENDS[how]
    end(scene, agent.name)
    lease, before = scene.lease(agent.name), scene.batched()
    answers = [agent.ask(**headers) for headers in (AGENTS, ORDINARY)]
    answers += [agent.renew(lease, **headers) for headers in (AGENTS, ORDINARY)]
    assert {each.status for each in answers} == {status}
    assert_alike(*answers[:2])
    assert_alike(*answers[2:])
    assert scene.batched() == before
    assert scene.lease(agent.name) == lease


@pytest.mark.contract("D26", "W21")
@pytest.mark.parametrize("authority", ["another", "the hub's"])
def test_an_agents_name_in_a_certificate_that_the_hub_did_not_issue_is_refused(
    scene: Scene, tmp_path: Path, authority: str
) -> None:
    name = f"ln-{authority.replace(' ', '').replace(chr(39), '')}"
    scene.agent(name)
    home = scene.hub.home
    if authority == "another":
        home = tmp_path
        ca.ensure_authority(home, ["localhost"])
    group = f"system:open-cluster-management:{name}"
    made = ca.client_authority(home).issue_client(f"{group}:agent", (group,), timedelta(hours=1), datetime.now(UTC))
    pair = tmp_path / "pair.pem"
    pair.write_bytes(b"".join(made))
    agent, before = newcomer(scene, name, scene.hub.tls(pair)), scene.batched()
    answers = [agent.ask(**headers) for headers in (AGENTS, ORDINARY)]
    assert {each.status for each in answers} == {401}
    assert_alike(*answers)
    assert scene.batched() == before


@pytest.mark.contract("W21")
def test_people_and_masters_are_no_agents(scene: Scene, tmp_path: Path) -> None:
    scene.agent("ln-theirs")
    for context in (scene.person("leo", tmp_path), scene.hub.tls(scene.hub.admin_pair())):
        someone, before = newcomer(scene, "ln-theirs", context), scene.batched()
        for _ in range(3):
            assert someone.ask().status == 200
        assert scene.batched() == before


@pytest.mark.contract("D23")
def test_what_an_agent_sends_at_first_counts_for_its_limit(scene: Scene) -> None:
    agent, before = newcomer(scene, "ln-limited"), scene.batched()
    statuses = [agent.ask().status for _ in range(2 * BURST)]
    assert statuses[0] == 200
    assert {*statuses} == {200, 429}
    assert (scene.batched() - before)["reader"] == statuses.count(200)
