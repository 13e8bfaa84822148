"""The scheduler's pipeline: a table of situations and results, each P rule, and what holds for any fleet."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from placements.scheduler import relevance
from placements.scheduler.fleet import AddOnScore, Cluster, Fleet
from placements.scheduler.pipeline import PlacementResult, schedule

Doc = dict[str, Any]
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
GPU = {"key": "gpu", "value": "true", "effect": "NoSelect"}


def cluster(name: str, **parts: Any) -> Cluster:
    """``labels``, ``claims``, ``taints`` (since noon), ``cpu``; ``deleting``."""
    metadata: Doc = {"name": name, "labels": parts.get("labels", {})}
    if parts.get("deleting"):
        metadata["deletionTimestamp"] = "2026-11-23T12:00:00Z"
    taints = [{"timeAdded": "2026-11-23T12:00:00Z", **each} for each in parts.get("taints", ())]
    claims = [{"name": key, "value": value} for key, value in parts.get("claims", {}).items()]
    amounts = {"cpu": parts["cpu"]} if "cpu" in parts else {}
    status = {"clusterClaims": claims, "allocatable": amounts, "capacity": parts.get("capacity", amounts)}
    return Cluster({"metadata": metadata, "spec": {"taints": taints}, "status": status})


def several(number: int, **parts: Any) -> list[Cluster]:
    return [cluster(f"c{index:03}", **parts) for index in range(number)]


def decide(
    spec: Doc,
    clusters: Sequence[Cluster] = (),
    *,
    sets: Mapping[str, Sequence[Cluster]] | None = None,
    bound: Sequence[str] = ("all",),
    present: Sequence[str] = (),
    scores: Mapping[tuple[str, str], AddOnScore] | None = None,
    decided: Mapping[str, int] | None = None,
    steady: Sequence[str] | None = None,
    now: datetime = NOW,
) -> PlacementResult:
    fleet = Fleet(sets if sets is not None else {"all": clusters}, scores or {}, decided or {})
    doc = {"metadata": {"name": "p1", "namespace": "ns1"}, "spec": spec}
    return schedule(doc, fleet, bound=bound, present=present, steady=steady, now=now)


def names(outcome: PlacementResult) -> list[str]:
    return [each.name for each in outcome.chosen]


def satisfied(outcome: PlacementResult) -> tuple[str, str]:
    return outcome.conditions[0].status, outcome.conditions[0].reason


def labelled(**labels: str) -> Doc:
    return {"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}


def claimed(*expressions: Doc) -> Doc:
    return {"requiredClusterSelector": {"claimSelector": {"matchExpressions": list(expressions)}}}


def cel(*expressions: str) -> Doc:
    return {"requiredClusterSelector": {"celSelector": {"celExpressions": list(expressions)}}}


def scored(name: str, weight: int = 1) -> Doc:
    return {"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": weight}


def add_on(resource: str, score: str, weight: int = 1) -> Doc:
    return {
        "scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": resource, "scoreName": score}},
        "weight": weight,
    }


def exactly(*configurations: Doc) -> Doc:
    return {"prioritizerPolicy": {"mode": "Exact", "configurations": list(configurations)}}


# ---------------------------------------------------------------- which clusters are there (P3-P5, P28)


@pytest.mark.contract("P3", "P28")
def test_without_a_binding_nothing_is_chosen() -> None:
    outcome = decide({}, several(3), bound=())
    assert (names(outcome), satisfied(outcome)) == ([], ("False", "NoManagedClusterSetBindings"))
    assert outcome.conditions[0].message == "No valid ManagedClusterSetBindings found in placement namespace"


@pytest.mark.contract("P4", "P28")
def test_sets_that_are_named_and_not_bound_have_no_intersection() -> None:
    outcome = decide({"clusterSets": ["a", "b"]}, several(3))
    assert satisfied(outcome) == ("False", "NoIntersection")
    assert outcome.conditions[0].message == "None of ManagedClusterSets [a,b] is bound to placement namespace"


@pytest.mark.contract("P28")
def test_empty_sets_are_named_in_their_order() -> None:
    outcome = decide({}, sets={"b": [], "a": []}, bound=["b", "a"])
    assert satisfied(outcome) == ("False", "AllManagedClusterSetsEmpty")
    assert outcome.conditions[0].message == "All ManagedClusterSets [a,b] have no member ManagedCluster"


@pytest.mark.contract("P5")
def test_a_member_of_two_sets_counts_once_and_one_that_is_being_deleted_not_at_all() -> None:
    both, gone = cluster("both"), cluster("gone", deleting=True)
    outcome = decide({}, sets={"a": [both, gone], "b": [both]}, bound=["a", "b"])
    assert names(outcome) == ["both"]
    reason = outcome.reason(gone)
    assert reason is not None
    assert reason.step == "being deleted"


# ---------------------------------------------------------------- how many: P19 and 5.8


@pytest.mark.contract("P19", "P28")
@pytest.mark.parametrize(
    ("present", "wanted", "chosen", "condition", "message"),
    [
        (3, 5, 3, ("False", "NotAllDecisionsScheduled"), "2 cluster decisions unscheduled"),
        (3, 2, 2, ("True", "AllDecisionsScheduled"), "All cluster decisions scheduled"),
        (3, None, 3, ("True", "AllDecisionsScheduled"), "All cluster decisions scheduled"),
    ],
)
def test_the_number_of_clusters(
    present: int, wanted: int | None, chosen: int, condition: tuple[str, str], message: str
) -> None:
    outcome = decide({} if wanted is None else {"numberOfClusters": wanted}, several(present))
    assert (len(outcome.chosen), satisfied(outcome)) == (chosen, condition)
    assert outcome.conditions[0].message == message
    assert outcome.conditions[1].reason == "Succeedconfigured"


@pytest.mark.contract("K17")
def test_none_are_wanted_or_fewer() -> None:
    none, fewer = decide({"numberOfClusters": 0}, several(3)), decide({"numberOfClusters": -1}, several(3))
    assert (names(none), satisfied(none)) == ([], ("False", "NoManagedClusterMatched"))
    assert none.conditions[1].status == "False"
    assert (names(fewer), fewer.conditions[1].message) == ([], ":numberOfClusters must not be negative")


# ---------------------------------------------------------------- predicates: P6 and P7


@pytest.mark.contract("P6")
def test_predicates_are_alternatives_and_within_one_all_must_hold() -> None:
    fleet = [
        cluster("a", labels={"env": "prod"}, claims={"platform": "AWS"}),
        cluster("b", labels={"env": "prod"}),
        cluster("c", labels={"env": "dev"}),
        cluster("d"),
    ]
    both = {
        "requiredClusterSelector": {
            "labelSelector": {"matchLabels": {"env": "prod"}},
            "claimSelector": {"matchExpressions": [{"key": "platform", "operator": "In", "values": ["AWS"]}]},
        }
    }
    assert names(decide({"predicates": [both]}, fleet)) == ["a"]
    assert names(decide({"predicates": [both, labelled(env="dev")]}, fleet)) == ["a", "c"]
    assert names(decide({"predicates": [{}]}, fleet)) == ["a", "b", "c", "d"]


@pytest.mark.contract("P6", "P29")
def test_a_claims_value_must_be_one_that_a_label_may_have() -> None:
    url = {"key": "url", "operator": "In", "values": ["https://x:6443"]}
    problem = decide({"predicates": [claimed(url)]}, several(1)).conditions[1]
    assert problem.message.startswith(
        'Predicate:values[0][url]: Invalid value: "https://x:6443": a valid label must be'
    )


@pytest.mark.contract("P7")
def test_expressions_that_are_true_for_a_cluster_choose_it() -> None:
    fleet = [cluster("a", labels={"env": "prod"}, cpu="8"), cluster("b", labels={"env": "dev"}, cpu="2")]
    big = "quantity(managedCluster.status.allocatable.cpu).isGreaterThan(quantity('4'))"
    assert names(decide({"predicates": [cel(big)]}, fleet)) == ["a"]
    assert names(decide({"predicates": [cel("managedCluster.metadata.labels.env == 'dev'")]}, fleet)) == ["b"]
    assert names(decide({"predicates": [cel("true", "managedCluster.metadata.labels.zone == 'x'")]}, fleet)) == []
    assert names(decide({"predicates": [cel("managedCluster.metadata.name")]}, fleet)) == []


@pytest.mark.contract("P7", "P29")
def test_an_expression_that_does_not_compile_is_said_as_upstream_says_it() -> None:
    outcome = decide({"predicates": [cel("nope(1)")]}, several(1))
    assert outcome.conditions[1].message == (
        "Predicate:compilation failed: ERROR: <input>:1:5: undeclared reference to 'nope' (in container '')\n"
        " | nope(1)\n | ....^"
    )
    assert (outcome.conditions[1].status, names(outcome)) == ("True", [])


@pytest.mark.contract("P7")
def test_an_add_ons_scores_can_be_asked_for_and_a_missing_object_is_no_match() -> None:
    fleet = several(2)
    scores = {("c000", "demo"): AddOnScore({"cpu": 60})}
    wanted = cel("managedCluster.scores('demo').exists(s, s.name == 'cpu' && s.value >= 50)")
    assert names(decide({"predicates": [wanted]}, fleet, scores=scores)) == ["c000"]


# ---------------------------------------------------------------- taints and tolerations: P9 to P13


@pytest.mark.contract("P8", "P9", "P10", "P12")
@pytest.mark.parametrize(
    ("taint", "tolerations", "is_decided", "is_chosen"),
    [
        (GPU, [], False, False),
        (GPU, [], True, False),
        (GPU, [{"key": "gpu", "operator": "Exists"}], False, True),
        (GPU, [{"key": "gpu", "operator": "Equal", "value": "true"}], False, True),
        (GPU, [{"key": "gpu", "value": "true"}], False, True),
        (GPU, [{"key": "gpu", "operator": "Equal", "value": "false"}], False, False),
        (GPU, [{"key": "gpu", "operator": "Is", "value": "true"}], False, False),
        (GPU, [{"key": "gpu", "operator": "Exists", "effect": "NoSelectIfNew"}], False, False),
        (GPU, [{"operator": "Exists"}], False, True),
        (GPU, [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 0}, {"operator": "Exists"}], False, True),
        ({"key": "maint", "effect": "NoSelectIfNew"}, [], True, True),
        ({"key": "maint", "effect": "NoSelectIfNew"}, [], False, False),
        ({"key": "x", "effect": "PreferNoSelect"}, [], False, True),
    ],
)
def test_a_taint_and_its_tolerations(taint: Doc, tolerations: list[Doc], is_decided: bool, is_chosen: bool) -> None:
    present = ["c000"] if is_decided else []
    outcome = decide({"tolerations": tolerations}, several(1, taints=[taint]), present=present)
    assert bool(outcome.chosen) is is_chosen
    if not is_chosen:
        reason = outcome.reason(cluster("c000", taints=[taint]))
        assert reason is not None
        assert [str(verdict.taint) for verdict in reason.taints] == [str(cluster("x", taints=[taint]).taints[0])]


@pytest.mark.contract("P8")
def test_taints_are_looked_at_after_the_predicates_and_of_the_clusters_that_match() -> None:
    fleet = [
        cluster("a", labels={"env": "prod"}, taints=[GPU]),
        cluster("b"),
        cluster("c", labels={"env": "prod"}),
        cluster("d", taints=[GPU]),
    ]
    outcome = decide({"predicates": [labelled(env="prod")]}, fleet, present=["a", "b", "d"])
    assert [[each.name for each in step] for step in (outcome.available, outcome.matching, outcome.feasible)] == [
        ["a", "b", "c", "d"], ["a", "c"], ["c"],
    ]  # fmt: skip
    assert [outcome.step(each) for each in fleet] == ["taints", "predicates", None, "predicates"]


@pytest.mark.contract("P11", "P13")
def test_a_toleration_ends_some_time_after_the_taint_was_added() -> None:
    spec = {"tolerations": [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 300}]}
    fleet = several(1, taints=[GPU])
    during = decide(spec, fleet, present=["c000"], now=NOW + timedelta(seconds=299))
    assert (names(during), during.look_again) == (["c000"], NOW + timedelta(seconds=300))
    after = decide(spec, fleet, present=["c000"], now=NOW + timedelta(seconds=300))
    assert (names(after), after.look_again) == ([], None)
    reason = after.reason(fleet[0])
    assert reason is not None
    assert reason.taints[0].has_expired


@pytest.mark.contract("P11")
@pytest.mark.parametrize("seconds", [-1, 0, 2**62, -(2**62)])
def test_odd_lengths_of_a_toleration(seconds: int) -> None:
    spec = {"tolerations": [{"key": "gpu", "operator": "Exists", "tolerationSeconds": seconds}]}
    assert bool(decide(spec, several(1, taints=[GPU])).chosen) is (seconds > 0)


@pytest.mark.contract("P12", "P29")
@pytest.mark.parametrize(
    ("toleration", "problem"),
    [
        ({"operator": "Equal"}, "TaintToleration:If the key is empty, operator must be Exists."),
        (
            {"key": "a", "operator": "Exists", "value": "b"},
            "TaintToleration:If the operator is Exists, the value should be empty.",
        ),
    ],
)
def test_a_toleration_that_makes_no_sense_is_said(toleration: Doc, problem: str) -> None:
    outcome = decide({"tolerations": [toleration]}, several(1))
    assert outcome.conditions[1].message == problem
    assert satisfied(outcome) == ("False", "NoManagedClusterMatched")


@pytest.mark.contract("D7", "K20")
def test_clusters_that_are_better_avoided_are_chosen_when_too_few_others_are_left() -> None:
    fleet = [cluster("a", taints=[{"key": "old", "effect": "PreferNoSelect"}]), cluster("b"), cluster("c")]
    assert names(decide({"numberOfClusters": 2}, fleet, present=["a"])) == ["b", "c"]
    assert names(decide({"numberOfClusters": 3}, fleet)) == ["b", "c", "a"]
    assert names(decide({}, fleet)) == ["a", "b", "c"]
    tolerant = {"numberOfClusters": 1, "tolerations": [{"key": "old", "operator": "Exists"}]}
    assert names(decide(tolerant, fleet, present=["a"])) == ["a"]


# ---------------------------------------------------------------- prioritizers: P14 to P20


@pytest.mark.contract("P20", "P16", "P15")
def test_what_is_chosen_already_stays_when_nothing_speaks_against_it() -> None:
    outcome = decide({"numberOfClusters": 3}, several(3), present=["c001"], decided={"c001": 1})
    assert names(outcome) == ["c001", "c000", "c002"]
    assert dict(outcome.totals) == {"c000": 100, "c001": 200, "c002": 100}


@pytest.mark.contract("P15")
def test_balance_counts_the_decisions_of_all_other_placements() -> None:
    decided = {"c000": 3, "c001": 1, "c002": 6, "elsewhere": 6}
    outcome = decide(exactly(scored("Balance")), several(4), present=["c002"], decided=decided)
    # The busiest of the hub has 6; c002 stands in five decisions of others.
    assert dict(outcome.totals) == {"c000": 0, "c001": 66, "c002": -66, "c003": 100}


@pytest.mark.contract("P17")
def test_the_most_allocatable_has_the_highest_score() -> None:
    fleet = [
        cluster("a", cpu="2"),
        cluster("b", cpu="4"),
        cluster("c", cpu="7800m"),
        cluster("d"),
        cluster("e", cpu="100", capacity={}),
    ]
    outcome = decide(exactly(scored("ResourceAllocatableCPU")), fleet)
    assert outcome.scores[0][1] == {"a": -100, "b": -31, "c": 100}
    assert (outcome.totals["d"], outcome.totals["e"]) == (0, 0)
    assert decide(exactly(scored("ResourceAllocatableCPU")), fleet[:1]).totals == {"a": 100}
    assert decide(exactly(scored("ResourceAllocatableMemory")), fleet).totals["a"] == 0


@pytest.mark.contract("P18", "K18")
def test_an_add_ons_score_counts_until_it_is_no_longer_valid() -> None:
    end = NOW + timedelta(minutes=5)
    scores = {("c000", "demo"): AddOnScore({"cpu": 80}, end), ("c001", "demo"): AddOnScore({"cpu": 30})}
    spec = exactly(add_on("demo", "cpu")) | {"numberOfClusters": 1}
    before = decide(spec, several(3), scores=scores, now=end)
    assert (names(before), before.look_again) == (["c000"], None if end < NOW else end)
    after = decide(spec, several(3), scores=scores, now=end + timedelta(microseconds=1))
    assert (names(after), after.look_again) == (["c001"], None)


@pytest.mark.contract("P14")
@pytest.mark.parametrize(
    ("policy", "weights"),
    [
        ({}, {"Balance": 1, "Steady": 1}),
        ({"mode": "Additive", "configurations": [scored("Steady", 3)]}, {"Balance": 1, "Steady": 3}),
        ({"mode": "Additive", "configurations": [scored("Steady", 0)]}, {"Balance": 1}),
        ({"mode": "Exact", "configurations": [scored("Steady", 2), scored("Steady", 5)]}, {"Steady": 5}),
        ({"mode": "Exact"}, {}),
        ({"mode": "Exact", "configurations": [scored("Spread", 0)]}, {}),
    ],
)
def test_weights(policy: Doc, weights: dict[str, int]) -> None:
    outcome = decide({"prioritizerPolicy": policy}, several(1))
    assert {each.name: each.weight for each in outcome.plan.prioritizers} == weights
    assert outcome.conditions[1].status == "False"


@pytest.mark.contract("P14")
def test_two_entries_for_an_add_ons_score_both_count() -> None:
    outcome = decide(
        exactly(add_on("demo", "cpu", 2), add_on("demo", "cpu", 3)),
        several(1),
        scores={("c000", "demo"): AddOnScore({"cpu": 10})},
    )
    assert outcome.totals == {"c000": 50}


@pytest.mark.contract("P14", "P29")
@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ({"mode": "Other"}, ":incorrect prioritizer policy mode: Other"),
        ({"configurations": [{}]}, ":scoreCoordinate field is required"),
        ({"configurations": [scored("Spread")]}, ":incorrect builtin prioritizer: Spread"),
        ({"configurations": [scored("")]}, ":incorrect builtin prioritizer: "),
        ({"configurations": [{"scoreCoordinate": {"type": "AddOn"}}]}, ":addOn should not be empty"),
    ],
)
def test_a_policy_that_cannot_be_followed(policy: Doc, problem: str) -> None:
    outcome = decide({"prioritizerPolicy": policy}, several(2), bound=())
    assert outcome.conditions[1].message == problem
    assert satisfied(outcome) == ("False", "NoManagedClusterSetBindings")


@pytest.mark.contract("P16")
def test_a_negative_weight_of_steady_comes_to_rest() -> None:
    spec = exactly(scored("Steady", -1)) | {"numberOfClusters": 2}
    fleet, baseline = several(4), ["c000", "c001"]
    first = names(decide(spec, fleet, present=baseline, steady=baseline))
    assert first == ["c002", "c003"]
    assert names(decide(spec, fleet, present=first, steady=baseline)) == first


# ---------------------------------------------------------------- decision groups: P21 to P23


@pytest.mark.contract("P22", "P23")
def test_one_group_of_placement_decisions_of_a_hundred() -> None:
    groups = decide({}, several(250)).groups
    assert [len(each) for each in groups[0].decisions] == [100, 100, 50]
    assert (len(groups), groups[0].name, groups[0].index, groups[0].count) == (1, "", 0, 250)


@pytest.mark.contract("P21", "P22")
def test_groups_by_percentage() -> None:
    strategy = {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "30%"}}}
    groups = decide(strategy, several(10)).groups
    assert [(each.index, each.count) for each in groups] == [(0, 3), (1, 3), (2, 3), (3, 1)]


@pytest.mark.contract("P22")
def test_groups_that_are_wished_for_come_first_and_are_cut_too() -> None:
    canary = {"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "yes"}}}}
    fleet = [cluster(f"c{index}", labels={"canary": "yes"} if index > 2 else {}) for index in range(6)]
    strategy = {"groupStrategy": {"clustersPerDecisionGroup": 2, "decisionGroups": [canary]}}
    groups = decide({"decisionStrategy": strategy}, fleet).groups
    assert [(each.name, each.index, each.decisions) for each in groups] == [
        ("canary", 0, (("c3", "c4"),)),
        ("canary", 1, (("c5",),)),
        ("", 2, (("c0", "c1"),)),
        ("", 3, (("c2",),)),
    ]


@pytest.mark.contract("P22", "P24")
def test_without_a_cluster_there_is_one_group_with_one_empty_decision() -> None:
    assert [each.decisions for each in decide({}, []).groups] == [((),)]


@pytest.mark.contract("P21")
@pytest.mark.parametrize("size", [0, -5, 11, None])
def test_a_length_that_is_none_is_that_of_all(size: int | None) -> None:
    strategy = {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": size}}}
    assert [each.count for each in decide(strategy, several(10)).groups] == [10]


@pytest.mark.contract("P21", "P29", "D14")
def test_groups_that_cannot_be_read() -> None:
    text = {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "5"}}}
    assert decide(text, several(1)).conditions[1].message == ":5 invalid type: string is not a percentage"
    bogus = {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Bogus"}]}}
    wanted = {"groupStrategy": {"decisionGroups": [{"groupName": "aa", "groupClusterSelector": bogus}]}}
    problem = decide({"decisionStrategy": wanted}, several(1)).conditions[1].message
    assert problem == ':"Bogus" is not a valid label selector operator'


# ---------------------------------------------------------------- what upstream's API says and its scheduler ignores


@pytest.mark.contract("K20")
def test_sorted_by_score_the_best_come_first() -> None:
    scores = {("c001", "demo"): AddOnScore({"cpu": 50}), ("c002", "demo"): AddOnScore({"cpu": 50})}
    spec = exactly(add_on("demo", "cpu")) | {"sortBy": "Score"}
    assert decide(spec, several(3), scores=scores).groups[0].decisions == (("c001", "c002", "c000"),)


def spreading(*constraints: Doc, **more: Any) -> Doc:
    return {
        "spreadPolicy": {"spreadConstraints": [{"topologyKeyType": "Label", **each} for each in constraints]},
        **more,
    }


@pytest.mark.contract("K20")
def test_a_spread_policy_takes_topologies_in_turn() -> None:
    fleet = [cluster(f"{zone}{index}", labels={"zone": zone}) for zone in "ab" for index in range(4)]
    soft = spreading({"topologyKey": "zone"}, numberOfClusters=4)
    assert names(decide(soft, fleet)) == ["a0", "b0", "a1", "b1"]
    only_one_b = [*fleet[:4], fleet[4], cluster("nowhere")]
    assert names(decide(soft, only_one_b)) == ["a0", "b0", "a1", "a2"]
    hard = spreading({"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}, numberOfClusters=4)
    outcome = decide(hard, only_one_b)
    assert (names(outcome), satisfied(outcome)) == (["a0", "b0", "a1"], ("False", "NotAllDecisionsScheduled"))


@pytest.mark.contract("K20")
@given(st.data())
def test_a_spread_that_must_hold_is_never_broken(data: st.DataObject) -> None:
    zones = data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=12))
    skew = data.draw(st.integers(1, 3))
    fleet = [cluster(f"c{index:02}", labels={"zone": zone}) for index, zone in enumerate(zones)]
    rule = {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": skew}
    chosen = decide(spreading(rule, numberOfClusters=data.draw(st.integers(0, 12))), fleet).chosen
    counts = [sum(each.labels["zone"] == zone for each in chosen) for zone in set(zones)]
    assert max(counts) - min(counts) <= skew


# ---------------------------------------------------------------- why not


@pytest.mark.contract("P6")
def test_each_condition_that_a_cluster_does_not_fulfil_is_named() -> None:
    fleet = several(1, labels={"env": "dev"})
    outcome = decide({"predicates": [labelled(env="prod"), cel("managedCluster.metadata.labels.zone == 'a'")]}, fleet)
    reason = outcome.reason(fleet[0])
    assert reason is not None
    (first,), (second,) = reason.unmet
    assert (reason.step, first.part, first.condition, first.value) == ("predicates", "label", "env in (prod)", "dev")
    assert (second.part, second.value) == ("expression", 'NOT_FOUND: Key not found in map : "zone"')


def test_who_is_not_among_the_best_has_its_rank_and_what_was_needed() -> None:
    fleet = several(3)
    outcome = decide({"numberOfClusters": 1}, fleet, present=["c002"], decided={"c002": 1})
    reason = outcome.reason(fleet[1])
    assert reason is not None
    assert (reason.step, reason.rank, reason.score, reason.needed) == ("score", 3, 100, 200)
    assert outcome.reason(fleet[2]) is None


# ---------------------------------------------------------------- for any fleet

LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2)
EFFECTS = ["NoSelect", "NoSelectIfNew", "PreferNoSelect"]
TAINTS = st.lists(st.fixed_dictionaries({"key": st.sampled_from("tu"), "effect": st.sampled_from(EFFECTS)}), max_size=2)
TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from("tu"), "operator": st.just("Exists")},
        optional={"effect": st.sampled_from(EFFECTS), "tolerationSeconds": st.integers(-1, 100)},
    ),
    max_size=2,
)
SPECS = st.fixed_dictionaries(
    {"tolerations": TOLERATIONS},
    optional={
        "numberOfClusters": st.integers(0, 12),
        "predicates": st.lists(LABELS.map(lambda labels: labelled(**labels)), max_size=2),
        "sortBy": st.sampled_from(["ClusterName", "Score"]),
        "prioritizerPolicy": st.builds(
            lambda name, weight: {"configurations": [scored(name, weight)]},
            st.sampled_from(["Steady", "Balance"]),
            st.integers(0, 10),
        ),
        "decisionStrategy": st.builds(
            lambda size: {"groupStrategy": {"clustersPerDecisionGroup": size}},
            st.one_of(st.integers(1, 5), st.integers(1, 100).map(lambda part: f"{part}%")),
        ),
    },
)
FLEETS = st.lists(st.tuples(LABELS, TAINTS), max_size=10).map(
    lambda each: [cluster(f"c{index}", labels=labels, taints=taints) for index, (labels, taints) in enumerate(each)]
)


@pytest.mark.contract("P1", "P19", "P24")
@given(SPECS, FLEETS, st.sets(st.sampled_from([f"c{index}" for index in range(10)])), st.randoms())
def test_what_holds_for_any_fleet(spec: Doc, fleet: list[Cluster], present: set[str], dice: random.Random) -> None:
    decided = {name: dice.randint(1, 3) for name in sorted(present)}
    outcome = decide(spec, fleet, present=sorted(present), decided=decided)
    again = decide(spec, [_otherwise(each) for each in fleet], present=_shuffled(present, dice), decided=decided)
    chosen = names(outcome)
    assert (names(again), again.groups) == (chosen, outcome.groups), "same input, same decision, however it is ordered"
    assert len(chosen) <= spec.get("numberOfClusters", len(fleet)), "never more than asked for"
    grouped = [name for group in outcome.groups for decision in group.decisions for name in decision]
    assert sorted(grouped) == sorted(chosen), "groups partition the decisions"
    assert [group.index for group in outcome.groups] == list(range(len(outcome.groups)))
    for each in fleet:
        assert (outcome.reason(each) is None) is (each.name in chosen), "who is not chosen has a reason"


def _otherwise(found: Cluster) -> Cluster:
    """The same cluster with its labels and taints in another order, as another writer may leave them."""
    doc = deepcopy(found.doc)
    doc["metadata"]["labels"] = dict(reversed(doc["metadata"]["labels"].items()))
    doc["spec"]["taints"].reverse()
    return Cluster(doc)


def _shuffled(found: set[str], dice: random.Random) -> list[str]:
    names = sorted(found)
    dice.shuffle(names)
    return names


# Few names and values, and one thing that a Placement reads: a change is often one that matters.
KEYS, VALUES = st.sampled_from("ab"), st.sampled_from("xyz")
NAMED = st.dictionaries(KEYS, VALUES, max_size=2)
REQUIREMENT = st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}) | (
    st.fixed_dictionaries(
        {"key": KEYS, "operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(VALUES, min_size=1, max_size=2)}
    )
)
SELECTOR = st.one_of(
    NAMED.map(lambda labels: {"labelSelector": {"matchLabels": labels}}),
    REQUIREMENT.map(lambda each: {"labelSelector": {"matchExpressions": [each]}}),
    REQUIREMENT.map(lambda each: {"claimSelector": {"matchExpressions": [each]}}),
)
READERS = st.one_of(
    SELECTOR.map(lambda selector: {"predicates": [{"requiredClusterSelector": selector}]}),
    SELECTOR.map(
        lambda selector: {
            "decisionStrategy": {
                "groupStrategy": {"decisionGroups": [{"groupName": "g", "groupClusterSelector": selector}]}
            }
        }
    ),
    st.builds(
        lambda key, type_: (
            {"numberOfClusters": 2}
            | spreading({"topologyKey": key, "topologyKeyType": type_, "whenUnsatisfiable": "DoNotSchedule"})
        ),
        KEYS,
        st.sampled_from(["Label", "Claim"]),
    ),
    st.just({"numberOfClusters": 1} | exactly(scored("ResourceAllocatableCPU"))),
    st.just({"predicates": [cel("managedCluster.metadata.labels['a'] == 'x'")]}),
)
PARTS = st.fixed_dictionaries({"labels": NAMED, "claims": NAMED, "cpu": st.sampled_from(["1", "4", "16"])})


@pytest.mark.contract("P1")
@settings(max_examples=400)
@given(READERS, st.lists(PARTS, min_size=1, max_size=3), PARTS, st.data())
def test_a_write_that_moves_nothing_that_a_placement_reads_changes_no_decision(
    spec: Doc, fleet: list[Doc], new: Doc, data: st.DataObject
) -> None:
    """So who does not read what was written need not be asked. Labels, claims or amounts of one cluster change."""
    index = data.draw(st.integers(0, len(fleet) - 1))
    name = data.draw(st.sampled_from(["labels", "claims", "cpu"]))
    before = [cluster(f"c{number}", **parts) for number, parts in enumerate(fleet)]
    after = [*before]
    after[index] = cluster(f"c{index}", **fleet[index] | {name: new[name]})
    parts = relevance.changes(before[index].doc, after[index].doc)
    assume(parts and not any(relevance.concerns(part, sorted(relevance.reads(spec))) for part in parts))
    was, now = (decide(spec, each) for each in (before, after))
    assert (names(now), now.groups) == (names(was), was.groups)


PRESENT = st.sets(st.sampled_from([f"c{index}" for index in range(10)]))
MOMENTS = st.integers(0, 150).map(lambda seconds: NOW + timedelta(seconds=seconds))  # tolerations last up to 100 s


@st.composite
def with_one_more(draw: st.DrawFn) -> tuple[list[Doc], list[Doc]]:
    """Tolerations, and the same with others anywhere among them."""
    some, more = draw(TOLERATIONS), draw(TOLERATIONS)
    wider = [*some]
    for each in more:
        wider.insert(draw(st.integers(0, len(wider))), each)
    return some, wider


@pytest.mark.contract("P9", "P10")
@given(SPECS, FLEETS, with_one_more(), PRESENT, st.none() | PRESENT, st.integers(-10, 10), MOMENTS)
def test_one_toleration_more_loses_no_cluster_whatever_is_decided_already(
    spec: Doc,
    fleet: list[Cluster],
    tolerations: tuple[list[Doc], list[Doc]],
    present: set[str],
    steady: set[str] | None,
    weight: int,
    now: datetime,
) -> None:
    """Without a number and a spread that must hold: who passes the taints is chosen, and each taint still passes."""
    spec = {key: value for key, value in spec.items() if key != "numberOfClusters"} | exactly(scored("Steady", weight))
    before, after = (
        decide(spec | {"tolerations": each}, fleet, present=sorted(present), steady=_sorted(steady), now=now)
        for each in tolerations
    )
    assert set(names(before)) <= set(names(after))


@pytest.mark.contract("P9", "P19")
@given(SPECS, FLEETS, with_one_more(), PRESENT, MOMENTS)
def test_one_toleration_more_never_makes_fewer_of_a_number(
    spec: Doc, fleet: list[Cluster], tolerations: tuple[list[Doc], list[Doc]], present: set[str], now: datetime
) -> None:
    before, after = (
        decide(spec | {"tolerations": each}, fleet, present=sorted(present), now=now) for each in tolerations
    )
    assert len(names(before)) <= len(names(after))


@pytest.mark.contract("P9", "P16", "P19")
@given(SPECS, FLEETS, with_one_more(), PRESENT, st.integers(0, 4), MOMENTS)
def test_one_toleration_more_loses_no_cluster_that_is_decided_where_steady_alone_counts(
    spec: Doc,
    fleet: list[Cluster],
    tolerations: tuple[list[Doc], list[Doc]],
    present: set[str],
    spare: int,
    now: datetime,
) -> None:
    """With a number that is no less than the decisions, and without PreferNoSelect, which goes before scores (D7)."""
    spec |= {"numberOfClusters": len(present) + spare, **exactly(scored("Steady"))}
    hard = [each for each in fleet if all(taint.effect != "PreferNoSelect" for taint in each.taints)]
    before, after = (
        decide(spec | {"tolerations": each}, hard, present=sorted(present), now=now) for each in tolerations
    )
    assert set(names(before)) & present <= set(names(after))


@pytest.mark.contract("P9", "P16", "P19", "D7")
@pytest.mark.parametrize(
    ("of_spec", "of_b", "has"),
    [
        ({"numberOfClusters": 1, **exactly(scored("Steady"))}, {}, []),  # b was not decided before
        ({"numberOfClusters": 1, **exactly(scored("Steady"))}, {}, ["a", "b"]),  # fewer are wanted than decided
        ({"numberOfClusters": 1}, {}, ["b"]),  # Balance, as others have b, outweighs Steady
        ({"numberOfClusters": 1, **exactly(scored("Steady"))}, {"taints": [{"key": "x", "effect": "PreferNoSelect"}]}, ["b"]),
    ],
    ids=["not decided", "fewer wanted", "balance", "better avoided"],
)  # fmt: skip
def test_where_a_number_is_wanted_one_toleration_more_may_take_the_place_of_another(
    of_spec: Doc, of_b: Doc, has: list[str]
) -> None:
    """By the contract: the cluster that is tolerated now competes with all others."""
    fleet = [cluster("a", taints=[GPU]), cluster("b", **of_b)]
    tolerant = of_spec | {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
    assert names(decide(of_spec, fleet, present=has, decided={"b": 3})) == ["b"]
    assert names(decide(tolerant, fleet, present=has, decided={"b": 3})) == ["a"]


@pytest.mark.contract("P9", "K20")
def test_where_a_spread_must_hold_one_toleration_more_may_open_a_topology_that_others_must_not_exceed() -> None:
    fleet = [cluster("a", taints=[GPU], labels={"zone": "x"}), *several(3, labels={"zone": "y"})]
    spec = spreading({"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"})
    tolerant = spec | {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
    assert names(decide(spec, fleet, present=["c002"])) == ["c002", "c000", "c001"]
    assert sorted(names(decide(tolerant, fleet, present=["c002"]))) == ["a", "c000", "c002"]


def _sorted(found: set[str] | None) -> list[str] | None:
    return None if found is None else sorted(found)


@given(SPECS, FLEETS)
def test_a_decision_that_is_written_stands_when_it_is_made_again(spec: Doc, fleet: list[Cluster]) -> None:
    first = names(decide(spec, fleet))
    assert sorted(names(decide(spec, fleet, present=first, decided=dict.fromkeys(first, 1)))) == sorted(first)
