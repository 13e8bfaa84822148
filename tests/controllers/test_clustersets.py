"""Standing sets, counts, bindings and managed namespaces (ocm.md 3.6, 3.8)."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER
from clustersets.controllers import AUTOUPDATE
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from clustersets.models import ManagedClusterSet
from clustersets.tasks import keep_sets
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from tests import factories as make
from tests.factories import Doc

pytestmark = pytest.mark.django_db

SELECTORS = {
    "default": {"selectorType": "ExclusiveClusterSetLabel"},
    "global": {"selectorType": "LabelSelector", "labelSelector": {}},
}
NONE = ("True", "NoClusterMatched", "No ManagedCluster selected")


def selected(count: int) -> tuple[str, str, str]:
    return "False", "ClustersSelected", f"{count} ManagedClusters selected"


def by_label(**labels: str) -> Doc:
    return {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": labels}}


def set_(name: str) -> Doc:
    found = verbs.find(MANAGED_CLUSTER_SET, Key("", name))
    assert found is not None
    return found


def emptiness(name: str) -> tuple[str, str, str]:
    return make.condition(set_(name), "ClusterSetEmpty")


def edit_set(name: str, **spec: Any) -> None:
    make.edit(MANAGED_CLUSTER_SET, name, lambda doc: doc["spec"].update(spec))
    make.settle()


def delete(name: str) -> None:
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET, Key("", name))
    make.settle()


def keep() -> None:
    keep_sets()
    make.settle()


# ---------------------------------------------------------------- standing sets


@pytest.mark.contract("H23", "H24")
@pytest.mark.parametrize("name", ["default", "global"])
def test_a_standing_set_comes_and_comes_back(name: str) -> None:
    keep()
    assert set_(name)["spec"]["clusterSelector"] == SELECTORS[name]
    delete(name)
    keep()
    assert set_(name)["spec"]["clusterSelector"] == SELECTORS[name]
    assert make.writes_of(keep) == []


@pytest.mark.contract("H23", "H24")
@pytest.mark.parametrize("name", ["default", "global"])
def test_its_selector_is_put_back_and_the_rest_is_free(name: str) -> None:
    keep()
    edit_set(name, clusterSelector=by_label(a="b"), managedNamespaces=[{"name": "apps"}])
    assert set_(name)["spec"] == {"clusterSelector": SELECTORS[name], "managedNamespaces": [{"name": "apps"}]}


@pytest.mark.contract("H23", "H24")
def test_its_owner_can_switch_that_off() -> None:
    keep()
    note = {AUTOUPDATE: "false"}
    make.edit(MANAGED_CLUSTER_SET, "global", lambda doc: doc["metadata"].update(annotations=note))
    edit_set("global", clusterSelector=by_label(a="b"))
    assert set_("global")["spec"]["clusterSelector"] == by_label(a="b")


@pytest.mark.contract("H24")
def test_without_the_gate_nothing_is_made_or_kept() -> None:
    with override_settings(OCMCONSOLE_FEATURE_GATES={"DefaultClusterSet": False}):
        keep()
        assert not ManagedClusterSet.objects.exists()
        make.clusterset("global", selector=by_label(a="b"))
        make.settle()
        assert set_("global")["spec"]["clusterSelector"] == by_label(a="b")


# ---------------------------------------------------------------- counts


@pytest.mark.contract("H22", "T8")
def test_a_set_says_how_many_clusters_it_has() -> None:
    make.clusterset("web")
    make.settle()
    assert emptiness("web") == NONE
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    make.settle()
    assert emptiness("web") == selected(1)
    make.cluster("c2", labels={CLUSTERSET_LABEL: "web"}, accepted=True)
    make.settle()
    assert emptiness("web") == selected(2)
    assert make.writes_of(make.settle) == []


@pytest.mark.contract("H22", "T6")
def test_a_move_is_counted_on_both_sides() -> None:
    make.clusterset("web")
    make.clusterset("data")
    make.clusterset("red", selector=by_label(color="red"))
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    make.label("c1", {CLUSTERSET_LABEL: "data", "color": "red"})
    make.settle()
    assert [emptiness(name) for name in ("web", "data", "red")] == [NONE, selected(1), selected(1)]
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()
    assert [emptiness(name) for name in ("web", "data", "red")] == [NONE] * 3


@pytest.mark.contract("H22", "T6", "T8")
def test_another_selector_counts_anew() -> None:
    make.cluster("c1", labels={"color": "red"})
    make.clusterset("red", selector={"selectorType": "LabelSelector"})
    make.settle()
    assert emptiness("red") == NONE  # no selector selects nothing
    edit_set("red", clusterSelector=by_label(color="red"))
    assert emptiness("red") == selected(1)


@pytest.mark.contract("H22")
def test_deleting_a_set_leaves_its_clusters_alone() -> None:
    make.clusterset("web")
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    make.settle()
    delete("web")
    assert make.stored("c1").clusterset == "web"


@pytest.mark.contract("K24", "D12", "T6")
def test_a_set_that_cannot_be_read_is_empty_and_harms_no_other() -> None:
    odd = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"a b": "c"}}}
    make.clusterset("odd", selector=odd, namespaces=("lost",))
    make.clusterset("red", selector=by_label(color="red"), namespaces=("apps",))
    make.cluster("c1", labels={"color": "red"})
    make.settle()
    assert (emptiness("odd"), emptiness("red")) == (NONE, selected(1))
    assert managed("c1") == [("red", "apps")]


# ---------------------------------------------------------------- bindings


def bound(namespace: str) -> tuple[str, str, str]:
    found = verbs.find(MANAGED_CLUSTER_SET_BINDING, Key(namespace, "web"))
    assert found is not None
    return make.condition(found, "Bound")


@pytest.mark.contract("H25")
def test_a_binding_follows_its_set() -> None:
    for namespace in ("apps", "more"):
        make.namespace(namespace)
        make.binding("web", namespace=namespace)
    make.settle()
    assert bound("apps") == bound("more") == ("False", "ClusterSetNotFound", "")
    make.clusterset("web")
    make.settle()
    assert bound("apps") == bound("more") == ("True", "ClusterSetBound", "")
    delete("web")
    assert bound("apps") == bound("more") == ("False", "ClusterSetNotFound", "")
    assert make.writes_of(make.settle) == []


# ---------------------------------------------------------------- managed namespaces


def entries(name: str) -> list[Doc]:
    return list((make.stored(name).doc.get("status") or {}).get("managedNamespaces") or ())


def managed(name: str) -> list[tuple[str, str]]:
    return [(entry["clusterSet"], entry["name"]) for entry in entries(name)]


@pytest.mark.contract("H33")
def test_a_cluster_is_told_what_its_sets_want_sorted_by_set_then_name() -> None:
    make.clusterset("web", namespaces=("z", "a"))
    make.clusterset("all", selector={"selectorType": "LabelSelector", "labelSelector": {}}, namespaces=("m",))
    make.clusterset("data", namespaces=("d",))
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    make.settle()
    assert managed("c1") == [("all", "m"), ("web", "a"), ("web", "z")]
    make.label("c1", {CLUSTERSET_LABEL: "data"})
    make.settle()
    assert managed("c1") == [("all", "m"), ("data", "d")]
    delete("all")
    edit_set("data", managedNamespaces=[{"name": "e"}])
    assert managed("c1") == [("data", "e")]
    edit_set("data", managedNamespaces=[])
    assert managed("c1") == []
    assert make.writes_of(make.settle) == []


@pytest.mark.contract("K23", "H33")
def test_what_the_agent_said_about_a_namespace_stays_while_it_is_wanted() -> None:
    make.clusterset("web", namespaces=("a", "b"))
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    make.settle()
    condition = {"type": "NamespaceAvailable", "status": "True", "reason": "Made", "message": ""}
    condition["lastTransitionTime"] = "2026-11-21T02:21:11Z"

    def say(doc: Doc) -> None:
        for entry in doc["status"]["managedNamespaces"]:
            entry["conditions"] = [condition]

    make.edit(MANAGED_CLUSTER, "c1", say, subresource="status")
    make.settle()
    edit_set("web", managedNamespaces=[{"name": "b"}, {"name": "c"}])
    assert entries("c1") == [
        {"clusterSet": "web", "name": "b", "conditions": [condition]},
        {"clusterSet": "web", "name": "c"},
    ]
