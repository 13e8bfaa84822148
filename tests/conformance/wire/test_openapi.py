"""What kubectl reads before it creates, applies and explains (W8, W145, W185)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.wire.api import JSON, Api, Doc, worked
from tests.conformance.wire.documents import SAMPLES, Sample

GNOSTIC = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture(scope="module")
def documents(everlasting: Api) -> dict[str, Doc]:
    """The third version's documents of every group of the samples."""
    roots = everlasting.read("/openapi/v3")["paths"]
    wanted = {sample.root.removeprefix("/") for sample in SAMPLES}
    assert wanted <= roots.keys()
    return {root: everlasting.read(roots[root]["serverRelativeURL"]) for root in wanted}


@pytest.fixture(scope="module")
def swagger(everlasting: Api) -> Doc:
    return everlasting.read("/openapi/v2")


def gvk(sample: Sample) -> Doc:
    return {"group": sample.group, "version": sample.api_version.rpartition("/")[2], "kind": sample.kind}


def operation(document: Doc, sample: Sample) -> Doc:
    """The PATCH of the kind."""
    found: list[Doc] = [path["patch"] for path in document["paths"].values() if "patch" in path]
    return next(each for each in found if each.get("x-kubernetes-group-version-kind") == gvk(sample))


def schema_of(schemas: dict[str, Doc], sample: Sample) -> Doc:
    return next(each for each in schemas.values() if gvk(sample) in each.get("x-kubernetes-group-version-kind", []))


@pytest.mark.contract("W8", "W122", "W153")
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_patch_says_how_kubectl_applies(documents: dict[str, Doc], sample: Sample) -> None:
    """Strategic for built-in kinds, JSON merge for custom ones, and validation by the server."""
    document = documents[sample.root.removeprefix("/")]
    patch = operation(document, sample)
    kinds = patch["requestBody"]["content"].keys()
    assert {MERGE, APPLY} <= kinds
    assert (STRATEGIC in kinds) is not sample.custom
    shared: dict[str, Any] = document["components"].get("parameters", {})
    parameters = [shared[each["$ref"].rpartition("/")[2]] if "$ref" in each else each for each in patch["parameters"]]
    assert {("fieldValidation", "query"), ("dryRun", "query")} <= {(each["name"], each["in"]) for each in parameters}


@pytest.mark.contract("W8", "W145")
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_kind_can_be_explained(documents: dict[str, Doc], sample: Sample) -> None:
    document = documents[sample.root.removeprefix("/")]
    schemas = document["components"]["schemas"]
    schema = schema_of(schemas, sample)
    assert schema["description"]
    assert {"apiVersion", "kind", "metadata", *sample.body} <= schema["properties"].keys()
    for reference in _references(schema):
        assert reference.removeprefix("#/components/schemas/") in schemas
    path = (
        f"{sample.root}/namespaces/{{namespace}}/{sample.plural}"
        if sample.namespaced
        else f"{sample.root}/{sample.plural}"
    )
    operations = document["paths"][path]
    assert any(
        operations[method].get("x-kubernetes-group-version-kind") == gvk(sample)
        for method in ("get", "post")
        if method in operations
    )


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [each for part in value.values() for each in _references(part)]
    return [each for part in value for each in _references(part)] if isinstance(value, list) else []


@pytest.mark.contract("W145", "W144", "W185")
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_second_version_has_what_old_clients_validate_with(swagger: Doc, sample: Sample) -> None:
    patch = operation(swagger, sample)
    assert MERGE in patch["consumes"]
    assert (STRATEGIC in patch["consumes"]) is not sample.custom
    names = {each.get("name") for each in patch["parameters"]}
    named = {
        swagger["parameters"][each["$ref"].rpartition("/")[2]]["name"] for each in patch["parameters"] if "$ref" in each
    }
    assert "dryRun" in names | named
    assert {"apiVersion", "kind", "metadata"} <= schema_of(swagger["definitions"], sample)["properties"].keys()


@pytest.mark.contract("W185")
def test_every_reference_of_the_second_version_resolves(swagger: Doc) -> None:
    assert swagger["swagger"] == "2.0"
    assert {*_references(swagger["definitions"])} <= {f"#/definitions/{name}" for name in swagger["definitions"]}


@pytest.mark.contract("W185", "W8", "W182")
def test_second_version_is_protobuf_for_those_who_ask(admin: Api) -> None:
    answer = admin.get("/openapi/v2", accept=GNOSTIC)
    assert answer.status_code == 200
    assert "protobuf" in answer.headers["Content-Type"]
    assert not answer.content.startswith((b"{", b"k8s\0"))
    assert b"2.0" in answer.content[:8]
    assert b"io.open-cluster-management.cluster.v1.ManagedCluster" in answer.content


@pytest.mark.contract("W185")
@pytest.mark.parametrize("accept", [JSON, "*/*", GNOSTIC])
def test_second_version_is_sent_once(admin: Api, accept: str) -> None:
    first = admin.http.get("/openapi/v2", headers={"Accept": accept})
    again = admin.http.get("/openapi/v2", headers={"Accept": accept, "If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.contract("W185")
def test_second_version_in_another_language_is_refused(admin: Api) -> None:
    assert admin.get("/openapi/v2", accept="application/xml").status_code == 406


@pytest.mark.contract("W8", "W185")
def test_third_version_is_addressed_by_its_hash(admin: Api) -> None:
    roots = admin.read("/openapi/v3")["paths"]
    assert not [key for key in roots if key.startswith("/")]
    url = roots["apis/cluster.open-cluster-management.io/v1"]["serverRelativeURL"]
    path, _, tag = url.partition("?hash=")
    assert path == "/openapi/v3/apis/cluster.open-cluster-management.io/v1"
    current = admin.http.get(f"{url}&timeout=32s", headers={"Accept": JSON})
    assert "immutable" in current.headers["Cache-Control"]
    stale = admin.http.get(f"{path}?hash={tag[::-1]}x", headers={"Accept": JSON})
    assert stale.status_code == 301
    assert tag in stale.headers["Location"]
    again = admin.http.get(url, headers={"Accept": JSON, "If-None-Match": current.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.contract("W8")
def test_groups_that_are_not_served_have_no_document(admin: Api) -> None:
    assert admin.get("/openapi/v3/apis/nosuch.example.com/v1").status_code == 404


@pytest.mark.contract("W8", "W179")
def test_lists_that_merge_say_so(documents: dict[str, Doc]) -> None:
    """Kubectl computes strategic patches from these marks."""
    text = json.dumps(documents["api/v1"])
    assert '"x-kubernetes-patch-strategy": "merge"' in text
    assert '"x-kubernetes-patch-merge-key": "uid"' in text


@pytest.mark.contract("W8")
def test_document_without_a_hash_is_served_as_well(admin: Api) -> None:
    doc = worked(admin.get("/openapi/v3/apis/cluster.open-cluster-management.io/v1"))
    assert doc["openapi"].startswith("3.")
