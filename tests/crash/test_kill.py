"""A hub whose processes are killed while clusters register and renew leases: no acknowledged write is lost.

And no cluster stays half made. On PostgreSQL the database and Redis are killed as well, each in its turn and all at
once; nobody does anything for the others, which go on by themselves.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from tests import hub as hubs
from tests import selection, servers
from tests.conftest import StartHub
from tests.crash import stored
from tests.crash.agents import CLUSTERS, LEASE, RENEWALS, REQUESTS, Agent, Caller, Doc, Ledger
from tests.hub import Hub
from tests.serving import leases

pytestmark = pytest.mark.timeout(1_200)

SEED = 20_260_501
AGENTS = 20 if selection.FULL or "TEST_DATABASE_URL" not in os.environ else 12
# What is killed together: each process alone, and all of them as in a power cut; in the order in which they start.
VICTIMS: dict[str, list[tuple[str, ...]]] = {
    "sqlite": [("server",)] * 4,
    "postgres": [
        *((name,) for name in ("postgres", "redis", "server", "worker", "beat")),
        ("postgres", "redis", "server", "worker", "beat"),
    ],
}
ROUNDS = 3 if selection.FULL else 1  # of all of these
WRITES = AGENTS * (4 + RENEWALS)
SETTLED_SECONDS = 300
LOCK_TIMEOUT = "60s"  # of a machine that may leave a writer without a processor for long
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLE = "open-cluster-management:managedcluster:{}"


@dataclass(frozen=True)
class Site:
    """``programs`` are the servers that the hub needs, by name."""

    hub: Hub
    programs: Mapping[str, servers.Program]

    def kill(self, name: str) -> None:
        if name in self.programs:
            self.programs[name].kill()
        else:
            self.hub.stop(name, SIGKILL)

    def start(self, name: str) -> None:
        if name in self.programs:
            self.programs[name].start()
        else:
            self.hub.start(name)


@contextmanager
def _served(start_hub: StartHub, home: Path) -> Iterator[Site]:
    """On PostgreSQL with a database, that keeps what it has acknowledged, and a Redis of its own."""
    if "TEST_DATABASE_URL" not in os.environ:
        with start_hub(DATABASE_LOCK_TIMEOUT=LOCK_TIMEOUT) as hub:
            yield Site(hub, {})
        return
    with (
        servers.postgres_program(durable=True) as (url, postgres),
        servers.redis_program() as (redis_url, redis),
        hubs.serve(home, database_url=url, redis_url=f"{redis_url}/0", DATABASE_LOCK_TIMEOUT=LOCK_TIMEOUT) as hub,
    ):
        yield Site(hub, {"postgres": postgres, "redis": redis})


@dataclass(frozen=True)
class Aftermath:
    """What is left when all agents are done and nobody kills any more; ``killed`` says how often what was."""

    hub: Hub
    ledger: Ledger
    admin: Caller
    agents: list[Agent]
    killed: Counter[str]

    def stored(self, path: str) -> Doc:
        code, doc = self.admin.get(path)
        assert code == 200, doc
        return doc


@pytest.fixture(scope="module")
def aftermath(start_hub: StartHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    with _served(start_hub, tmp_path_factory.mktemp("killed")) as site, ExitStack() as stack:
        hub, ledger, is_patient = site.hub, Ledger(), "postgres" in site.programs
        token = hub.manage("bootstrap_token", "create", "--uses", "1000").partition("token=")[2].split()[0]
        admin = Caller(stack.enter_context(hub.client(pair=hub.admin_pair())), ledger, is_patient)
        agents = []
        for number in range(AGENTS):
            client = stack.enter_context(hub.client(Authorization=f"Bearer {token}"))
            agents.append(Agent(hub, f"crash{number:02}", Caller(client, ledger, is_patient), admin))
        with ThreadPoolExecutor(AGENTS) as pool:
            running = [pool.submit(agent.run) for agent in agents]
            killed = _kill_at_random(site, ledger, running)
        for future in running:
            future.result()
        yield Aftermath(hub, ledger, admin, agents, killed)
        for agent in agents:
            agent.own.client.close()


def _kill_at_random(site: Site, ledger: Ledger, running: list[Future[None]]) -> Counter[str]:
    """Moments are numbers of acknowledged writes, and a little later: so they fall into work and not into pauses."""
    dice = random.Random(SEED)  # noqa: S311 - a repeatable choice
    rounds = VICTIMS["postgres" if site.programs else "sqlite"] * ROUNDS
    dice.shuffle(rounds)
    moments = sorted(dice.sample(range(2, WRITES * 9 // 10), len(rounds)))
    for moment, victims in zip(moments, rounds, strict=True):
        while len(ledger.writes) < moment and not all(future.done() for future in running):
            time.sleep(0.002)
        time.sleep(dice.random() * 0.1)
        lost = ledger.unanswered
        for name in victims:
            site.kill(name)
        while victims[0] == "postgres" and ledger.unanswered == lost and not all(future.done() for future in running):
            time.sleep(0.002)  # until somebody has noticed
        for name in victims:
            site.start(name)
    return Counter(itertools.chain.from_iterable(rounds))


def test_what_was_not_killed_has_gone_on_by_itself(aftermath: Aftermath) -> None:
    assert {name for name, process in aftermath.hub.processes.items() if process.poll() is None} == {
        *aftermath.hub.commands
    }
    assert {*aftermath.killed} >= {*aftermath.hub.commands}


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


def test_heartbeats_are_on_the_lease_path_again(aftermath: Aftermath) -> None:
    before = leases.batched(aftermath.admin.client)
    for agent in aftermath.agents:
        for _ in range(2):  # the first shows who it is
            agent.renew_lease()
    after = leases.batched(aftermath.admin.client)
    assert after["writer"] >= before.get("writer", 0) + AGENTS


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
