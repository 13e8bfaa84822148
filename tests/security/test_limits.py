"""Limits for each identity (D23) on a served hub: 429 in the shape that clients obey, and a record of who met one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import httpx
import pytest

from tests import hub as hubs
from tests.fleet import Agent, Fleet

pytestmark = [pytest.mark.slow, pytest.mark.contract("D23")]

CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
MOST_WATCHES = 3


@pytest.fixture(scope="module")
def fleet(start_hub: Callable[..., AbstractContextManager[hubs.Hub]]) -> Iterator[Fleet]:
    """A hub whose limits a test can reach: two requests a second and 60 at once, three watches."""
    limits = {"LIMIT_REQUESTS": "2", "LIMIT_BURST": "60", "LIMIT_WATCHES": str(MOST_WATCHES), "LIMIT_STRANGERS": "1"}
    with start_hub(**limits) as hub, Fleet(hub) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def good(fleet: Fleet) -> Agent:
    return fleet.join("good")


@pytest.fixture(scope="module")
def bad(fleet: Fleet) -> Agent:
    return fleet.join("bad")


def flood(client: httpx.Client, path: str) -> httpx.Response:
    """The first answer that is a 429."""
    for _ in range(2_000):
        if (answer := client.get(path)).status_code == httpx.codes.TOO_MANY_REQUESTS:
            return answer
    raise AssertionError("nothing was held back")


def recorded(hub: hubs.Hub, limit: str) -> list[tuple[str, str]]:
    """Who met a limit, once the server wrote it down."""
    for _ in range(1_200):
        with hub.reading() as read:
            found = read(f'SELECT "user", address FROM kubeapi_heldback WHERE "limit" = \'{limit}\'')  # noqa: S608
        if found:
            return [(str(user), str(address)) for user, address in found]
        time.sleep(0.1)
    raise AssertionError(f"nobody met {limit}")


def test_an_agent_that_floods_is_held_back_and_named_while_others_go_on(fleet: Fleet, good: Agent, bad: Agent) -> None:
    answer = flood(bad.client, f"{CLUSTERS}/bad")
    assert int(answer.headers["Retry-After"]) >= 1
    status = answer.json()
    assert (status["kind"], status["reason"], status["code"]) == ("Status", "TooManyRequests", 429)
    assert status["message"] == "the server has received too many requests and has asked us to try again later"
    good.beat()
    assert fleet.admin.get(CLUSTERS).status_code == 200
    assert recorded(fleet.hub, "OCMCONSOLE_LIMIT_REQUESTS") == [
        (f"system:open-cluster-management:bad:{bad.request[-5:]}", "127.0.0.1")
    ]
    time.sleep(int(answer.headers["Retry-After"]))
    assert bad.client.get(f"{CLUSTERS}/bad").status_code == 200


def test_an_agent_that_opens_watches_has_so_many(fleet: Fleet, good: Agent) -> None:
    path = f"{CLUSTERS}?watch=true&fieldSelector=metadata.name%3Dgood"
    with ExitStack() as stack:
        opened = [stack.enter_context(good.client.stream("GET", path)) for _ in range(MOST_WATCHES + 1)]
        assert [each.status_code for each in opened] == [200] * MOST_WATCHES + [429]
        good.beat()  # what is no watch goes on
    assert recorded(fleet.hub, "OCMCONSOLE_LIMIT_WATCHES")


def test_an_address_that_guesses_tokens_is_refused_and_agents_behind_it_are_not(fleet: Fleet, good: Agent) -> None:
    """All of them come from 127.0.0.1."""
    with fleet.hub.client(Authorization="Bearer aaaaaa.bbbbbbbbbbbbbbbb") as guesser:
        assert guesser.get(CLUSTERS).status_code == 401
        flood(guesser, CLUSTERS)
    good.beat()
    fleet.join("newcomer")  # with a certificate that the server has not seen before
    assert recorded(fleet.hub, "OCMCONSOLE_LIMIT_STRANGERS") == [("", "127.0.0.1")]


@pytest.mark.kubectl
@pytest.mark.contract("W161")
def test_kubectl_waits_as_long_as_it_is_asked_to(fleet: Fleet, kubectl: Path, tmp_path: Path) -> None:
    """By a request that each of them repeats: `get --raw` does so since 1.22 only (kubernetes#102107)."""
    path = tmp_path / "kubeconfig"
    printed = fleet.hub.manage("bootstrap_token", "create", "--name", "patient", "--uses", "1")  # limits of one client
    token = printed.partition("token=")[2].split()[0]
    with fleet.hub.client(Authorization=f"Bearer {token}") as client:
        for _ in range(3):
            flood(client, "/version")
            said = fleet.hub.kubectl(kubectl, "version", kubeconfig=fleet.hub.kubeconfig(path, token))
            assert said.returncode == 0, said
            assert "Server Version" in said.stdout
