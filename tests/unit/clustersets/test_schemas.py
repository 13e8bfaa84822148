"""ManagedClusterSet and its binding: defaults and refusals."""

from __future__ import annotations

import pytest

from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.schema.compiled_schema import Schema

SET = MANAGED_CLUSTER_SET.storage.schema
BINDING = MANAGED_CLUSTER_SET_BINDING.storage.schema
EXCLUSIVE = {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}


def admitted(schema: Schema, doc: Doc) -> tuple[Doc, list[str]]:
    stored = schema.default(schema.prune(doc)[0])
    return stored, [str(cause) for cause in schema.validate(stored)]


@pytest.mark.contract("T6", "W5")
@pytest.mark.parametrize("doc", [{}, {"spec": {}}, {"spec": {"clusterSelector": {}}}, {"spec": None}])
def test_a_set_is_exclusive_unless_it_says_otherwise(doc: Doc) -> None:
    assert admitted(SET, doc) == ({"spec": EXCLUSIVE}, [])


@pytest.mark.contract("T3", "T6")
def test_a_set_may_select_by_labels_with_any_operator() -> None:
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Odd", "values": ["d"]}]}
    spec = {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": selector}}
    assert admitted(SET, {"spec": spec}) == ({"spec": spec}, [])


@pytest.mark.contract("S146")
def test_the_selector_type_of_older_versions_is_refused() -> None:
    _, causes = admitted(SET, {"spec": {"clusterSelector": {"selectorType": "LegacyClusterSetLabel"}}})
    supported = 'supported values: "ExclusiveClusterSetLabel", "LabelSelector"'
    field = "spec.clusterSelector.selectorType"
    assert causes == [f'{field}: Unsupported value: "LegacyClusterSetLabel": {supported}']


def test_managed_namespaces_are_labels_and_stand_once() -> None:
    assert admitted(SET, {"spec": {"managedNamespaces": [{"name": "a"}, {"name": "b"}]}})[1] == []
    assert len(admitted(SET, {"spec": {"managedNamespaces": [{"name": "a"}, {"name": "a"}]}})[1]) == 1
    assert len(admitted(SET, {"spec": {"managedNamespaces": [{"name": "A"}, {"name": "x" * 64}, {}]}})[1]) == 3


def test_conditions_of_sets_and_bindings_are_plain_lists() -> None:
    condition = {
        "type": "ClusterSetEmpty",
        "status": "True",
        "reason": "NoClusterMatched",
        "message": "",
        "lastTransitionTime": "2026-11-21T02:21:11Z",
    }
    for schema, spec in ((SET, EXCLUSIVE), (BINDING, {"clusterSet": "s"})):
        assert admitted(schema, {"spec": spec, "status": {"conditions": [condition, condition]}})[1] == []
        assert admitted(schema, {"spec": spec, "status": {"conditions": [{}]}})[1] != []


def test_a_binding_names_a_set() -> None:
    assert admitted(BINDING, {"spec": {"clusterSet": "s"}}) == ({"spec": {"clusterSet": "s"}}, [])
    assert admitted(BINDING, {"spec": {}})[1] == ["spec.clusterSet: Required value"]
    assert admitted(BINDING, {"spec": {"clusterSet": ""}})[1] == [
        'spec.clusterSet: Invalid value: "": spec.clusterSet in body should be at least 1 chars long'
    ]
