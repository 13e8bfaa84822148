"""The watch path against the ordinary one: the same answers for a corpus of requests, and rights that end.

A header that no agent sends makes a request ordinary.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from itertools import pairwise
from typing import Any

import httpx
import pytest

from tests.fleet import CLUSTERS, Fleet
from tests.hub import Hub
from tests.serving.leases import AGENT, AGENTS, ORDINARY, PROTOBUF, Agent, Answer, Scene, told

ADDONS = "/apis/addon.open-cluster-management.io/v1alpha1/namespaces/{}/managedclusteraddons"
WORKS = "/apis/work.open-cluster-management.io/v1/namespaces/{}/manifestworks"
NAME = "wp-one"
BOOKMARKS = "allowWatchBookmarks=true"
CLOCK_SYNCED = "ManagedClusterConditionClockSynced"
PATIENCE = 120.0  # seconds
OWN = f"fieldSelector=metadata.name%3D{NAME}"


@pytest.fixture(scope="module")
def scene(hub: Hub) -> Iterator[Scene]:
    with Fleet(hub) as fleet_, Scene(hub, fleet_) as scene:
        yield scene


@pytest.fixture(scope="module")
def agent(scene: Scene) -> Agent:
    """One that the lease path knows, of whose cluster the hub has nothing left to say."""
    agent = scene.agent(NAME)
    scene.fleet.patch(NAME, {"spec": {"leaseDurationSeconds": 3600}})  # not silent before the tests are over
    for _ in range(2):
        assert agent.ask().status == 200
    until = time.monotonic() + PATIENCE
    while not any(each["type"] == CLOCK_SYNCED for each in cluster(scene, NAME)["status"]["conditions"]):
        assert time.monotonic() < until, "the clock of the cluster was not judged"
        time.sleep(0.1)
    assert relabelled(scene, NAME, "first")
    return agent


def relabelled(scene: Scene, name: str, value: str) -> str:
    """The revision of a change of the cluster."""
    scene.fleet.patch(name, {"metadata": {"labels": {"wp": value}}})
    found: str = cluster(scene, name)["metadata"]["resourceVersion"]
    return found


def cluster(scene: Scene, name: str) -> dict[str, Any]:
    found: dict[str, Any] = scene.fleet.admin.get(f"{CLUSTERS}/{name}").raise_for_status().json()
    return found


def opened(scene: Scene) -> float:
    return scene.batched().get("watcher", 0.0)


def watch(agent: Agent, path: str, query: str, **headers: Any) -> Answer:
    return agent.ask(path=path, query=f"?watch=true&timeoutSeconds=1&{query}", **headers)


# ---------------------------------------------------------------- the same by both

# By the watch path: a path and a query, in which {rv} is a revision before two changes of the cluster.
TAKEN = [
    (CLUSTERS, f"{OWN}&resourceVersion={{rv}}"),
    (CLUSTERS, f"{OWN}&resourceVersion={{rv}}&{BOOKMARKS}"),
    (CLUSTERS, f"{OWN}&resourceVersion={{rv}}&labelSelector=wp%3Dsecond"),
    (CLUSTERS, f"{OWN}&resourceVersion={{rv}}&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"),
    (CLUSTERS, f"{OWN}&resourceVersion=999999999&{BOOKMARKS}"),
    (ADDONS.format(NAME), f"resourceVersion={{rv}}&{BOOKMARKS}"),
    (WORKS.format(NAME), "resourceVersion={rv}"),
]
# Not by it: it recognises nothing, or the agent may not.
LEFT = [
    (CLUSTERS, OWN),
    (CLUSTERS, f"{OWN}&resourceVersion=0"),
    (CLUSTERS, f"{OWN}&resourceVersion={{rv}}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&{BOOKMARKS}"),
    (CLUSTERS, f"{OWN}&resourceVersion=x"),
    (CLUSTERS, f"{OWN}&resourceVersion={{rv}}&labelSelector=%3D%3D"),
    (CLUSTERS, f"{OWN}&resourceVersion={{rv}}&resourceVersionMatch=Exact"),
    (CLUSTERS, f"{OWN}&resourceVersion={{rv}}&allowWatchBookmarks=maybe"),
    (f"{CLUSTERS}/{NAME}", "resourceVersion={rv}"),
]
REFUSED = [
    ("/api/v1/namespaces/x/status", "resourceVersion={rv}"),
    ("/apis/cluster.open-cluster-management.io/v1/nothings", "resourceVersion={rv}"),
    (CLUSTERS, "fieldSelector=spec.secret%3Dx&resourceVersion={rv}"),
    (CLUSTERS, "resourceVersion={rv}"),
    (CLUSTERS, "fieldSelector=metadata.name%3Danother&resourceVersion={rv}"),
    (WORKS.format("another"), "resourceVersion={rv}"),
    ("/api/v1/namespaces", "resourceVersion={rv}"),
]


def both(scene: Scene, agent: Agent, path: str, query: str) -> tuple[list[Answer], list[float]]:
    """The answers of either path, and how many requests the watch path has looked at."""
    before = cluster(scene, NAME)["metadata"]["resourceVersion"]
    for value in ("second", "third"):
        relabelled(scene, NAME, value)
    answers, counts = [], [opened(scene)]
    for headers in (AGENTS, ORDINARY):
        answers.append(watch(agent, path, query.format(rv=before), **headers))
        counts.append(opened(scene))
    return answers, [after - then for then, after in pairwise(counts)]


def lines(answer: Answer) -> list[object]:
    """Revisions of bookmarks are of the moment, all others are of the object."""
    events = [json.loads(line) for line in answer.body.splitlines()]
    return [told(json.dumps(event).encode()) if event.get("type") == "BOOKMARK" else event for event in events]


@pytest.mark.contract("W11", "W12")
@pytest.mark.parametrize(("path", "query"), TAKEN)
def test_it_answers_as_the_ordinary_path_does(scene: Scene, agent: Agent, path: str, query: str) -> None:
    (fast, ordinary), taken = both(scene, agent, path, query)
    assert taken[0] > 0  # and once more if rights have changed before an event
    assert taken[1] == 0
    assert (fast.status, fast.shown_headers) == (ordinary.status, ordinary.shown_headers)
    assert lines(fast) == lines(ordinary)
    if path == CLUSTERS:
        assert len(lines(fast)) > 0


@pytest.mark.parametrize(("path", "query"), [*LEFT, *REFUSED])
def test_the_ordinary_path_answers_what_is_anything_else(scene: Scene, agent: Agent, path: str, query: str) -> None:
    (fast, ordinary), taken = both(scene, agent, path, query)
    assert taken == [0.0, 0.0]  # of those that it has let in; a question that it has answered with no is not counted
    assert (fast.status, fast.shown_headers) == (ordinary.status, ordinary.shown_headers)
    assert [told(line) for line in fast.body.splitlines()] == [told(line) for line in ordinary.body.splitlines()]
    assert (fast.status == 403) == ((path, query) in REFUSED)


@pytest.mark.parametrize(
    "headers",
    [
        {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
        {"Impersonate-User": "somebody"},
        {"Authorization": "Bearer x"},
    ],
)
def test_a_request_that_asks_for_more_is_ordinary(scene: Scene, agent: Agent, headers: dict[str, str]) -> None:
    before = opened(scene)
    watch(agent, CLUSTERS, f"{OWN}&resourceVersion=1", **headers)
    assert opened(scene) == before


@pytest.mark.contract("W12", "W140")
def test_who_comes_from_before_the_history_gets_410(scene: Scene, agent: Agent) -> None:
    old = relabelled(scene, NAME, "old")
    relabelled(scene, NAME, "new")
    time.sleep(1.1)
    scene.hub.manage("compact", "--keep=0", "--older-than=1s")
    answers = [watch(agent, CLUSTERS, f"{OWN}&resourceVersion={old}", **headers) for headers in (AGENTS, ORDINARY)]
    assert answers[0].body == answers[1].body
    assert answers[0].doc["object"]["message"].startswith(f"too old resource version: {old} (")


# ---------------------------------------------------------------- rights that end


def sent_away(scene: Scene, name: str) -> None:
    scene.fleet.patch(name, {"spec": {"hubAcceptsClient": False}})


def revoked(scene: Scene, name: str) -> None:
    with scene.hub.reading() as ask:
        found = ask(f"SELECT fingerprint FROM registration_issuedcertificate WHERE cluster = '{name}'")  # noqa: S608 - a name of this file
    for (fingerprint,) in found:
        scene.hub.manage("revoke_certificate", fingerprint, "--reason", "stolen")


@pytest.mark.contract("H7")
@pytest.mark.parametrize(("name", "end", "status"), [("wp-away", sent_away, 403), ("wp-revoked", revoked, 401)])
def test_an_open_watch_shows_nothing_that_comes_after_the_right_and_the_next_is_refused(
    scene: Scene, name: str, end: Callable[[Scene, str], None], status: int
) -> None:
    agent = scene.agent(name)
    for _ in range(2):
        assert agent.ask().status == 200
    at, before = relabelled(scene, name, "before"), opened(scene)
    own = WORKS.format(name), f"resourceVersion={at}"
    second = scene.connect(name, agent.address, agent.context)
    second.connection.request(
        "GET",
        f"{WORKS.format(name)}?watch=true&timeoutSeconds=60&resourceVersion={at}",
        headers={"User-Agent": AGENT, "Accept": PROTOBUF + ",application/json"},
    )
    stream = second.connection.getresponse()
    assert stream.status == 200
    assert opened(scene) > before  # and once more if rights have changed
    work(scene, name, "seen")
    assert json.loads(stream.readline())["object"]["metadata"]["name"] == "seen"
    assert watch(agent, *own).status == 200
    end(scene, name)
    work(scene, name, "unseen")
    assert b"unseen" not in rest(stream)
    assert watch(agent, *own).status == status


def work(scene: Scene, cluster: str, name: str) -> httpx.Response:
    doc = {"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": name}}
    return scene.fleet.admin.post(WORKS.format(cluster), json=doc | {"spec": {}}).raise_for_status()


def rest(stream: Any) -> bytes:
    try:
        found: bytes = stream.read()
    except HTTPException:
        return b""
    return found
