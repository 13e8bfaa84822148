"""Which clusters belong to a set: on labels, and the same in the database (T6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters.kinds import CLUSTERSET_LABEL
from clusters.models import ManagedCluster
from clustersets import membership
from clustersets.membership import MOST_REQUIREMENTS, Membership
from ocmconsole.kubeapi.storage import selector_sql
from ocmconsole.kubeapi.storage.selectors import LabelSelector
from tests import factories as make

Doc = dict[str, Any]


def read(selector: Doc | None = None, name: str = "web") -> Membership:
    spec = {} if selector is None else {"clusterSelector": selector}
    return membership.membership_of({"metadata": {"name": name}, "spec": spec})


def by_labels(selector: Doc | None) -> Membership:
    wanted: Doc = {"selectorType": "LabelSelector"}
    return read(wanted if selector is None else wanted | {"labelSelector": selector})


@pytest.mark.contract("T6")
@pytest.mark.parametrize("selector", [None, {}, {"selectorType": ""}, {"selectorType": "ExclusiveClusterSetLabel"}])
def test_an_exclusive_set_has_those_whose_label_names_it(selector: Doc | None) -> None:
    found = read(selector)
    assert found.includes({CLUSTERSET_LABEL: "web"})
    assert not found.includes({CLUSTERSET_LABEL: "db"})
    assert not found.includes({})


@pytest.mark.contract("T6", "T3")
@pytest.mark.parametrize(
    ("selector", "present", "expected"),
    [
        (None, {}, False),
        ({}, {}, True),
        ({"matchLabels": {"env": "prod"}}, {"env": "prod"}, True),
        ({"matchLabels": {"env": "prod"}}, {"env": "dev"}, False),
        ({"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["dev"]}]}, {}, True),
        ({"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["dev"]}]}, {"env": "dev"}, False),
        ({"matchExpressions": [{"key": "env", "operator": "Exists"}]}, {"env": ""}, True),
        ({"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]}, {"env": ""}, False),
    ],
)
def test_a_label_selector_set_has_those_whose_labels_match(
    selector: Doc | None, present: dict[str, str], expected: bool
) -> None:
    assert by_labels(selector).includes(present) is expected


@pytest.mark.contract("T6", "K24", "D12")
@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        ({"selectorType": "Other"}, "selectorType is not right: Other"),
        (
            {
                "selectorType": "LabelSelector",
                "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]},
            },
            "failed to build ClusterSelector with clusterSet: web",
        ),
        (
            {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"!": "x"}}},
            "failed to build ClusterSelector with clusterSet: web",
        ),
        (
            {
                "selectorType": "LabelSelector",
                "labelSelector": {"matchLabels": {f"l{number}": "x" for number in range(MOST_REQUIREMENTS + 1)}},
            },
            f"more than {MOST_REQUIREMENTS} requirements",
        ),
    ],
)
def test_a_set_that_cannot_be_read_has_no_members_and_says_why(selector: Doc, problem: str) -> None:
    found = read(selector)
    assert problem in found.problem
    assert not found.includes({CLUSTERSET_LABEL: "web", "a": "b"})
    assert membership.sets_of({"env": "prod"}, [found, by_labels({})]) == ["web"]


@pytest.mark.contract("T6")
@given(
    label=st.sampled_from(["web", "db", "", "default"]),
    others=st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["x", ""])),
)
def test_a_cluster_is_in_at_most_one_exclusive_set(label: str, others: dict[str, str]) -> None:
    sets = [read(name=name) for name in ("web", "db", "default")]
    assert len(membership.sets_of({**others, CLUSTERSET_LABEL: label}, sets)) <= 1


# Keys that a database could take for something else, too.
KEYS = st.sampled_from(["env", "1", "a.b/c", "example.com/tier", "0"])
VALUES = st.sampled_from(["", "x", "y", "1", "true"])
EXPRESSIONS = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        KEYS,
        st.sampled_from(["In", "NotIn"]),
        st.lists(VALUES, min_size=1, max_size=2),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator}, KEYS, st.sampled_from(["Exists", "DoesNotExist"])
    ),
)
SELECTORS = st.builds(
    lambda exact, expressions: {"matchLabels": exact, "matchExpressions": expressions},
    st.dictionaries(KEYS, VALUES, max_size=2),
    st.lists(EXPRESSIONS, max_size=3),
)
CLUSTERS: list[dict[str, str]] = [
    {},
    {"env": "x"},
    {"env": "", "1": "x"},
    {"1": "1", "a.b/c": "y"},
    {"example.com/tier": "true", "0": "x", "env": "y"},
    {"a.b/c": "x", "example.com/tier": ""},
]


@pytest.fixture
def clusters(db: None) -> dict[str, dict[str, str]]:
    """Labels of stored clusters by name."""
    for number, present in enumerate(CLUSTERS):
        make.cluster(f"c{number}", labels=present)
    return dict(ManagedCluster.objects.values_list("name", "labels"))


@pytest.mark.contract("T6", "W10")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(selector=SELECTORS)
def test_the_database_chooses_the_same_clusters(clusters: dict[str, dict[str, str]], selector: Doc) -> None:
    found = by_labels(selector)
    chosen = ManagedCluster.objects.filter(found.condition()).values_list("name", flat=True)
    assert set(chosen) == {name for name, present in clusters.items() if found.includes(present)}


@pytest.mark.contract("T6")
def test_everything_and_nothing_survive_being_joined_by_or(clusters: dict[str, dict[str, str]]) -> None:
    """Django drops an empty condition from an ``or``, which would turn everything into nothing."""
    everything, nothing = by_labels({}).condition(), by_labels(None).condition()
    assert ManagedCluster.objects.filter(everything | nothing).count() == len(CLUSTERS)
    assert ManagedCluster.objects.filter(nothing | nothing).count() == 0
    assert selector_sql.selector_condition(LabelSelector()) == selector_sql.EVERYTHING
