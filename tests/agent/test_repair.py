"""An agent that lost its certificate comes back by the repair manifest, while its cluster stays accepted."""

from __future__ import annotations

import asyncio
import base64
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests import requests
from tests.agent.conftest import CLUSTERS, REQUESTS, StartAgent, cluster_on
from tests.agent.test_troubles import fingerprint_of, join
from tests.conftest import StartHub
from tests.hub import Hub

pytestmark = pytest.mark.contract("D29", "D9", "D19")


def manifest(hub: Hub, name: str, folder: Path) -> str:
    """The bootstrap kubeconfig of it, as the Secret holds it."""
    path = folder / f"{name}.yaml"
    said = hub.manage("repair", name, "--output", str(path))
    assert f"kubectl apply -f {path}" in said
    return base64.b64decode(yaml.safe_load(path.read_text())["data"]["kubeconfig"]).decode()


def requests_of(hub: Hub, name: str) -> list[dict[str, object]]:
    with hub.admin() as admin:
        query = {"labelSelector": f"open-cluster-management.io/cluster-name={name}"}
        items: list[dict[str, object]] = admin.get(REQUESTS, params=query).raise_for_status().json()["items"]
    return items


def test_an_agent_without_its_certificate_comes_back_without_an_override(
    hub: Hub, start_agent: StartAgent, tmp_path: Path
) -> None:
    agent = join(hub, "fallen", start_agent)
    uid = cluster_on(hub, "fallen")["metadata"]["uid"]
    agent.stop()
    shutil.rmtree(agent.files)
    (path,) = agent.bootstrap
    path.write_text(manifest(hub, "fallen", tmp_path))
    agent.start()
    agent.wait_for("heartbeats every", times=2)
    doc = cluster_on(hub, "fallen")
    assert (doc["metadata"]["uid"], doc["spec"]["hubAcceptsClient"]) == (uid, True)
    assert "annotations" not in doc["metadata"] or not any(
        "accept-key" in each for each in doc["metadata"]["annotations"]
    )
    # The same manifest again brings nobody: it is spent.
    agent.stop()
    shutil.rmtree(agent.files)
    agent.start()
    agent.wait_for("it works once")
    assert len(requests_of(hub, "fallen")) == 2


def test_of_many_who_show_a_manifest_at_the_same_time_one_is_let_in(
    hub: Hub, start_agent: StartAgent, tmp_path: Path
) -> None:
    join(hub, "raced", start_agent).stop()
    token = yaml.safe_load(manifest(hub, "raced", tmp_path))["users"][0]["user"]["token"]

    def ask(number: int) -> int:
        doc = requests.document(f"raced-{number}", requests.agent_pem("raced"), cluster="raced")
        with hub.client(Authorization=f"Bearer {token}") as client:
            return client.post(REQUESTS, json=doc).status_code

    with ThreadPoolExecutor(8) as pool:
        codes = sorted(pool.map(ask, range(8)))
    assert codes == [201, *[403] * 7]


def test_a_running_agent_whose_certificate_was_revoked_takes_the_manifest_as_it_is_put_in_place(
    hub: Hub, start_agent: StartAgent, tmp_path: Path
) -> None:
    agent = join(hub, "shut-out", start_agent)
    fingerprint = asyncio.run(fingerprint_of(agent.files / "tls.crt"))
    hub.manage("revoke_certificate", fingerprint, "--reason", "the disk was sold")
    (path,) = agent.bootstrap
    agent.stop()
    agent.start()
    agent.wait_for("401 Unauthorized")
    path.write_text(manifest(hub, "shut-out", tmp_path))
    agent.wait_for("the hub does not know the certificate, and the bootstrap kubeconfig changed")
    agent.wait_for("heartbeats every", times=2)
    assert cluster_on(hub, "shut-out")["spec"]["hubAcceptsClient"] is True


def test_an_agent_of_a_stolen_ca_is_refused_at_once_and_comes_back_by_its_manifest(
    start_hub: StartHub, start_agent: StartAgent, tmp_path: Path
) -> None:
    """D22: ``ca rotate client --stolen``, then one manifest for each cluster; the page of the cluster says why."""
    with start_hub() as hub:
        agent = join(hub, "robbed", start_agent)
        pair = tmp_path / "old.pem"
        pair.write_bytes((agent.files / "tls.crt").read_bytes() + (agent.files / "tls.key").read_bytes())
        place = f"{CLUSTERS}/robbed"
        with hub.client(pair=pair) as old:
            assert old.get(place).status_code == 200
            said = hub.manage("ca", "rotate", "client", "--stolen", "--yes")
            assert old.get(place).status_code == 401
        assert "1 clusters lost the hub" in said
        agent.wait_for("401 Unauthorized")
        hub.manage("repair", "--not-given", str(tmp_path))
        (path,) = agent.bootstrap
        doc = yaml.safe_load((tmp_path / "repair-robbed.yaml").read_text())
        path.write_text(base64.b64decode(doc["data"]["kubeconfig"]).decode())
        agent.wait_for("the hub does not know the certificate, and the bootstrap kubeconfig changed")
        agent.wait_for("heartbeats every", times=2)
        with hub.client(pair=pair) as old:
            assert old.get(place).status_code == 401
