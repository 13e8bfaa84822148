"""Discovery, version, health (W6, W164)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.conformance.wire.api import JSON, Api, Doc, refused, worked
from tests.conformance.wire.documents import CLUSTER, CLUSTER_GROUP, CUSTOM_VERBS, SAMPLES, Sample
from tests.server import Server

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
CREATE_ONLY = [
    ("authorization.k8s.io/v1", "selfsubjectaccessreviews"),
    ("authorization.k8s.io/v1", "selfsubjectrulesreviews"),
    ("authorization.k8s.io/v1", "subjectaccessreviews"),
    ("authorization.k8s.io/v1", "localsubjectaccessreviews"),
    ("authentication.k8s.io/v1", "tokenreviews"),
    ("authentication.k8s.io/v1", "selfsubjectreviews"),
]


def listed(admin: Api, api_version: str) -> dict[str, Doc]:
    root = "api" if "/" not in api_version else "apis"
    return {each["name"]: each for each in admin.read(f"/{root}/{api_version}")["resources"]}


@pytest.mark.contract("W6", "W118")
@pytest.mark.parametrize("path", ["/version", "/version/", "/version?timeout=32s"])
def test_version_is_what_kubectl_can_read(admin: Api, path: str) -> None:
    answer = admin.get(path)
    doc = worked(answer)
    assert answer.headers["Content-Type"].startswith(JSON)
    assert doc["gitVersion"].startswith(f"v{doc['major']}.{doc['minor'].rstrip('+')}.")
    assert {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"} <= doc.keys()


@pytest.mark.contract("W189")
def test_dispatching_kubectl_learns_which_one_to_run(admin: Api) -> None:
    """It knows the minors 27 and later; what it cannot read is taken for 32."""
    assert int(admin.read("/version", timeout="5s")["minor"].rstrip("+")) >= 27


@pytest.mark.contract("W6", "W149")
@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_probes_say_ok_to_everybody(admin: Api, anonymous: Api, path: str) -> None:
    for api in (admin, anonymous):
        answer = api.get(path, accept="*/*")
        assert (answer.status_code, answer.text) == (200, "ok")
        assert answer.headers["Content-Type"].startswith("text/plain")
    spoken = admin.get(path, accept="*/*", verbose="").text
    assert "[+]" in spoken
    assert f"{path.removeprefix('/')} check passed" in spoken


@pytest.mark.contract("W6")
def test_root_lists_paths(admin: Api) -> None:
    paths = admin.read("/")["paths"]
    assert {"/api", "/api/v1", "/apis", f"/apis/{CLUSTER_GROUP}", f"/apis/{CLUSTER}", "/version", "/readyz"} <= {*paths}


@pytest.mark.contract("W6", "W164")
def test_plain_discovery_is_the_legacy_form(admin: Api) -> None:
    core = admin.read("/api")
    assert (core["kind"], core["versions"]) == ("APIVersions", ["v1"])
    answer = admin.get("/apis")
    groups = worked(answer)
    assert answer.headers["Content-Type"] == JSON
    assert (groups["kind"], groups["apiVersion"]) == ("APIGroupList", "v1")
    names = {group["name"] for group in groups["groups"]}
    assert {sample.group for sample in SAMPLES if sample.group} <= names
    for group in groups["groups"]:
        assert group["preferredVersion"] in group["versions"]
        assert group["preferredVersion"] == group["versions"][0]


@pytest.mark.contract("W6")
def test_group_stands_for_itself(admin: Api) -> None:
    alone = admin.read(f"/apis/{CLUSTER_GROUP}")
    assert (alone["kind"], alone["apiVersion"], alone["name"]) == ("APIGroup", "v1", CLUSTER_GROUP)
    among = next(each for each in admin.read("/apis")["groups"] if each["name"] == CLUSTER_GROUP)
    assert alone["versions"] == among["versions"]


@pytest.mark.contract("W7", "W102")
def test_server_is_recognised_as_a_hub(admin: Api) -> None:
    """Clusteradm asks this before every command."""
    answer = admin.read(f"/apis/{CLUSTER}")
    assert (answer["kind"], answer["groupVersion"]) == ("APIResourceList", CLUSTER)
    found = {each["name"]: each for each in answer["resources"]}
    assert found["managedclusters"]["kind"] == "ManagedCluster"
    assert found["managedclusters/status"]["verbs"] == ["get", "patch", "update"]
    assert found["managedclusters/status"]["singularName"] == ""


@pytest.mark.contract("W6", "W149")
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_kind_is_listed_with_its_names_and_verbs(admin: Api, sample: Sample) -> None:
    entry = listed(admin, sample.api_version)[sample.plural]
    assert entry["kind"] == sample.kind
    assert entry["namespaced"] is sample.namespaced
    assert tuple(entry.get("shortNames", ())) == sample.short
    wanted = {*CUSTOM_VERBS} - ({"deletecollection"} if sample.plural == "namespaces" else set())
    assert {*entry["verbs"]} == wanted
    if sample.custom:
        assert entry["verbs"] == CUSTOM_VERBS


@pytest.mark.contract("W6", "W164")
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_status_is_listed_where_there_is_one(admin: Api, sample: Sample) -> None:
    entry = listed(admin, sample.api_version).get(f"{sample.plural}/status")
    if sample.status or sample.plural == "namespaces":
        assert entry is not None
        assert entry["verbs"] == ["get", "patch", "update"]
    else:
        assert entry is None


@pytest.mark.contract("W126")
@pytest.mark.parametrize(("api_version", "plural"), CREATE_ONLY)
def test_reviews_can_only_be_created(admin: Api, api_version: str, plural: str) -> None:
    entry = listed(admin, api_version)[plural]
    assert entry["verbs"] == ["create"]
    assert admin.get(f"/apis/{api_version}/{plural}").status_code in {404, 405}


@pytest.mark.contract("W26")
def test_token_request_is_a_subresource_of_another_group(admin: Api) -> None:
    entry = listed(admin, "v1")["serviceaccounts/token"]
    assert (entry["group"], entry["version"], entry["kind"]) == ("authentication.k8s.io", "v1", "TokenRequest")
    assert entry["verbs"] == ["create"]


@pytest.mark.contract("W23")
def test_approval_is_a_subresource(admin: Api) -> None:
    assert {*listed(admin, "certificates.k8s.io/v1")["certificatesigningrequests/approval"]["verbs"]} == {
        "get",
        "patch",
        "update",
    }


@pytest.mark.contract("W22")
def test_virtual_subresources_are_no_urls(admin: Api, name: str) -> None:
    assert not [each for each in listed(admin, CLUSTER) if each.endswith(("/accept", "/clientcertificates"))]
    refused(admin.get(f"/apis/{CLUSTER}/managedclusters/{name}/accept"), 404, "NotFound")


@pytest.mark.contract("W124", "W6")
def test_addons_are_served_in_both_versions(admin: Api) -> None:
    group = admin.read("/apis/addon.open-cluster-management.io")
    assert {"v1alpha1", "v1beta1"} <= {each["version"] for each in group["versions"]}


# ---------------------------------------------------------------------------------------------------------- aggregated


def aggregated(admin: Api, path: str) -> Doc:
    answer = admin.get(path, accept=f"{V2},{V2BETA1},application/json")
    doc = worked(answer)
    assert answer.headers["Content-Type"].replace(" ", "") == V2
    assert doc["kind"] == "APIGroupDiscoveryList"
    return doc


@pytest.mark.contract("W6", "W164")
@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_both_forms_of_discovery_say_the_same(admin: Api, path: str) -> None:
    for group in aggregated(admin, path)["items"]:
        name = group["metadata"].get("name", "")
        for version in group["versions"]:
            api_version = f"{name}/{version['version']}" if name else version["version"]
            legacy = listed(admin, api_version)
            seen: dict[str, Any] = {}
            for each in version["resources"]:
                if each["responseKind"].get("kind") or each.get("verbs"):
                    seen[each["resource"]] = (
                        each["responseKind"]["kind"],
                        {*each["verbs"]},
                        each["scope"] == "Namespaced",
                    )
                for sub in each.get("subresources", []):
                    seen[f"{each['resource']}/{sub['subresource']}"] = (
                        sub["responseKind"]["kind"],
                        {*sub["verbs"]},
                        each["scope"] == "Namespaced",
                    )
            assert seen == {key: (one["kind"], {*one["verbs"]}, one["namespaced"]) for key, one in legacy.items()}


@pytest.mark.contract("W164")
@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_aggregated_discovery_is_asked_for_once(admin: Api, path: str) -> None:
    first = admin.get(path, accept=V2)
    assert first.headers["ETag"].startswith('"')
    assert "Accept" in first.headers["Vary"]
    again = admin.http.get(path, headers={"Accept": V2, "If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = admin.http.get(path, headers={"Accept": V2, "If-None-Match": '"other"'})
    assert other.status_code == 200


@pytest.mark.contract("W164", "W6")
@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_older_aggregated_form_falls_back_to_what_is_also_accepted(admin: Api, path: str) -> None:
    answer = admin.get(path, accept=f"{V2BETA1},application/json")
    assert answer.status_code == 200
    alone = admin.get(path, accept=V2BETA1)
    assert alone.status_code in {200, 406}


@pytest.mark.contract("W6", "W119")
@pytest.mark.parametrize(("path", "code"), [("/version", 200), ("/api", 403), ("/apis", 403), (f"/apis/{CLUSTER}", 403), ("/openapi/v2", 403), ("/openapi/v3", 403)])  # fmt: skip
def test_strangers_learn_the_version_and_nothing_else(anonymous: Api, path: str, code: int) -> None:
    answer = anonymous.get(path)
    assert answer.status_code == code
    if code == 403:
        refused(answer, 403, "Forbidden", f'User "system:anonymous" cannot get path "{path}"')


@pytest.mark.contract("W183")
@pytest.mark.parametrize(
    "path",
    [
        "/apis/nosuch.example.com/v1",
        "/apis/nosuch.example.com",
        "/api/v2",
        f"/apis/{CLUSTER}/houses",
        f"/apis/{CLUSTER_GROUP}/v9/managedclusters",
        "/api/v1/namespaces/default/houses/a",
        f"/apis/{CLUSTER}/managedclusters/a/b/c",
    ],
)
def test_unknown_path_is_a_status_too(admin: Api, path: str) -> None:
    """A kube-apiserver says it in a line of text where no group or version is known, or takes the path for an object's."""
    answer = admin.get(path)
    if not answer.headers["Content-Type"].startswith(JSON):
        assert answer.status_code == 404
        return
    said = refused(answer, 404, "NotFound")
    assert said["message"] == "the server could not find the requested resource" or path.endswith("/a/b/c")


@pytest.mark.contract("W188", "W30")
def test_plain_http_serves_nobody(server: Server) -> None:
    """Go's clients drop token and certificate there, so every client would be anonymous."""
    with httpx.Client(trust_env=False, timeout=5) as plain:
        try:
            answer = plain.get(server.api_url.replace("https://", "http://") + "/api")
        except httpx.HTTPError:
            return
    assert answer.status_code >= 400
