"""Sets as kubectl knows them from three generations of documents (D1)."""

from __future__ import annotations

import pytest

from tests.conformance.commands import Doc, Kubectl, cells

GROUP = "cluster.open-cluster-management.io"
VERSIONS = ("v1beta2", "v1beta1", "v1alpha1")


def document(version: str, name: str) -> Doc:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "ManagedClusterSet", "metadata": {"name": name}}


def deprecated(version: str) -> str:
    return f"Warning: {GROUP}/{version} ManagedClusterSet is deprecated; use {GROUP}/v1beta2 ManagedClusterSet"


@pytest.mark.contract("D1", "S21", "S46")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_set_of_any_version_is_applied_edited_and_deleted(admin: Kubectl, name: str, version: str) -> None:
    doc = document(version, name)
    done = admin.run("apply", "-f", "-", stdin=doc, code=0)
    assert done.stdout == f"managedclusterset.{GROUP}/{name} created\n"
    assert (deprecated(version) in done.stderr) == (version != "v1beta2")
    assert admin("apply", "-f", "-", stdin=doc) == f"managedclusterset.{GROUP}/{name} unchanged\n"
    labelled = doc | {"metadata": {"name": name, "labels": {"team": "edge"}}}
    assert admin("apply", "-f", "-", stdin=labelled) == f"managedclusterset.{GROUP}/{name} configured\n"
    assert admin.read("mclset", name)["spec"] == {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}
    full = f"managedclustersets.{version}.{GROUP}"
    heading, row = admin("get", full, name).splitlines()
    assert cells(heading) == ["NAME", "EMPTY", "AGE"]
    assert cells(row)[0] == name
    assert admin.read(full, name)["apiVersion"] == f"{GROUP}/{version}"
    assert admin("delete", full, name).startswith(f'managedclusterset.{GROUP} "{name}" deleted')


@pytest.mark.contract("D1")
def test_without_a_version_kubectl_uses_the_newest_and_is_not_warned(admin: Kubectl, name: str) -> None:
    admin("create", "-f", "-", stdin=document("v1beta1", name))
    done = admin.run("get", "managedclustersets", name, "-o", "jsonpath={.apiVersion}", code=0)
    assert (done.stdout, done.stderr) == (f"{GROUP}/v1beta2", "")


@pytest.mark.contract("D1", "W145")
def test_each_version_explains_itself(admin: Kubectl) -> None:
    for version, known, unknown in (
        ("v1beta2", ["ExclusiveClusterSetLabel"], ["LegacyClusterSetLabel"]),
        ("v1beta1", ["LegacyClusterSetLabel"], ["ExclusiveClusterSetLabel"]),
    ):
        field = "managedclustersets.spec.clusterSelector"
        told = admin("explain", field, f"--api-version={GROUP}/{version}")
        assert all(word in told for word in known)
        assert not any(word in told for word in unknown)
    assert "managedNamespaces" in admin("explain", "managedclustersets.spec", f"--api-version={GROUP}/v1beta2")
    assert "managedNamespaces" not in admin("explain", "managedclustersets.spec", f"--api-version={GROUP}/v1beta1")
