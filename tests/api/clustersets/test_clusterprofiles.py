"""ClusterProfile is served as OCM's definition of it says (I1 to I3), and is read by RBAC in its namespace alone."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER
from ocmconsole.kubeapi.errors import Doc
from tests import factories as make
from tests.actors import grant, person, rule
from tests.api import entry
from tests.api.contract import KindContract
from tests.api.entry import TABLE
from tests.fuzz import world

GROUP = "multicluster.x-k8s.io"
NOW = "2026-01-02T03:04:05Z"


class TestClusterProfile(KindContract):
    site = world.PROFILES
    bad: Doc = {"spec": {"displayName": "sample"}}
    complaint = "spec.clusterManager: Required value"
    put_needs_version = True

    @pytest.mark.contract("I1")
    def test_it_is_discovered_with_a_status_and_without_short_names(self) -> None:
        listed = {each["name"]: each for each in self.root.get(f"/apis/{GROUP}/v1alpha1").doc["resources"]}
        assert listed.keys() == {"clusterprofiles", "clusterprofiles/status"}
        kind = listed["clusterprofiles"]
        assert (kind["kind"], kind["singularName"], kind["namespaced"]) == ("ClusterProfile", "clusterprofile", True)
        assert "shortNames" not in kind

    @pytest.mark.contract("I1")
    def test_it_is_described_as_a_custom_resource_definition(self) -> None:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterprofiles.{GROUP}"
        spec = self.root.get(path).doc["spec"]
        [version] = spec["versions"]
        assert (spec["scope"], version["name"], version["served"], version["storage"]) == (
            "Namespaced", "v1alpha1", True, True,
        )  # fmt: skip
        assert version["schema"]["openAPIV3Schema"]["required"] == ["spec"]

    @pytest.mark.contract("I1")
    def test_it_prints_its_age_as_upstreams_definition_has_no_columns(self) -> None:
        self.present()
        table = self.root.get(f"/apis/{GROUP}/v1alpha1/clusterprofiles", accept=TABLE).doc
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]
        assert [row["cells"][0] for row in table["rows"]] == ["sample"]

    @pytest.mark.contract("I2")
    def test_its_cluster_manager_is_immutable(self) -> None:
        self.present()
        answer = self.root.patch(self.url, {"spec": {"clusterManager": {"name": "other"}}})
        assert answer.said == (422, "Invalid")
        assert answer.message.endswith("ClusterManager is immutable")
        assert self.root.patch(self.url, {"spec": {"displayName": "Shop one"}}).code == 200
        assert self.root.patch(self.url, {"spec": {"clusterManager": None}}).code == 422

    @pytest.mark.contract("I3")
    @pytest.mark.parametrize(
        ("status", "complaint"),
        [
            ({"properties": [{"name": "", "value": "a"}]}, "status.properties[0].name"),
            ({"properties": [{"name": "a", "value": "v" * 1025}]}, "status.properties[0].value: Too long"),
            ({"properties": [{"name": "a"}]}, "status.properties[0].value: Required value"),
            ({"accessProviders": [{"cluster": {"server": "a"}}]}, "status.accessProviders[0].name: Required value"),
            ({"accessProviders": [{"name": "a", "cluster": {}}]}, "status.accessProviders[0].cluster.server: Required"),
            ({"conditions": [{"type": "a"}]}, "status.conditions[0].reason: Required value"),
        ],
    )
    def test_a_status_that_does_not_fit_is_refused(self, status: Doc, complaint: str) -> None:
        self.present()
        answer = self.root.patch(f"{self.url}/status", {"status": status})
        assert answer.said == (422, "Invalid")
        assert complaint in answer.message

    @pytest.mark.contract("I3")
    def test_lists_of_the_status_are_atomic_and_keep_doubles(self) -> None:
        self.present()
        cluster = {
            "server": "https://c1:6443", "tls-server-name": "c1", "insecure-skip-tls-verify": False, "proxy-url": "p",
            "certificate-authority": "/ca", "certificate-authority-data": "Y2E=", "disable-compression": True,
            "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"clusterName": "c1", "a": [1]}}],
        }  # fmt: skip
        property_ = {"name": "a", "value": "b", "lastObservedTime": NOW}
        condition = {"type": "Joined", "status": "True", "reason": "R", "message": "", "lastTransitionTime": NOW}
        status = {
            "version": {"kubernetes": "v1.33.0"},
            "properties": [property_, property_],
            "conditions": [condition],
            "accessProviders": [{"name": "a", "cluster": cluster}, {"name": "a"}],
            "credentialProviders": [{"name": "a", "cluster": cluster}],
        }
        assert self.root.patch(f"{self.url}/status", {"status": status}).doc["status"] == status
        fewer = {"properties": [property_]}
        assert self.root.patch(f"{self.url}/status", {"status": fewer}).doc["status"] == status | fewer


@pytest.mark.django_db
@pytest.mark.contract("I4", "I10", "D25")
def test_who_may_read_profiles_in_a_namespace_reads_them_there_and_nothing_of_the_clusters_themselves() -> None:
    for namespace in ("shop", "elsewhere"):
        make.namespace(namespace)
        make.binding("web", namespace=namespace)
    make.clusterset("web")
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"}, annotations={"secret": "s"})
    configs = [{"url": "https://c1:6443", "caBundle": "Y2E="}]
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["spec"].update(managedClusterClientConfigs=configs))
    make.settle()
    grant(person("li"), rule("get list watch", "clusterprofiles", groups=GROUP), namespace="shop")
    li: Any = entry.person("li")
    [found] = li.get(f"/apis/{GROUP}/v1alpha1/namespaces/shop/clusterprofiles").doc["items"]
    assert found["metadata"]["name"] == "c1"
    assert "annotations" not in found["metadata"]
    assert "status" not in found
    for path in (
        f"/apis/{GROUP}/v1alpha1/clusterprofiles",
        f"/apis/{GROUP}/v1alpha1/namespaces/elsewhere/clusterprofiles",
        "/apis/cluster.open-cluster-management.io/v1/managedclusters/c1",
    ):
        assert li.get(path).code == 403
