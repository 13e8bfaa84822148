"""How a cluster's health is told and what its taints say (S53, S71 to S88, S94, S95)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.conformance.cluster import managed
from tests.conformance.commands import eventually
from tests.fleet import CLUSTERS, MERGE, Agent
from tests.statements import blocks
from tests.statements.conftest import Desk

SILENT = "silent"
AVAILABLE = 'jsonpath={.status.conditions[?(@.type=="ManagedClusterConditionAvailable")].status}'


def taints(desk: Desk, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = desk.kubectl.read("managedcluster", name)["spec"].get("taints") or []
    return found


def joined(desk: Desk, name: str) -> Agent:
    agent = desk.fleet.join(name)
    eventually(lambda: not taints(desk, name))
    return agent


# --------------------------------------------------------------------------------------------------------------- status


@pytest.mark.contract("S53")
def test_the_agent_keeps_the_status_up(desk: Desk, name: str) -> None:
    agent = joined(desk, name)
    agent.report("v1.35.0")
    version = desk.kubectl("get", "managedcluster", name, "-o", "jsonpath={.status.version.kubernetes}")
    assert version == "v1.35.0"


@pytest.mark.contract("S73")
def test_the_documents_status_is_reported_and_read_back(desk: Desk, name: str) -> None:
    agent = joined(desk, name)
    wanted = blocks.block("managedcluster-status")
    agent.client.patch(f"{CLUSTERS}/{name}/status", content=json.dumps(wanted), headers=MERGE).raise_for_status()
    assert blocks.missing(desk.kubectl.read("managedcluster", name), wanted) == []


@pytest.mark.contract("S71")
def test_an_agent_is_asked_to_report_each_minute_unless_set_otherwise(desk: Desk, name: str) -> None:
    desk.kubectl("create", "-f", "-", stdin=managed(name))
    assert desk.kubectl.read("managedcluster", name)["spec"]["leaseDurationSeconds"] == 60


@pytest.fixture(scope="module")
def silent(desk: Desk) -> Agent:
    """Joined and asked to report each second; then its agents are scaled to zero or deleted: no request comes any more."""
    agent = joined(desk, SILENT)
    desk.fleet.patch(SILENT, {"spec": {"leaseDurationSeconds": 1}})
    agent.beat()
    eventually(lambda: desk.kubectl("get", "managedcluster", SILENT, "-o", AVAILABLE) == "Unknown")
    eventually(lambda: taints(desk, SILENT))
    return agent


@pytest.mark.contract("S72")
def test_the_period_of_reports_is_what_the_lease_duration_says(desk: Desk, silent: Agent) -> None:
    lease = desk.kubectl.read("lease", "managed-cluster-lease", "-n", SILENT)
    conditions = desk.kubectl.read("managedcluster", SILENT)["status"]["conditions"]
    (changed,) = [one["lastTransitionTime"] for one in conditions if one["type"] == "ManagedClusterConditionAvailable"]
    waited = datetime.fromisoformat(changed) - datetime.fromisoformat(lease["spec"]["renewTime"])
    assert 4 <= waited.total_seconds() < 60  # five periods of a second, not of a minute


@pytest.mark.contract("S94", "S95", "S89")
def test_a_cluster_whose_agents_are_gone_is_unknown_and_otherwise_as_it_was(desk: Desk, silent: Agent) -> None:
    doc = desk.kubectl.read("managedcluster", SILENT)
    assert doc["spec"]["hubAcceptsClient"] is True
    shown = {one["type"]: one["status"] for one in doc["status"]["conditions"]}
    assert shown["ManagedClusterConditionAvailable"] == "Unknown"
    assert shown["HubAcceptedManagedCluster"] == shown["ManagedClusterJoined"] == "True"


# --------------------------------------------------------------------------------------------------------------- taints


@pytest.mark.contract("S83", "S86", "S87", "S74")
def test_a_silent_cluster_is_tainted_as_unreachable(desk: Desk, silent: Agent) -> None:
    spec = desk.kubectl.read("managedcluster", SILENT)["spec"]
    assert blocks.missing(spec, blocks.block("managedcluster-unreachable")["spec"]) == []
    assert not {"value"} & spec["taints"][0].keys()


@pytest.mark.contract("S86")
def test_a_cluster_that_has_said_nothing_yet_is_tainted_as_unreachable(desk: Desk, name: str) -> None:
    desk.kubectl("create", "-f", "-", stdin=managed(name))
    (taint,) = eventually(lambda: taints(desk, name))
    assert (taint["key"], taint["effect"]) == ("cluster.open-cluster-management.io/unreachable", "NoSelect")


@pytest.mark.contract("S83", "S84", "S85", "S74")
def test_a_cluster_that_is_not_well_is_tainted_as_unavailable_until_it_is(desk: Desk, name: str) -> None:
    agent = joined(desk, name)
    agent.report(well=False)
    eventually(lambda: taints(desk, name))
    spec = desk.kubectl.read("managedcluster", name)["spec"]
    assert blocks.missing(spec, blocks.block("managedcluster-unavailable")["spec"]) == []
    assert not {"value"} & spec["taints"][0].keys()
    agent.report()
    eventually(lambda: not taints(desk, name))


@pytest.mark.contract("S75")
def test_a_user_taints_a_cluster_for_maintenance_and_the_hub_leaves_it_alone(desk: Desk, name: str) -> None:
    agent = joined(desk, name)
    patch = '{"spec":{"taints":[{"key":"maintenance","effect":"NoSelect"}]}}'
    desk.kubectl("patch", "managedcluster", name, "--type=merge", "-p", patch)
    agent.report(well=False)
    eventually(lambda: len(taints(desk, name)) == 2)
    agent.report()
    eventually(lambda: [taint["key"] for taint in taints(desk, name)] == ["maintenance"])


def tainted(name: str, **taint: str) -> dict[str, Any]:
    return managed(name, taints=[taint])


@pytest.mark.contract("S77")
@pytest.mark.parametrize("key", ["bar", "foo.example.com/bar"])
def test_a_taint_has_a_key(desk: Desk, name: str, key: str) -> None:
    refusal = desk.kubectl.refuses("create", "-f", "-", stdin=tainted(name, effect="NoSelect"))
    assert "spec.taints[0].key" in refusal
    assert "Required value" in refusal
    desk.kubectl("create", "-f", "-", stdin=tainted(name, key=key, effect="NoSelect"))
    assert taints(desk, name)[0]["key"] == key


@pytest.mark.contract("S78")
def test_the_value_of_a_taint_may_be_left_out(desk: Desk, name: str) -> None:
    desk.kubectl("create", "-f", "-", stdin=tainted(name, key="bar", effect="NoSelect"))
    desk.kubectl("create", "-f", "-", stdin=tainted(f"{name}v", key="bar", value="foo", effect="NoSelect"))
    assert "value" not in taints(desk, name)[0]
    assert taints(desk, f"{name}v")[0]["value"] == "foo"


@pytest.mark.contract("S79", "S80", "S81")
def test_the_effect_of_a_taint_is_one_of_three(desk: Desk, name: str) -> None:
    assert "spec.taints[0].effect: Required value" in desk.kubectl.refuses(
        "create", "-f", "-", stdin=tainted(name, key="bar")
    )
    refusal = desk.kubectl.refuses("create", "-f", "-", stdin=tainted(name, key="bar", effect="NoSchedule"))
    assert 'supported values: "NoSelect", "PreferNoSelect", "NoSelectIfNew"' in refusal
    for number, effect in enumerate(("NoSelect", "PreferNoSelect", "NoSelectIfNew")):
        desk.kubectl("create", "-f", "-", stdin=tainted(f"{name}x{number}", key="bar", effect=effect))


@pytest.mark.contract("S82")
def test_the_hub_alone_says_when_a_taint_was_added(desk: Desk, name: str) -> None:
    theirs = "2022-02-21T08:11:54Z"
    desk.kubectl("create", "-f", "-", stdin=tainted(name, key="bar", effect="NoSelect", timeAdded=theirs))
    added = datetime.fromisoformat(taints(desk, name)[0]["timeAdded"])
    assert abs((datetime.now(UTC) - added).total_seconds()) < 60
    eventually(lambda: len(taints(desk, name)) == 2)
    changed = [taint | {"timeAdded": theirs} for taint in taints(desk, name)]
    patch = json.dumps({"spec": {"taints": changed}})
    refusal = desk.kubectl.refuses("patch", "managedcluster", name, "--type=merge", "-p", patch)
    assert "It is not allowed to set TimeAdded of Taint" in refusal
