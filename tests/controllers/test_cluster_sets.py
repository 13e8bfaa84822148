"""Cluster sets: the standing two, counts, bindings and managed namespaces (ocm.md 3.6, 3.8)."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from clustersets.tasks import keep_sets
from ocmconsole.kubeapi import verbs, workqueue
from ocmconsole.kubeapi.kinds import Key
from tests import factories as make

pytestmark = pytest.mark.django_db

Doc = dict[str, Any]


def found(name: str) -> Doc:
    doc = verbs.find(MANAGED_CLUSTER_SET, Key("", name))
    assert doc is not None
    return doc


def empty(name: str) -> tuple[str, str, str]:
    return make.condition(found(name), "ClusterSetEmpty")


def keep() -> None:
    keep_sets()
    make.settle()


def by_labels(**exact: str) -> Doc:
    return {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": exact}}


# ---------------------------------------------------------------- default and global


@pytest.mark.contract("H23", "H24", "S136", "S140", "S142")
def test_default_and_global_are_there_without_anybody_asking() -> None:
    keep()
    assert found("default")["spec"] == {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}
    assert found("global")["spec"] == {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}
    assert make.writes_of(keep) == []


@pytest.mark.contract("H23", "K34")
@pytest.mark.parametrize("name", ["default", "global"])
def test_a_standing_set_that_is_deleted_comes_back(name: str) -> None:
    keep()
    before = found(name)["metadata"]["uid"]
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET, Key("", name))
    make.settle()
    assert found(name)["metadata"]["uid"] != before


@pytest.mark.contract("H23", "H24")
@pytest.mark.parametrize("name", ["default", "global"])
def test_its_selector_is_reset_and_everything_else_is_free(name: str) -> None:
    keep()
    wanted = found(name)["spec"]["clusterSelector"]

    def change(doc: Doc) -> None:
        doc["spec"] = {"clusterSelector": by_labels(env="prod"), "managedNamespaces": [{"name": "kept"}]}
        doc["metadata"]["labels"] = {"team": "edge"}

    make.edit(MANAGED_CLUSTER_SET, name, change)
    make.settle()
    assert found(name)["spec"] == {"clusterSelector": wanted, "managedNamespaces": [{"name": "kept"}]}
    assert found(name)["metadata"]["labels"] == {"team": "edge"}


@pytest.mark.contract("H23")
def test_an_annotation_switches_the_reset_off() -> None:
    keep()

    def change(doc: Doc) -> None:
        doc["metadata"]["annotations"] = {"cluster.open-cluster-management.io/autoupdate": "false"}
        doc["spec"]["clusterSelector"] = by_labels(env="prod")

    make.edit(MANAGED_CLUSTER_SET, "global", change)
    make.settle()
    assert found("global")["spec"]["clusterSelector"] == by_labels(env="prod")


@pytest.mark.contract("H24", "A2", "S141")
def test_without_the_gate_nothing_is_made_and_nothing_is_labelled(settings: Any) -> None:
    settings.OCMCONSOLE_FEATURE_GATES = {**settings.OCMCONSOLE_FEATURE_GATES, "DefaultClusterSet": False}
    keep()
    assert not MANAGED_CLUSTER_SET.model.objects.exists()
    assert "labels" not in make.cluster("c1")["metadata"]


# ---------------------------------------------------------------- counts


@pytest.mark.contract("T8", "H22", "S116", "S118", "K35")
def test_counts_follow_clusters_that_come_move_and_go() -> None:
    make.clusterset("web")
    make.clusterset("prod", selector=by_labels(env="prod"))
    make.settle()
    nobody = ("True", "NoClusterMatched", "No ManagedCluster selected")
    assert empty("web") == empty("prod") == nobody
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web", "env": "prod"})
    make.settle()
    one = ("False", "ClustersSelected", "1 ManagedClusters selected")
    assert empty("web") == empty("prod") == one
    make.cluster("c2", labels={"env": "prod"})
    make.settle()
    assert empty("web") == one
    assert empty("prod")[2] == "2 ManagedClusters selected"
    make.label("c1", {CLUSTERSET_LABEL: "default"})
    make.settle()
    assert empty("web") == nobody
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()
    assert empty("prod") == one


@pytest.mark.contract("H22")
def test_counts_follow_the_selector() -> None:
    make.cluster("c1", labels={"env": "prod"})
    make.clusterset("some", selector=by_labels(env="dev"))
    make.settle()
    assert empty("some")[0] == "True"
    make.edit(MANAGED_CLUSTER_SET, "some", lambda doc: doc["spec"].update(clusterSelector=by_labels(env="prod")))
    make.settle()
    assert empty("some")[0] == "False"


@pytest.mark.contract("H22", "T2")
def test_a_change_that_moves_nobody_writes_no_set() -> None:
    make.clusterset("web")
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    make.settle()

    def change() -> None:
        make.label("c1", {"team": "edge"})
        make.settle()

    assert make.writes_of(change) == ["MODIFIED managedclusters.cluster.open-cluster-management.io c1"]


@pytest.mark.contract("K24", "D12", "T3")
def test_a_set_with_a_bad_selector_is_empty_and_disturbs_no_other() -> None:
    bad = {"selectorType": "LabelSelector", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}
    make.clusterset("bad", selector=bad)
    make.clusterset("web")
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    make.settle()
    assert empty("bad") == ("True", "NoClusterMatched", "No ManagedCluster selected")
    assert empty("web")[0] == "False"


@pytest.mark.contract("H22")
def test_looking_again_writes_nothing() -> None:
    make.clusterset("web", namespaces=("apps",))
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    make.namespace("ns")
    make.binding("web", namespace="ns")
    make.settle()

    def look() -> None:
        work = {("set_members", Key("", "web")), ("binding", Key("ns", "web")), ("managed_namespaces", Key("", "c1"))}
        workqueue.put(work, timezone.now())
        make.settle()

    assert make.writes_of(look) == []


# ---------------------------------------------------------------- bindings


@pytest.mark.contract("H25", "A10", "S126", "S131")
def test_a_binding_says_whether_its_set_exists() -> None:
    make.namespace("ns")
    make.binding("web", namespace="ns")

    def bound() -> tuple[str, str, str]:
        make.settle()
        doc = verbs.find(MANAGED_CLUSTER_SET_BINDING, Key("ns", "web"))
        assert doc is not None
        return make.condition(doc, "Bound")

    assert bound() == ("False", "ClusterSetNotFound", "")
    make.clusterset("web")
    assert bound() == ("True", "ClusterSetBound", "")
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET, Key("", "web"))
    assert bound() == ("False", "ClusterSetNotFound", "")


# ---------------------------------------------------------------- managed namespaces


def managed(name: str = "c1") -> list[Doc] | None:
    make.settle()
    return (make.stored(name).doc.get("status") or {}).get("managedNamespaces")


@pytest.mark.contract("H33")
def test_a_cluster_lists_what_its_sets_ask_for_by_set_and_name() -> None:
    make.clusterset("web", namespaces=("zoo", "apps"))
    make.clusterset("all", selector={"selectorType": "LabelSelector", "labelSelector": {}}, namespaces=("base",))
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    assert managed() == [
        {"clusterSet": "all", "name": "base"},
        {"clusterSet": "web", "name": "apps"},
        {"clusterSet": "web", "name": "zoo"},
    ]
    make.label("c1", {CLUSTERSET_LABEL: "default"})
    assert managed() == [{"clusterSet": "all", "name": "base"}]
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET, Key("", "all"))
    assert managed() is None


@pytest.mark.contract("H33")
def test_a_set_that_changes_its_mind_reaches_its_clusters() -> None:
    make.clusterset("web")
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    assert managed() is None
    make.edit(MANAGED_CLUSTER_SET, "web", lambda doc: doc["spec"].update(managedNamespaces=[{"name": "apps"}]))
    assert managed() == [{"clusterSet": "web", "name": "apps"}]
    make.edit(MANAGED_CLUSTER_SET, "web", lambda doc: doc["spec"].update(clusterSelector=by_labels(env="none")))
    assert managed() is None


@pytest.mark.contract("K23")
def test_what_the_agent_says_about_an_entry_survives_the_hub() -> None:
    make.clusterset("web", namespaces=("apps",))
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    make.settle()
    created = {
        "type": "NamespaceCreated",
        "status": "True",
        "reason": "Created",
        "message": "",
        "lastTransitionTime": "2026-11-21T02:21:11Z",
    }

    def say(doc: Doc) -> None:
        doc["status"]["managedNamespaces"][0]["conditions"] = [created]

    make.edit(MANAGED_CLUSTER, "c1", say, subresource="status")
    make.edit(MANAGED_CLUSTER_SET, "web", lambda doc: doc["spec"]["managedNamespaces"].append({"name": "base"}))
    assert managed() == [
        {"clusterSet": "web", "name": "apps", "conditions": [created]},
        {"clusterSet": "web", "name": "base"},
    ]
