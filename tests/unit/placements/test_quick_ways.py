"""Where the pipeline decides about a whole fleet at once, it decides as for one cluster after the other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placements.scheduler import prioritizers
from placements.scheduler.fleet import Cluster, ClusterList, Fleet, named
from placements.scheduler.pipeline import schedule
from placements.scheduler.predicates import Predicate
from placements.scheduler.prioritizers import Prioritizer, Scoring
from placements.scheduler.tolerations import TaintFilter, Toleration, feasible, keeps_away

Doc = dict[str, Any]
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
KEYS, VALUES = st.sampled_from(["a", "b"]), st.sampled_from(["", "1", "2"])
EFFECTS = ["NoSelect", "NoSelectIfNew", "PreferNoSelect"]
TAINTS = st.lists(
    st.fixed_dictionaries(
        {
            "key": KEYS,
            "value": VALUES,
            "effect": st.sampled_from(EFFECTS),
            "timeAdded": st.sampled_from(["2026-11-23T11:59:00Z", "2026-11-23T11:00:00Z"]),
        }
    ),
    max_size=3,
)
TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {"key": KEYS, "operator": st.sampled_from(["Equal", "Is", ""]), "value": VALUES}
        | {"effect": st.sampled_from(["", *EFFECTS]), "tolerationSeconds": st.sampled_from([None, -1, 0, 90])}
    )
    | st.fixed_dictionaries({"key": st.sampled_from(["", "a"]), "operator": st.just("Exists")}),
    max_size=3,
)
REQUIREMENTS = st.one_of(
    st.fixed_dictionaries(
        {"key": KEYS, "operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(VALUES, min_size=1, max_size=2)}
    ),
    st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
)
SELECTORS = st.fixed_dictionaries({"matchExpressions": st.lists(REQUIREMENTS, max_size=2)})


def cluster(
    name: str, *, taints: list[Doc] | None = None, labels: Doc | None = None, claims: Doc | None = None
) -> Cluster:
    claimed = [{"name": key, "value": value} for key, value in (claims or {}).items()]
    metadata = {"name": name, "labels": labels or {}}
    return Cluster({"metadata": metadata, "spec": {"taints": taints or []}, "status": {"clusterClaims": claimed}})


@pytest.mark.contract("P9", "P10", "P11")
@given(st.lists(TAINTS, max_size=5), TOLERATIONS, st.booleans())
def test_taints_keep_a_cluster_out_of_a_fleet_as_they_do_alone(
    fleet: list[list[Doc]], given: list[Doc], is_decided: bool
) -> None:
    tolerations = tuple(map(Toleration.checked, given))
    quick = TaintFilter(tolerations, NOW)
    for taints in fleet:
        one = cluster("c", taints=taints)
        slow = keeps_away(one, tolerations, is_decided=is_decided, now=NOW)
        assert quick.keeps_away(one, is_decided=is_decided) is bool(slow)
        late = TaintFilter(tolerations, NOW + timedelta(days=1))
        assert late.keeps_away(one, is_decided=is_decided) or not quick.keeps_away(one, is_decided=is_decided)


@pytest.mark.contract("P8", "P9")
@given(st.lists(TAINTS, max_size=6), TOLERATIONS, st.sets(st.integers(0, 5)))
def test_whom_taints_keep_away_is_what_one_look_at_all_says(
    taints: list[list[Doc]], given: list[Doc], decided: set[int]
) -> None:
    """Also of clusters that are chosen already, which a NoSelectIfNew taint does not send away."""
    fleet = Fleet({"s": [cluster(f"c{number}", taints=each) for number, each in enumerate(taints)]})
    present = {f"c{number}" for number in decided}
    tolerations = tuple(map(Toleration.checked, given))
    slow, _ = feasible(fleet.members["s"], tolerations, present, (), NOW)
    doc = {"metadata": {"name": "p"}, "spec": {"tolerations": given}}
    found = schedule(doc, fleet, bound=["s"], present=present, now=NOW)
    assert found.plan.problem or [*found.feasible] == slow


@pytest.mark.contract("P6")
@given(
    st.lists(st.tuples(st.dictionaries(KEYS, VALUES), st.dictionaries(KEYS, VALUES)), max_size=6),
    st.lists(st.fixed_dictionaries({"labelSelector": SELECTORS, "claimSelector": SELECTORS}), max_size=3),
)
def test_predicates_choose_from_a_fleet_as_they_do_one_by_one(
    parts: list[tuple[Doc, Doc]], selectors: list[Doc]
) -> None:
    fleet = [cluster(f"c{number}", labels=labels, claims=claims) for number, (labels, claims) in enumerate(parts)]
    predicates = [Predicate.of(selector) for selector in selectors]
    alone = [each for each in fleet if not predicates or any(one.matches(each, lambda _: {}) for one in predicates)]
    spec = {"predicates": [{"requiredClusterSelector": selector} for selector in selectors]}
    outcome = schedule({"metadata": {"name": "p"}, "spec": spec}, Fleet({"s": fleet}), bound=["s"], now=NOW)
    assert list(outcome.matching) == alone


@pytest.mark.contract("P19", "D7")
@given(st.lists(st.booleans(), max_size=20), st.integers(0, 21), st.sets(st.integers(0, 20)), st.integers(-3, 3))
def test_the_best_few_are_the_first_of_all(avoided: list[bool], number: int, present: set[int], weight: int) -> None:
    old = {"key": "old", "effect": "PreferNoSelect"}
    fleet = [cluster(f"c{each:02}", taints=[old] if is_old else []) for each, is_old in enumerate(avoided)]
    steady = {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}, "weight": weight}
    policy = {"prioritizerPolicy": {"mode": "Exact", "configurations": [steady]}}
    here = {f"c{each:02}" for each in present}

    def chosen(most: int) -> list[str]:
        doc = {"metadata": {"name": "p"}, "spec": policy | {"numberOfClusters": most}}
        outcome = schedule(doc, Fleet({"s": fleet}), bound=["s"], present=here, now=NOW)
        return [each.name for each in outcome.chosen]

    order = sorted(fleet, key=lambda each: (bool(each.taints), -100 * weight * (each.name in here), each.name))
    assert chosen(number) == [each.name for each in order][:number]


@pytest.mark.contract("P15")
@given(st.dictionaries(st.integers(0, 7), st.integers(1, 4)), st.sets(st.integers(0, 7)), st.integers(0, 6))
def test_balance_is_what_the_counts_without_the_placement_say(
    decided: dict[int, int], present: set[int], size: int
) -> None:
    counts = {f"c{each}": count for each, count in decided.items()}
    here = {f"c{each}" for each in present}
    fleet = [cluster(f"c{each}") for each in range(size)]
    found = prioritizers.scores_of(Prioritizer("Balance", 1), fleet, Scoring(Fleet({}, {}, counts), here, here, NOW))
    others = {name: count - (name in here) for name, count in counts.items()}
    most = max(others.values(), default=0) or 1
    wanted = {each.name: 2 * int(100 * (0.5 - others.get(each.name, 0) / most)) for each in fleet}
    assert list(found.items()) == list(wanted.items())


@pytest.mark.contract("P17")
@given(st.lists(st.sampled_from([None, 0, 1, 2, 3, 8]), max_size=6))
def test_what_is_allocatable_is_compared_as_the_definition_says(amounts: list[int | None]) -> None:
    fleet = [cluster(f"c{each}") for each in range(len(amounts))]
    for each, amount in zip(fleet, amounts, strict=True):
        if amount is not None:
            each.doc["status"] |= {part: {"cpu": str(amount)} for part in ("allocatable", "capacity")}
    scoring = Scoring(Fleet({}), frozenset(), frozenset(), NOW)
    known = [amount for amount in amounts if amount is not None]
    span = max(known, default=0) - min(known, default=0)
    wanted = {
        each.name: int(((amount - min(known)) / span - 0.5) * 200) if span else 100
        for each, amount in zip(fleet, amounts, strict=True)
        if amount is not None
    }
    for _ in range(2):  # the second time the amounts are remembered
        assert prioritizers.scores_of(Prioritizer("ResourceAllocatableCPU", 1), fleet, scoring) == wanted


@pytest.mark.contract("P16", "P19")
@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)), st.integers(0, 9))
def test_a_list_finds_by_name_and_scores_those_that_are_chosen(here: set[int], steady: set[int], asked: int) -> None:
    fleet = ClusterList(cluster(f"c{each}") for each in sorted(here))
    assert named(fleet, f"c{asked}") is named(list(fleet), f"c{asked}")
    assert named(fleet, f"c{asked}") is next((each for each in fleet if each.name == f"c{asked}"), None)
    chosen = frozenset(f"c{each}" for each in steady)
    found = prioritizers.scores_of(Prioritizer("Steady", 1), fleet, Scoring(Fleet({}), chosen, chosen, NOW))
    assert list(found.items()) == [(each.name, 100 * (each.name in chosen)) for each in fleet]
