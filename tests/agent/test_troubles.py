"""What goes wrong between an agent and hubs: certificates that end or are revoked, hubs that go away or refuse, clocks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from registration.agent.agent import RegistrationAgent
from registration.agent.attempts import Log
from registration.agent.clock import AgentClock
from registration.agent.equipment import Equipment
from registration.agent.hub_files import FolderOfFiles
from registration.agent.hubs import FilesOfHubs
from registration.agent.keys import OpenSSL
from registration.agent.managed_cluster import Facts, Health
from registration.agent.options import AgentOptions
from tests.agent.conftest import StartAgent, accept, bootstrap, change_cluster, condition, eventually
from tests.agent.process import AgentProcess
from tests.conftest import StartHub
from tests.hub import Hub

CLOCK_SYNCED = "ManagedClusterConditionClockSynced"


def join(hub: Hub, name: str, start_agent: StartAgent) -> AgentProcess:
    agent = start_agent(name, hub)
    agent.wait_for("waits for approval")
    accept(hub, name)
    agent.wait_for("status reported")
    return agent


@pytest.mark.contract("G25", "G26", "H36")
def test_certificates_are_renewed_with_new_keys_and_one_that_ends_unrenewed_is_asked_for_anew(
    start_hub: StartHub, start_agent: StartAgent
) -> None:
    with start_hub(CERT_LIFETIME="8s") as hub:
        agent = join(hub, "renewing", start_agent)
        first = (agent.files / "tls.key").read_text()
        agent.wait_for("client certificate rotated starting from", times=2)
        doc = eventually(
            hub, "renewing", lambda doc: condition(doc, "ClusterCertificateRotated").get("status") == "True"
        )
        assert condition(doc, "ClusterCertificateRotated")["reason"] == "ClientCertificateUpdated"
        assert (agent.files / "tls.key").read_text() != first
        names = {line.rpartition(" ")[2] for line in agent.log().splitlines() if "with the certificate of" in line}
        assert len(names) == 1
        change_cluster(hub, "renewing", {"spec": {"hubAcceptsClient": False}})  # its requests wait from now on (H36)
        agent.wait_for("the certificate expired before the hub issued its successor")
        agent.wait_for("bootstrapping at", times=2)
        asked = agent.log().count("waits for approval")
        agent.wait_for("waits for approval", times=asked + 1)


@pytest.mark.contract("D19")
def test_a_revoked_certificate_is_said_and_a_new_bootstrap_kubeconfig_brings_the_agent_back(
    hub: Hub, start_agent: StartAgent
) -> None:
    agent = join(hub, "revoked", start_agent)
    fingerprint = asyncio.run(_fingerprint(agent.files / "tls.crt"))
    hub.manage("revoke_certificate", fingerprint, "--reason", "stolen")
    change_cluster(hub, "revoked", {"spec": {"leaseDurationSeconds": 1}})
    agent.wait_for("watch of managedclusters: 401 Unauthorized")
    (path,) = agent.bootstrap
    path.write_text(path.read_text() + "# a new one\n")
    agent.wait_for("the hub does not know the certificate, and the bootstrap kubeconfig changed")
    agent.wait_for("waits for approval", times=2)


async def _fingerprint(path: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        "openssl", "x509", "-in", str(path), "-noout", "-fingerprint", "-sha256", stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return f"SHA256:{out.decode().strip().rpartition('=')[2].replace(':', '').lower()}"


@pytest.mark.contract("G37", "H17")
def test_a_hub_that_is_killed_and_comes_back_hears_its_agent_again_without_hands(
    start_hub: StartHub, start_agent: StartAgent
) -> None:
    with start_hub() as hub:
        agent = join(hub, "steady", start_agent)
        change_cluster(hub, "steady", {"spec": {"leaseDurationSeconds": 1}})
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

    async def facts(self) -> Facts:
        return Facts(version="v1.34.2")


@pytest.mark.contract("G36", "H18")
def test_while_its_clock_differs_it_beats_and_sends_no_status_and_goes_on_when_it_is_set(
    hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In this process, since a process cannot be given another clock."""
    caplog.set_level(logging.INFO)
    log = Log(logging.getLogger("tests.agent.skewed"))
    clock = AgentClock(timedelta())
    agent = RegistrationAgent(
        FilesOfHubs([bootstrap(hub)], logging.getLogger("tests.agent.skewed")),
        FolderOfFiles(tmp_path / "files"),
        Still(),
        AgentOptions(cluster_name="skewed", status_period=1),
        Equipment(OpenSSL(), clock, log, random.Random(1)),  # noqa: S311 - jitter
    )

    async def said(words: str) -> None:
        for _ in range(600):
            if words in caplog.text:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{words!r} was not logged:\n{caplog.text}")

    async def story() -> None:
        task = asyncio.create_task(agent.run())
        await said("waits for approval")
        await asyncio.to_thread(accept, hub, "skewed")
        await said("status reported")
        await asyncio.to_thread(change_cluster, hub, "skewed", {"spec": {"leaseDurationSeconds": 1}})
        clock.ahead = timedelta(hours=1)
        await said("this clock is 3600 s ahead of the hub's: no status is sent")
        clock.ahead = timedelta()
        await said("the clocks agree again")
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(story())
    doc = eventually(hub, "skewed", lambda doc: condition(doc, CLOCK_SYNCED)["status"] == "True")
    assert doc["status"]["version"] == {"kubernetes": "v1.34.2"}
