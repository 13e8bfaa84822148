"""The lease path against the ordinary one: the same answers and rows for a corpus of requests, and for what is damaged.

A header that no agent sends makes a request ordinary. Rights that end while agents renew: test_lease_rights.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException

import pytest

from tests import selection
from tests.conftest import StartHub
from tests.fleet import Fleet
from tests.hub import Hub
from tests.serving import lease_corpus, lease_damage
from tests.serving.leases import PATH, Agent, Scene

# What Python answers in the same way on both databases is sent on SQLite.
ALL = selection.FULL or "TEST_DATABASE_URL" not in os.environ
CASES = [*lease_corpus.OVER_HTTP_1, *lease_corpus.CASES] if ALL else lease_corpus.OF_LEASE_PATH
DAMAGED = 100  # bodies of a seed: more, and a lease would wait for its agent's share of CPU time (D23)


@pytest.fixture(scope="module")
def scene(hub: Hub) -> Iterator[Scene]:
    with Fleet(hub) as fleet_, Scene(hub, fleet_) as scene:
        yield scene


@pytest.fixture(scope="module")
def twins(scene: Scene) -> lease_corpus.Twins:
    return lease_corpus.twins_of(scene)


@pytest.mark.contract("W14", "W29", "W104")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_paths_answer_and_store_the_same(scene: Scene, twins: lease_corpus.Twins, case: lease_corpus.Case) -> None:
    lease_corpus.assert_same(scene, twins, case)


@pytest.mark.contract("W1", "W2", "W14")
@pytest.mark.parametrize("seed", range(20 if selection.FULL else 2))
def test_both_paths_answer_and_store_the_same_for_a_damaged_body(scene: Scene, seed: int) -> None:
    twins, before = lease_corpus.twins_of(scene, f"-{'abcdefghijklmnopqrst'[seed]}"), scene.batched()["writer"]
    chance = random.Random(seed)  # noqa: S311 - the same again in each run
    statuses = Counter(lease_damage.assert_same_damage(scene, twins, chance, DAMAGED))
    assert {200, 400} <= statuses.keys()  # conflicts come by chance; the corpus has them all
    assert before < scene.batched()["writer"] < before + DAMAGED


@pytest.mark.contract("H7", "H10", "D19", "D26")
@pytest.mark.parametrize("how", [*lease_corpus.ENDS])
def test_both_paths_refuse_in_the_same_words_who_was_let_in_before(scene: Scene, how: str) -> None:
    lease_corpus.assert_same_refusals(scene, how)


def test_both_paths_refuse_another_clusters_lease_in_the_same_words(scene: Scene, twins: lease_corpus.Twins) -> None:
    scene.agent("lp-other")
    stored = scene.stored("lp-other")
    lease_corpus.assert_refused(scene, twins, 403, path=PATH.format("lp-other"))
    assert scene.stored("lp-other") == stored


def test_the_rows_of_both_paths_agree_with_their_texts(scene: Scene) -> None:
    assert "agree" in scene.hub.manage("check_wire")


# ---------------------------------------------------------------- watches, many at once, the end


def test_watchers_see_each_renewal_once_and_in_order(scene: Scene) -> None:
    agent = scene.agent("lp-watched")
    for _ in range(2):
        lease = agent.renew(agent.ask().doc).doc
    at = lease["metadata"]["resourceVersion"]
    path = "/apis/coordination.k8s.io/v1/namespaces/lp-watched/leases"
    with scene.fleet.admin.stream("GET", path, params={"watch": "true", "resourceVersion": at}) as stream:
        lines = stream.iter_lines()
        renewed = []
        for _ in range(10):
            lease = agent.renew(lease).doc
            renewed.append(("MODIFIED", lease))
        seen = [json.loads(next(lines)) for _ in renewed]
    assert [(event["type"], event["object"]) for event in seen] == renewed


def test_of_two_renewals_of_one_version_one_succeeds(scene: Scene) -> None:
    agent = scene.agent("lp-racing")
    for _ in range(2):
        lease = agent.renew(agent.ask().doc).doc
    others = [scene.connect("lp-racing", scene.hub.api_url, agent.context) for _ in range(6)]
    with ThreadPoolExecutor(len(others)) as pool:
        answers = [each.status for each in pool.map(lambda each: each.renew(lease), others)]
    assert sorted(answers) == [200] + [409] * 5


def test_a_kill_loses_no_acknowledged_renewal(start_hub: StartHub) -> None:
    """And no number is given twice or to nothing."""
    with start_hub() as hub, Fleet(hub) as fleet_, Scene(hub, fleet_) as scene:
        agents = [scene.agent(f"lp-{number}") for number in range(4)]
        acknowledged: dict[str, str] = {}

        def beat(agent: Agent) -> None:
            try:
                while True:
                    answer = agent.renew(agent.ask().doc)
                    if answer.status == 200:
                        acknowledged[agent.name] = answer.doc["metadata"]["resourceVersion"]
            except (OSError, HTTPException):  # the server is gone
                return

        with ThreadPoolExecutor(len(agents)) as pool:
            running = [pool.submit(beat, agent) for agent in agents]
            while sum(scene.batched().values()) < 200:
                pass
            hub.stop("server", signal.SIGKILL)
            for each in running:
                each.result()
        assert acknowledged.keys() == {agent.name for agent in agents}
        with hub.reading() as ask:
            rows = dict(ask("SELECT namespace, resource_version FROM clusters_lease"))
            ((entries, first, last),) = ask("SELECT count(*), min(revision), max(revision) FROM kubeapi_change")
            ((counter,),) = ask("SELECT value FROM kubeapi_revision")
        assert all(rows[name] >= int(revision) for name, revision in acknowledged.items())
        assert (entries, last) == (last - first + 1, counter)
        assert "agree" in hub.manage("check_wire")
