"""The table of situations for those who implement the scheduler (5.8), each with what is written out of it."""

from __future__ import annotations

from typing import Any

import pytest

from placements.controller.decisions import decisions_of, group_statuses
from tests.unit.placements.test_pipeline import GPU, decide, satisfied, several

Doc = dict[str, Any]
ONE_EMPTY = [0]
NO_KEY = {"tolerations": [{"operator": "Equal", "value": "x"}]}
MISCONFIGURED = "TaintToleration:If the key is empty, operator must be Exists."
FINE = "Placement configurations check pass"


@pytest.mark.contract("P3", "P4", "P8", "P19", "P21", "P23", "P24", "P27", "P28", "P29", "K19")
@pytest.mark.parametrize(
    ("bound", "number", "tainted", "spec", "sizes", "condition", "problem"),
    [
        ([], 3, False, {}, ONE_EMPTY, ("False", "NoManagedClusterSetBindings"), FINE),
        # A binding to a set that does not exist is none: ``bound`` are sets that exist.
        ([], 0, False, {"clusterSets": ["missing"]}, ONE_EMPTY, ("False", "NoManagedClusterSetBindings"), FINE),
        (["all"], 3, False, {"clusterSets": ["other"]}, ONE_EMPTY, ("False", "NoIntersection"), FINE),
        (["all"], 0, False, {}, ONE_EMPTY, ("False", "AllManagedClusterSetsEmpty"), FINE),
        (["all"], 3, False, {"numberOfClusters": 5}, [3], ("False", "NotAllDecisionsScheduled"), FINE),
        (["all"], 3, False, {"numberOfClusters": 2}, [2], ("True", "AllDecisionsScheduled"), FINE),
        (["all"], 250, False, {}, [100, 100, 50], ("True", "AllDecisionsScheduled"), FINE),
        (
            ["all"],
            10,
            False,
            {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "30%"}}},
            [3, 3, 3, 1],
            ("True", "AllDecisionsScheduled"),
            FINE,
        ),
        (["all"], 3, True, {}, ONE_EMPTY, ("False", "NoManagedClusterMatched"), FINE),
        (["all"], 1, True, NO_KEY, ONE_EMPTY, ("False", "NoManagedClusterMatched"), MISCONFIGURED),
    ],
)
def test_each_situation(
    bound: list[str],
    number: int,
    tainted: bool,
    spec: Doc,
    sizes: list[int],
    condition: tuple[str, str],
    problem: str,
) -> None:
    outcome = decide(spec, several(number, taints=[GPU] if tainted else []), bound=bound)
    written = decisions_of("p1", outcome.groups)
    assert [len(each.clusters) for each in written] == sizes
    assert [each.name for each in written] == [f"p1-decision-{each}" for each in range(1, len(sizes) + 1)]
    assert satisfied(outcome) == condition
    assert outcome.conditions[1].message == problem
    assert sum(group["clusterCount"] for group in group_statuses("p1", outcome.groups)) == sum(sizes)


@pytest.mark.contract("K19")
def test_that_taints_have_kept_all_away_is_said_of_each_cluster_while_the_condition_has_upstreams_words() -> None:
    fleet = several(2, taints=[GPU])
    outcome = decide({}, fleet)
    assert outcome.conditions[0].message == "No ManagedCluster matches any of the cluster predicate"
    assert [reason.step for each in fleet if (reason := outcome.reason(each)) is not None] == ["taints", "taints"]
