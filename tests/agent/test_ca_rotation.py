"""Both CAs of a served hub are rotated; agents that run, that were away and that are new need nobody's hands."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from pathlib import Path

import pyrage
import pytest

from tests.agent.conftest import cluster_on, condition, eventually
from tests.agent.program import Program, needs_program, until
from tests.agent.test_troubles import ROTATED, SKIP_CLOCK, Story
from tests.conftest import StartHub
from tests.hub import Hub


class Rotated(Story):
    """One of several agents in this process; its kept files are looked at between its runs."""

    async def said(self, words: str) -> None:
        for _ in range(2_400):
            if any(words in line.getMessage() for line in self._caplog.records if line.name.endswith(f".{self.name}")):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{self.name} did not say {words!r}:\n{self._caplog.text}")

    async def renews(self) -> None:
        """It is started when its certificate is about to end, by its clock."""
        await self.change({"metadata": {"annotations": {SKIP_CLOCK: "true"}}})
        self.clock.ahead = await self.left() - timedelta(minutes=10)
        async with self.running():
            await self.said("client certificate rotated starting from")
            await asyncio.to_thread(
                eventually, self.hub, self.name, lambda doc: condition(doc, ROTATED).get("status") == "True"
            )

    async def pair(self, folder: Path) -> Path:
        """Certificate and key, as they are kept now."""
        files = await self.files.load()
        path = folder / f"{self.name}.pem"
        path.write_text(files["tls.crt"] + files["tls.key"])
        return path


def code(hub: Hub, name: str, pair: Path) -> int:
    with hub.client(pair=pair) as client:
        return client.get(f"/apis/cluster.open-cluster-management.io/v1/managedclusters/{name}").status_code


def lease_code(hub: Hub, name: str, pair: Path) -> int:
    """By the lease path, which remembers who was let in."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{name}/leases/managed-cluster-lease"
    with hub.client(pair=pair) as client:
        return client.get(path).status_code


def restored(hub: Hub, backup: Path, key: Path) -> None:
    """While none of its processes runs."""
    names = [*hub.processes]
    for name in names:
        hub.stop(name)
    hub.manage("restore", str(backup), "--key", str(key), "--replace")
    for name in names:
        hub.start(name)


@pytest.mark.contract("D22", "D26", "G25")
def test_agents_renew_through_the_rotation_of_both_cas_and_a_restore_in_its_midst_untouched(
    start_hub: StartHub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with start_hub() as hub:
        steady, away = (Rotated(hub, name, tmp_path / name, caplog) for name in ("steady", "away"))

        async def tell() -> None:
            for story in (steady, away):
                async with story.running():
                    await story.joins()
            old = await steady.pair(tmp_path)

            async def manage(*step: str) -> str:
                return await asyncio.to_thread(hub.manage, "ca", *step)

            await manage("rotate", "client")
            await manage("rotate", "serving")
            assert (code(hub, "steady", old), lease_code(hub, "steady", old)) == (200, 200)
            kept = old.read_bytes()
            key, backup = tmp_path / "key.txt", tmp_path / "hub.backup"
            key.write_text(f"{pyrage.x25519.Identity.generate()}\n")
            hub.manage("backup", str(backup), "--key", str(key))
            await steady.renews()  # its kubeconfig trusts the old CA alone
            restored(hub, backup, key)
            assert code(hub, "steady", await steady.pair(tmp_path)) == 200  # issued after the backup
            text = await manage("status")
            assert "seen with a certificate of the CA that signs: 1; left: 1\n    cluster away, " in text
            assert "given the CA that signs: 0; not given: 2\n" in text
            await away.renews()  # it was away while both were rotated
            (hub.home / "bootstrap.kubeconfig").unlink()
            late = Rotated(hub, "late", tmp_path / "late", caplog)
            async with late.running():
                await late.joins()
            await manage("retire", "client")
            old.write_bytes(kept)
            assert (code(hub, "steady", old), lease_code(hub, "steady", old)) == (401, 401)
            for story in (steady, away, late):
                pair = await story.pair(tmp_path)
                assert (code(hub, story.name, pair), lease_code(hub, story.name, pair)) == (200, 200)
            text = await manage("status")
            assert "CA of clients: steady\n" in text
            assert "given the CA that signs: 1; not given: 2\n" in text

        asyncio.run(tell())


@needs_program
@pytest.mark.timeout(1_800)
@pytest.mark.contract("D22", "D26", "D29", "D9")
def test_an_agent_that_is_not_ours_renews_through_both_rotations_and_takes_the_new_bundle_by_a_manifest(
    start_hub: StartHub, tmp_path: Path
) -> None:
    short = "150s"  # the certificate lies five minutes back: it is renewed 40 to 60 s after it was issued
    with start_hub(CERT_SHORTEST_LIFETIME=short, CERT_LIFETIME=short) as hub, start_hub() as cluster:
        program = Program.on(cluster, "named", tmp_path / "named")
        program.bootstrap(hub)
        with program.running():
            program.joins(hub)
            uid = cluster_on(hub, "named")["metadata"]["uid"]
            for step in (("client",), ("client", "--back"), ("client",), ("serving",)):
                hub.manage("ca", "rotate", *step)
                program.renews()
                hub.stop("server")  # it takes its new certificate with a new connection, else within five minutes
                hub.start("server")
            key, backup = tmp_path / "key.txt", tmp_path / "hub.backup"
            key.write_text(f"{pyrage.x25519.Identity.generate()}\n")
            hub.manage("backup", str(backup), "--key", str(key))
            restored(hub, backup, key)
            program.is_heard(hub, time.time())
            hub.manage("ca", "retire", "client")
            hub.manage("ca", "rotate", "serving", "--back")
            program.is_heard(hub, time.time())
            hub.manage("ca", "rotate", "serving")
            program.is_heard(hub, time.time())
            assert program.starts == 1
            assert "not given: 1\n" in hub.manage("ca", "status")
            hub.manage("repair", "--not-given", str(tmp_path / "manifests"))
            before = program.key()
            program.apply((tmp_path / "manifests" / "repair-named.yaml").read_text())
            assert until(lambda: program.key() != before), program.log()
            # Given is who was seen with a certificate that it asked for by the new bundle: the key comes before that.
            assert until(lambda: "not given: 0\n" in hub.manage("ca", "status")), program.log()
            hub.manage("ca", "retire", "serving")
            program.is_heard(hub, time.time())
            program.renews()
            assert program.starts == 2
        doc = cluster_on(hub, "named")
        assert (doc["metadata"]["uid"], doc["spec"]["hubAcceptsClient"]) == (uid, True)
        assert "annotations" not in doc["metadata"]  # nobody has typed the digest of a key
