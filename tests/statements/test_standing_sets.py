"""The sets that always exist, and the gate that leaves them out (S136 to S141, S178 to S183)."""

from __future__ import annotations

import pytest

from tests.conformance.cluster import managed
from tests.conformance.commands import eventually
from tests.statements.clusteradm import SET_LABEL
from tests.statements.conftest import Desk

CONTENT = {
    "default": {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}},
    "global": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}},
}


@pytest.mark.contract("S136", "S178", "S140", "S182")
@pytest.mark.parametrize("standing", ["default", "global"])
def test_a_standing_set_is_made_by_the_hub_and_made_again(desk: Desk, standing: str) -> None:
    before = desk.kubectl.read("managedclusterset", standing)
    assert before["spec"] == CONTENT[standing]
    desk.kubectl("delete", "managedclusterset", standing)
    eventually(lambda: desk.kubectl.attempt("get", "managedclusterset", standing).returncode == 0)
    after = desk.kubectl.read("managedclusterset", standing)
    assert after["spec"] == CONTENT[standing]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]


@pytest.mark.contract("S137", "S179")
def test_a_cluster_that_names_no_set_joins_the_default_one(desk: Desk, name: str) -> None:
    desk.kubectl("create", "-f", "-", stdin=managed(name))
    assert desk.kubectl.read("managedcluster", name)["metadata"]["labels"] == {SET_LABEL: "default"}
    desk.kubectl("label", "managedcluster", name, f"{SET_LABEL}-")
    assert desk.kubectl.read("managedcluster", name)["metadata"]["labels"] == {SET_LABEL: "default"}


@pytest.mark.contract("S140", "S182")
def test_the_global_set_has_every_cluster_of_every_set(desk: Desk, name: str) -> None:
    desk.kubectl("create", "-f", "-", stdin=managed(name))
    desk.kubectl("create", "-f", "-", stdin=managed(f"{name}o", labels={SET_LABEL: "other"}))

    def counted() -> bool:
        there = len(desk.kubectl("get", "managedclusters", "-o", "name").split())
        path = 'jsonpath={.status.conditions[?(@.type=="ClusterSetEmpty")].message}'
        said = desk.kubectl("get", "managedclusterset", "global", "-o", path)
        return said == f"{there} ManagedClusters selected"

    eventually(counted)


@pytest.mark.contract("S139", "S141", "S181", "S183")
def test_without_the_gate_there_is_no_standing_set_and_no_cluster_is_put_into_one(bare: Desk, name: str) -> None:
    for standing in CONTENT:
        assert "not found" in bare.kubectl.refuses("get", "managedclusterset", standing)
    bare.kubectl("create", "-f", "-", stdin=managed(name))
    eventually(lambda: bare.kubectl.read("managedcluster", name)["spec"].get("taints"))
    assert "labels" not in bare.kubectl.read("managedcluster", name)["metadata"]
    assert bare.kubectl("get", "managedclustersets", "-o", "name") == ""
