"""Cluster sets: the standing two, counts, bindings and managed namespaces (H22 to H26, H33)."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER
from clustersets import queries
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from clustersets.tasks import keep_sets
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import WorkItem
from tests import factories as make
from tests.actors import grant, person, rule

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


# ---------------------------------------------------------------- counts


@pytest.mark.contract("H22", "T8")
def test_clusters_that_come_one_after_the_other_are_counted_together(settings: Any) -> None:
    """Where a worker follows the queue: it counts at once, then once a second at most."""
    make.clusterset("web")
    make.settle()
    settings.OCMCONSOLE_CONTROLLERS = "thread"
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    make.settle()
    counted = empty("web")
    assert counted == ("False", "ClustersSelected", "1 ManagedClusters selected")
    make.cluster("c2", labels={CLUSTERSET_LABEL: "web"})
    make.cluster("c3", labels={CLUSTERSET_LABEL: "web"})
    make.settle()
    assert empty("web") == counted
    assert WorkItem.objects.get(reconciler="set_members", name="web").due > timezone.now()
    settings.OCMCONSOLE_CONTROLLERS = "inline"
    WorkItem.objects.update(due=timezone.now())
    make.settle()
    assert empty("web") == ("False", "ClustersSelected", "3 ManagedClusters selected")


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


def switch(settings: Any, *, on: bool) -> None:
    settings.OCMCONSOLE_FEATURE_GATES = {**settings.OCMCONSOLE_FEATURE_GATES, "DefaultClusterSet": on}


@pytest.mark.contract("H24", "H23")
def test_without_the_gate_what_exists_stays_and_is_left_alone(settings: Any) -> None:
    keep()
    switch(settings, on=False)
    make.edit(MANAGED_CLUSTER_SET, "global", lambda doc: doc["spec"].update(clusterSelector=by_labels(env="prod")))
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET, Key("", "default"))
    keep()
    assert found("global")["spec"]["clusterSelector"] == by_labels(env="prod")
    assert verbs.find(MANAGED_CLUSTER_SET, Key("", "default")) is None


@pytest.mark.contract("H24", "H23")
def test_what_was_changed_while_the_gate_was_off_is_mended_when_it_is_on_again(settings: Any) -> None:
    keep()
    wanted = found("global")["spec"]
    switch(settings, on=False)
    make.edit(MANAGED_CLUSTER_SET, "global", lambda doc: doc["spec"].update(clusterSelector=by_labels(env="prod")))
    make.settle()
    switch(settings, on=True)
    keep()
    assert found("global")["spec"] == wanted


@pytest.mark.contract("H23")
@pytest.mark.parametrize("value", ["true", "", "False"])
def test_only_the_word_false_switches_the_reset_off(value: str) -> None:
    keep()
    wanted = found("default")["spec"]

    def change(doc: Doc) -> None:
        doc["metadata"]["annotations"] = {"cluster.open-cluster-management.io/autoupdate": value}
        doc["spec"]["clusterSelector"] = by_labels(env="prod")

    make.edit(MANAGED_CLUSTER_SET, "default", change)
    make.settle()
    assert found("default")["spec"] == wanted


@pytest.mark.contract("H23")
def test_one_who_takes_the_annotation_off_gets_the_selector_back() -> None:
    keep()
    wanted = found("default")["spec"]

    def opt_out(doc: Doc) -> None:
        doc["metadata"]["annotations"] = {"cluster.open-cluster-management.io/autoupdate": "false"}
        doc["spec"]["clusterSelector"] = by_labels(env="prod")

    make.edit(MANAGED_CLUSTER_SET, "default", opt_out)
    make.settle()
    assert make.writes_of(keep) == []
    make.edit(MANAGED_CLUSTER_SET, "default", lambda doc: doc["metadata"].pop("annotations"))
    make.settle()
    assert found("default")["spec"] == wanted


@pytest.mark.contract("H23", "K34")
def test_a_standing_set_that_a_finalizer_holds_comes_back_when_it_is_gone() -> None:
    keep()
    make.edit(MANAGED_CLUSTER_SET, "default", lambda doc: doc["metadata"].update(finalizers=["example.com/held"]))
    before = found("default")["metadata"]["uid"]
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET, Key("", "default"))
    keep()
    assert found("default")["metadata"]["uid"] == before
    verbs.edit(make.ADMIN, MANAGED_CLUSTER_SET, Key("", "default"), lambda doc: doc["metadata"].pop("finalizers"))
    make.settle()
    assert found("default")["metadata"]["uid"] != before


@pytest.mark.contract("D1", "H23")
@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_an_edit_through_an_older_version_is_mended_as_well(version: str) -> None:
    keep()
    wanted = found("default")["spec"]
    options = verbs.Options(version=next(each for each in MANAGED_CLUSTER_SET.versions if each.version == version))
    selected = {"clusterSelector": by_labels(env="prod")}
    key = Key("", "default")
    verbs.edit(make.ADMIN, MANAGED_CLUSTER_SET, key, lambda doc: doc.update(spec=selected), options=options)
    make.settle()
    assert found("default")["spec"] == wanted
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET, key, options=options)
    make.settle()
    assert found("default")["spec"] == wanted


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


@pytest.mark.contract("H22", "K35")
def test_a_cluster_that_is_being_deleted_counts_until_it_is_gone() -> None:
    make.clusterset("web")
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"}, finalizers=["example.com/held"])
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()
    assert make.stored("c1").deleted_at is not None
    assert empty("web")[2] == "1 ManagedClusters selected"
    verbs.edit(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"), lambda doc: doc["metadata"].pop("finalizers"))
    make.settle()
    assert empty("web")[0] == "True"


@pytest.mark.contract("H22")
def test_a_set_that_is_being_deleted_says_nothing_any_more() -> None:
    make.clusterset("web")
    make.edit(MANAGED_CLUSTER_SET, "web", lambda doc: doc["metadata"].update(finalizers=["example.com/held"]))
    make.settle()
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET, Key("", "web"))
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    make.settle()
    assert empty("web")[0] == "True"


@pytest.mark.contract("H22", "H25")
def test_deleting_a_set_leaves_labels_and_bindings_alone() -> None:
    make.clusterset("web")
    make.namespace("ns")
    make.binding("web", namespace="ns")
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    make.settle()
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET, Key("", "web"))
    make.settle()
    assert make.stored("c1").labels[CLUSTERSET_LABEL] == "web"
    assert verbs.find(MANAGED_CLUSTER_SET_BINDING, Key("ns", "web")) is not None
    make.clusterset("web")
    make.settle()
    assert empty("web")[2] == "1 ManagedClusters selected"


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
    assert empty("bad")[:2] == ("True", "NoClusterMatched")
    assert empty("web")[0] == "False"


@pytest.mark.contract("K24", "D12")
def test_a_set_with_a_bad_selector_says_what_is_wrong_with_it_and_no_longer_than_needed() -> None:
    near = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    make.clusterset("bad", selector={"selectorType": "LabelSelector", "labelSelector": near})
    long = {"matchLabels": {"x" * 20_000: "y"}}
    make.clusterset("long", selector={"selectorType": "LabelSelector", "labelSelector": long})
    make.settle()
    why = "No ManagedCluster selected: failed to build ClusterSelector with clusterSet: "
    assert empty("bad")[2].startswith(f"{why}bad, ")
    assert "Near" in empty("bad")[2]
    assert empty("long")[2].startswith(f"{why}long, ")
    assert len(empty("long")[2]) < 1100
    make.edit(MANAGED_CLUSTER_SET, "bad", lambda doc: doc["spec"].update(clusterSelector=by_labels(a="b")))
    make.settle()
    assert empty("bad") == ("True", "NoClusterMatched", "No ManagedCluster selected")


@pytest.mark.contract("K24", "D12", "H33", "D16")
def test_a_bad_selector_stalls_neither_namespaces_nor_sight() -> None:
    bad = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"!": "x"}}}
    make.clusterset("bad", selector=bad, namespaces=("odd",))
    make.clusterset("web", namespaces=("apps",))
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    assert managed() == [{"clusterSet": "web", "name": "apps"}]
    assert queries.sets_of({CLUSTERSET_LABEL: "web"}) == ["web"]
    make.edit(MANAGED_CLUSTER_SET, "web", lambda doc: doc["spec"].update(clusterSelector=bad))
    assert managed() is None


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


@pytest.mark.contract("H26")
def test_a_binding_gives_nobody_a_right_and_any_number_may_stand() -> None:
    for name in ("web", "db"):
        make.clusterset(name)
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    li = person("li")
    for namespace in ("one", "two"):
        make.namespace(namespace)
        grant(li, rule("* get list", "placements pods secrets"), namespace=namespace)
    make.settle()

    def bind() -> None:
        for namespace in ("one", "two"):
            for name in ("web", "db"):
                make.binding(name, namespace=namespace)
        make.settle()

    written = {line.split()[1] for line in make.writes_of(bind)}  # no role and no binding of one
    assert written == {
        "managedclustersetbindings.cluster.open-cluster-management.io",
        "clusterprofiles.multicluster.x-k8s.io",
    }
    for namespace in ("one", "two"):
        for name in ("web", "db"):
            doc = verbs.find(MANAGED_CLUSTER_SET_BINDING, Key(namespace, name))
            assert doc is not None
            assert make.condition(doc, "Bound")[0] == "True"
    with pytest.raises(errors.Forbidden):
        verbs.get(li, MANAGED_CLUSTER, Key("", "c1"))
    with pytest.raises(errors.Forbidden):
        verbs.get(li, MANAGED_CLUSTER_SET, Key("", "web"))


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


@pytest.mark.contract("H33")
def test_a_set_that_is_being_deleted_asks_for_nothing() -> None:
    make.clusterset("web", namespaces=("apps",))
    make.edit(MANAGED_CLUSTER_SET, "web", lambda doc: doc["metadata"].update(finalizers=["example.com/held"]))
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    assert managed() == [{"clusterSet": "web", "name": "apps"}]
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET, Key("", "web"))
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
