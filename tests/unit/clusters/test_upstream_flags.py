"""Upstream's feature gates and flags: which the hub knows, and what it says about those it has not built (H45)."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from ocmconsole.environment import readers
from ocmconsole.kubeapi import kinds

GATES = "OCMCONSOLE_FEATURE_GATES"


def read(monkeypatch: pytest.MonkeyPatch, value: str) -> dict[str, bool]:
    monkeypatch.setenv(GATES, value)
    return readers.gates(GATES)


@pytest.mark.contract("H43", "H45")
@pytest.mark.parametrize(
    ("gate", "why"),
    [
        ("ClusterImporter", "the Cluster API importer is not built"),
        ("SIGPlacementDecision", "the proposal KEP-5313 is provisional"),
    ],
)
def test_what_is_not_built_cannot_be_switched_on_and_says_why(
    monkeypatch: pytest.MonkeyPatch, gate: str, why: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"^{GATES}: {gate} cannot be switched on: {why}$"):
        read(monkeypatch, f"{gate}=true")
    assert read(monkeypatch, f"{gate}=false")[gate] is False


@pytest.mark.contract("H42", "H45", "D13", "D25")
def test_gates_have_upstreams_names_and_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, "") == {
        "DefaultClusterSet": True,
        "ResourceCleanup": True,
        "ManagedClusterAutoApproval": False,
        "V1beta1CSRAPICompatibility": False,
        "PlacementDebugServer": False,
        "ClusterProfile": True,
    }
    assert read(monkeypatch, "ClusterProfile=false")["ClusterProfile"] is False
    assert read(monkeypatch, "ResourceCleanup=False,ManagedClusterAutoApproval=true") == {
        "DefaultClusterSet": True,
        "ResourceCleanup": False,
        "ManagedClusterAutoApproval": True,
        "V1beta1CSRAPICompatibility": False,
        "PlacementDebugServer": False,
        "ClusterProfile": True,
    }


@pytest.mark.contract("H45")
@pytest.mark.parametrize("value", ["Resourcecleanup=true", "ResourceCleanup", "ResourceCleanup=yes", "=true", "x=true"])
def test_a_gate_that_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="is not a known gate with =true or =false"):
        read(monkeypatch, value)


@pytest.mark.contract("H39", "H45")
def test_kinds_of_what_is_not_built_are_not_served() -> None:
    served = {(each.version.group, each.kind.plural) for each in kinds.all_served()}
    assert ("multicluster.x-k8s.io", "placementdecisions") not in served


@pytest.mark.contract("H45", "H28")
def test_what_is_removed_with_a_cluster_is_upstreams_list_and_in_its_order() -> None:
    assert settings.OCMCONSOLE_GC_RESOURCES == [
        "addon.open-cluster-management.io/v1beta1/managedclusteraddons",
        "work.open-cluster-management.io/v1/manifestworks",
    ]


@pytest.mark.contract("H45", "H28")
@pytest.mark.parametrize("value", ["managedclusteraddons", "v1/secrets", "a/b/c/d", "a//c", "a/v1/", "a/v1/Upper"])
def test_a_type_that_is_not_group_version_resource_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("OCMCONSOLE_GC_RESOURCES", value)
    with pytest.raises(ImproperlyConfigured, match="must be group/version/resource"):
        readers.resources("OCMCONSOLE_GC_RESOURCES", "")


@pytest.mark.contract("H45", "H28", "K26")
@pytest.mark.parametrize(
    ("value", "read"), [("", []), ("/v1/secrets, a.b/v1beta1/cs", ["/v1/secrets", "a.b/v1beta1/cs"])]
)
def test_the_core_group_is_empty_and_so_may_the_list_be(
    monkeypatch: pytest.MonkeyPatch, value: str, read: list[str]
) -> None:
    monkeypatch.setenv("OCMCONSOLE_GC_RESOURCES", value)
    assert readers.resources("OCMCONSOLE_GC_RESOURCES", "a/v1/bs") == read
