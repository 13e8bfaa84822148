"""Discovery: the legacy and the aggregated documents describe the same things."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from ocmconsole.kubeapi import virtual_resources
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.kinds import Kind, Served, Subresource, Version
from ocmconsole.kubeapi.publish import discovery
from ocmconsole.kubeapi.publish.discovery import Catalogue
from ocmconsole.kubeapi.schema.compiled_schema import Schema
from ocmconsole.kubeapi.virtual_resources import Endpoint

GROUP = "cluster.example.io"


def kind(name: str, plural: str, versions: list[tuple[str, str]], **options: Any) -> list[Served]:
    forms = tuple(Version(group, version, Schema({}, name=f"{version}.{name}")) for group, version in versions)
    made = Kind(name, plural, versions=forms, model=cast("Any", None), **{"namespaced": False, **options})
    return [Served(made, form) for form in forms]


SERVED = [
    *kind(
        "ManagedCluster",
        "managedclusters",
        [(GROUP, "v1")],
        short_names=("mcl", "mcls"),
        subresources=(Subresource("status"),),
        custom=True,
    ),
    *kind(
        "ManagedClusterSet",
        "managedclustersets",
        [(GROUP, version) for version in ("v1beta2", "v1alpha1", "v1beta1")],
        custom=True,
    ),
    *kind(
        "Event",
        "events",
        [("", "v1"), ("events.k8s.io", "v1")],
        namespaced=True,
        short_names=("ev",),
        categories=("all",),
    ),
    *kind(
        "ServiceAccount",
        "serviceaccounts",
        [("", "v1")],
        namespaced=True,
        subresources=(Subresource("token", ("create",), "authentication.k8s.io", "v1", "TokenRequest"),),
    ),
]


def unanswered(actor: Actor, namespace: str, name: str, doc: Doc) -> Doc:
    raise AssertionError("only described here")


VIRTUAL = [
    Endpoint("", "v1", "services", "Service", True, ("get", "list"), unanswered, short_names=("svc",)),
    Endpoint(
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        False,
        ("create",),
        unanswered,
    ),
]
LISTED = Catalogue(SERVED, VIRTUAL)


def resource(group: str, version: str, name: str) -> Doc:
    listed = discovery.api_resource_list(group, version, LISTED)
    assert listed is not None
    found: Doc = next(entry for entry in listed["resources"] if entry["name"] == name)
    return found


@pytest.mark.contract("W6")
def test_the_core_group_has_one_version() -> None:
    assert discovery.api_versions("hub:6443") == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "hub:6443"}],
    }


@pytest.mark.contract("W6", "D1")
def test_groups_come_with_their_versions_in_order_of_preference() -> None:
    listed = discovery.api_group_list(LISTED)
    assert (listed["kind"], listed["apiVersion"]) == ("APIGroupList", "v1")
    assert [group["name"] for group in listed["groups"]] == ["authorization.k8s.io", GROUP, "events.k8s.io"]
    group = discovery.api_group(GROUP, LISTED)
    assert group is not None
    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta2", "v1beta1", "v1alpha1"]
    assert group["preferredVersion"] == group["versions"][0] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}
    assert group["kind"] == "APIGroup"


@pytest.mark.contract("W6")
def test_what_is_not_served_is_not_described() -> None:
    assert discovery.api_group("apps", LISTED) is None
    assert discovery.api_resource_list("apps", "v1", LISTED) is None


@pytest.mark.contract("W7")
def test_a_custom_kind_and_its_status_look_as_observed() -> None:
    assert discovery.api_resource_list(GROUP, "v1", LISTED) == {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/v1",
        "resources": [
            {
                "name": "managedclusters",
                "singularName": "managedcluster",
                "namespaced": False,
                "kind": "ManagedCluster",
                "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
                "shortNames": ["mcl", "mcls"],
            },
            {
                "name": "managedclusters/status",
                "singularName": "",
                "namespaced": False,
                "kind": "ManagedCluster",
                "verbs": ["get", "patch", "update"],
            },
        ],
    }


@pytest.mark.contract("W6")
def test_the_core_list_has_no_api_version_and_sorted_verbs() -> None:
    listed = discovery.api_resource_list("", "v1", LISTED)
    assert listed is not None
    assert (listed["groupVersion"], "apiVersion" in listed) == ("v1", False)
    events = resource("", "v1", "events")
    assert events["verbs"] == sorted(events["verbs"])
    assert (events["categories"], events["shortNames"]) == (["all"], ["ev"])


@pytest.mark.contract("W26")
def test_a_subresource_of_another_type_says_so() -> None:
    assert resource("", "v1", "serviceaccounts/token") == {
        "name": "serviceaccounts/token",
        "singularName": "",
        "namespaced": True,
        "group": "authentication.k8s.io",
        "version": "v1",
        "kind": "TokenRequest",
        "verbs": ["create"],
    }


def test_endpoints_that_store_nothing_are_announced_too() -> None:
    assert resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews")["verbs"] == ["create"]
    assert resource("", "v1", "services")["shortNames"] == ["svc"]


@pytest.mark.contract("W164")
def test_legacy_and_aggregated_documents_describe_the_same_resources() -> None:
    legacy = set()
    groups = {"": ["v1"], **LISTED.groups()}
    for group, versions in groups.items():
        for version in versions:
            listed = discovery.api_resource_list(group, version, LISTED)
            assert listed is not None
            legacy |= {(group, version, entry["name"], *entry["verbs"]) for entry in listed["resources"]}
    aggregated = set()
    for document in (discovery.aggregated_core(LISTED), discovery.aggregated_groups(LISTED)):
        for item in document["items"]:
            for served in item["versions"]:
                place = item["metadata"].get("name", ""), served["version"]
                for entry in served["resources"]:
                    aggregated.add((*place, entry["resource"], *entry["verbs"]))
                    for sub in entry.get("subresources", ()):
                        aggregated.add((*place, f"{entry['resource']}/{sub['subresource']}", *sub["verbs"]))
    assert aggregated == legacy


@pytest.mark.contract("W164")
def test_the_aggregated_form_is_that_of_version_2() -> None:
    document = discovery.aggregated_groups(LISTED)
    assert (document["kind"], document["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    item = next(item for item in document["items"] if item["metadata"]["name"] == GROUP)
    assert {served["freshness"] for served in item["versions"]} == {"Current"}
    (cluster,) = item["versions"][0]["resources"]
    assert cluster["responseKind"] == {"group": GROUP, "version": "v1", "kind": "ManagedCluster"}
    assert (cluster["scope"], cluster["singularResource"]) == ("Cluster", "managedcluster")
    (core,) = discovery.aggregated_core(LISTED)["items"]
    assert core["metadata"] == {}
    account = next(entry for entry in core["versions"][0]["resources"] if entry["resource"] == "serviceaccounts")
    assert account["scope"] == "Namespaced"
    assert account["subresources"][0]["responseKind"]["group"] == "authentication.k8s.io"


@pytest.mark.contract("W6")
def test_the_version_can_be_parsed_and_selects_kubectl_1_32() -> None:
    version = discovery.version()
    assert (version["major"], version["minor"]) == ("1", "32")
    assert re.fullmatch(r"v1\.32\.\d+(\+[a-z0-9.]+)?", version["gitVersion"])


def test_the_root_lists_every_path_once_in_order() -> None:
    paths = discovery.root_paths(LISTED)
    assert paths == sorted(set(paths))
    assert {"/api", "/api/v1", "/apis", f"/apis/{GROUP}", f"/apis/{GROUP}/v1alpha1", "/readyz", "/version"} <= set(
        paths
    )


def test_versions_have_an_order() -> None:
    versions = ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v2alpha1", "v1alpha1"]
    mixed = versions[::-1]
    assert sorted(mixed, key=discovery.preference) == versions


def test_an_endpoint_is_registered_once_and_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_resources, "_endpoints", {})
    services, review = VIRTUAL
    for extra in VIRTUAL:
        virtual_resources.register(extra)
    assert list(virtual_resources.described()) == VIRTUAL
    assert virtual_resources.find_endpoint("", "v1", "services") is services
    assert virtual_resources.find_endpoint("authorization.k8s.io", "v1", "services") is None
    assert virtual_resources.find_endpoint("authorization.k8s.io", "v1", "selfsubjectaccessreviews") is review
    with pytest.raises(ValueError, match="registered twice"):
        virtual_resources.register(services)
