"""What the hub says about itself, and that kubectl goes on believing it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.cluster import API_VERSION
from tests.conformance.commands import Kubectl

GROUP = "cluster.open-cluster-management.io"


@pytest.mark.contract("W118")
def test_version_of_the_hub_is_one_that_kubectl_can_read(admin: Kubectl) -> None:
    shown = json.loads(admin("version", "-o", "json"))["serverVersion"]
    assert shown["minor"] == "32"
    assert shown["gitVersion"].startswith("v1.32.")


@pytest.mark.contract("W149")
def test_api_resources_lists_kinds_with_their_short_names(admin: Kubectl) -> None:
    heading, *rows = admin("api-resources", f"--api-group={GROUP}").splitlines()
    assert heading.split()[:2] == ["NAME", "SHORTNAMES"]
    listed = {cells[0]: cells for cells in map(str.split, rows)}
    assert listed["managedclusters"][1:] == ["mcl,mcls", API_VERSION, "false", "ManagedCluster"]
    assert listed["managedclustersets"][1] == "mclset,mclsets"
    assert listed["managedclustersetbindings"][-2:] == ["true", "ManagedClusterSetBinding"]


@pytest.mark.contract("W149")
def test_api_resources_can_be_narrowed_to_what_is_needed(admin: Kubectl) -> None:
    names = admin("api-resources", "--namespaced=false", "--verbs=list,watch", "-o", "name").split()
    assert f"managedclusters.{GROUP}" in names
    assert "certificatesigningrequests.certificates.k8s.io" in names
    assert "secrets" not in names


@pytest.mark.contract("W149")
def test_api_versions_cluster_info_and_probes_work(admin: Kubectl) -> None:
    versions = admin("api-versions").split()
    assert {"v1", API_VERSION, f"{GROUP}/v1beta2", "rbac.authorization.k8s.io/v1"} <= set(versions)
    assert admin.hub.api_url in admin("cluster-info")
    assert admin("get", "--raw", "/readyz") == "ok"
    assert admin("get", "--raw", "/livez") == "ok"


@pytest.mark.contract("W145")
@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (["managedcluster.spec.taints"], ["effect", "key", "timeAdded", "value", "-required-"]),
        (
            ["mcl.spec", "--recursive"],
            ["hubAcceptsClient", "leaseDurationSeconds", "managedClusterClientConfigs", "caBundle"],
        ),
        (["mclset.spec.clusterSelector"], ["selectorType", "labelSelector"]),
        (["csr.spec"], ["signerName", "request", "usages", "expirationSeconds"]),
        (["lease.spec"], ["renewTime", "holderIdentity"]),
        (["namespace"], ["metadata", "apiVersion"]),
    ],
)
def test_explain_shows_fields_and_what_they_mean(admin: Kubectl, what: list[str], expected: list[str]) -> None:
    explained = admin("explain", *what)
    assert "DESCRIPTION:" in explained
    assert [field for field in expected if field not in explained] == []


@pytest.mark.contract("W145")
def test_field_that_does_not_exist_cannot_be_explained(admin: Kubectl) -> None:
    assert admin.refuses("explain", "mcl.spec.zz") == 'error: field "zz" does not exist'


@pytest.mark.contract("W164")
def test_discovery_that_is_asked_for_again_stays_what_it_was(admin: Kubectl, tmp_path: Path) -> None:
    """A name that is not there makes kubectl ask again with If-None-Match, and answers 304 overwrite what it knew."""
    cache = f"--cache-dir={tmp_path}"
    before = admin("api-resources", "--verbs=list", "-o", "name", cache)
    for _ in range(2):
        assert "doesn't have a resource type" in admin.refuses("get", "nosuch", cache)
    assert admin("api-resources", "--verbs=list", "-o", "name", "--cached", cache) == before
    admin("get", "mcl", cache)


@pytest.mark.contract("W183")
def test_unknown_path_is_not_found(admin: Kubectl) -> None:
    refusal = admin.refuses("get", "--raw", f"/apis/{GROUP}/v1/houses")
    assert refusal == "Error from server (NotFound): the server could not find the requested resource"
