"""What one Placement may cost: expressions are evaluated once for each document, in turns, and spreading has a bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from placements.scheduler import specification
from placements.scheduler.expressions import Expression
from placements.scheduler.fleet import AddOnScore, Cluster, Fleet
from placements.scheduler.pipeline import PlacementResult, Unfinished, schedule

Doc = dict[str, Any]
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def cluster(name: str, **labels: str) -> Cluster:
    return Cluster({"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}})


class Turn:
    """How often the time was asked for, which is before each evaluation; up after so many."""

    def __init__(self, most: int = 1_000) -> None:
        self.asked, self.most = 0, most

    def is_up(self) -> bool:
        self.asked += 1
        return self.asked > self.most


def decide(
    spec: Doc, clusters: list[Cluster], turn: Turn, scores: Mapping[tuple[str, str], AddOnScore] | None = None
) -> PlacementResult:
    fleet = Fleet({"all": clusters}, scores or {})
    return schedule({"metadata": {"name": "p1"}, "spec": spec}, fleet, bound=["all"], now=NOW, is_time_up=turn.is_up)


def expressing(text: str) -> Doc:
    return {"predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": [text]}}}]}


def names(outcome: PlacementResult) -> list[str]:
    return [each.name for each in outcome.chosen]


@pytest.mark.contract("P7", "D12")
def test_expressions_are_evaluated_once_for_each_document() -> None:
    fleet = [cluster("c1", env="prod"), cluster("c2", env="test")]
    spec = expressing("managedCluster.metadata.labels.env == 'prod'")
    for fresh in (2, 0):
        turn = Turn()
        assert names(decide(spec, fleet, turn)) == ["c1"]
        assert turn.asked == fresh
    turn = Turn()
    assert names(decide(spec, [fleet[0], cluster("c2", env="prod")], turn)) == ["c1", "c2"]
    assert turn.asked == 1


@pytest.mark.contract("P7", "P18")
def test_expressions_that_read_scores_are_evaluated_again_when_these_change() -> None:
    fleet = [cluster("c1"), cluster("c2")]
    spec = expressing("managedCluster.scores('load').exists(s, s.value > 5)")
    low, high = ({(name, "load"): AddOnScore({"free": value}) for name in ("c1", "c2")} for value in (1, 9))
    for scores, chosen, fresh in ((low, [], 2), (dict(low), [], 0), (high, ["c1", "c2"], 2), (low, [], 2)):
        turn = Turn()
        assert names(decide(spec, fleet, turn, scores)) == chosen
        assert turn.asked == fresh


@pytest.mark.contract("D12")
def test_a_run_that_ends_with_its_turn_goes_on_where_it_was() -> None:
    fleet = [cluster(f"c{number}") for number in range(5)]
    for _ in range(2):
        with pytest.raises(Unfinished):
            decide(expressing("true"), fleet, Turn(2))
    assert len(names(decide(expressing("true"), fleet, Turn(1)))) == 5


@pytest.mark.contract("P7", "D12")
def test_calls_of_functions_have_a_bound_of_their_own() -> None:
    """10,000 iterations, which the evaluator lets pass, would be hours where a long text is searched in each."""
    numbers = list(range(60))
    few, many = (Expression.compiled(f"{numbers[:most]}.all(a, {numbers}.all(b, isIP('::1')))") for most in (20, 60))
    assert few.holds(cluster("c1"), lambda _: {})
    assert not many.holds(cluster("c1"), lambda _: {})
    long = Expression.compiled(f"{numbers}.all(a, '{'x' * 5_000}'.find('y') == '')")
    assert "cost limit exceeded" in (long.error(cluster("c1"), lambda _: {}) or "")


@pytest.mark.contract("P7", "D12")
@pytest.mark.parametrize(
    "text",
    [
        "'aaaaaaaaaa'" + ".replace('a', 'aaaaaaaaaa')" * 25 + ".size() > 5",
        "['aaaaaaaaaa']" + ".map(a, a + a)" * 24 + "[0].size() > 5",
        "[[1, 2]]" + ".map(a, a + a)" * 24 + "[0].size() > 5",
        "[[1, 2]]" + ".map(a, [a, a])" * 27 + " == []",
        "['aaaaaaaaaa']" + ".map(a, '%s%s'.format([a, a]))" * 22 + "[0].size() > 5",
        "['aaaaaaaaaa']" + ".map(a, [a, a, a, a].join(','))" * 20 + "[0].size() > 5",
        "[managedCluster.metadata.name]" + ".map(a, {'x': [a, a]}.x)" * 27 + " == []",
        "[" + "1," * 4_000 + "1].all(a, [" + "1," * 900 + "1].map(b, b).size() > 5)",
    ],
)
def test_values_that_would_fill_the_memory_are_never_made(text: str) -> None:
    """A few hundred characters double a text often enough that the process would be killed."""
    found = Expression.compiled(text)
    assert found.error(cluster("c1"), lambda _: {}) == "operation cancelled: actual cost limit exceeded"
    assert not found.holds(cluster("c1"), lambda _: {})


@pytest.mark.contract("P7")
@pytest.mark.parametrize(
    "text",
    [
        "managedCluster.status.clusterClaims.exists(c, c.name == 'x' && c.value.startsWith('y'))",
        "managedCluster.status.clusterClaims.map(c, c.name + '=' + c.value).join(',').contains('a=b')",
        "managedCluster.status.clusterClaims.filter(c, c.name == 'x')[0].value.parseJSON().gpu[1] == 2",
        "semver(managedCluster.status.version.kubernetes.replace('v', '')).minor() == 30",
        "managedCluster.metadata.labels.exists(k, k.matches('^[a-z]{1,20}$') && managedCluster.metadata.labels[k] != '')",
        "managedCluster.scores('load').filter(s, s.name == 'cpu').all(s, s.value > 5)",
        "managedCluster.status.clusterClaims.exists(c, managedCluster.metadata.labels.exists(k, k == c.name))",
    ],
)
def test_usual_expressions_are_evaluated_for_documents_of_any_usual_size(text: str) -> None:
    assert Expression.compiled(text).largest >= 8 * 1024


@pytest.mark.contract("P7", "D12", "P29")
def test_an_expression_that_doubles_when_it_is_parsed_does_not_compile() -> None:
    chain = "optional.of('a')" + ".optMap(a, a)" * 8 + ".hasValue()"
    assert Expression.compiled(chain).text == chain
    with pytest.raises(ValueError, match="compilation failed: the expression has more than 8 optMap"):
        Expression.compiled("optional.of('a')" + ".optMap(a, a)" * 9 + ".hasValue()")


@pytest.mark.contract("P7", "D12")
def test_a_large_document_is_too_much_only_for_expressions_that_multiply_it() -> None:
    big = cluster("c1", **{f"key{number}": "x" * 60 for number in range(2_000)})
    labels = "managedCluster.metadata.labels"
    product = Expression.compiled(f"{labels}.exists(a, {labels}.exists(b, a + b == ''))")
    assert "cost limit" in (product.error(big, lambda _: {}) or "")
    assert Expression.compiled(f"{labels}.exists(a, a == 'key7')").holds(big, lambda _: {})
    scores = {"load": AddOnScore(dict.fromkeys(map(str, range(20_000)), 1))}
    pairs = Expression.compiled("managedCluster.scores('load').all(a, managedCluster.scores('load').exists(b, a == b))")
    assert "cost limit" in (pairs.error(cluster("c1"), lambda _: scores) or "")


@pytest.mark.contract("P7", "D12")
@pytest.mark.parametrize("text", ["type(1)", "null", "{1: b'x'}", "quantity('1')"])
def test_a_value_of_an_odd_type_is_no_match(text: str) -> None:
    assert isinstance(Expression.compiled(text).error(cluster("c1"), lambda _: {}), str)


@pytest.mark.contract("K20", "D12")
@pytest.mark.parametrize(("each", "is_too_much"), [(1, False), (2, True), (30, False)])
def test_clusters_are_not_spread_over_more_topologies_than_others_can_wait_for(each: int, is_too_much: bool) -> None:
    fleet = [cluster(f"c{number:04}", site=f"s{number // each}") for number in range(1_500)]
    constraint = {"topologyKey": "site", "topologyKeyType": "Label", "whenUnsatisfiable": "DoNotSchedule"}
    outcome = decide({"spreadPolicy": {"spreadConstraints": [constraint]}}, fleet, Turn())
    problem = ":spreadPolicy has too many topologies: 1,500 clusters of 750 cannot be chosen"
    assert outcome.plan.problem == (problem if is_too_much else "")
    assert len(outcome.chosen) == (0 if is_too_much else 1_500)


EVERYTHING = [{"operator": "Exists"}]
MANY: Mapping[str, Callable[[int], Doc]] = {
    "tolerations": lambda count: {"tolerations": EVERYTHING * count},
    "prioritizerPolicy": lambda count: {
        "numberOfClusters": 5,
        "prioritizerPolicy": {
            "mode": "Exact",
            "configurations": [
                {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "load", "scoreName": f"s{number}"}}}
                for number in range(count)
            ],
        },
    },
    "decisionGroups": lambda count: {
        "decisionStrategy": {
            "groupStrategy": {
                "decisionGroups": [
                    {"groupName": "no", "groupClusterSelector": {"labelSelector": {"matchLabels": {"no": str(number)}}}}
                    for number in range(count)
                ]
            }
        }
    },
}
PROBLEMS = {
    "tolerations": "TaintToleration:too many tolerations: 51 for 40 clusters",
    "prioritizerPolicy": ":prioritizerPolicy has too many entries: 51 for 40 clusters",
    "decisionGroups": ":decisionGroups have too many conditions: 51 for 40 clusters",
}


@pytest.mark.contract("P29", "D12")
@pytest.mark.parametrize("part", MANY)
def test_more_clauses_than_others_can_wait_for_are_a_problem_and_looked_at_by_nobody(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(specification, "MOST_STEPS", 2_000)
    monkeypatch.setattr(specification, "MOST_GROUP_STEPS", 2_000)
    fleet = [cluster(f"c{number:02}") for number in range(40)]
    outcome = decide(MANY[part](50), fleet, Turn())
    assert (outcome.plan.problem, len(outcome.chosen)) == ("", outcome.plan.number or 40)
    outcome = decide(MANY[part](51), fleet, Turn())
    assert (outcome.plan.problem, names(outcome)) == (PROBLEMS[part], [])
    plan = outcome.plan
    assert (plan.tolerations, [each for each in plan.prioritizers if each.add_on], plan.groups.wanted) == ((), [], ())
    assert decide(MANY[part](51), fleet[:39], Turn()).plan.problem == "", "fewer clusters, less to do"


@pytest.mark.contract("P6", "D12")
def test_many_requirements_of_one_predicate_are_worked_off_in_turns_like_many_predicates() -> None:
    fleet = [cluster(f"c{number}") for number in range(5)]
    absent = [{"key": f"key-{number}", "operator": "DoesNotExist"} for number in range(60)]
    spec = {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchExpressions": absent}}}]}
    with pytest.raises(Unfinished):
        decide(spec, fleet, Turn(2))
    assert len(names(decide(spec, fleet, Turn(3)))) == 5


LONG = 40_000
TOO_LONG: list[Doc] = [
    {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "B" * LONG}]}}}]},
    expressing(" && ".join(f"x{number}" for number in range(1_000))),
    {"prioritizerPolicy": {"mode": "B" * LONG}},
    {"clusterSets": [f"set-{number:040}" for number in range(1_000)]},
]  # fmt: skip


@pytest.mark.contract("P28", "P29", "D12")
@pytest.mark.parametrize("spec", TOO_LONG)
def test_no_message_is_longer_than_a_condition_may_be(spec: Doc) -> None:
    """Else the status is invalid, and the Placement says nothing."""
    messages = [each.message for each in decide(spec, [cluster("c1")], Turn()).conditions]
    assert max(map(len, messages)) == 32_768
    assert max(messages, key=len).endswith("......")
