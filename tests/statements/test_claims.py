"""What a cluster says about itself (S22 to S26, S47 to S51)."""

from __future__ import annotations

import json

import pytest

from tests.fleet import CLUSTERS, MERGE, Agent
from tests.statements import blocks
from tests.statements.conftest import Desk


@pytest.mark.contract("S22", "S47", "S25", "S50")
def test_the_documents_claim_is_applied_and_read_back_on_a_hub_that_is_a_managed_cluster_itself(desk: Desk) -> None:
    said = desk.kubectl("apply", "-f", str(blocks.path("clusterclaim")))
    assert said == "clusterclaim.cluster.open-cluster-management.io/platform.open-cluster-management.io created\n"
    stored = desk.kubectl.read("clusterclaim", "platform.open-cluster-management.io")
    assert blocks.missing(stored, blocks.block("clusterclaim")) == []
    assert "namespace" not in stored["metadata"]


@pytest.fixture(scope="module")
def aws(desk: Desk) -> Agent:
    return desk.fleet.join("aws")


def report_claims(agent: Agent, *claims: dict[str, str]) -> None:
    change = json.dumps({"status": {"clusterClaims": claims}})
    agent.client.patch(f"{CLUSTERS}/{agent.name}/status", content=change, headers=MERGE).raise_for_status()


@pytest.mark.contract("S24", "S26", "S49", "S51")
@pytest.mark.parametrize("block", ["managedcluster-aws", "managedcluster-aws-claims"])
def test_the_claim_that_an_agent_collected_is_shown_with_its_cluster(desk: Desk, aws: Agent, block: str) -> None:
    report_claims(aws, {"name": "platform.open-cluster-management.io", "value": "aws"})
    assert blocks.missing(desk.kubectl.read("managedcluster", "aws"), blocks.block(block)) == []


@pytest.mark.contract("S23", "S48")
def test_anybody_may_add_properties_of_their_own_to_what_a_cluster_reports(desk: Desk, aws: Agent) -> None:
    claim = {**blocks.block("clusterclaim"), "metadata": {"name": "region.example.com"}, "spec": {"value": "eu-west-3"}}
    desk.kubectl("create", "-f", "-", stdin=claim)
    made = desk.kubectl.read("clusterclaim", "region.example.com")
    report_claims(aws, {"name": made["metadata"]["name"], "value": made["spec"]["value"]})
    shown = desk.kubectl.read("managedcluster", "aws")["status"]["clusterClaims"]
    assert shown == [{"name": "region.example.com", "value": "eu-west-3"}]
