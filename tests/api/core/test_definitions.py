"""Definitions of the kinds served: read like any kind, given back unchanged to a client that brings one, refused otherwise."""

from __future__ import annotations

import pytest

from ocmconsole.core import defaults, definitions, kinds
from ocmconsole.kubeapi import kinds as registry
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from tests.actors import ROOT
from tests.api import entry
from tests.api.entry import APPLY, MERGE, STRATEGIC, TABLE, Doc, Entry

pytestmark = pytest.mark.django_db

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLUSTERS = "managedclusters.cluster.open-cluster-management.io"
STUB = "clustermanagers.operator.open-cluster-management.io"
MANAGERS = "/apis/operator.open-cluster-management.io/v1/clustermanagers"


@pytest.fixture
def root() -> Entry:
    defaults.ensure_defaults(Actor.controller("foundation"))
    return entry.root()


def brought(name: str, kind: str = "CustomResourceDefinition") -> Doc:
    """As an installer writes it."""
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": {"group": "x"}}


@pytest.mark.contract("C26", "C28", "C33")
class TestReading:
    def test_one_says_what_the_registry_of_kinds_says(self, root: Entry) -> None:
        doc = root.get(f"{PATH}/{CLUSTERS}").doc
        assert doc["spec"]["group"] == "cluster.open-cluster-management.io"
        assert doc["spec"]["scope"] == "Cluster"
        assert doc["spec"]["names"]["shortNames"] == ["mcl", "mcls"]
        assert doc["status"]["acceptedNames"] == doc["spec"]["names"]
        assert doc["status"]["storedVersions"] == ["v1"]
        established = {each["type"]: each["status"] for each in doc["status"]["conditions"]}
        assert established == {"NamesAccepted": "True", "Established": "True"}
        (version,) = doc["spec"]["versions"]
        assert (version["name"], version["served"], version["storage"]) == ("v1", True, True)
        assert version["subresources"] == {"status": {}}
        columns = {column["name"]: column["jsonPath"] for column in version["additionalPrinterColumns"]}
        assert columns["Hub Accepted"] == ".spec.hubAcceptsClient"
        properties = version["schema"]["openAPIV3Schema"]["properties"]
        assert properties["spec"]["properties"]["leaseDurationSeconds"]["default"] == 60
        assert properties["metadata"] == {"type": "object"}

    def test_each_custom_kind_has_one_and_no_other(self, root: Entry) -> None:
        answer = root.get(PATH).doc
        assert answer["kind"] == "CustomResourceDefinitionList"
        names = [item["metadata"]["name"] for item in answer["items"]]
        assert names == sorted(kind.resource for kind in registry.all_kinds() if kind.custom)
        assert "secrets" not in names
        for item in answer["items"]:
            assert [version["name"] for version in item["spec"]["versions"] if version["storage"]]

    def test_versions_that_are_no_longer_meant_say_so(self, root: Entry) -> None:
        versions = root.get(f"{PATH}/managedclustersets.cluster.open-cluster-management.io").doc["spec"]["versions"]
        assert {version["name"]: version.get("deprecated", False) for version in versions} == {
            "v1beta2": False,
            "v1beta1": True,
            "v1alpha1": True,
        }

    def test_lists_narrow_by_name_and_label_and_print_as_a_table(self, root: Entry) -> None:
        named = root.get(f"{PATH}?fieldSelector=metadata.name={CLUSTERS}").doc["items"]
        assert [item["metadata"]["name"] for item in named] == [CLUSTERS]
        assert root.get(f"{PATH}?labelSelector=a=b").doc["items"] == []
        table = root.get(f"{PATH}?fieldSelector=metadata.name={CLUSTERS}", accept=TABLE).doc
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Created At"]
        assert [row["cells"][0] for row in table["rows"]] == [CLUSTERS]

    def test_they_are_announced_and_described(self, root: Entry) -> None:
        (listed,) = root.get("/apis/apiextensions.k8s.io/v1").doc["resources"]
        assert listed["name"] == "customresourcedefinitions"
        assert listed["shortNames"] == ["crd", "crds"]
        assert (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            in (root.get("/openapi/v3/apis/apiextensions.k8s.io/v1").doc["paths"])
        )

    def test_one_that_is_not_there_is_not_found(self, root: Entry) -> None:
        answer = root.get(f"{PATH}/nope")
        assert answer.said == (404, "NotFound")
        assert answer.message == 'customresourcedefinitions.apiextensions.k8s.io "nope" not found'

    def test_reading_them_takes_the_right_to(self, root: Entry) -> None:
        assert root.get(PATH).code == 200
        assert entry.person("mallory").get(PATH).said == (403, "Forbidden")


@pytest.mark.contract("C33")
class TestWriting:
    def test_bringing_one_of_a_kind_that_is_served_changes_nothing_and_is_no_error(self, root: Entry) -> None:
        before = root.get(f"{PATH}/{CLUSTERS}").doc
        answer = root.post(PATH, brought(CLUSTERS))
        assert answer.code == 201
        assert answer.doc == before
        assert "stays as it is" in answer.headers["Warning"]

    @pytest.mark.parametrize("as_", [MERGE, APPLY])
    def test_patches_leave_it_as_it_is(self, root: Entry, as_: str) -> None:
        before = root.get(f"{PATH}/{CLUSTERS}").doc
        query = "?fieldManager=me" if as_ == APPLY else ""
        answer = root.patch(f"{PATH}/{CLUSTERS}{query}", brought(CLUSTERS), as_)
        assert (answer.code, answer.doc) == (200, before)
        assert "stays as it is" in answer.headers["Warning"]

    def test_a_put_leaves_it_as_it_is(self, root: Entry) -> None:
        before = root.get(f"{PATH}/{CLUSTERS}").doc
        answer = root.put(f"{PATH}/{CLUSTERS}", brought(CLUSTERS))
        assert (answer.code, answer.doc) == (200, before)

    def test_bringing_one_of_another_kind_is_refused_with_the_reason(self, root: Entry) -> None:
        for answer in (
            root.post(PATH, brought("foos.example.com")),
            root.patch(f"{PATH}/foos.example.com?fieldManager=me", brought("foos.example.com"), APPLY),
        ):
            assert answer.said == (403, "Forbidden")
            assert answer.message == (
                f'customresourcedefinitions.apiextensions.k8s.io "foos.example.com" is forbidden: {definitions.REFUSAL}'
            )
        assert root.post(PATH, brought("")).said == (403, "Forbidden")
        assert root.patch(f"{PATH}/foos.example.com", {}).said == (404, "NotFound")

    def test_none_is_taken_away(self, root: Entry) -> None:
        answer = root.delete(f"{PATH}/{CLUSTERS}")
        assert answer.said == (403, "Forbidden")
        assert answer.message.endswith(definitions.REFUSAL)
        assert root.delete(f"{PATH}/nope").said == (404, "NotFound")
        assert root.delete(PATH).said == (405, "MethodNotAllowed")
        assert root.get(f"{PATH}/{CLUSTERS}").code == 200

    @pytest.mark.parametrize("body", [b"[]", b"{", b'{"metadata":[]}', b'{"kind":"Secret","apiVersion":"v1"}'])
    def test_what_is_no_definition_is_a_bad_request(self, root: Entry, body: bytes) -> None:
        assert root.send("POST", PATH, body).said == (400, "BadRequest")
        assert root.send("PUT", f"{PATH}/{CLUSTERS}", body).said == (400, "BadRequest")

    def test_a_patch_that_nobody_can_read_is_refused(self, root: Entry) -> None:
        assert root.send("PATCH", f"{PATH}/{CLUSTERS}", b"{", MERGE).said == (400, "BadRequest")
        assert root.patch(f"{PATH}/{CLUSTERS}", {}, STRATEGIC).said == (415, "UnsupportedMediaType")

    def test_writing_takes_the_right_to(self, root: Entry) -> None:
        assert root.post(PATH, brought(CLUSTERS)).code == 201
        assert entry.person("mallory").post(PATH, brought(CLUSTERS)).said == (403, "Forbidden")


@pytest.mark.contract("D8", "C15", "C26", "C28")
class TestClusterManager:
    def test_a_hub_has_one_that_names_what_belongs_to_it(self, root: Entry) -> None:
        doc = root.get(f"{MANAGERS}/cluster-manager").doc
        related = doc["status"]["relatedResources"]
        defined = [each["name"] for each in related if each["resource"] == "customresourcedefinitions"]
        assert CLUSTERS in defined
        assert STUB in defined
        deployments = [each for each in related if each["resource"] == "deployments"]
        assert {each["name"] for each in deployments} == set(defaults.PARTS)

    def test_the_parts_are_no_deployments(self, root: Entry) -> None:
        place = "/apis/apps/v1/namespaces/open-cluster-management-hub/deployments"
        for part in ("cluster-manager", *defaults.PARTS):
            assert root.get(f"{place}/{part}").said == (404, "NotFound")

    def test_a_second_start_writes_nothing(self, root: Entry) -> None:
        before = root.get(f"{MANAGERS}/cluster-manager").doc
        defaults.ensure_defaults(Actor.controller("foundation"))
        assert root.get(f"{MANAGERS}/cluster-manager").doc == before

    def test_its_definition_goes_with_it_and_both_come_back(self, root: Entry) -> None:
        assert root.get(f"{PATH}/{STUB}").code == 200
        assert root.delete(f"{PATH}/{STUB}").said == (403, "Forbidden")
        assert root.delete(f"{MANAGERS}/cluster-manager").code == 200
        assert root.get(f"{MANAGERS}/cluster-manager").said == (404, "NotFound")
        assert root.get(f"{PATH}/{STUB}").said == (404, "NotFound")
        assert root.delete(f"{PATH}/{STUB}").said == (404, "NotFound")
        defaults.ensure_defaults(Actor.controller("foundation"))
        assert root.get(f"{PATH}/{STUB}").code == 200

    def test_what_people_wrote_into_its_spec_stays(self, root: Entry) -> None:
        assert root.get(f"{MANAGERS}/cluster-manager").code == 200
        key = Key("", definitions.THE_HUB)
        verbs.edit(ROOT, kinds.CLUSTER_MANAGER, key, lambda doc: doc["spec"].update(nodePlacement={}))
        defaults.ensure_defaults(Actor.controller("foundation"))
        assert verbs.get(ROOT, kinds.CLUSTER_MANAGER, key)["spec"]["nodePlacement"] == {}
