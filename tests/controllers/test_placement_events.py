"""Events of the scheduler: words and places of upstream (P32, P33), and never more with a larger fleet."""

from __future__ import annotations

from typing import Any

import pytest

from ocmconsole.core.models import Event
from placements.controller import events
from placements.kinds import PLACEMENT
from placements.models import PlacementDecision
from tests import factories as make
from tests.controllers.placement_scene import TEAM, bound_set, members, place

pytestmark = [pytest.mark.django_db, pytest.mark.contract("P32", "P33")]

Doc = dict[str, Any]


@pytest.fixture(autouse=True)
def web(db: None) -> None:
    bound_set()
    members("c1", "c2", env="prod")
    make.settle()


def found() -> list[Doc]:
    rows = Event.objects.filter(namespace=TEAM, regarding_kind="Placement").order_by("resource_version")
    return [row.doc for row in rows]


def said() -> list[tuple[str, str, str]]:
    return [(doc["reason"], doc["action"], doc["message"]) for doc in found()]


def test_a_fresh_placement_with_clusters_has_a_created_an_updated_and_a_score_event() -> None:
    made = place()
    assert said() == [
        ("DecisionCreate", "DecisionCreated", "Decision p1-decision-1 is created with placement p1 in namespace shop"),
        ("DecisionUpdate", "DecisionUpdated", "Decision p1-decision-1 is updated with placement p1 in namespace shop"),
        ("ScoreUpdate", "ScoreUpdated", "c1:100 c2:100 "),
    ]
    event = found()[0]
    assert (event["type"], event["reportingComponent"]) == ("Normal", "placement-controller")
    decision = PlacementDecision.objects.get(namespace=TEAM)
    assert event["involvedObject"]["uid"] == made["metadata"]["uid"]
    assert (event["related"]["kind"], event["related"]["uid"]) == ("PlacementDecision", decision.uid)


def test_the_score_event_lists_all_that_passed_the_filters_by_name_with_the_weighted_total() -> None:
    members("c10", env="prod")
    members("c3", env="dev")
    weights = [{"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Balance"}, "weight": 3}]
    prod = [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}}}}]
    spec: Doc = {"predicates": prod, "prioritizerPolicy": {"configurations": weights}}
    place(numberOfClusters=1, **spec)
    assert said()[-1] == ("ScoreUpdate", "ScoreUpdated", "c1:300 c10:300 c2:300 ")
    place("p2", **spec)  # all are chosen, for which nobody needs their scores
    assert said()[-1] == ("ScoreUpdate", "ScoreUpdated", "c1:-300 c10:300 c2:300 ")


def test_one_without_clusters_has_a_created_event_alone() -> None:
    place(clusterSets=["other"])
    assert [each[0] for each in said()] == ["DecisionCreate"]


def test_a_decision_that_is_deleted_is_said_to_be() -> None:
    place(decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 1}})
    make.edit(PLACEMENT, "p1", lambda doc: doc["spec"].pop("decisionStrategy"), namespace=TEAM)
    make.settle()
    gone = "Decision p1-decision-2 is deleted with placement p1 in namespace shop"
    assert ("DecisionDelete", "DecisionDeleted", gone) in said()


def test_nothing_is_recorded_where_no_decision_changes() -> None:
    place()
    before = len(found())
    make.label("c1", note="x")
    make.edit(PLACEMENT, "p1", lambda doc: doc["spec"].update(numberOfClusters=2), namespace=TEAM)
    make.settle()
    assert len(found()) == before


def test_what_repeats_is_counted_on_one_event() -> None:
    place(predicates=[{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}}}}])
    for env in ("dev", "prod", "dev"):
        make.label("c1", env=env)
        make.settle()
    assert len(found()) <= 3 * 2  # three reasons; a series may end in between
    assert sum((doc.get("series") or {}).get("count", 1) for doc in found()) == 1 + 4 + 4


def test_scores_are_cut_and_a_run_records_few_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_NOTE", 10)
    monkeypatch.setattr(events, "MOST_DECISIONS", 1)
    place(numberOfClusters=2, decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 1}})
    assert [each[0] for each in said()] == ["DecisionCreate", "DecisionUpdate", "ScoreUpdate"]
    assert said()[-1][2] == "c1:100 ......"
