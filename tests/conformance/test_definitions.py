"""CustomResourceDefinitions as kubectl sees them: listed, waited for, watched, and brought along by manifests."""

from __future__ import annotations

import json

import pytest

from tests.conformance.commands import Doc, Kubectl

CLUSTERS = "managedclusters.cluster.open-cluster-management.io"
PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def brought(name: str) -> Doc:
    """As an installer writes it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {"group": name.partition(".")[2], "scope": "Cluster", "versions": []},
    }


@pytest.mark.contract("C33")
def test_definitions_are_listed_and_established(admin: Kubectl) -> None:
    heading, *rows = admin("get", "crd").splitlines()
    assert heading.split() == ["NAME", "CREATED", "AT"]
    assert CLUSTERS in [row.split()[0] for row in rows]
    assert (
        admin("wait", "--for=condition=Established", f"crd/{CLUSTERS}", "--timeout=60s")
        .strip()
        .endswith("condition met")
    )


@pytest.mark.contract("W11", "W12", "C33")
def test_a_watch_of_definitions_sends_them_all_and_a_bookmark(admin: Kubectl) -> None:
    listed = json.loads(admin("get", "--raw", PATH))["items"]
    query = (
        "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
    )
    events = [json.loads(line) for line in admin("get", "--raw", f"{PATH}?{query}").splitlines()]
    sent = [event["object"]["metadata"]["name"] for event in events if event["type"] == "ADDED"]
    assert sorted(sent) == [item["metadata"]["name"] for item in listed]
    marked = events[len(sent)]
    assert marked["type"] == "BOOKMARK"
    assert marked["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    from_there = marked["object"]["metadata"]["resourceVersion"]
    assert admin("get", "--raw", f"{PATH}?watch=true&resourceVersion={from_there}&timeoutSeconds=1") == ""


@pytest.mark.contract("C33")
def test_manifests_may_bring_definitions_of_what_is_served_and_of_nothing_else(admin: Kubectl) -> None:
    before = admin("get", "crd", CLUSTERS, "-o", "json")
    for command in (["create"], ["apply"], ["apply", "--server-side"], ["replace"]):
        assert CLUSTERS in admin(*command, "-f", "-", stdin=brought(CLUSTERS))
    assert admin("get", "crd", CLUSTERS, "-o", "json") == before
    refused = admin.refuses("create", "-f", "-", stdin=brought("foos.example.com"))
    assert 'customresourcedefinitions.apiextensions.k8s.io "foos.example.com" is forbidden: this hub serves' in refused
    assert "is forbidden" in admin.refuses("delete", "crd", CLUSTERS)


@pytest.mark.contract("D8")
def test_the_hub_has_a_cluster_manager(admin: Kubectl) -> None:
    assert (
        admin("get", "clustermanagers", "-o", "name").strip()
        == "clustermanager.operator.open-cluster-management.io/cluster-manager"
    )
