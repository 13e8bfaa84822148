"""What goes wrong between an agent and hubs: certificates that end or are revoked, hubs that go away or refuse, clocks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from registration.agent.agent import RegistrationAgent
from registration.agent.bootstrapping.hub_files import FolderOfFiles
from registration.agent.bootstrapping.hubs import FilesOfHubs
from registration.agent.client.attempts import Log
from registration.agent.client.clock import AgentClock
from registration.agent.equipment import Equipment
from registration.agent.keys import OpenSSL
from registration.agent.options import AgentOptions
from registration.agent.steady_state import rotation
from registration.agent.steady_state.managed_cluster import Health, ManagedClusterFacts
from tests.agent.conftest import Doc, StartAgent, accept, bootstrap, change_cluster, condition, eventually
from tests.agent.process import AgentProcess
from tests.conftest import StartHub
from tests.hub import Hub

CLOCK_SYNCED, ROTATED = "ManagedClusterConditionClockSynced", "ClusterCertificateRotated"
SKIP_CLOCK = "registration.open-cluster-management.io/skip-clock-sync-check"
GOES_ON = "its successor is asked for at"  # said of each certificate that is good


def join(hub: Hub, name: str, start_agent: StartAgent) -> AgentProcess:
    agent = start_agent(name, hub)
    agent.wait_for("waits for approval")
    accept(hub, name)
    agent.wait_for("status reported")
    return agent


@pytest.mark.contract("D19")
def test_a_revoked_certificate_is_said_and_a_new_bootstrap_kubeconfig_brings_the_agent_back(
    hub: Hub, start_agent: StartAgent
) -> None:
    agent = join(hub, "revoked", start_agent)
    fingerprint = asyncio.run(fingerprint_of(agent.files / "tls.crt"))
    hub.manage("revoke_certificate", fingerprint, "--reason", "stolen")
    change_cluster(hub, "revoked", {"spec": {"leaseDurationSeconds": 1}})
    agent.wait_for("watch of managedclusters: 401 Unauthorized")
    (path,) = agent.bootstrap
    path.write_text(path.read_text() + "# a new one\n")
    agent.wait_for("the hub does not know the certificate, and the bootstrap kubeconfig changed")
    agent.wait_for("waits for approval", times=2)


async def fingerprint_of(path: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        "openssl", "x509", "-in", str(path), "-noout", "-fingerprint", "-sha256", stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return out.decode().strip().rpartition("=")[2].replace(":", "").lower()


@pytest.mark.contract("G37", "H17")
def test_a_hub_that_is_killed_and_comes_back_hears_its_agent_again_without_hands(
    start_hub: StartHub, start_agent: StartAgent
) -> None:
    with start_hub() as hub:
        agent = join(hub, "steady", start_agent)
        change_cluster(hub, "steady", {"spec": {"leaseDurationSeconds": 1}})
        agent.wait_for("heartbeats every 1 to 1 s")
        hub.stop("server", signal.SIGKILL)
        agent.wait_for("lease not renewed: ConnectError")
        agent.wait_for("watch of managedclusters: ")
        hub.start("server")
        agent.wait_for("lease not renewed: over, after")
        assert agent.log().count("bootstrapping") == 1
        assert agent.stop() == 0


@pytest.mark.contract("G43", "G44")
def test_of_two_hubs_it_turns_to_the_other_when_one_does_not_accept_it_any_more(
    hub: Hub, start_hub: StartHub, start_agent: StartAgent
) -> None:
    with start_hub() as other:
        agent = start_agent("roaming", hub, other)
        agent.wait_for(f"bootstrapping at {hub.api_url}")
        agent.wait_for("waits for approval")
        accept(hub, "roaming")
        agent.wait_for("status reported")
        change_cluster(hub, "roaming", {"spec": {"hubAcceptsClient": False}})
        agent.wait_for(f"hub {hub.api_url} is not usable: it does not accept this cluster")
        agent.wait_for(f"bootstrapping at {other.api_url}")
        agent.wait_for("waits for approval", times=2)
        accept(other, "roaming")
        agent.wait_for("status reported", times=2)
        assert other.api_url in (agent.files / "kubeconfig").read_text()
        agent.stop()
        agent.start()
        agent.wait_for(f"at {other.api_url} with the certificate", times=2)


@pytest.mark.contract("G43")
def test_a_hub_that_is_not_there_is_passed_over(hub: Hub, start_agent: StartAgent, tmp_path: Path) -> None:
    gone = tmp_path / "gone.kubeconfig"
    gone.write_text(bootstrap(hub).read_text().replace(hub.api_url, "https://127.0.0.1:9"))
    agent = start_agent("passing", hub)
    agent.stop()
    agent.bootstrap = [gone, *agent.bootstrap]
    agent.start()
    agent.wait_for("hub https://127.0.0.1:9 is not usable: ConnectError")
    agent.wait_for("waits for approval", times=1)


def test_a_hub_with_another_ca_is_not_trusted_and_the_log_says_so(hub: Hub, start_agent: StartAgent) -> None:
    agent = start_agent("distrusting", hub)
    agent.stop()
    (path,) = agent.bootstrap
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if "certificate-authority-data" not in line))
    agent.start()
    agent.wait_for("cluster not registered: the server's certificate is not trusted")


class Still:
    """A managed cluster that is well and has nothing to say."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def health(self) -> Health:
        return Health()

    async def facts(self) -> ManagedClusterFacts:
        return ManagedClusterFacts(version="v1.34.2")


class Story:
    """One agent in this process, where it can be given a clock of its own; ``said`` waits for its log."""

    def __init__(self, hub: Hub, name: str, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self.hub, self.name, self.files, self._caplog = hub, name, FolderOfFiles(folder), caplog
        self.clock = AgentClock()
        self._bootstrap = bootstrap(hub)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        logger = logging.getLogger(f"tests.agent.{self.name}")
        agent = RegistrationAgent(
            FilesOfHubs([self._bootstrap], logger),
            self.files,
            Still(),
            AgentOptions(cluster_name=self.name, status_period=1, certificate_seconds=3600),
            Equipment(OpenSSL(), self.clock, Log(logger), random.Random(1)),  # noqa: S311 - jitter
        )
        task = asyncio.create_task(agent.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def said(self, words: str) -> None:
        for _ in range(2_400):
            if words in self._caplog.text:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{words!r} was not logged:\n{self._caplog.text}")

    async def joins(self) -> None:
        await self.said("waits for approval")
        await asyncio.to_thread(accept, self.hub, self.name)
        await self.said("status reported")

    async def change(self, change: Doc) -> None:
        await asyncio.to_thread(change_cluster, self.hub, self.name, change)

    async def left(self) -> timedelta:
        """Of its certificate's life, by the true time."""
        certificate = await OpenSSL().read_chain((await self.files.load())["tls.crt"])
        return certificate.not_after - AgentClock().now()


@pytest.mark.contract("G36", "H18")
def test_while_its_clock_differs_it_beats_and_sends_no_status_and_goes_on_when_it_is_set(
    hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    story = Story(hub, "skewed", tmp_path, caplog)

    async def tell() -> None:
        async with story.running():
            await story.joins()
            await story.change({"spec": {"leaseDurationSeconds": 1}})
            story.clock.ahead = timedelta(hours=1)
            await story.said(" s ahead of the hub's: no status is sent until they agree")
            story.clock.ahead = timedelta()
            await story.said("the clocks agree again")

    asyncio.run(tell())
    doc = eventually(hub, "skewed", lambda doc: condition(doc, CLOCK_SYNCED)["status"] == "True")
    assert doc["status"]["version"] == {"kubernetes": "v1.34.2"}


@pytest.mark.contract("G24", "G25", "G26", "H36")
def test_a_certificate_is_renewed_with_a_new_key_before_it_ends_and_one_that_ended_is_asked_for_anew(
    hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's clock is ahead, as no hub signs for seconds; the hub is asked not to mind (H19)."""
    monkeypatch.setattr(rotation, "LOOK", 0.1)
    story = Story(hub, "renewing", tmp_path, caplog)

    async def tell() -> None:
        async with story.running():
            await story.joins()
        first = await story.files.load()
        await story.change({"metadata": {"annotations": {SKIP_CLOCK: "true"}}})
        story.clock.ahead = await story.left() - timedelta(minutes=10)
        async with story.running():
            await story.said("client certificate rotated starting from")
            second = await story.files.load()
            assert second["tls.key"] != first["tls.key"]
            assert second["agent-name"] == first["agent-name"]
            doc = await asyncio.to_thread(
                eventually, hub, "renewing", lambda doc: condition(doc, ROTATED).get("status") == "True"
            )
            assert condition(doc, ROTATED)["reason"] == "ClientCertificateUpdated"
        await story.change({"spec": {"hubAcceptsClient": False}})  # its requests wait from now on (H36)
        story.clock.ahead, begun = await story.left() - timedelta(minutes=10), caplog.text.count(GOES_ON)
        async with story.running():
            while caplog.text.count(GOES_ON) == begun:  # noqa: ASYNC110 - a log has no event
                await asyncio.sleep(0.05)
            story.clock.ahead += timedelta(minutes=10)
            await story.said("the certificate expired before the hub issued its successor")
            await story.said("bootstrapping at " + hub.api_url + ": the certificate expired at")

    asyncio.run(tell())
