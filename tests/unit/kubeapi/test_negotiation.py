"""Which form an answer takes, and what a body says."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import yaml
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.request import Request

from ocmconsole.core import protobuf_fields
from ocmconsole.kubeapi.errors import ApiError, BadRequest, NotAcceptable, RequestTooLarge, UnsupportedMediaType
from ocmconsole.kubeapi.formats import negotiation
from ocmconsole.kubeapi.formats.negotiation import ResponseForm, Shape, negotiate, read_body, read_patch
from ocmconsole.kubeapi.http.hooks import KubernetesNegotiation, PatchParser, StrategicPatchParser
from ocmconsole.kubeapi.http.views import ResourceView
from tests.unit.kubeapi.protobuf_encoder import encode

SHAPES: tuple[Shape, ...] = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
KUBECTL_GET = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
DISCOVERY = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"
META = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def patch_kind(content_type: str, *, custom: bool) -> str:
    classes = (each for each in ResourceView.parser_classes if issubclass(each, PatchParser))
    parsers = [each() for each in classes if not (custom and each is StrategicPatchParser)]
    found = KubernetesNegotiation().select_parser(
        Request(RequestFactory().generic("PATCH", "/", b"{}", content_type)), parsers
    )
    assert isinstance(found, PatchParser)
    return found.how


def protobuf_table(api_version: str, kind: str) -> Any:
    return protobuf_fields.CONFIG_MAP if kind == "ConfigMap" else None


# Answers


@pytest.mark.contract("W9", "W172", "W173")
@pytest.mark.parametrize(
    ("header", "answer"),
    [
        ("", ResponseForm()),
        ("*/*", ResponseForm()),
        ("application/*", ResponseForm()),
        ("application/json", ResponseForm()),
        ("application/json;charset=utf-8", ResponseForm()),
        ("Application/JSON", ResponseForm()),
        ("application/json, */*", ResponseForm()),
        ("application/vnd.kubernetes.protobuf,application/json", ResponseForm()),
        (BROWSER, ResponseForm()),
        (KUBECTL_GET, ResponseForm("json", "Table")),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", ResponseForm("json", "Table", "v1beta1")),
        ("application/yaml;as=Table;v=v1;g=meta.k8s.io", ResponseForm("yaml", "Table")),
        (META, ResponseForm("json", "PartialObjectMetadataList")),
        ("application/json ; as = Table ; v=v1; g=meta.k8s.io", ResponseForm("json", "Table")),
        ("application/json;as=Unknown;v=v1;g=meta.k8s.io,application/json", ResponseForm()),
        ("application/json;as=Table;v=v1;g=other.example.com,application/yaml", ResponseForm("yaml")),
        (DISCOVERY, ResponseForm()),
        ("application/yaml", ResponseForm("yaml")),
        ("application/json;q=0.1,application/yaml;q=0.9", ResponseForm("yaml")),
        ("application/json;q=0,application/yaml", ResponseForm("yaml")),
        ("application/json;q=lots", ResponseForm()),
        ("application/xml;q=1,application/json;q=0.1", ResponseForm()),
        (",,;;, application/json;,", ResponseForm()),
    ],
)
def test_the_best_form_that_fits_is_chosen(header: str, answer: ResponseForm) -> None:
    assert negotiate(header, want=SHAPES) == answer


@pytest.mark.contract("W6", "W164")
def test_discovery_is_aggregated_in_version_2_only() -> None:
    assert negotiate(DISCOVERY, want=("APIGroupDiscoveryList",)) == ResponseForm("json", "APIGroupDiscoveryList", "v2")
    only_beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
    assert negotiate(only_beta + ",application/json", want=("APIGroupDiscoveryList",)) == ResponseForm()
    with pytest.raises(NotAcceptable):
        negotiate(only_beta, want=("APIGroupDiscoveryList",))


@pytest.mark.contract("W172")
@pytest.mark.parametrize(
    "header",
    ["application/xml", "application/vnd.kubernetes.protobuf", "text/html", "application/json;as=Unknown", ";"],
)
def test_what_cannot_be_answered_is_not_acceptable(header: str) -> None:
    with pytest.raises(NotAcceptable) as refused:
        negotiate(header, want=SHAPES)
    assert refused.value.message == "only the following media types are accepted: application/json, application/yaml"


@given(st.text())
def test_json_is_never_refused_where_it_is_listed(rest: str) -> None:
    for header in (f"application/json,{rest}", f"{rest},application/json"):
        assert negotiate(header, want=SHAPES).media in {"json", "yaml"}


# Bodies


@pytest.mark.contract("W117")
@pytest.mark.parametrize(
    "content_type", ["", "application/json", "application/json; charset=utf-8", "APPLICATION/JSON"]
)
def test_a_body_without_content_type_is_json(content_type: str) -> None:
    assert read_body(b'{"kind":"X"}', content_type, protobuf=None) == ({"kind": "X"}, [])


@pytest.mark.contract("W171")
def test_a_body_may_be_yaml() -> None:
    raw = b"kind: X\nspec: {x: 1, x: 2}"
    assert read_body(raw, "application/yaml", protobuf=None) == ({"kind": "X", "spec": {"x": 2}}, [])
    assert read_body(raw, "application/yaml", protobuf=None, find_duplicates=True)[1] == ["spec.x"]


@pytest.mark.contract("W1")
def test_a_body_of_a_built_in_kind_may_be_protobuf() -> None:
    raw = encode({"metadata": {"name": "a"}, "data": {"k": "v"}}, protobuf_fields.CONFIG_MAP, "v1", "ConfigMap")
    doc = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    assert read_body(raw, "application/vnd.kubernetes.protobuf", protobuf=protobuf_table) == (doc, [])


@pytest.mark.contract("W2")
@pytest.mark.parametrize(
    ("content_type", "table"),
    [
        ("application/vnd.kubernetes.protobuf", None),
        ("application/vnd.kubernetes.protobuf", protobuf_table),
        ("application/cbor", protobuf_table),
        ("text/plain", protobuf_table),
        ("application/merge-patch+json", protobuf_table),
    ],
)
def test_other_encodings_are_415(content_type: str, table: Any) -> None:
    with pytest.raises(UnsupportedMediaType) as refused:
        read_body(encode({}, protobuf_fields.SECRET, "v1", "Secret"), content_type, protobuf=table)
    assert refused.value.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )


@pytest.mark.contract("W184")
def test_fields_given_twice_are_looked_for_when_asked() -> None:
    raw = b'{"spec":{"x":1,"x":2}}'
    assert read_body(raw, "", protobuf=None, find_duplicates=True) == ({"spec": {"x": 2}}, ["spec.x"])
    assert read_body(raw, "", protobuf=None) == ({"spec": {"x": 2}}, [])


@pytest.mark.contract("W174")
def test_a_body_above_3_mebibytes_is_413() -> None:
    raw = b'{"a":"' + b"x" * (3 * 1024 * 1024 - 8) + b'"}'
    assert read_body(raw, "", protobuf=None)
    for read in (lambda: read_body(raw + b" ", "", protobuf=None), lambda: read_patch(raw + b" ", "merge")):
        with pytest.raises(RequestTooLarge, match="Request entity too large: limit is 3145728"):
            read()


@pytest.mark.parametrize(
    ("raw", "content_type", "text"),
    [
        (b"", "", "json parse error: unexpected end of JSON input"),
        (b"{", "", "json parse error: "),
        (b"[]", "", "json parse error: json: cannot unmarshal array into Go value of type map"),
        (b'"a"', "", "cannot unmarshal string into Go value"),
        (b"null", "", "cannot unmarshal null into Go value"),
        (b"", "application/yaml", "cannot unmarshal null into Go value"),
        (b"a: [", "application/yaml", "error converting YAML to JSON: "),
        (b"hello", "application/vnd.kubernetes.protobuf", "does not begin with the bytes 6b 38 73 00"),
    ],
)
def test_a_body_that_is_no_object_is_a_bad_request(raw: bytes, content_type: str, text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_body(raw, content_type, protobuf=protobuf_table)
    assert text in refused.value.message


def test_the_refusal_names_the_expected_kind() -> None:
    with pytest.raises(BadRequest) as refused:
        read_body(b"", "", protobuf=None, expected="ManagedCluster")
    assert refused.value.message == (
        "the object provided is unrecognized (must be of type ManagedCluster): couldn't get version/kind; "
        "json parse error: unexpected end of JSON input"
    )


@given(st.binary(), st.sampled_from(["", "application/yaml", "application/vnd.kubernetes.protobuf"]))
def test_no_body_crashes(raw: bytes, content_type: str) -> None:
    code = 200
    try:
        doc, _ = read_body(raw, content_type, protobuf=lambda *_: protobuf_fields.CONFIG_MAP, find_duplicates=True)
        negotiation.dump(doc, "json")
    except ApiError as refused:
        code = refused.code
    assert code in {200, 400, 422}


# Patches


@pytest.mark.contract("W4")
@pytest.mark.parametrize("custom", [True, False])
def test_a_patch_is_known_by_its_content_type(custom: bool) -> None:
    assert patch_kind("application/json-patch+json", custom=custom) == "json"
    assert patch_kind("application/merge-patch+json; charset=utf-8", custom=custom) == "merge"
    assert patch_kind("application/apply-patch+yaml", custom=custom) == "apply"
    for other in ("", "application/json", "application/yaml", "application/apply-patch+cbor"):
        with pytest.raises(UnsupportedMediaType):
            patch_kind(other, custom=custom)


@pytest.mark.contract("W4", "W134")
def test_strategic_patches_are_for_built_in_kinds() -> None:
    strategic = "application/strategic-merge-patch+json"
    assert patch_kind(strategic, custom=False) == "strategic"
    with pytest.raises(UnsupportedMediaType) as refused:
        patch_kind(strategic, custom=True)
    assert refused.value.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )
    with pytest.raises(UnsupportedMediaType, match="application/strategic-merge-patch"):
        patch_kind("text/plain", custom=False)


def test_an_apply_patch_is_yaml_or_json_text() -> None:
    assert read_patch(b"kind: X\nspec: {x: 1}", "apply") == ({"kind": "X", "spec": {"x": 1}}, [])
    assert read_patch(b' {"spec": {"x": 1, "x": "\\/"}}', "apply") == ({"spec": {"x": "/"}}, ["spec.x"])
    assert read_patch(b"{kind: X}", "apply") == ({"kind": "X"}, [])


def test_other_patches_are_json() -> None:
    assert read_patch(b'[{"op":"test"}]', "json") == ([{"op": "test"}], [])
    with pytest.raises(BadRequest, match="error decoding patch: json parse error"):
        read_patch(b"a: b", "merge")
    with pytest.raises(BadRequest, match="error decoding patch: "):
        read_patch(b"", "merge")


# Out again


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.text("ab:1- \n'\"") | st.integers(0, 9)))
def test_what_is_dumped_can_be_read(doc: dict[str, Any]) -> None:
    assert orjson.loads(negotiation.dump(doc, "json")) == doc
    assert yaml.safe_load(negotiation.dump(doc, "yaml")) == doc


@pytest.mark.contract("W171")
def test_yaml_has_no_anchors_and_quotes_what_looks_like_something_else() -> None:
    shared = {"a": ["é"]}
    text = negotiation.dump(
        {"b": shared, "a": shared, "t": "2026-11-21T02:21:11Z", "v": "yes", "n": "1"}, "yaml"
    ).decode()
    assert text == ("a:\n  a:\n  - é\nb:\n  a:\n  - é\nn: '1'\nt: '2026-11-21T02:21:11Z'\nv: 'yes'\n")
