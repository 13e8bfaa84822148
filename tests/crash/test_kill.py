"""A hub whose processes are killed while clusters register: no acknowledged write is lost, no cluster stays half made."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from signal import SIGKILL
from typing import Any

import pytest

from tests.conftest import StartHub
from tests.crash import stored
from tests.crash.agents import CLUSTERS, LEASE, RENEWALS, REQUESTS, Agent, Caller, Doc, Ledger
from tests.hub import Hub

pytestmark = pytest.mark.timeout(300)

SEED = 20_260_501
AGENTS = 20
# What is killed together: each process alone, and all of them as in a power cut.
VICTIMS = [{"server"}, {"worker"}, {"server", "worker", "beat"}, {"beat"}, {"server"}, {"server", "worker"}]
WRITES = AGENTS * (4 + RENEWALS)
SETTLED_SECONDS = 90
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLE = "open-cluster-management:managedcluster:{}"


@dataclass(frozen=True)
class Aftermath:
    """What is left when all agents are done and nobody kills any more."""

    hub: Hub
    ledger: Ledger
    admin: Caller
    agents: list[Agent]

    def stored(self, path: str) -> Doc:
        code, doc = self.admin.get(path)
        assert code == 200, doc
        return doc


@pytest.fixture(scope="module")
def aftermath(start_hub: StartHub) -> Iterator[Aftermath]:
    with start_hub() as hub, ExitStack() as stack:
        token = hub.manage("bootstrap_token", "create", "--uses", "1000").partition("token=")[2].split()[0]
        ledger = Ledger()
        admin = Caller(stack.enter_context(hub.client(pair=hub.admin_pair())), ledger)
        agents = []
        for number in range(AGENTS):
            client = stack.enter_context(hub.client(Authorization=f"Bearer {token}"))
            agents.append(Agent(hub, f"crash{number:02}", Caller(client, ledger), admin))
        with ThreadPoolExecutor(AGENTS) as pool:
            running = [pool.submit(agent.run) for agent in agents]
            _kill_at_random(hub, ledger, running)
        for future in running:
            future.result()
        yield Aftermath(hub, ledger, admin, agents)
        for agent in agents:
            agent.own.client.close()


def _kill_at_random(hub: Hub, ledger: Ledger, running: list[Future[None]]) -> None:
    """Moments are numbers of acknowledged writes, and a little later: so they fall into work and not into pauses."""
    dice = random.Random(SEED)  # noqa: S311 - a repeatable choice
    rounds = [sorted(victims & set(hub.commands)) for victims in VICTIMS if victims & set(hub.commands)]
    dice.shuffle(rounds)
    moments = sorted(dice.sample(range(2, WRITES * 9 // 10), len(rounds)))
    for moment, victims in zip(moments, rounds, strict=True):
        while len(ledger.writes) < moment and not all(future.done() for future in running):
            time.sleep(0.002)
        time.sleep(dice.random() * 0.1)
        for name in victims:
            hub.stop(name, SIGKILL)
        for name in victims:
            hub.start(name)


def test_the_hub_was_killed_while_clients_waited_for_an_answer(aftermath: Aftermath) -> None:
    assert aftermath.ledger.unanswered >= AGENTS
    assert len(aftermath.ledger.writes) > WRITES * 3 // 4


def test_no_acknowledged_write_is_lost(aftermath: Aftermath) -> None:
    for path, group in itertools.groupby(sorted(aftermath.ledger.writes, key=lambda w: w.path), key=lambda w: w.path):
        writes = sorted(group, key=lambda write: write.revision)
        doc, last = aftermath.stored(path), writes[-1]
        assert {write.uid for write in writes} == {doc["metadata"]["uid"]}, path
        assert int(doc["metadata"]["resourceVersion"]) >= last.revision, path
        assert _without_taints(doc["spec"]) == _without_taints(last.spec), path


def _without_taints(spec: Doc) -> Doc:
    """Those are the hub's own, by the health of the cluster."""
    return {name: value for name, value in spec.items() if name != "taints"}


def test_each_acknowledged_write_is_in_the_log_as_it_was_answered(aftermath: Aftermath) -> None:
    with aftermath.hub.reading() as query:
        log = {revision: json.loads(wire) for revision, wire in query("SELECT revision, wire FROM kubeapi_change")}
    for write in aftermath.ledger.writes:
        assert log[write.revision]["metadata"]["uid"] == write.uid
        assert log[write.revision]["spec"] == write.spec


def test_every_accepted_cluster_ends_complete(aftermath: Aftermath) -> None:
    for agent in aftermath.agents:
        _eventually(lambda agent=agent: _assert_complete(aftermath, agent))


def _eventually(check: Any) -> None:
    deadline = time.monotonic() + SETTLED_SECONDS
    while True:
        try:
            check()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            return


def _assert_complete(aftermath: Aftermath, agent: Agent) -> None:
    name, role = agent.name, ROLE.format(agent.name)
    cluster = aftermath.stored(f"{CLUSTERS}/{name}")
    assert cluster["spec"]["managedClusterClientConfigs"] == agent.spec["managedClusterClientConfigs"]
    assert "cluster.open-cluster-management.io/api-resource-cleanup" in cluster["metadata"]["finalizers"]
    conditions = {each["type"]: each["status"] for each in cluster["status"]["conditions"]}
    assert conditions["HubAcceptedManagedCluster"] == "True"
    assert aftermath.stored(f"/api/v1/namespaces/{name}")["status"]["phase"] == "Active"
    assert aftermath.stored(f"{RBAC}/clusterroles/{role}")["rules"]
    assert aftermath.stored(f"{RBAC}/clusterrolebindings/{role}")["roleRef"]["name"] == role
    for use in ("registration", "work"):
        binding = aftermath.stored(f"{RBAC}/namespaces/{name}/rolebindings/{role}:{use}")
        assert binding["roleRef"]["name"] == ROLE.format(use)
    assert binding["metadata"]["finalizers"] == ["cluster.open-cluster-management.io/manifest-work-cleanup"]
    assert aftermath.stored(LEASE.format(name))["spec"]["renewTime"]
    request = aftermath.stored(f"{REQUESTS}/{agent.request}")
    assert [each["type"] for each in request["status"]["conditions"]] == ["Approved"]
    assert request["status"]["certificate"]
    assert agent.own.get(f"{CLUSTERS}/{name}")[0] == 200


def test_the_work_queue_holds_nothing_overdue(aftermath: Aftermath) -> None:
    """Also what a killed worker had claimed: it comes back when the claim has run out."""
    _eventually(lambda: _assert_nothing_overdue(aftermath.hub))


def _assert_nothing_overdue(hub: Hub) -> None:
    assert stored.overdue(stored.work_left(hub)) == []


def test_counter_log_audit_and_rows_agree(aftermath: Aftermath) -> None:
    stored.assert_log_agrees(aftermath.hub)
