"""What sets, bindings, taints and tolerations are for: whom a Placement of a workspace chooses (S18, S43, S74 to S81, S88, S98, S112, S122, S154, S164).

Each test has clusters of its own, in a set of their own, bound into a namespace of its own.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.commands import eventually
from tests.fleet import Agent
from tests.statements.conftest import Desk

SET = "cluster.open-cluster-management.io/clusterset"
GROUP = "cluster.open-cluster-management.io"
Doc = dict[str, Any]
MAINTENANCE: Doc = {"key": "maintenance", "effect": "NoSelect"}


class Workspace:
    """A set of the test's name, bound into a namespace of that name unless said otherwise."""

    def __init__(self, desk: Desk, name: str, *, is_bound: bool = True) -> None:
        self.desk, self.name = desk, name
        desk.kubectl("create", "namespace", name)
        desk.clusteradm(f"create clusterset {name}")
        if is_bound:
            self.bind()

    def bind(self) -> None:
        self.desk.clusteradm(f"clusterset bind {self.name} --namespace {self.name}")

    def join(self, suffix: str, **labels: str) -> Agent:
        """A cluster that is well and in the set."""
        agent = self.desk.fleet.join(f"{self.name}{suffix}")
        eventually(lambda: not self.taints(suffix))
        self.label(suffix, **{SET: self.name}, **labels)
        return agent

    def label(self, suffix: str, **labels: str) -> None:
        wanted = [f"{key}={value}" for key, value in labels.items()]
        self.desk.kubectl("label", "managedcluster", f"{self.name}{suffix}", "--overwrite", *wanted)

    def taints(self, suffix: str) -> list[Doc]:
        found: list[Doc] = self.desk.kubectl.read("managedcluster", f"{self.name}{suffix}")["spec"].get("taints") or []
        return found

    def taint(self, suffix: str, *taints: Doc) -> None:
        patch = json.dumps({"spec": {"taints": list(taints)}})
        self.desk.kubectl("patch", "managedcluster", f"{self.name}{suffix}", "--type=merge", "-p", patch)

    def place(self, name: str = "p1", **spec: Any) -> None:
        doc = {
            "apiVersion": f"{GROUP}/v1beta1",
            "kind": "Placement",
            "metadata": {"name": name, "namespace": self.name},
            "spec": spec,
        }
        self.desk.kubectl("apply", "-f", "-", stdin=doc)

    def chosen(self, placement: str = "p1") -> list[str]:
        """Suffixes of the clusters that its PlacementDecisions name, found by label as consumers do."""
        label = f"-l{GROUP}/placement={placement}"
        found = json.loads(self.desk.kubectl("get", "placementdecisions", "-n", self.name, label, "-o", "json"))
        named = [each["clusterName"] for one in found["items"] for each in one.get("status", {}).get("decisions", ())]
        return sorted(each.removeprefix(self.name) for each in named)

    def decides(self, *suffixes: str, placement: str = "p1") -> None:
        """Waits until just these clusters are chosen, and the Placement has been scheduled."""
        eventually(lambda: self.chosen(placement) == sorted(suffixes) and self.is_scheduled(placement))

    def is_scheduled(self, placement: str) -> bool:
        doc = json.loads(self.desk.kubectl("get", "placement", placement, "-n", self.name, "-o", "json"))
        return bool(doc.get("status", {}).get("conditions"))


@pytest.mark.contract("S18", "S43", "S98", "S122", "S164", "S112", "S154")
def test_a_workspace_places_workload_on_the_members_of_its_sets_and_nowhere_else(desk: Desk, name: str) -> None:
    """The set is a scope; the binding gives its namespace access to the members; a Placement matches further in it."""
    workspace = Workspace(desk, name, is_bound=False)
    workspace.join("a", env="prod")
    workspace.join("b", env="test")
    desk.fleet.join(f"{name}c")  # in the default set
    workspace.place()
    workspace.decides()
    workspace.bind()
    workspace.decides("a", "b")
    prod = {"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}}}}
    workspace.place(predicates=[prod])
    workspace.decides("a")
    workspace.label("a", **{SET: "default"})
    workspace.decides()


@pytest.mark.contract("S74", "S76", "S88")
def test_workload_is_kept_off_clusters_that_are_not_well_unless_it_tolerates_that(desk: Desk, name: str) -> None:
    workspace = Workspace(desk, name)
    agent = workspace.join("a")
    workspace.join("b")
    workspace.place()
    workspace.place("tolerant", tolerations=[{"key": f"{GROUP}/unavailable", "operator": "Exists"}])
    workspace.decides("a", "b")
    agent.report(well=False)
    workspace.decides("b")
    workspace.decides("a", "b", placement="tolerant")
    agent.report()
    workspace.decides("a", "b")


@pytest.mark.contract("S74")
def test_workload_leaves_a_cluster_that_falls_silent_and_comes_back_with_it(desk: Desk, name: str) -> None:
    workspace = Workspace(desk, name)
    agent = workspace.join("a")
    workspace.place()
    workspace.decides("a")
    desk.fleet.patch(f"{name}a", {"spec": {"leaseDurationSeconds": 1}})
    agent.beat()
    workspace.decides()
    desk.fleet.patch(f"{name}a", {"spec": {"leaseDurationSeconds": 60}})
    agent.beat()
    agent.report()
    workspace.decides("a")


@pytest.mark.contract("S75", "S76", "S79", "S88")
def test_maintenance_takes_workload_off_a_cluster_until_it_ends_but_for_who_tolerates_it(desk: Desk, name: str) -> None:
    workspace = Workspace(desk, name)
    workspace.join("a")
    workspace.join("b")
    workspace.place()
    workspace.decides("a", "b")
    workspace.taint("a", MAINTENANCE)
    workspace.decides("b")
    workspace.place("tolerant", tolerations=[{"key": "maintenance", "operator": "Exists"}])
    workspace.decides("a", "b", placement="tolerant")
    workspace.place("otherwise", tolerations=[{"key": "maintenance", "operator": "Equal", "value": "planned"}])
    workspace.decides("b", placement="otherwise")
    workspace.taint("a")
    workspace.decides("a", "b")


@pytest.mark.contract("S80")
def test_clusters_that_are_better_avoided_are_chosen_all_the_same_but_last(desk: Desk, name: str) -> None:
    workspace = Workspace(desk, name)
    workspace.join("a")
    workspace.join("b")
    workspace.taint("a", MAINTENANCE | {"effect": "PreferNoSelect"})
    workspace.place()
    workspace.decides("a", "b")
    workspace.place("one", numberOfClusters=1)
    workspace.decides("b", placement="one")
    workspace.place("one", numberOfClusters=2)
    workspace.decides("a", "b", placement="one")


@pytest.mark.contract("S81")
def test_a_taint_for_new_workload_leaves_what_is_there(desk: Desk, name: str) -> None:
    workspace = Workspace(desk, name)
    workspace.join("a")
    workspace.place()
    workspace.decides("a")
    workspace.taint("a", MAINTENANCE | {"effect": "NoSelectIfNew"})
    workspace.place("later")
    workspace.decides(placement="later")
    workspace.place("tolerant", tolerations=[{"key": "maintenance", "operator": "Exists"}])
    workspace.decides("a", placement="tolerant")
    workspace.decides("a")
