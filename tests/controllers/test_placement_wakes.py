"""Which writes make which placements look again (P1), and that a storm folds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER
from clustersets.kinds import MANAGED_CLUSTER_SET
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.control import compaction, workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import WorkItem
from placements.kinds import ADD_ON_PLACEMENT_SCORE
from placements.models import PlacementDecision
from tests import factories as make
from tests.controllers.placement_scene import TEAM, bound_set, members, place

pytestmark = [pytest.mark.django_db, pytest.mark.contract("P1")]

Doc = dict[str, Any]


@pytest.fixture(autouse=True)
def web(db: None) -> None:
    bound_set()
    cluster("c1")


def cluster(name: str, **labels: str) -> None:
    members(name, spec=None, within="web", **labels)
    make.settle()


def woken() -> list[str]:
    """Names of placements that are to be scheduled because of what was written; then nothing waits."""
    workqueue.drain(only=["bound_placements"])
    names = sorted(WorkItem.objects.filter(reconciler="placement").values_list("name", flat=True))
    make.settle()
    return names


def chosen(name: str) -> list[str]:
    rows = PlacementDecision.objects.filter(namespace=TEAM, placement=name)
    return [each["clusterName"] for row in rows for each in (row.doc.get("status") or {}).get("decisions") or ()]


def by_label(key: str) -> Doc:
    return {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {key: "yes"}}}}]}


def by_expression(text: str) -> Doc:
    return {"predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": [text]}}}]}


def test_without_placements_a_change_of_a_cluster_is_no_work() -> None:
    make.label("c1", env="yes")
    assert not WorkItem.objects.filter(reconciler__in=["bound_placements", "placement"]).exists()


def test_a_label_concerns_placements_that_read_it_and_expressions() -> None:
    place("all")
    place("env", **by_label("env"))
    place("tier", **by_label("tier"))
    place("other-value", predicates=[{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "no"}}}}])
    place("cel", **by_expression("managedCluster.metadata.labels.?env.orValue('') == 'yes'"))
    make.label("c1", env="yes")
    assert woken() == ["cel", "env"]
    assert (chosen("env"), chosen("tier"), chosen("cel")) == (["c1"], [], ["c1"])


def test_taints_and_membership_concern_every_placement_of_the_set_and_no_other() -> None:
    make.namespace("elsewhere")
    make.clusterset("db")
    make.binding("db", namespace="elsewhere")
    make.binding("db", namespace=TEAM)
    place("all")
    place("other-set", clusterSets=["db"])
    place("away", namespace="elsewhere")
    taint = {"key": "a", "effect": "NoSelect"}
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["spec"].update(taints=[taint]))
    assert woken() == ["all"]
    make.label("c1", {CLUSTERSET_LABEL: "db"})
    assert woken() == ["all", "away", "other-set"]


def test_what_an_agent_reports_concerns_who_reads_it() -> None:
    place("all")
    place("cpu", prioritizerPolicy={"configurations": [{"scoreCoordinate": {"builtIn": "ResourceAllocatableCPU"}}]})
    claims = [{"key": "id.k8s.io", "operator": "Exists"}]
    place("claim", predicates=[{"requiredClusterSelector": {"claimSelector": {"matchExpressions": claims}}}])

    def report(**status: Any) -> list[str]:
        make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["status"].update(status), subresource="status")
        return woken()

    assert report(clusterClaims=[{"name": "id.k8s.io", "value": "7"}]) == ["claim"]
    assert chosen("claim") == ["c1"]
    assert report(allocatable={"cpu": "4"}, capacity={"cpu": "8"}) == ["cpu"]
    assert report(version={"kubernetes": "v1.34.0"}) == []


@pytest.mark.contract("P18", "P7")
def test_a_score_concerns_prioritizers_and_expressions_that_read_it() -> None:
    make.namespace("c1")
    place("all")
    coordinate = {"type": "AddOn", "addOn": {"resourceName": "load", "scoreName": "free"}}
    place("load", prioritizerPolicy={"configurations": [{"scoreCoordinate": coordinate}]})
    place("cel", **by_expression("managedCluster.scores('load').exists(s, s.name == 'free' && s.value > 5)"))
    assert chosen("cel") == []
    for name in ("load", "other"):
        make.create(ADD_ON_PLACEMENT_SCORE, make.document(ADD_ON_PLACEMENT_SCORE, name), namespace="c1")
    woken()
    scores = {"scores": [{"name": "free", "value": 50}]}

    def change(name: str) -> list[str]:
        edit = lambda doc: doc.update(status=scores)  # noqa: E731 - one use
        make.edit(ADD_ON_PLACEMENT_SCORE, name, edit, namespace="c1", subresource="status")
        return woken()

    assert change("other") == ["cel"]
    assert change("load") == ["cel", "load"]
    assert chosen("cel") == ["c1"]


@pytest.mark.contract("P3", "T6")
def test_a_set_that_selects_by_labels_is_followed_when_its_selector_changes() -> None:
    def selecting(**exact: str) -> Doc:
        return {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": exact}}

    make.clusterset("edge", selector=selecting(site="edge"))
    make.binding("edge", namespace=TEAM)
    place("edge-only", clusterSets=["edge"])
    assert chosen("edge-only") == []
    make.label("c1", site="edge")
    assert woken() == ["edge-only"]
    assert chosen("edge-only") == ["c1"]
    change = lambda doc: doc["spec"].update(clusterSelector=selecting(site="core"))  # noqa: E731 - one use
    make.edit(MANAGED_CLUSTER_SET, "edge", change)
    assert woken() == ["edge-only"]
    assert chosen("edge-only") == []
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET, Key("", "edge"))
    assert woken() == ["edge-only"]


@pytest.mark.contract("T6", "D12")
def test_a_set_that_selects_by_labels_wakes_its_placements_when_others_may_be_members() -> None:
    """Also one that cannot be read, which has no members, stops nobody (K24)."""
    expressions = [{"key": "site", "operator": "NotIn", "values": ["core"]}, {"key": "tier", "operator": "Exists"}]
    make.clusterset(
        "edge", selector={"selectorType": "LabelSelector", "labelSelector": {"matchExpressions": expressions}}
    )
    bad = {"matchExpressions": [{"key": "site", "operator": "Bogus"}]}
    make.clusterset("bad", selector={"selectorType": "LabelSelector", "labelSelector": bad})
    for name in ("edge", "bad"):
        make.binding(name, namespace=TEAM)
        place(name, clusterSets=[name])
    make.label("c1", other="yes")
    assert woken() == []
    make.label("c1", tier="a")
    assert woken() == ["edge"]
    assert chosen("edge") == ["c1"]
    make.label("c1", site="core")
    assert "edge" in woken()
    assert chosen("edge") == []


def test_a_storm_folds_into_one_piece_of_work_for_each_set_and_one_for_those_that_select() -> None:
    for number in range(2, 6):
        cluster(f"c{number}")
    place("all")
    place("also")
    WorkItem.objects.all().delete()
    taint = {"key": "a", "effect": "NoSelect"}
    for number in range(1, 6):
        make.edit(MANAGED_CLUSTER, f"c{number}", lambda doc: doc["spec"].update(taints=[taint]))
    waiting = WorkItem.objects.filter(reconciler="bound_placements").values_list("namespace", "name")
    assert sorted(waiting) == [("expression", ""), ("expression", "web"), ("taints", ""), ("taints", "web")]
    assert woken() == ["all", "also"]
    assert chosen("all") == []


def test_a_deleted_cluster_leaves_the_decisions() -> None:
    place("all")
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()
    assert chosen("all") == []


def test_the_snapshot_begins_again_where_the_log_was_cut() -> None:
    place("all", numberOfClusters=1)
    assert chosen("all") == ["c1"]
    cluster("c2")
    make.label("c1", {CLUSTERSET_LABEL: "none"})
    with time_machine.travel(timezone.now() + timedelta(hours=1)):
        assert compaction.compact_log(keep=0)
        make.settle()
    assert chosen("all") == ["c2"]
