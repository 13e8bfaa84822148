"""Sets and bindings in every version that the documents were written for (S21, S46, S99 to S104, S143 to S146)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.statements import blocks
from tests.statements.conftest import Desk

GROUP = "cluster.open-cluster-management.io"
VERSIONS = ["v1alpha1", "v1beta1", "v1beta2"]
OLDER = VERSIONS[:2]


def read(desk: Desk, resource: str, version: str, *arguments: str) -> dict[str, Any]:
    return desk.kubectl.read(f"{resource}.{version}.{GROUP}", *arguments)


def new_set(name: str, version: str, **spec: Any) -> dict[str, Any]:
    doc = {"apiVersion": f"{GROUP}/{version}", "kind": "ManagedClusterSet", "metadata": {"name": name}}
    return doc | ({"spec": spec} if spec else {})


@pytest.mark.contract("S21", "S46")
@pytest.mark.parametrize("version", OLDER)
def test_the_documents_set_of_an_older_version_is_applied_and_read_back(desk: Desk, version: str) -> None:
    done = desk.kubectl.run("apply", "-f", str(blocks.path(f"managedclusterset-{version}")), code=0)
    assert done.stdout == "managedclusterset.cluster.open-cluster-management.io/prod created\n"
    shown = read(desk, "managedclustersets", version, "prod")
    assert blocks.missing(shown, blocks.block(f"managedclusterset-{version}")) == []
    desk.kubectl("delete", "managedclusterset", "prod")


@pytest.mark.contract("S99", "S100", "S101", "S102", "S143")
@pytest.mark.parametrize("version", OLDER)
def test_older_versions_are_served_on_and_warn_their_users(desk: Desk, name: str, version: str) -> None:
    desk.kubectl("create", "namespace", name)
    done = desk.kubectl.run("create", "-f", "-", stdin=new_set(name, version), code=0)
    assert f"Warning: {GROUP}/{version} ManagedClusterSet is deprecated" in done.stderr
    binding = blocks.block("managedclustersetbinding")
    del binding["status"]
    binding |= {"apiVersion": f"{GROUP}/{version}", "metadata": {"name": name, "namespace": name}}
    binding["spec"]["clusterSet"] = name
    done = desk.kubectl.run("create", "-f", "-", stdin=binding, code=0)
    assert f"Warning: {GROUP}/{version} ManagedClusterSetBinding is deprecated" in done.stderr
    desk.kubectl(
        "wait",
        f"managedclustersetbindings.{version}.{GROUP}/{name}",
        "-n",
        name,
        "--for=condition=Bound",
        "--timeout=120s",
    )


@pytest.mark.contract("S103", "S145")
@pytest.mark.parametrize("version", OLDER)
def test_what_was_stored_through_an_older_version_is_there_in_the_new_one(desk: Desk, name: str, version: str) -> None:
    desk.kubectl("create", "-f", "-", stdin=new_set(name, version))
    before, after = read(desk, "managedclustersets", version, name), read(desk, "managedclustersets", "v1beta2", name)
    assert before["metadata"]["uid"] == after["metadata"]["uid"]
    assert after["spec"] == {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}


@pytest.mark.contract("S144")
def test_a_client_that_migrated_to_v1beta2_reads_of_no_deprecation(desk: Desk, name: str) -> None:
    done = desk.kubectl.run("create", "-f", "-", stdin=new_set(name, "v1beta2"), code=0)
    assert done.stderr == ""
    assert desk.kubectl.read("managedclusterset", name)["apiVersion"] == f"{GROUP}/v1beta2"


@pytest.mark.contract("S104")
def test_nothing_notable_changes_between_the_versions(desk: Desk, name: str) -> None:
    selector = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"vendor": "OpenShift"}}}
    desk.kubectl("create", "-f", "-", stdin=new_set(name, "v1beta1", clusterSelector=selector))
    shown = {version: read(desk, "managedclustersets", version, name) for version in VERSIONS}
    assert shown["v1beta1"]["spec"] == shown["v1beta2"]["spec"] == {"clusterSelector": selector}
    for version in OLDER:
        assert shown[version]["metadata"]["name"] == name
        assert shown[version].get("status", {}).keys() <= shown["v1beta2"].get("status", {}).keys()


@pytest.mark.contract("S146")
def test_the_default_type_of_selector_is_the_exclusive_label_and_the_legacy_one_is_refused(
    desk: Desk, name: str
) -> None:
    legacy = new_set(name, "v1beta2", clusterSelector={"selectorType": "LegacyClusterSetLabel"})
    refusal = desk.kubectl.refuses("create", "-f", "-", stdin=legacy)
    assert 'Unsupported value: "LegacyClusterSetLabel"' in refusal
    desk.kubectl("create", "-f", "-", stdin=new_set(name, "v1beta2", clusterSelector={}))
    stored = desk.kubectl.read("managedclusterset", name)["spec"]
    assert stored == {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}
