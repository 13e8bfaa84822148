"""ManagedCluster and Lease: what the schema lets pass, what it fills in and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.kinds import LEASE, MANAGED_CLUSTER
from ocmconsole.kubeapi.errors import Doc

CLUSTER = MANAGED_CLUSTER.storage.schema
CONDITION: Doc = {
    "type": "ManagedClusterJoined",
    "status": "True",
    "reason": "ManagedClusterJoined",
    "message": "",
    "lastTransitionTime": "2026-11-21T02:21:11Z",
}


def admitted(doc: Doc) -> tuple[Doc, list[str]]:
    stored = CLUSTER.default(CLUSTER.prune(doc)[0])
    return stored, [str(cause) for cause in CLUSTER.validate(stored)]


def refusals(doc: Doc) -> list[str]:
    return admitted(doc)[1]


def test_a_cluster_without_spec_is_legal_and_gets_none() -> None:
    assert admitted({}) == ({}, [])


@pytest.mark.contract("T4", "W5")
def test_the_lease_duration_is_60_seconds_unless_a_number_is_given() -> None:
    assert admitted({"spec": {"hubAcceptsClient": False}})[0]["spec"] == {
        "hubAcceptsClient": False,
        "leaseDurationSeconds": 60,
    }
    for seconds in (0, -1, 2**31 - 1):
        assert admitted({"spec": {"leaseDurationSeconds": seconds}}) == (
            {"spec": {"leaseDurationSeconds": seconds}},
            [],
        )
    assert refusals({"spec": {"leaseDurationSeconds": 2**31}}) != []


@pytest.mark.contract("W5", "A11")
def test_taints_are_checked_field_by_field() -> None:
    good = {"key": "foo.example.com/bar", "effect": "NoSelect", "timeAdded": None}
    assert refusals({"spec": {"taints": [good, good, {**good, "value": "x" * 1024}]}}) == []
    assert refusals({"spec": {"taints": [{"key": "a", "effect": "Foo"}]}}) == [
        'spec.taints[0].effect: Unsupported value: "Foo": supported values: "NoSelect", "PreferNoSelect", "NoSelectIfNew"'
    ]
    assert refusals({"spec": {"taints": [{}]}}) == [
        "spec.taints[0].effect: Required value",
        "spec.taints[0].key: Required value",
    ]
    for key in ("", "a b", "a/b/c", "-a", "x" * 317):
        assert refusals({"spec": {"taints": [{**good, "key": key}]}}) != []
    assert refusals({"spec": {"taints": [{**good, "value": "x" * 1025}]}}) != []


def test_an_address_needs_a_url() -> None:
    assert refusals({"spec": {"managedClusterClientConfigs": [{"caBundle": "YQ=="}]}}) == [
        "spec.managedClusterClientConfigs[0].url: Required value"
    ]


@pytest.mark.contract("T2", "W20")
@pytest.mark.parametrize(
    ("change", "passes"),
    [
        ({}, True),
        ({"observedGeneration": 0}, True),
        ({"observedGeneration": -1}, False),
        ({"status": "true"}, False),
        ({"reason": ""}, False),
        ({"reason": "Two Words"}, False),
        ({"reason": "A" * 1025}, False),
        ({"message": "x" * 32769}, False),
        ({"message": None}, False),
        ({"lastTransitionTime": "yesterday"}, False),
        ({"type": "a b"}, False),
        ({"type": "example.com/Ready"}, True),
    ],
)
def test_conditions_are_those_of_kubernetes(change: Doc, passes: bool) -> None:
    assert (refusals({"status": {"conditions": [CONDITION | change]}}) == []) is passes


@pytest.mark.contract("W20")
def test_a_condition_type_stands_once() -> None:
    assert refusals({"status": {"conditions": [CONDITION, CONDITION]}}) == [
        'status.conditions[1]: Duplicate value: {"type":"ManagedClusterJoined"}'
    ]


@pytest.mark.parametrize(
    ("quantity", "passes"),
    [("8", True), (8, True), ("32Gi", True), ("7800m", True), ("1e3", True), ("x", False), ("", False)],
)
def test_resources_are_quantities(quantity: Any, passes: bool) -> None:
    status = {"capacity": {"cpu": quantity}, "allocatable": {"example.com/gpu": quantity}}
    assert (refusals({"status": status}) == []) is passes


def test_claims_have_a_name_and_a_value() -> None:
    assert refusals({"status": {"clusterClaims": [{"name": "id.k8s.io", "value": "x"}] * 2}}) == []
    assert len(refusals({"status": {"clusterClaims": [{"name": "", "value": "x" * 1025}]}})) == 2


def test_a_managed_namespace_stands_once_for_each_set() -> None:
    def namespace(cluster_set: str, name: str) -> Doc:
        return {"clusterSet": cluster_set, "name": name, "conditions": [CONDITION]}

    listed = [namespace("s1", "a"), namespace("s2", "a"), namespace("s1", "b")]
    assert refusals({"status": {"managedNamespaces": listed}}) == []
    assert refusals({"status": {"managedNamespaces": [listed[0], listed[0]]}}) == [
        'status.managedNamespaces[1]: Duplicate value: {"clusterSet":"s1","name":"a"}'
    ]
    for name in ("A", "a.b", "x" * 64, "-a"):
        assert refusals({"status": {"managedNamespaces": [namespace("s1", name)]}}) != []
    assert len(refusals({"status": {"managedNamespaces": [{}]}})) == 2


@pytest.mark.contract("W29")
def test_a_lease_takes_times_of_any_precision_and_keeps_six_decimals() -> None:
    lease = LEASE.storage.schema
    spec = {"renewTime": "2026-11-21T02:21:11.000001Z", "acquireTime": "2026-11-21T02:21:11Z", "holderIdentity": "h"}
    assert lease.validate({"spec": spec}) == []
    assert lease.prune({"spec": spec}) == ({"spec": {**spec, "acquireTime": "2026-11-21T02:21:11.000000Z"}}, [])
    assert lease.validate({"spec": {"renewTime": "now"}}) != []
