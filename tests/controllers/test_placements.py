"""What the scheduler writes for a Placement: decisions, conditions, and nothing twice (P2 to P30, D14, K16)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from copy import deepcopy
from datetime import timedelta
from typing import Any

import orjson
import pytest
import time_machine
from django.utils import timezone

from clusters.kinds import CLUSTERSET_LABEL, GROUP, MANAGED_CLUSTER
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import Change, WorkItem
from ocmconsole.kubeapi.writes import store
from ocmconsole.kubeapi.writes.store import Write
from placements.kinds import ADD_ON_PLACEMENT_SCORE, DISABLE_ANNOTATION, PLACEMENT, PLACEMENT_DECISION
from placements.tasks import TURNS, resync, resync_placements
from tests import factories as make
from tests.controllers.placement_scene import TEAM, bound_set
from tests.controllers.placement_scene import members as clusters

pytestmark = pytest.mark.django_db

Doc = dict[str, Any]
ACT = "managedcluster:create"


@pytest.fixture(autouse=True)
def web(db: None) -> None:
    """A namespace with the set ``web``."""
    bound_set()


def place(name: str = "p1", **spec: Any) -> Doc:
    return make.create(PLACEMENT, make.document(PLACEMENT, name, spec=spec), namespace=TEAM)


def found(name: str = "p1") -> Doc:
    doc = verbs.find(PLACEMENT, Key(TEAM, name))
    assert doc is not None
    return doc


def decisions(name: str = "p1") -> list[Doc]:
    rows = PLACEMENT_DECISION.model.objects.filter(namespace=TEAM)
    named = [row.doc for row in rows if row.name.startswith(f"{name}-decision-")]
    return sorted(named, key=lambda doc: int(doc["metadata"]["name"].rpartition("-")[2]))


def names(doc: Doc) -> list[str]:
    return [each["clusterName"] for each in (doc.get("status") or {}).get("decisions") or ()]


def chosen(name: str = "p1") -> list[str]:
    return [each for doc in decisions(name) for each in names(doc)]


def satisfied(name: str = "p1") -> tuple[str, str, str]:
    return make.condition(found(name), "PlacementSatisfied")


def misconfigured(name: str = "p1") -> tuple[str, str, str]:
    return make.condition(found(name), "PlacementMisconfigured")


def respec(change: Any, name: str = "p1") -> None:
    make.edit(PLACEMENT, name, lambda doc: doc["spec"].update(change), namespace=TEAM)
    make.settle()


def matching(**labels: str) -> list[Doc]:
    return [{"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}]


def half_an_hour_passes() -> None:
    for turn in range(TURNS):
        resync(turn)


# ---------------------------------------------------------------- decisions


@pytest.mark.contract("P3", "P5", "P24", "P27", "P28", "P29")
def test_a_placement_gets_a_decision_with_labels_owner_and_conditions() -> None:
    clusters("c2", "c1")
    made = place()
    make.settle()
    [decision] = decisions()
    assert decision["metadata"]["name"] == "p1-decision-1"
    assert decision["metadata"]["labels"] == {
        f"{GROUP}/placement": "p1",
        f"{GROUP}/decision-group-name": "",
        f"{GROUP}/decision-group-index": "0",
    }
    assert decision["metadata"]["ownerReferences"] == [
        {
            "apiVersion": f"{GROUP}/v1beta1",
            "kind": "Placement",
            "name": "p1",
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert decision["status"] == {
        "decisions": [{"clusterName": "c1", "reason": ""}, {"clusterName": "c2", "reason": ""}]
    }
    assert satisfied() == ("True", "AllDecisionsScheduled", "All cluster decisions scheduled")
    assert misconfigured() == ("False", "Succeedconfigured", "Placement configurations check pass")
    status = found()["status"]
    assert [each["type"] for each in status["conditions"]] == ["PlacementSatisfied", "PlacementMisconfigured"]
    assert status["numberOfSelectedClusters"] == 2
    assert status["decisionGroups"] == [
        {"decisionGroupIndex": 0, "decisionGroupName": "", "decisions": ["p1-decision-1"], "clusterCount": 2}
    ]


@pytest.mark.contract("P24", "P27", "P28")
@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        ({"clusterSets": ["other"]}, "NoIntersection", "None of ManagedClusterSets [other] is bound to placement namespace"),
        ({}, "AllManagedClusterSetsEmpty", "All ManagedClusterSets [web] have no member ManagedCluster"),
    ],
)  # fmt: skip
def test_a_placement_that_chooses_nobody_has_an_empty_decision_and_says_why(
    spec: Doc, reason: str, message: str
) -> None:
    place(**spec)
    make.settle()
    [decision] = decisions()
    assert "status" not in decision
    assert satisfied() == ("False", reason, message)
    assert "numberOfSelectedClusters" not in found()["status"]


@pytest.mark.contract("P3", "P28", "P1")
def test_what_is_bound_decides_and_a_binding_that_goes_takes_the_clusters_along() -> None:
    clusters("c1")
    place()
    make.settle()
    assert chosen() == ["c1"]
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET_BINDING, Key(TEAM, "web"))
    make.settle()
    assert chosen() == []
    assert decisions()[0]["status"] == {"decisions": []}
    assert satisfied()[1:] == (
        "NoManagedClusterSetBindings",
        "No valid ManagedClusterSetBindings found in placement namespace",
    )
    assert found()["status"]["numberOfSelectedClusters"] == 0
    make.binding("gone", namespace=TEAM)
    make.settle()
    assert satisfied()[1] == "NoManagedClusterSetBindings"
    make.clusterset("gone")
    make.settle()
    assert satisfied()[1] == "AllManagedClusterSetsEmpty"
    make.binding("web", namespace=TEAM)
    make.settle()
    assert chosen() == ["c1"]


@pytest.mark.contract("P3")
def test_a_binding_and_a_set_count_until_they_are_gone_and_not_until_they_are_being_deleted() -> None:
    clusters("c1")
    place()
    for kind, namespace in ((MANAGED_CLUSTER_SET_BINDING, TEAM), (MANAGED_CLUSTER_SET, "")):
        make.edit(kind, "web", lambda doc: doc["metadata"].update(finalizers=["example.com/held"]), namespace=namespace)
        verbs.delete(make.ADMIN, kind, Key(namespace, "web"))
    clusters("c2")
    make.settle()
    assert chosen() == ["c1", "c2"]
    verbs.edit(make.ADMIN, MANAGED_CLUSTER_SET, Key("", "web"), lambda doc: doc["metadata"].update(finalizers=[]))
    make.settle()
    assert chosen() == []
    assert satisfied()[1] == "NoManagedClusterSetBindings"


@pytest.mark.contract("P3", "P4", "H26")
def test_a_binding_in_another_namespace_is_none() -> None:
    make.namespace("elsewhere")
    make.clusterset("db")
    make.binding("db", namespace="elsewhere")
    clusters("c1")
    clusters("d1", within="db")
    place()
    place("p2", clusterSets=["db"])
    make.settle()
    assert chosen() == ["c1"]
    assert chosen("p2") == []


@pytest.mark.contract("P5", "P19", "P28")
def test_as_many_clusters_are_chosen_as_are_asked_for() -> None:
    clusters("c1", "c2", "c3")
    place(numberOfClusters=2)
    place("p2", numberOfClusters=5)
    place("p3", numberOfClusters=0)
    make.settle()
    assert chosen() == ["c1", "c2"]
    assert satisfied()[0] == "True"
    assert len(chosen("p2")) == 3
    assert satisfied("p2") == ("False", "NotAllDecisionsScheduled", "2 cluster decisions unscheduled")
    assert chosen("p3") == []
    assert satisfied("p3")[1] == "NoManagedClusterMatched"


@pytest.mark.contract("P9", "H21")
def test_a_cluster_that_nobody_hears_is_tainted_and_dropped() -> None:
    clusters("c1", "c2")
    place()
    make.settle()
    make.said("c1", "ManagedClusterConditionAvailable", "Unknown")
    make.settle()
    assert chosen() == ["c2"]
    make.said("c1", "ManagedClusterConditionAvailable", "True")
    make.settle()
    assert chosen() == ["c1", "c2"]


@pytest.mark.contract("P11", "P13")
def test_a_toleration_ends_by_the_clock() -> None:
    clusters("c1", "c2")
    place(tolerations=[{"key": "gpu", "operator": "Exists", "tolerationSeconds": 300}])
    make.settle()
    taint = {"key": "gpu", "effect": "NoSelect"}
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["spec"].update(taints=[taint]))
    make.settle()
    assert chosen() == ["c1", "c2"]
    [waiting] = WorkItem.objects.filter(reconciler="placement", name="p1")
    left = (waiting.due - timezone.now()).total_seconds()
    assert 200 < left <= 301
    with time_machine.travel(timezone.now() + timedelta(seconds=301), tick=False):
        make.settle()
        assert chosen() == ["c2"]
    assert not WorkItem.objects.filter(reconciler="placement", name="p1").exists()


@pytest.mark.contract("P18", "K18", "P31")
def test_a_score_counts_until_it_ends() -> None:
    clusters("c1", "c2")
    until = (timezone.now() + timedelta(seconds=600)).strftime("%Y-%m-%dT%H:%M:%SZ")
    make.namespace("c1")
    make.namespace("c2")
    score("c2", 90, until)
    coordinate = {"type": "AddOn", "addOn": {"resourceName": "load", "scoreName": "free"}}
    policy = {"mode": "Exact", "configurations": [{"scoreCoordinate": coordinate, "weight": 1}]}
    place(numberOfClusters=1, prioritizerPolicy=policy)
    make.settle()
    assert chosen() == ["c2"]
    with time_machine.travel(timezone.now() + timedelta(seconds=602), tick=False):
        make.settle()
        assert chosen() == ["c1"]


def score(cluster: str, value: int, until: str = "", name: str = "load") -> None:
    key = Key(cluster, name)
    if verbs.find(ADD_ON_PLACEMENT_SCORE, key) is None:
        make.create(ADD_ON_PLACEMENT_SCORE, make.document(ADD_ON_PLACEMENT_SCORE, name), namespace=cluster)
    status = {"scores": [{"name": "free", "value": value}]} | ({"validUntil": until} if until else {})
    change = lambda doc: doc.update(status=status)  # noqa: E731 - one use
    make.edit(ADD_ON_PLACEMENT_SCORE, name, change, namespace=cluster, subresource="status")


@pytest.mark.contract("P15", "P16", "P20")
def test_other_placements_are_balanced_and_what_is_chosen_stays() -> None:
    clusters("c1", "c2")
    place("one", numberOfClusters=1)
    make.settle()
    place("two", numberOfClusters=1)
    make.settle()
    assert (chosen("one"), chosen("two")) == (["c1"], ["c2"])
    clusters("c0")
    make.settle()
    assert (chosen("one"), chosen("two")) == (["c1"], ["c2"])


@pytest.mark.contract("P15", "P1")
def test_every_half_hour_all_placements_are_scheduled_again() -> None:
    clusters("c1", "c2")
    weights = [{"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Balance"}, "weight": 1}]
    place("one", numberOfClusters=1, prioritizerPolicy={"mode": "Exact", "configurations": weights})
    make.settle()
    assert chosen("one") == ["c1"]
    place("two", clusterSets=["web"], predicates=matching(pick="me"))
    make.label("c1", pick="me")
    make.settle()
    assert (chosen("one"), chosen("two")) == (["c1"], ["c1"])
    half_an_hour_passes()
    make.settle()
    assert chosen("one") == ["c2"]


@pytest.mark.contract("P1")
def test_placements_have_their_turns_in_different_minutes() -> None:
    for number in range(5):
        place(f"p{number}")
    make.settle()
    turns = []
    for minute in range(TURNS):
        with time_machine.travel(timezone.now() + timedelta(minutes=minute), tick=False):
            resync_placements()
        turns.append(WorkItem.objects.filter(reconciler="placement").count())
        WorkItem.objects.all().delete()
    assert sum(turns) == 5
    assert max(turns) < 5


@pytest.mark.contract("P16")
def test_a_negative_steady_comes_to_rest() -> None:
    clusters("c1", "c2", "c3")
    place(numberOfClusters=1)
    make.settle()
    assert chosen() == ["c1"]
    weights = [{"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}, "weight": -1}]
    respec({"prioritizerPolicy": {"mode": "Exact", "configurations": weights}})
    assert chosen() == ["c2"]
    half_an_hour_passes()
    assert make.writes_of(make.settle) == []
    weights[0]["weight"] = -2
    respec({"prioritizerPolicy": {"mode": "Exact", "configurations": weights}})
    assert chosen() == ["c1"]


# ---------------------------------------------------------------- groups and order


@pytest.mark.contract("P21", "P22", "P23", "P27")
def test_groups_have_their_labels_and_decisions_are_numbered_across_them() -> None:
    clusters("a1", "a2", "a3", tier="canary")
    clusters("b1", "b2")
    canary = {"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"tier": "canary"}}}}
    place(decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 2, "decisionGroups": [canary]}})
    make.settle()
    shown = [
        (
            doc["metadata"]["name"],
            doc["metadata"]["labels"][f"{GROUP}/decision-group-name"],
            doc["metadata"]["labels"][f"{GROUP}/decision-group-index"],
            names(doc),
        )
        for doc in decisions()
    ]
    assert shown == [
        ("p1-decision-1", "canary", "0", ["a1", "a2"]),
        ("p1-decision-2", "canary", "1", ["a3"]),
        ("p1-decision-3", "", "2", ["b1", "b2"]),
    ]
    groups = found()["status"]["decisionGroups"]
    assert [(each["decisionGroupIndex"], each["decisionGroupName"], each["decisions"], each["clusterCount"]) for each in groups] == [
        (0, "canary", ["p1-decision-1"], 2),
        (1, "canary", ["p1-decision-2"], 1),
        (2, "", ["p1-decision-3"], 2),
    ]  # fmt: skip
    make.label("a3", tier="rest")
    make.settle()
    assert [names(doc) for doc in decisions()] == [["a1", "a2"], ["a3", "b1"], ["b2"]]
    assert decisions()[1]["metadata"]["labels"][f"{GROUP}/decision-group-name"] == ""


@pytest.mark.contract("K16", "P25")
def test_no_cluster_is_missing_at_any_revision_while_they_shift_between_decisions() -> None:
    many = [f"c{number}" for number in range(7)]
    clusters(*many)
    clusters("b-first", within="none")
    place(decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 2}})
    make.settle()
    assert [names(doc) for doc in decisions()] == [["c0", "c1"], ["c2", "c3"], ["c4", "c5"], ["c6"]]
    head = newest()
    make.label("b-first", {CLUSTERSET_LABEL: "web"})
    make.settle()
    assert chosen() == ["b-first", *many]
    assert all(set(many) <= standing for standing in replayed(head))
    head = newest()
    for name in ("b-first", "c0", "c1"):
        make.label(name, {CLUSTERSET_LABEL: "none"})
    make.settle()
    assert [names(doc) for doc in decisions()] == [["c2", "c3"], ["c4", "c5"], ["c6"]]
    assert all(set(many[2:]) <= standing for standing in replayed(head))


@pytest.mark.contract("K16")
def test_clusters_that_change_places_between_two_groups_stand_in_both_for_a_moment() -> None:
    clusters("c1", tier="one")
    clusters("c2", tier="two")
    groups = [
        {"groupName": f"g-{tier}", "groupClusterSelector": {"labelSelector": {"matchLabels": {"tier": tier}}}}
        for tier in ("one", "two")
    ]
    place(decisionStrategy={"groupStrategy": {"decisionGroups": groups}})
    make.settle()
    head = newest()
    respec({"decisionStrategy": {"groupStrategy": {"decisionGroups": groups[::-1]}}})
    assert [names(doc) for doc in decisions()] == [["c2"], ["c1"]]
    assert all(standing == {"c1", "c2"} for standing in replayed(head))


@pytest.mark.contract("P23", "P24")
def test_a_decision_holds_a_hundred_clusters() -> None:
    pattern = make.cluster("c", labels={CLUSTERSET_LABEL: "web"})
    many = [f"c{number:03}" for number in range(205)]
    written = []
    for name in many:
        doc = deepcopy(pattern)
        doc["metadata"] |= {"name": name, "uid": str(uuid.uuid4())}
        written.append(Write(MANAGED_CLUSTER, Key("", name), None, None, doc, make.ADMIN, "create", ACT, ""))
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c"))
    store.commit(written)
    WorkItem.objects.all().delete()  # what the other reconcilers do with clusters is not the matter here
    place()
    make.settle()
    assert [len(names(doc)) for doc in decisions()] == [100, 100, 5]
    assert chosen() == many
    assert found()["status"]["decisionGroups"][0]["clusterCount"] == 205


def newest() -> int:
    return Change.objects.order_by("-revision").values_list("revision", flat=True)[0]


def replayed(since: int) -> Iterator[set[str]]:
    """Who is chosen after each revision of the change log, as a watch of the decisions would see it."""
    standing: dict[str, list[str]] = {}
    for change in Change.objects.filter(resource=PLACEMENT_DECISION.resource).order_by("revision"):
        standing[change.name] = [] if change.verb == Change.Verb.DELETED else names(orjson.loads(change.wire))
        if change.revision > since:
            yield {name for each in standing.values() for name in each}


@pytest.mark.contract("P23")
def test_decisions_in_the_order_of_scores_show_them_and_others_do_not() -> None:
    clusters("c1", "c2")
    for name, value in (("c1", 10), ("c2", 90)):
        make.namespace(name)
        score(name, value)
    coordinate = {"type": "AddOn", "addOn": {"resourceName": "load", "scoreName": "free"}}
    policy = {"mode": "Exact", "configurations": [{"scoreCoordinate": coordinate, "weight": 2}]}
    place(prioritizerPolicy=policy, sortBy="Score")
    make.settle()
    entries = decisions()[0]["status"]["decisions"]
    assert entries == [
        {"clusterName": "c2", "reason": "", "score": 180},
        {"clusterName": "c1", "reason": "", "score": 20},
    ]
    score("c1", 20)
    make.settle()
    assert decisions()[0]["status"]["decisions"][1]["score"] == 40
    respec({"sortBy": "ClusterName"})
    assert decisions()[0]["status"]["decisions"] == [
        {"clusterName": "c1", "reason": ""},
        {"clusterName": "c2", "reason": ""},
    ]


# ---------------------------------------------------------------- what is left alone, and what is mended


@pytest.mark.contract("P2")
def test_a_placement_that_another_scheduler_decides_is_left_alone() -> None:
    clusters("c1")
    doc = make.document(PLACEMENT, "p1", spec={}, annotations={DISABLE_ANNOTATION: "true"})
    make.create(PLACEMENT, doc, namespace=TEAM)
    make.settle()
    assert decisions() == []
    assert "status" not in found()
    make.edit(PLACEMENT, "p1", lambda doc: doc["metadata"].pop("annotations"), namespace=TEAM)
    make.settle()
    assert chosen() == ["c1"]
    make.edit(PLACEMENT, "p1", lambda doc: doc["metadata"].update(annotations={DISABLE_ANNOTATION: "true"}), namespace=TEAM)  # fmt: skip
    clusters("c2")
    make.settle()
    assert chosen() == ["c1"]


@pytest.mark.contract("P2", "P26", "W18")
def test_decisions_go_with_their_placement_and_one_that_is_being_deleted_is_left_alone() -> None:
    clusters("c1")
    doc = make.document(PLACEMENT, "p1", spec={}, finalizers=["example.com/held"])
    make.create(PLACEMENT, doc, namespace=TEAM)
    make.settle()
    verbs.delete(make.ADMIN, PLACEMENT, Key(TEAM, "p1"))
    clusters("c2")
    make.settle()
    assert chosen() == ["c1"]
    make.let_go(PLACEMENT, "p1", namespace=TEAM)
    make.settle()
    assert decisions() == []


@pytest.mark.contract("P24", "P26")
def test_what_people_change_of_a_decision_is_mended() -> None:
    clusters("c1")
    place()
    make.settle()
    [wanted] = decisions()
    key = Key(TEAM, "p1-decision-1")

    def edited(change: Any, subresource: str = "") -> Doc:
        make.edit(PLACEMENT_DECISION, "p1-decision-1", change, namespace=TEAM, subresource=subresource)
        make.settle()
        return decisions()[0]

    def same(doc: Doc) -> bool:
        parts = ("labels", "ownerReferences")
        return doc["status"] == wanted["status"] and all(doc["metadata"][each] == wanted["metadata"][each] for each in parts)  # fmt: skip

    assert same(edited(lambda doc: doc.update(status={"decisions": [{"clusterName": "x", "reason": "y"}]}), "status"))
    assert same(edited(lambda doc: doc["metadata"].pop("labels")))
    assert same(edited(lambda doc: doc["metadata"]["labels"].update({f"{GROUP}/placement": "other", "mine": "too"})))
    assert same(edited(lambda doc: doc["metadata"].pop("ownerReferences")))
    kept = edited(lambda doc: doc["metadata"].update(annotations={"mine": "stays"}))
    assert kept["metadata"]["annotations"] == {"mine": "stays"}
    verbs.delete(make.ADMIN, PLACEMENT_DECISION, key)
    make.settle()
    assert same(decisions()[0])


@pytest.mark.contract("P26")
def test_a_decision_with_the_name_or_the_label_of_another_is_adopted_or_removed() -> None:
    clusters("c1")
    make.create(PLACEMENT_DECISION, make.document(PLACEMENT_DECISION, "p1-decision-1"), namespace=TEAM)
    labels = {f"{GROUP}/placement": "p1"}
    make.create(PLACEMENT_DECISION, make.document(PLACEMENT_DECISION, "stray", labels=labels), namespace=TEAM)
    place()
    make.settle()
    assert chosen() == ["c1"]
    assert verbs.find(PLACEMENT_DECISION, Key(TEAM, "stray")) is None


@pytest.mark.contract("P27", "P30")
def test_a_status_that_people_write_is_mended_and_conditions_of_others_stay() -> None:
    clusters("c1")
    place()
    make.settle()
    since = "2026-01-02T03:04:05Z"
    other = {"type": "Mine", "status": "True", "reason": "Said", "message": "", "lastTransitionTime": since}

    def change(doc: Doc) -> None:
        doc["status"] = {"conditions": [other], "numberOfSelectedClusters": 7}

    make.edit(PLACEMENT, "p1", change, namespace=TEAM, subresource="status")
    make.settle()
    assert satisfied()[0] == "True"
    assert make.condition(found(), "Mine") == ("True", "Said", "")
    assert found()["status"]["numberOfSelectedClusters"] == 1


@pytest.mark.contract("P25", "P27")
def test_looking_again_writes_nothing() -> None:
    clusters("c1", "c2")
    place()
    place("p2", numberOfClusters=1, sortBy="Score")
    place("p3", tolerations=[{"operator": "Equal"}])
    make.settle()
    half_an_hour_passes()
    assert make.writes_of(make.settle) == []


# ---------------------------------------------------------------- configurations that make no sense

NONSENSE = {"tolerations": [{"operator": "Equal"}]}
NONSENSE_SAYS = ("True", "Misconfigured", "TaintToleration:If the key is empty, operator must be Exists.")


@pytest.mark.contract("D14", "P12", "P29", "K21")
def test_a_misconfigured_placement_keeps_its_decisions_and_says_what_is_wrong() -> None:
    clusters("c1", "c2")
    place()
    make.settle()
    before, stood = decisions(), satisfied()
    respec(NONSENSE)
    assert decisions() == before
    assert (satisfied(), misconfigured()) == (stood, NONSENSE_SAYS)
    assert found()["status"]["numberOfSelectedClusters"] == 2
    clusters("c3")
    make.settle()
    assert chosen() == ["c1", "c2"]
    respec({"tolerations": []})
    assert chosen() == ["c1", "c2", "c3"]
    assert misconfigured()[0] == "False"


@pytest.mark.contract("D14", "K21")
def test_a_misconfigured_placement_keeps_all_groups_and_clusters_that_it_would_choose_no_more() -> None:
    """What stands was good when it was decided: a taint or label that came later evicts nobody before it is mended."""
    clusters("c1", "c2", "c3")
    place(decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 1}})
    make.settle()
    before, status = decisions(), found()["status"]
    assert len(before) == 3
    respec(NONSENSE)
    taint = {"key": "gpu", "effect": "NoSelect"}
    make.edit(MANAGED_CLUSTER, "c2", lambda doc: doc["spec"].update(taints=[taint]))
    make.settle()
    assert decisions() == before
    assert found()["status"]["decisionGroups"] == status["decisionGroups"]
    assert found()["status"]["numberOfSelectedClusters"] == 3
    respec({"tolerations": []})
    assert chosen() == ["c1", "c3"]


@pytest.mark.contract("D14", "P3")
def test_a_misconfigured_placement_loses_clusters_that_its_namespace_may_not_use() -> None:
    clusters("c1", "c2")
    place()
    make.settle()
    respec(NONSENSE)
    make.label("c1", {CLUSTERSET_LABEL: "none"})
    make.settle()
    assert chosen() == ["c2"]
    assert satisfied()[0] == "True"
    assert found()["status"]["decisionGroups"][0]["clusterCount"] == 1
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET_BINDING, Key(TEAM, "web"))
    make.settle()
    assert chosen() == []
    assert satisfied()[1] == "NoManagedClusterSetBindings"
    assert misconfigured() == NONSENSE_SAYS


@pytest.mark.contract("D14", "K21", "P30")
def test_by_setting_a_misconfigured_placement_is_emptied_as_upstream_does(settings: Any) -> None:
    settings.OCMCONSOLE_MISCONFIGURED_PLACEMENTS = "evict"
    clusters("c1")
    place()
    make.settle()
    respec(NONSENSE)
    assert chosen() == []
    assert satisfied()[1] == "NoManagedClusterMatched"
    assert misconfigured() == NONSENSE_SAYS
    assert found()["status"]["numberOfSelectedClusters"] == 0


@pytest.mark.contract("K17", "P29", "D12")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"numberOfClusters": -1}, ":numberOfClusters must not be negative"),
        ({"prioritizerPolicy": {"mode": "Odd"}}, ":incorrect prioritizer policy mode: Odd"),
        ({"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Bogus"}]}}}]}, 'Predicate:"Bogus" is not a valid label selector operator'),
        ({"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "5"}}}, ":5 invalid type: string is not a percentage"),
    ],
)  # fmt: skip
def test_one_bad_placement_says_so_and_stops_no_other(spec: Doc, message: str) -> None:
    clusters("c1")
    place("bad", **spec)
    place()
    make.settle()
    assert misconfigured("bad") == ("True", "Misconfigured", message)
    assert (chosen("bad"), chosen()) == ([], ["c1"])
    assert not WorkItem.objects.filter(reconciler="placement").exists()


@pytest.mark.contract("P7")
def test_expressions_choose_and_one_that_does_not_compile_is_misconfigured() -> None:
    clusters("c1", env="prod")
    clusters("c2", env="test")
    expression = {"celSelector": {"celExpressions": ["managedCluster.metadata.labels['env'] == 'prod'"]}}
    place(predicates=[{"requiredClusterSelector": expression}])
    make.settle()
    assert chosen() == ["c1"]
    expression["celSelector"]["celExpressions"] = ["managedCluster.metadata.("]
    respec({"predicates": [{"requiredClusterSelector": expression}]})
    assert misconfigured()[2].startswith("Predicate:compilation failed: ")
    assert chosen() == ["c1"]
