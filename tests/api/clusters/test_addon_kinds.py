"""Add-ons and works behave as the contract of kinds says, in each version that is served (T9)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.addons import addon_wire
from clusters.addons.addon_kinds import CLUSTER_MANAGEMENT_ADDON, MANAGED_CLUSTER_ADDON
from clusters.addons.addon_wire import INSTALL_NAMESPACE, NO_DEFAULT
from ocmconsole.kubeapi.kinds import Kind
from tests import factories as make
from tests.api import entry
from tests.api.contract import KindContract
from tests.api.entry import MERGE, TABLE, Doc
from tests.fuzz import world
from tests.fuzz.world import Site

V1ALPHA1, V1BETA1 = "addon.open-cluster-management.io/v1alpha1", "addon.open-cluster-management.io/v1beta1"
HEADERS = ["Name", "Available", "Degraded", "Progressing"]
TYPE_HEADERS = ["Name", "DISPLAY NAME", "CRD NAME"]


def headers(site: Site) -> list[str]:
    columns = entry.root().get(site.path, accept=TABLE).doc["columnDefinitions"]
    return [column["name"] for column in columns]


@pytest.mark.contract("T9")
class TestManagedClusterAddOn(KindContract):
    site = world.ADDONS
    bad: Doc = {"spec": {"installNamespace": "-"}}
    complaint = (
        'spec.installNamespace: Invalid value: "-": spec.installNamespace in body should match '
        "'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'"
    )
    put_needs_version = True

    def test_columns_are_the_states_of_the_addon(self) -> None:
        assert headers(self.site) == HEADERS


@pytest.mark.contract("T9")
class TestManagedClusterAddOnV1Beta1(KindContract):
    site = world.NEW_ADDONS
    bad: Doc = {"spec": {"configs": [{"name": "a"}]}}
    complaint = "spec.configs[0].resource: Required value"
    put_needs_version = True

    def test_columns_are_the_states_of_the_addon(self) -> None:
        assert headers(self.site) == HEADERS


@pytest.mark.contract("T9")
class TestClusterManagementAddOn(KindContract):
    site = world.ADDON_TYPES
    bad: Doc = {"spec": {"installStrategy": {"type": "Sometimes"}}}
    complaint = 'spec.installStrategy.type: Unsupported value: "Sometimes": supported values: "Manual", "Placements"'
    put_needs_version = True

    def test_columns_are_names(self) -> None:
        assert headers(self.site) == TYPE_HEADERS


@pytest.mark.contract("T9")
class TestClusterManagementAddOnV1Beta1(KindContract):
    site = world.NEW_ADDON_TYPES
    bad: Doc = {"spec": {"defaultConfigs": [{"resource": "a", "name": ""}]}}
    complaint = 'spec.defaultConfigs[0].name: Invalid value: "": spec.defaultConfigs[0].name in body should be at least 1 chars long'
    put_needs_version = True

    def test_columns_are_names(self) -> None:
        assert headers(self.site) == TYPE_HEADERS[:2]


class TestManifestWork(KindContract):
    site = world.WORKS
    bad: Doc = {"spec": {"workload": {"manifests": [{"kind": "ConfigMap"}]}}}
    complaint = "spec.workload.manifests[0].apiVersion: Required value"
    put_needs_version = True

    def test_manifests_are_kept_as_they_come(self) -> None:
        manifest = {"apiVersion": "v1", "kind": "Odd", "metadata": {"name": "x"}, "any": [{"thing": 1.5}], "no": None}
        doc = self.site.document("sample") | {"spec": {"workload": {"manifests": [manifest]}}}
        assert self.root.post(self.site.path, doc).doc["spec"]["workload"]["manifests"] == [manifest]
        assert headers(self.site) == ["Name", "Age"]


@pytest.mark.contract("T9")
@pytest.mark.parametrize(
    ("version", "plural", "kind", "short", "namespaced"),
    [
        (version, plural, kind, short, namespaced)
        for version in ("v1alpha1", "v1beta1")
        for plural, kind, short, namespaced in (
            ("managedclusteraddons", "ManagedClusterAddOn", ["mca", "mcas"], True),
            ("clustermanagementaddons", "ClusterManagementAddOn", ["cma", "cmas"], False),
        )
    ],
)
@pytest.mark.django_db
def test_both_versions_are_discovered_and_an_empty_list_is_no_404(
    version: str, plural: str, kind: str, short: list[str], namespaced: bool
) -> None:
    prefix = f"/apis/addon.open-cluster-management.io/{version}"
    resources = {each["name"]: each for each in entry.root().get(prefix).doc["resources"]}
    assert resources[plural]["kind"] == kind
    assert resources[plural]["shortNames"] == short
    assert resources[plural]["namespaced"] is namespaced
    assert f"{plural}/status" in resources
    listed = entry.root().get(f"{prefix}/{plural}")
    assert (listed.code, listed.doc["items"]) == (200, [])


# ---------------------------------------------------------------- one object, two versions


def place(version: str, plural: str = "managedclusteraddons", name: str = "work-manager") -> str:
    inside = "/namespaces/c1" if plural == "managedclusteraddons" else ""
    return f"/apis/addon.open-cluster-management.io/{version}{inside}/{plural}/{name}"


def create(api_version: str, kind: str, content: Doc, **metadata: Any) -> Doc:
    """At the collection of the version."""
    plural = f"{kind.lower()}s"
    path = place(api_version.rpartition("/")[2], plural).rpartition("/")[0]
    doc = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "work-manager", **metadata}, **content}
    answer = entry.root().post(path, doc)
    assert answer.code == 201, answer.body
    return answer.doc


@pytest.fixture
def c1(db: None) -> str:
    make.namespace("c1")
    return "c1"


@pytest.mark.contract("T9")
def test_the_install_namespace_is_an_annotation_in_v1beta1(c1: str) -> None:
    create(V1ALPHA1, "ManagedClusterAddOn", {"spec": {"installNamespace": "mine"}})
    shown = entry.root().get(place("v1beta1")).doc
    assert shown["apiVersion"] == V1BETA1
    assert shown["spec"] == {}
    assert shown["metadata"]["annotations"] == {INSTALL_NAMESPACE: "mine"}
    moved = {"metadata": {"annotations": {INSTALL_NAMESPACE: "yours"}}}
    assert entry.root().patch(place("v1beta1"), moved).code == 200
    stored = entry.root().get(place("v1alpha1")).doc
    assert stored["spec"] == {"installNamespace": "yours"}
    assert "annotations" not in stored["metadata"]


@pytest.mark.contract("T9")
def test_an_addon_made_through_v1beta1_gets_the_usual_install_namespace(c1: str) -> None:
    shown = create(V1BETA1, "ManagedClusterAddOn", {"spec": {}})
    assert shown["metadata"]["annotations"] == {INSTALL_NAMESPACE: "open-cluster-management-agent-addon"}
    refused = entry.root().patch(place("v1beta1"), {"metadata": {"annotations": {INSTALL_NAMESPACE: "No!"}}})
    assert refused.said == (422, "Invalid")


STATUS_V1ALPHA1: Doc = {
    "addOnConfiguration": {"crdName": "configs.example.com"},
    "kubeClientDriver": "token",
    "registrations": [
        {
            "signerName": "kubernetes.io/kube-apiserver-client",
            "subject": {"user": "u", "groups": ["g"], "organizationUnit": ["lost"]},
        },
        {"signerName": "example.com/signer", "subject": {"user": "v", "organizationUnit": ["unit"]}},
    ],
    "configReferences": [
        {
            "group": "example.com",
            "resource": "configs",
            "name": "first",
            "namespace": "apps",
            "lastObservedGeneration": 3,
            "desiredConfig": {"name": "first", "namespace": "apps", "specHash": "1"},
        }
    ],
}


@pytest.mark.contract("T9")
def test_registrations_and_references_are_said_in_the_words_of_each_version(c1: str) -> None:
    create(V1ALPHA1, "ManagedClusterAddOn", {"spec": {}})
    entry.root().patch(f"{place('v1alpha1')}/status", {"status": STATUS_V1ALPHA1})
    status = entry.root().get(place("v1beta1")).doc["status"]
    assert status["registrations"] == [
        {"type": "kubeClient", "kubeClient": {"subject": {"user": "u", "groups": ["g"]}, "driver": "token"}},
        {
            "type": "customSigner",
            "customSigner": {
                "signerName": "example.com/signer",
                "subject": {"user": "v", "organizationUnits": ["unit"]},
            },
        },
    ]
    [reference] = status["configReferences"]
    assert "name" not in reference
    assert not {"addOnConfiguration", "kubeClientDriver"} & status.keys()


@pytest.mark.contract("T9", "D1")
def test_an_agents_status_patch_through_v1beta1_keeps_what_v1beta1_cannot_say(c1: str) -> None:
    create(V1ALPHA1, "ManagedClusterAddOn", {"spec": {"installNamespace": "mine"}})
    before = entry.root().patch(f"{place('v1alpha1')}/status", {"status": STATUS_V1ALPHA1}).doc["status"]
    condition = {
        "type": "Available",
        "status": "True",
        "reason": "ManagedClusterAddOnLeaseUpdated",
        "message": "",
        "lastTransitionTime": world.MOMENT,
    }
    patched = entry.root().patch(f"{place('v1beta1')}/status", {"status": {"conditions": [condition]}}, MERGE)
    assert patched.code == 200
    after = entry.root().get(place("v1alpha1")).doc
    assert after["status"] == {**before, "conditions": [condition]}
    assert after["spec"] == {"installNamespace": "mine"}


@pytest.mark.contract("T9", "W16")
def test_sending_back_what_was_read_writes_nothing(c1: str) -> None:
    create(V1ALPHA1, "ManagedClusterAddOn", {"spec": {"installNamespace": "mine"}})
    entry.root().patch(f"{place('v1alpha1')}/status", {"status": STATUS_V1ALPHA1})
    shown = entry.root().get(place("v1beta1")).doc
    for path in (place("v1beta1"), f"{place('v1beta1')}/status"):
        assert entry.root().put(path, shown).doc == shown


@pytest.mark.contract("T9")
def test_v1beta1_is_checked_in_its_own_words(c1: str) -> None:
    create(V1BETA1, "ManagedClusterAddOn", {"spec": {}})
    for wrong in ({"type": "other"}, {"type": "kubeClient", "kubeClient": {"driver": "pigeon"}}, "x"):
        answer = entry.root().patch(f"{place('v1beta1')}/status", {"status": {"registrations": [wrong]}}, MERGE)
        assert answer.said == (422, "Invalid")
        assert "status.registrations[0]" in answer.message


@pytest.mark.contract("T9")
def test_default_configurations_are_supported_ones_with_a_default(c1: str) -> None:
    supported = [
        {"group": "example.com", "resource": "configs", "defaultConfig": {"namespace": "apps", "name": "first"}},
        {"group": "example.com", "resource": "others"},
    ]
    spec = {"addOnConfiguration": {"crdName": "configs.example.com"}, "supportedConfigs": supported}
    create(V1ALPHA1, "ClusterManagementAddOn", {"spec": spec})
    here = "clustermanagementaddons"
    shown = entry.root().get(place("v1beta1", here)).doc["spec"]
    assert shown["defaultConfigs"] == [
        world.CONFIG,
        {"group": "example.com", "resource": "others", "name": NO_DEFAULT},
    ]
    assert "addOnConfiguration" not in shown
    patch = {"spec": {"defaultConfigs": [{**world.CONFIG, "resource": "others"}]}}
    entry.root().patch(place("v1beta1", here), patch, MERGE)
    stored = entry.root().get(place("v1alpha1", here)).doc["spec"]
    assert stored["addOnConfiguration"] == {"crdName": "configs.example.com"}
    assert stored["supportedConfigs"] == [
        {"group": "example.com", "resource": "others", "defaultConfig": {"namespace": "apps", "name": "first"}}
    ]


# ---------------------------------------------------------------- conversions lose nothing

names = st.sampled_from(["a", "b", "c"])
subjects = st.fixed_dictionaries(
    {}, optional={"user": names, "groups": st.lists(names, max_size=2), "organizationUnit": st.lists(names, max_size=2)}
)
registrations = st.fixed_dictionaries(
    {"signerName": st.sampled_from(["kubernetes.io/kube-apiserver-client", "example.com/a", "example.com/b"])},
    optional={"subject": subjects},
)
hashed = st.fixed_dictionaries({"name": names}, optional={"namespace": names, "specHash": names})
references = st.fixed_dictionaries(
    {"group": names, "resource": names, "name": names},
    optional={"namespace": names, "desiredConfig": hashed, "lastAppliedConfig": hashed},
)
statuses = st.fixed_dictionaries(
    {},
    optional={
        "registrations": st.lists(registrations, max_size=3),
        "configReferences": st.lists(references, max_size=3),
        "kubeClientDriver": st.sampled_from(["csr", "token"]),
        "addOnConfiguration": st.just({"crdName": "x"}),
        "namespace": names,
    },
)
supported_configs = st.lists(
    st.fixed_dictionaries(
        {"group": names, "resource": names},
        optional={"defaultConfig": st.fixed_dictionaries({"name": names}, optional={"namespace": names})},
    ),
    max_size=3,
    unique_by=lambda one: (one["group"], one["resource"]),
)
annotated_with = st.dictionaries(st.sampled_from(["x", INSTALL_NAMESPACE]), names, min_size=1)


def whole(kind: Kind, spec: Doc, status: Doc, annotated: Doc | None = None) -> Doc:
    metadata = {"name": "a"} | ({"annotations": annotated} if annotated else {})
    return {"apiVersion": V1ALPHA1, "kind": kind.kind, "metadata": metadata, "spec": spec, "status": status}


@pytest.mark.contract("T9", "D1")
@given(statuses, st.fixed_dictionaries({}, optional={"installNamespace": names}), st.none() | annotated_with)
def test_an_addon_survives_the_way_through_v1beta1(status: Doc, spec: Doc, annotated: Doc | None) -> None:
    doc = whole(MANAGED_CLUSTER_ADDON, spec, status, annotated)
    kept = repr(doc)
    shown = addon_wire.addon_from_v1alpha1(doc)
    assert MANAGED_CLUSTER_ADDON.versions[1].schema.prune(shown)[1] == []
    back = addon_wire.addon_to_v1alpha1(shown, doc)
    assert repr(doc) == kept
    expected = spec if spec or not (annotated or {}).get(INSTALL_NAMESPACE) else back["spec"]
    assert {**back, "apiVersion": V1ALPHA1} == {**doc, "spec": expected}


@pytest.mark.contract("T9", "D1")
@given(supported_configs, st.booleans())
def test_a_type_of_addons_survives_the_way_through_v1beta1(supported: list[Doc], located: bool) -> None:
    spec = {"supportedConfigs": supported} | ({"addOnConfiguration": {"crName": "x"}} if located else {})
    doc = whole(CLUSTER_MANAGEMENT_ADDON, spec, {"defaultconfigReferences": [{"group": "", "resource": "a"}]})
    shown = addon_wire.management_from_v1alpha1(doc)
    assert CLUSTER_MANAGEMENT_ADDON.versions[1].schema.prune(shown)[1] == []
    assert {**addon_wire.management_to_v1alpha1(shown, doc), "apiVersion": V1ALPHA1} == doc
