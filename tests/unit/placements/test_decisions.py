"""The order in which PlacementDecisions are written, and which changes of clusters placements read."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from placements.controller import decisions
from placements.scheduler import relevance

Doc = dict[str, Any]
CLUSTERS = st.lists(st.sampled_from("abcdefghij"), unique=True).map(lambda found: tuple(sorted(found)))


@st.composite
def contents(draw: st.DrawFn) -> dict[str, decisions.Names]:
    """Each cluster stands once, in some PlacementDecision."""
    found: dict[str, list[str]] = {name: [] for name in draw(st.lists(st.sampled_from("1234"), unique=True))}
    for cluster in draw(CLUSTERS) if found else ():
        found[draw(st.sampled_from(sorted(found)))].append(cluster)
    return {name: tuple(clusters) for name, clusters in found.items()}


def standing(content: dict[str, decisions.Names]) -> set[str]:
    return {cluster for clusters in content.values() for cluster in clusters}


@pytest.mark.contract("K16")
@settings(max_examples=1_000)
@given(present=contents(), wanted=contents())
# The first of them waits for two others, which wait for each other.
@example(present={"1": ("a",), "2": ("b",), "3": ("c",)}, wanted={"1": ("x",), "2": ("a", "c"), "3": ("b",)})
@example(present={"1": ("a", "x"), "2": ("b",), "3": ("c",)}, wanted={"1": ("c",), "2": ("a", "x"), "3": ("b",)})
def test_no_step_loses_a_cluster_that_stays(
    present: dict[str, decisions.Names], wanted: dict[str, decisions.Names]
) -> None:
    stays = standing(present) & standing(wanted)
    now = dict(present)
    steps = list(islice(decisions.safe_order(present, wanted), 2 * len(wanted) + 1))
    assert len(steps) <= 2 * len(wanted)
    for name, clusters in steps:
        now[name] = clusters
        assert stays <= standing(now)
    assert {name: now.get(name, ()) for name in wanted} == wanted
    assert {name for name, _ in steps} == {name for name in wanted if present.get(name, ()) != wanted[name]}


@pytest.mark.contract("K16")
@given(CLUSTERS, CLUSTERS, st.integers(1, 4))
def test_within_one_group_each_decision_is_written_once(old: decisions.Names, new: decisions.Names, size: int) -> None:
    present, wanted = (_cut(names, size) for names in (old, new))
    written = [name for name, _ in decisions.safe_order(present, wanted)]
    assert len(written) == len(set(written))


def _cut(names: decisions.Names, size: int) -> dict[str, decisions.Names]:
    return {f"d{start:02}": names[start : start + size] for start in range(0, len(names), size)}


# ---------------------------------------------------------------- relevance


def cluster(**parts: Any) -> Doc:
    metadata = {"name": "c1", "labels": parts.get("labels", {}), "resourceVersion": parts.get("version", "1")}
    claims = [{"name": name, "value": value} for name, value in parts.get("claims", {}).items()]
    status = {"clusterClaims": claims, "allocatable": parts.get("allocatable", {}), "conditions": parts.get("said", [])}
    return {"metadata": metadata, "spec": {"taints": parts.get("taints", [])}, "status": status}


@pytest.mark.contract("P1")
@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ({}, {"version": "2"}, set()),
        ({}, {"labels": {"a": "b"}}, {relevance.EXPRESSION, relevance.label("a"), relevance.label("a", "b")}),
        (
            {"labels": {"a": "b"}},
            {"labels": {"a": "c"}},
            {relevance.EXPRESSION, relevance.label("a"), relevance.label("a", "b"), relevance.label("a", "c")},
        ),
        ({}, {"claims": {"id": "1"}}, {relevance.EXPRESSION, relevance.claim("id"), relevance.claim("id", "1")}),
        ({}, {"taints": [{"key": "a", "effect": "NoSelect"}]}, {relevance.EXPRESSION, relevance.TAINTS}),
        ({}, {"allocatable": {"cpu": "1"}}, {relevance.EXPRESSION, relevance.resource("cpu")}),
        ({}, {"said": [{"type": "x"}]}, {relevance.EXPRESSION}),
        ({}, {"claims": {str(number): "1" for number in range(20)}}, {relevance.EVERYTHING}),
    ],
)
def test_a_change_of_a_cluster_has_parts(old: Doc, new: Doc, parts: set[str]) -> None:
    assert relevance.changes(cluster(**old), cluster(**new)) == parts


@pytest.mark.contract("P1")
def test_a_cluster_that_comes_goes_or_leaves_concerns_all() -> None:
    leaving = cluster()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    for old, new in ((None, cluster()), (cluster(), None), (cluster(), leaving)):
        assert relevance.changes(old, new) == {relevance.MEMBERS}
        assert relevance.concerns(relevance.MEMBERS, [])


@pytest.mark.contract("P1")
def test_a_placement_reads_what_its_selectors_groups_spread_and_prioritizers_name() -> None:
    labels = {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}
    claims = {"matchExpressions": [{"key": "c", "operator": "In", "values": ["1", "2"]}]}
    selector = {"labelSelector": labels, "claimSelector": claims}
    configurations = [
        {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "ResourceAllocatableCPU"}},
        {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "load", "scoreName": "free"}}},
    ]
    group = {"groupName": "g1", "groupClusterSelector": {"labelSelector": {"matchLabels": {"d": "1"}}}}
    spread = [{"topologyKey": "zone", "topologyKeyType": "Claim"}, {"topologyKey": "rack", "topologyKeyType": "Label"}]
    spec = {
        "predicates": [
            {"requiredClusterSelector": selector},
            {"requiredClusterSelector": {"celSelector": {"celExpressions": ["managedCluster.scores('x').size() > 0"]}}},
        ],
        "prioritizerPolicy": {"configurations": configurations},
        "decisionStrategy": {"groupStrategy": {"decisionGroups": [group]}},
        "spreadPolicy": {"spreadConstraints": spread},
    }
    assert relevance.reads(spec) == {
        relevance.label("a", "1"),
        relevance.label("d", "1"),
        *map(relevance.label, ("b", "rack")),
        relevance.claim("c", "1"),
        relevance.claim("c", "2"),
        relevance.claim("zone"),
        relevance.EXPRESSION,
        relevance.ANY_SCORE,
        relevance.resource("cpu"),
        relevance.score("load"),
    }
    assert relevance.reads({}) == set()
    assert not relevance.concerns(relevance.label("a"), [])
    assert all(len(each) <= 63 for each in relevance.reads(spec))
