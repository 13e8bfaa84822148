"""The drill: a hub with 200 live agents is backed up, goes on, is lost and restored; nobody touches a cluster.

A few of them join as agents do, the others have joined before: they are seeded with what they keep, which costs a tenth. How much was lost (RPO) and how long it took (RTO) is printed and not asserted: both depend on the machine.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import SIGKILL

import httpx
import pyrage
import pytest
import yaml

from tests import preloaded, servers, tools
from tests.agent.program import PROGRAM, Program
from tests.conftest import StartHub
from tests.crash.agents import CLUSTERS, MERGE, Agent, Caller, Ledger
from tests.hub import ROOT, Hub, numbers

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.contract("D21", "D22", "D26", "D28")]

AGENTS = 200
JOINING = 8  # of them
BEAT_SECONDS = 15  # of each agent
PATIENCE_SECONDS = 400
AHEAD_SECONDS = 60  # and more: a heartbeat that was seeded, and no agent sent
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PEOPLE = """
import pathlib
from ocmconsole.kubeapi.access.actor import Actor, MASTERS
from registration.approvals import services
from registration.models import IssuedCertificate
from registration.pki import kubeconfigs
setup = Actor(user="setup", groups=(MASTERS,))
for name in ("later", "revoked"):
    text = kubeconfigs.of_user(setup, name, groups=(), lifetime=kubeconfigs.timedelta(hours=1))
    pathlib.Path("{folder}", name).write_text(text)
services.revoke_certificate(setup, IssuedCertificate.objects.get(common_name="revoked").pk, reason="stolen")
"""


@dataclass
class Tenant(Agent):
    """An agent whose key and certificate lie outside of the home that is lost; ``act`` says which of them."""

    folder: Path = Path()
    act: str = "request"

    @property
    def request(self) -> str:
        return f"{self.name}-{self.act}"

    @property
    def pair(self) -> Path:
        return self.folder / f"{self.request}.pem"


@dataclass
class Writer:
    """Writes on and on, some ten times a second, until the hub is gone; remembers what was acknowledged, and when."""

    client: httpx.Client
    acknowledged: dict[str, float] = field(default_factory=dict)

    def run(self) -> None:
        with suppress(httpx.HTTPError), self.client:
            for number in range(100_000):
                doc = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"drill-{number}"}}
                if self.client.post(CONFIGMAPS, json=doc).is_success:
                    self.acknowledged[f"drill-{number}"] = time.time()
                time.sleep(0.1)


def test_a_lost_hub_comes_back_from_its_backup_and_no_cluster_is_touched(
    start_hub: StartHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, key, listed = tmp_path / "place", tmp_path / "key.txt", tmp_path / "agents"
    place.mkdir()
    backup = place / "hub.backup"
    key.write_text(f"{pyrage.x25519.Identity.generate()}\n")
    programs = tools.postgres_of_machine() or tools.postgres_of_wheel()
    with start_hub(first=seeded(listed), BACKUP_PLACE=str(place)) as started:
        path = f"{programs}:{started.environment['PATH']}"
        hub = replace(started, environment={**started.environment, "PATH": path})
        with fleet(hub, listed), program(start_hub, hub, tmp_path) as named, ExitStack() as stack:
            writer = Writer(hub.admin())
            writing = threading.Thread(target=writer.run)
            writing.start()
            tenant = joined(hub, tmp_path, stack)
            for name in ("left", "gone"):
                with hub.admin() as client:
                    client.post(CLUSTERS, json=cluster(name)).raise_for_status()
            before = set(writer.acknowledged)
            hub.manage("backup", str(backup), "--key", str(key))
            renewed = take_away_and_renew(hub, tenant, tmp_path)
            stack.callback(tenant.own.client.close)
            with hub.admin() as client:
                seen = client.get(CLUSTERS).json()["metadata"]["resourceVersion"]
            certificates = issued(hub)
            assert until(lambda: {"disconnected", "deleted", "revoked"} <= said_in(place / "revocations.log"))

            key_of_named = named.key() if named is not None else ""
            for name in reversed([*hub.processes]):
                hub.stop(name, SIGKILL)
            lost = time.time()
            writing.join()
            old = moved_away(hub, tmp_path)
            new = fresh(hub)
            said = new.manage("restore", str(backup), "--key", str(key))
            restored = time.time()
            for name in new.commands:
                new.start(name)
            serving = time.time()
            try:
                assert until(lambda: len(heard_since(new, lost)) >= AGENTS), len(heard_since(new, lost))
                back = time.time()
                if named is not None:
                    named.is_heard(new, lost)
                    assert (named.starts, named.key()) == (1, key_of_named)
                kept = stands(new, before, seen, said)
                assert issued(new) <= certificates  # no agent of the fleet has asked for another one
                speaks(new, renewed, tmp_path)
                new.manage("activate")
                harmless(old, new)
            finally:
                for name in reversed([*new.processes]):
                    new.stop(name)
    gap = min((at for name, at in writer.acknowledged.items() if name not in kept), default=lost)
    with capsys.disabled():
        sys.stdout.write(
            f"\ndrill, {AGENTS} agents: RPO {lost - gap:.1f} s ({len(set(writer.acknowledged) - kept)} of "
            f"{len(writer.acknowledged)} writes, all after the backup); RTO restored {restored - lost:.1f} s, "
            f"serving {serving - lost:.1f} s, every agent heard {back - lost:.1f} s\n"
        )


# ---------------------------------------------------------------- before


def seeded(listed: Path) -> tuple[str, ...]:
    """A command that gives the hub the clusters whose agents need not join, and ``listed`` what they keep."""
    seed = f"settled_agents.seed({AGENTS - JOINING}, {str(listed)!r}, {BEAT_SECONDS})"
    return "shell", "-c", f"from tests.crash import settled_agents; {seed}"


@contextmanager
def fleet(hub: Hub, listed: Path) -> Iterator[None]:
    """Agents in processes of their own that outlive the hub; all have joined and beat often."""
    settled = [sys.executable, "-m", "tests.crash.settled_agents", str(listed), str(hub.admin_kubeconfig)]
    joining = [*hub.program, "simulate_fleet", f"--clusters={JOINING}", "--seconds=3600"]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                preloaded.Popen[bytes](
                    command, cwd=ROOT, env=dict(hub.environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            )
            for command in (settled, joining)
        ]
        for process in processes:
            stack.callback(process.kill)
        assert until(lambda: len(heard_since(hub, 0)) >= AGENTS or any(each.poll() is not None for each in processes))
        assert [each.poll() for each in processes] == [None, None]
        with hub.admin() as client:
            for number in range(JOINING):
                often = {"spec": {"leaseDurationSeconds": BEAT_SECONDS}}
                client.patch(f"{CLUSTERS}/sim-{number:05}", json=often, headers=MERGE).raise_for_status()
        yield
        assert all(process.poll() is None for process in processes), "the agents ended"


@contextmanager
def program(start_hub: StartHub, hub: Hub, folder: Path) -> Iterator[Program | None]:
    """The agent that TEST_REGISTRATION_AGENT names, joined."""
    if not PROGRAM:
        yield None
        return
    with start_hub() as its_cluster:
        found = Program.on(its_cluster, "named", folder / "named")
        found.bootstrap(hub)
        with found.running():
            found.joins(hub)
            yield found


def cluster(name: str) -> dict[str, object]:
    group = "cluster.open-cluster-management.io/v1"
    spec = {"hubAcceptsClient": True}
    return {"apiVersion": group, "kind": "ManagedCluster", "metadata": {"name": name}, "spec": spec}


def joined(hub: Hub, folder: Path, stack: ExitStack) -> Tenant:
    token = hub.manage("bootstrap_token", "create").partition("token=")[2].split()[0]
    ledger = Ledger()
    admin = stack.enter_context(hub.client(pair=hub.admin_pair()))
    own = stack.enter_context(hub.client(Authorization=f"Bearer {token}"))
    found = Tenant(hub, "tenant", Caller(own, ledger), Caller(admin, ledger), folder=folder)
    found.run()
    return found


def take_away_and_renew(hub: Hub, tenant: Tenant, folder: Path) -> Tenant:
    """After the backup: two clusters are sent away, one certificate is revoked, others are issued."""
    with hub.admin() as client:
        client.delete(f"{CLUSTERS}/gone").raise_for_status()
        off = {"spec": {"hubAcceptsClient": False}}
        client.patch(f"{CLUSTERS}/left", json=off, headers=MERGE).raise_for_status()
    hub.manage("shell", "-c", PEOPLE.format(folder=folder))
    again = Tenant(hub, "tenant", tenant.own, tenant.admin, folder=folder, act="renewal")
    again.ask()
    again.wait_for_certificate()
    return again


# ---------------------------------------------------------------- lost, and another one


def moved_away(hub: Hub, folder: Path) -> Hub:
    """The old hub as somebody may find and start it: its home, its database, an address of its own."""
    home = folder / "old"
    shutil.move(hub.home, home)
    other = hub.beside()
    kept = {name: value for name, value in other.environment.items() if name != "OCMCONSOLE_REDIS_URL"}
    return replace(other, home=home, environment={**kept, "OCMCONSOLE_HOME": str(home)})


def fresh(hub: Hub) -> Hub:
    """At the address of the lost one: an empty home, and where there is a server an empty database."""
    hub.home.mkdir()
    url = hub.environment.get("OCMCONSOLE_DATABASE_URL")
    if not url:
        return replace(hub, processes={})
    empty = servers.create_database(url, f"drill_{os.getpid()}_{next(numbers)}")
    return replace(hub, processes={}, environment={**hub.environment, "OCMCONSOLE_DATABASE_URL": empty})


# ---------------------------------------------------------------- afterwards


def stands(hub: Hub, before: set[str], seen: str, said: str) -> set[str]:
    """What was acknowledged before the backup is there, what was taken away after it is not; names of what was kept."""
    assert "what was revoked is known up to" in said
    with hub.admin() as client:
        kept = {item["metadata"]["name"] for item in client.get(CONFIGMAPS).json()["items"]}
        assert before <= kept
        found = {item["metadata"]["name"]: item for item in client.get(CLUSTERS).json()["items"]}
        assert "gone" not in found or found["gone"]["metadata"].get("deletionTimestamp")
        assert not found["left"]["spec"].get("hubAcceptsClient")
        watched = client.get(CLUSTERS, params={"watch": "1", "resourceVersion": seen, "timeoutSeconds": "5"})
        assert watched.status_code == 410 or '"code":410' in watched.text
    return kept


def speaks(hub: Hub, renewed: Tenant, folder: Path) -> None:
    """D26: with certificates that were issued after the backup, but not with the one that was revoked."""
    renewed.renew_lease()
    renewed.own.client.close()
    for name, expected in (("later", 200), ("revoked", 401)):
        with hub.client(pair=pair(folder / name)) as client:
            assert client.get("/version").status_code == expected, name


def harmless(old: Hub, new: Hub) -> None:
    """D28: the old hub comes back, meets the mark at the backup place, and changes nothing."""
    before, came = contents(old), time.time()
    with (old.home / "server.log").open("ab") as log:
        process = preloaded.Popen[bytes](
            old.commands["server"], cwd=ROOT, env=dict(old.environment), stdout=log, stderr=log
        )
    try:
        with old.admin() as client:
            assert servers.wait_until(
                lambda: client.get("/livez").raise_for_status(), (OSError, httpx.HTTPError), process
            )
            assert client.get(CLUSTERS).is_success
            for answer in (
                client.post(CONFIGMAPS, json={"metadata": {"name": "late"}}),
                client.patch(f"{CLUSTERS}/left", json={"spec": {"hubAcceptsClient": True}}, headers=MERGE),
            ):
                assert answer.status_code == 503, answer.text
                assert "this hub only reads, because it was restored from a backup" in answer.json()["message"]
            assert "[-]incarnation failed: this hub only reads" in client.get("/readyz").text
        page = httpx.post(f"{old.console_url}/login/", trust_env=False, timeout=60)
        assert page.status_code == 503
        assert "This hub only reads" in page.text
    finally:
        servers.stop(process)
    assert "this hub only reads" in old.log("server")
    assert contents(old) == before
    assert until(lambda: len(heard_since(new, came)) >= AGENTS)


def contents(hub: Hub) -> list[tuple[object, ...]]:
    """The revision, and how much there is of what a hub writes by itself."""
    with hub.reading() as ask:
        tables = ("kubeapi_change", "kubeapi_auditevent", "kubeapi_workitem", "clusters_silence")
        return [
            *ask("SELECT value FROM kubeapi_revision"),
            *(ask(f"SELECT count(*) FROM {each}")[0] for each in tables),  # noqa: S608 - names from above
        ]


def heard_since(hub: Hub, moment: float) -> set[str]:
    """Clusters of the fleet that have renewed their lease since then."""
    with hub.reading() as ask:
        rows = ask("SELECT namespace, renew_time FROM clusters_lease WHERE renew_time IS NOT NULL")
    begin, end = moment * 1_000_000, (time.time() + AHEAD_SECONDS) * 1_000_000
    return {name for name, renewed in rows if "-" in name and begin <= renewed < end}


def issued(hub: Hub) -> int:
    """Certificates of the fleet, by requests that were ever made: one that asks anew is counted again."""
    with hub.reading() as ask:
        return int(ask("SELECT count(*) FROM registration_issuedcertificate WHERE cluster LIKE '%-%'")[0][0])


def pair(kubeconfig: Path) -> Path:
    """Certificate and key that it holds, in one file."""
    user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
    path = kubeconfig.with_suffix(".pem")
    path.write_bytes(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
    return path


def said_in(log: Path) -> set[str]:
    return {json.loads(line)["what"] for line in log.read_text().splitlines()} if log.exists() else set()


def until(seen: Callable[[], bool]) -> bool:
    """Whether it comes to be so while anybody waits."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not seen():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True
