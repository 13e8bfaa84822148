"""Media types in and out, sizes, headers, methods."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import yaml

from tests.conformance.wire.api import JSON, PARTIAL, PARTIAL_LIST, PROTOBUF, TABLE, Api, refused, worked
from tests.conformance.wire.conftest import Made
from tests.conformance.wire.documents import CLUSTERS, CONFIG_MAP, FORMS, MANAGED_CLUSTER, WORK, Sample
from tests.conformance.wire.protobufs import envelope, message

YAML = "application/yaml"
CUSTOM_PATCHES = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"


@pytest.mark.contract("W1", "W172")
@pytest.mark.parametrize(
    "accept",
    [
        JSON,
        "*/*",
        "",
        "application/*",
        f"{PROTOBUF},{JSON}",
        "application/json, */*",
        "application/json;q=0.5",
        "application/xml,application/json;q=0.1",
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "application/json;as=Unknown;v=v1;g=meta.k8s.io,application/json",
        "application/cbor,application/json",
    ],
)  # fmt: skip
def test_one_who_also_takes_json_gets_json(admin: Api, accept: str) -> None:
    answer = admin.get(CLUSTERS, accept=accept)
    assert answer.status_code == 200
    if PROTOBUF not in accept and "cbor" not in accept:  # who asks for these may get them elsewhere
        assert answer.headers["Content-Type"].startswith(JSON)
        assert answer.json()["kind"] == "ManagedClusterList"


@pytest.mark.contract("W172")
@pytest.mark.parametrize("accept", ["application/xml", "text/plain", "image/png"])
def test_one_who_takes_nothing_we_have_is_refused(admin: Api, accept: str) -> None:
    said = refused(admin.get(CLUSTERS, accept=accept), 406, "NotAcceptable")
    assert "only the following media types are accepted: application/json, application/yaml" in said["message"]


@pytest.mark.contract("W171")
@pytest.mark.parametrize("sample", [CONFIG_MAP, WORK], ids=str)
def test_yaml_goes_in_and_out(admin: Api, ns: str, name: str, sample: Sample) -> None:
    body = yaml.safe_dump(sample.doc(name)).encode()
    answer = admin.ask("POST", sample.path(ns), body, kind=YAML)
    assert worked(answer, 201)["metadata"]["name"] == name
    shown = admin.get(sample.path(ns, name), accept=YAML)
    assert shown.headers["Content-Type"].startswith(YAML)
    assert yaml.safe_load(shown.text)["metadata"]["name"] == name


@pytest.mark.contract("W4", "W134")
def test_strategic_patch_is_not_for_custom_kinds(admin: Api, ns: str, name: str, made: Made) -> None:
    made(WORK)
    answer = admin.patch(WORK.path(ns, name), "strategic", {})
    refused(answer, 415, "UnsupportedMediaType", "the body of the request was in an unknown format", CUSTOM_PATCHES)


@pytest.mark.contract("W4")
@pytest.mark.parametrize("kind", [None, JSON, YAML, "text/plain", "application/cbor"])
def test_patch_says_what_it_is(admin: Api, ns: str, name: str, made: Made, kind: str | None) -> None:
    made(WORK)
    answer = admin.ask("PATCH", WORK.path(ns, name), {}, kind=kind)
    refused(answer, 415, "UnsupportedMediaType", "the body of the request was in an unknown format", CUSTOM_PATCHES)


@pytest.mark.contract("W2", "W3")
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml"])
def test_body_of_another_kind_is_refused(admin: Api, ns: str, name: str, kind: str) -> None:
    answer = admin.ask("POST", CONFIG_MAP.path(ns), CONFIG_MAP.doc(name), kind=kind)
    refused(answer, 415, "UnsupportedMediaType", "the body of the request was in an unknown format")


@pytest.mark.contract("W3")
def test_protobuf_is_not_for_custom_kinds(admin: Api, name: str) -> None:
    body = envelope(MANAGED_CLUSTER.api_version, MANAGED_CLUSTER.kind, message())
    try:
        answer = admin.ask("POST", CLUSTERS, body, kind=PROTOBUF)
    except httpx.RemoteProtocolError:
        return  # a kube-apiserver 1.36 panics, and closes the connection
    refused(answer, 415, "UnsupportedMediaType")


@pytest.mark.contract("W19", "W1")
@pytest.mark.parametrize("body", [b"{", b"[]", b"1", b'{"kind":', b"\xff\xfe", b'"text"'])
def test_broken_body_is_a_bad_request(admin: Api, ns: str, body: bytes) -> None:
    refused(admin.ask("POST", CONFIG_MAP.path(ns), body), 400, "BadRequest")


@pytest.mark.contract("W19")
@pytest.mark.parametrize("body", [b"", b"null", b"{}"])
def test_body_of_nothing_is_refused(admin: Api, ns: str, body: bytes) -> None:
    """As unreadable, or as an object without a name."""
    answer = admin.ask("POST", CONFIG_MAP.path(ns), body)
    assert (answer.status_code, answer.json()["reason"]) in {(400, "BadRequest"), (422, "Invalid")}


@pytest.mark.contract("W174")
def test_body_has_a_limit(admin: Api, ns: str, name: str) -> None:
    doc = CONFIG_MAP.doc(name) | {"data": {"a": "x" * (4 << 20)}}
    refused(admin.post(CONFIG_MAP.path(ns), doc), 413, "RequestEntityTooLarge", "limit is 3145728")


@pytest.mark.contract("W174")
def test_annotations_have_a_limit(admin: Api, ns: str, name: str) -> None:
    for sample in (CONFIG_MAP, WORK):
        doc = sample.doc(name, annotations={"a": "x" * (262144 - 1)})
        worked(admin.post(sample.path(ns), doc), 201)
        doc = sample.doc(f"{name}-2", annotations={"a": "x" * 262144})
        refused(
            admin.post(sample.path(ns), doc),
            422,
            "Invalid",
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        )


@pytest.mark.contract("W173", "W9")
@pytest.mark.parametrize("sample", FORMS, ids=str)
def test_metadata_can_be_had_alone(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    made(sample)
    one = admin.read(sample.path(ns, name), accept=f"{PARTIAL},{JSON}")
    assert (one["kind"], one["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert one.keys() == {"kind", "apiVersion", "metadata"}
    assert one["metadata"]["name"] == name
    many = admin.read(sample.path(ns), accept=f"{PARTIAL_LIST},{JSON}", fieldSelector=f"metadata.name={name}")
    assert (many["kind"], many["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert [each["metadata"]["name"] for each in many["items"]] == [name]
    assert int(many["metadata"]["resourceVersion"]) > 0


@pytest.mark.contract("W183")
@pytest.mark.parametrize(
    ("method", "path"),
    [("OPTIONS", CLUSTERS), ("PUT", CLUSTERS), ("PATCH", CLUSTERS), ("POST", f"{CLUSTERS}/nobody/status"), ("DELETE", f"{CLUSTERS}/nobody/status"), ("DELETE", "/api/v1/namespaces")],
)  # fmt: skip
def test_method_that_is_not_there_is_refused(admin: Api, method: str, path: str) -> None:
    answer = admin.ask(method, path, {"kind": "ManagedCluster"} if method in {"PUT", "PATCH", "POST"} else None)
    assert answer.status_code in {400, 404, 405, 415}
    refused(answer, answer.status_code, answer.json()["reason"])


@pytest.mark.contract("W183")
def test_head_is_a_get_without_a_body_or_no_method(admin: Api, cluster: Any, name: str) -> None:
    """HEAD is answered by this hub and refused by a kube-apiserver (docs/guide/differences.md)."""
    answer = admin.ask("HEAD", f"{CLUSTERS}/{name}")
    assert answer.status_code in {200, 405}
    assert answer.content == b""


@pytest.mark.contract("W30", "W165")
def test_large_answers_are_compressed_for_those_who_ask(admin: Api, ns: str, name: str) -> None:
    admin.create(CONFIG_MAP.path(ns), CONFIG_MAP.doc(name) | {"data": {"a": "x" * (200 << 10)}})
    path = CONFIG_MAP.path(ns, name)
    zipped = admin.http.get(path, headers={"Accept-Encoding": "gzip"})
    assert zipped.headers.get("Content-Encoding") == "gzip"
    assert len(zipped.json()["data"]["a"]) == 200 << 10
    plain = admin.http.get(path, headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    small = admin.http.get("/version", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in small.headers


@pytest.mark.contract("W6")
@pytest.mark.parametrize("path", [CLUSTERS, "/apis", "/version"])
def test_unknown_parameters_are_no_fault(admin: Api, path: str) -> None:
    worked(admin.get(path, timeout="32s", nothing="x"))


@pytest.mark.contract("W30", "W19")
def test_answers_are_not_kept_by_caches(admin: Api) -> None:
    assert "no-cache" in admin.get(CLUSTERS).headers["Cache-Control"]
    missing = admin.get(f"{CLUSTERS}/nobody")
    assert "no-cache" in missing.headers["Cache-Control"]


@pytest.mark.contract("W172")
def test_pretty_is_for_eyes(admin: Api) -> None:
    pretty = admin.get("/api/v1/namespaces/default", pretty="true").text
    plain = admin.get("/api/v1/namespaces/default").text
    assert "\n  " in pretty
    assert "\n  " not in plain
    assert json.loads(pretty) == json.loads(plain)


@pytest.mark.contract("W3")
def test_document_of_another_version_is_refused(admin: Api, name: str) -> None:
    doc = MANAGED_CLUSTER.doc(name) | {"apiVersion": "v1"}
    text = "the API version in the data (v1) does not match the expected API version (cluster.open-cluster-management.io/v1)"
    refused(admin.post(CLUSTERS, doc), 400, "BadRequest", text)


@pytest.mark.contract("W161")
def test_one_who_comes_too_often_reads_when_to_come_again(admin: Api) -> None:
    """Many at once are served, or sent away with the header without which Go's clients do not try again."""
    with ThreadPoolExecutor(12) as pool:
        answers = [*pool.map(lambda _: admin.get(CLUSTERS, limit=1), range(60))]
    for answer in answers:
        if answer.status_code != 200:
            said = refused(answer, 429, "TooManyRequests")
            assert int(answer.headers["Retry-After"]) >= 1
            assert said["details"]["retryAfterSeconds"] >= 1


REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
QUESTION = {"spec": {"resourceAttributes": {"verb": "get", "resource": "secrets"}}}


@pytest.mark.contract("W118", "W9")
def test_review_is_no_table(admin: Api, ns: str) -> None:
    """Nor is a token; who also takes JSON gets that."""
    token = f"/api/v1/namespaces/{ns}/serviceaccounts/default/token"
    for path, body in ((REVIEW, QUESTION), (token, {"spec": {}})):
        alone = TABLE.split(",", maxsplit=1)[0]
        refused(admin.ask("POST", path, body, accept=alone), 406, "NotAcceptable", "only the following media types")
        assert worked(admin.ask("POST", path, body, accept=TABLE), 201)["status"]


@pytest.mark.contract("W142")
def test_review_minds_its_options(admin: Api) -> None:
    refused(admin.post(REVIEW, QUESTION, dryRun=""), 422, "Invalid", 'CreateOptions.meta.k8s.io "" is invalid: dryRun')
    assert worked(admin.post(REVIEW, QUESTION, dryRun="All"), 201)["status"]["allowed"] is True
