"""OpenAPI documents: what kubectl looks for in them, in both versions and both encodings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.kinds import Kind, Served, Subresource, Version
from ocmconsole.kubeapi.publish.openapi import Publication
from ocmconsole.kubeapi.schema.compiled_schema import OBJECT_META, OBJECT_META_NAME, Schema
from ocmconsole.kubeapi.virtual_resources import Endpoint

GROUP = "cluster.example.io"
CUSTOM = "io.example.cluster.v1.ManagedCluster"
BUILT_IN = "io.k8s.api.core.v1.ServiceAccount"
GVK = "x-kubernetes-group-version-kind"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"


def kind(name: str, plural: str, group: str, definition: str, root: Doc, **options: Any) -> Served:
    version = Version(group, "v1", Schema(root, name=definition))
    return Served(Kind(name, plural, versions=(version,), model=cast("Any", None), **options), version)


SPEC = {
    "type": "object",
    "description": "What is wanted.",
    "properties": {
        "taints": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["key", "timeAdded"],
                "properties": {
                    "key": {"type": "string"},
                    "timeAdded": {"type": "string", "format": "date-time", "nullable": True},
                },
            },
        },
        "share": {"x-kubernetes-int-or-string": True},
        "renewed": {"type": "string", "format": "micro-time"},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
CLUSTER = kind(
    "ManagedCluster",
    "managedclusters",
    GROUP,
    CUSTOM,
    {"type": "object", "description": "A cluster.", "properties": {"spec": SPEC}},
    namespaced=False,
    subresources=(Subresource("status"),),
    custom=True,
)
NAMES = {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}
ACCOUNT = kind(
    "ServiceAccount",
    "serviceaccounts",
    "",
    BUILT_IN,
    {"type": "object", "properties": {"secrets": NAMES, "nested": {"type": "object", "properties": {"names": NAMES}}}},
    namespaced=True,
    subresources=(Subresource("token", ("create",), "authentication.k8s.io", "v1", "TokenRequest"),),
    merge_keys={"secrets": "name", "nested.names": "", "metadata.finalizers": "", "elsewhere.x": "y"},
)


def unanswered(actor: Actor, namespace: str, name: str, doc: Doc) -> Doc:
    raise AssertionError("only described here")


REVIEW = Endpoint("authorization.k8s.io", "v1", "accessreviews", "AccessReview", False, ("create",), unanswered)
BOTH = Publication([CLUSTER, ACCOUNT], [REVIEW])


def v3(path: str) -> Doc:
    document = BOTH.v3_group(path)
    assert document is not None
    found: Doc = json.loads(document.body)
    return found


def refs(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for item in node.values():
            yield from refs(item)
    elif isinstance(node, list):
        for item in node:
            yield from refs(item)


@pytest.mark.contract("W8", "W185")
def test_the_root_points_to_every_group_version_by_its_hash() -> None:
    root = json.loads(BOTH.v3_root.body)["paths"]
    assert list(root) == ["api/v1", "apis/authorization.k8s.io/v1", f"apis/{GROUP}/v1"]
    for path, entry in root.items():
        document = BOTH.v3_group(path)
        assert document is not None
        assert entry == {"serverRelativeURL": f"/openapi/v3/{path}?hash={document.etag}"}
        assert len(document.etag) == 128
    assert BOTH.v3_group("apis/apps/v1") is None


@pytest.mark.contract("W8")
def test_documents_are_made_once_and_are_the_same_every_time() -> None:
    assert BOTH.v2_json is BOTH.v2_json
    assert Publication([CLUSTER, ACCOUNT], [REVIEW]).v2_json.etag == BOTH.v2_json.etag


@pytest.mark.contract("W8")
@pytest.mark.parametrize(
    ("path", "item", "strategic"),
    [
        (f"apis/{GROUP}/v1", f"/apis/{GROUP}/v1/managedclusters/{{name}}", False),
        ("api/v1", "/api/v1/namespaces/{namespace}/serviceaccounts/{name}", True),
    ],
)
def test_strategic_merge_is_offered_by_built_in_kinds_only(path: str, item: str, strategic: bool) -> None:
    patch = v3(path)["paths"][item]["patch"]
    content = patch["requestBody"]["content"]
    assert {"application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"} <= set(
        content
    )
    assert ("application/strategic-merge-patch+json" in content) is strategic
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"] if parameter["in"] == "query"]
    assert isinstance(patch[GVK], dict)


@pytest.mark.contract("W8")
def test_built_in_lists_say_how_they_merge() -> None:
    schemas = v3("api/v1")["components"]["schemas"]
    account = schemas[BUILT_IN]["properties"]
    assert account["secrets"]["x-kubernetes-patch-strategy"] == "merge"
    assert account["secrets"]["x-kubernetes-patch-merge-key"] == "name"
    assert account["nested"]["properties"]["names"]["x-kubernetes-patch-strategy"] == "merge"
    meta = schemas[OBJECT_META_NAME]["properties"]
    assert meta["finalizers"]["x-kubernetes-patch-strategy"] == "merge"
    assert meta["ownerReferences"]["x-kubernetes-patch-merge-key"] == "uid"
    assert {"labels", "annotations"} <= set(meta)


def test_publishing_leaves_the_schema_that_validates_alone() -> None:
    assert "x-kubernetes-patch-strategy" not in ACCOUNT.version.schema.root["properties"]["secrets"]
    assert GVK not in OBJECT_META


@pytest.mark.contract("W8", "W145")
def test_explain_finds_the_kind_and_its_fields() -> None:
    document = v3(f"apis/{GROUP}/v1")
    definition = document["components"]["schemas"][CUSTOM]
    assert definition[GVK] == [{"group": GROUP, "version": "v1", "kind": "ManagedCluster"}]
    assert definition["properties"]["spec"]["properties"]["renewed"]["format"] == "date-time"
    assert document["paths"][f"/apis/{GROUP}/v1/managedclusters"]["get"][GVK]["kind"] == "ManagedCluster"
    assert set(document["paths"][f"/apis/{GROUP}/v1/managedclusters/{{name}}/status"]) == {"get", "patch", "put"}


@pytest.mark.parametrize("path", ["api/v1", f"apis/{GROUP}/v1", "apis/authorization.k8s.io/v1"])
def test_every_reference_of_a_v3_document_is_in_it(path: str) -> None:
    document = v3(path)
    names = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(refs(document)) <= names


@pytest.mark.parametrize("path", ["api/v1", f"apis/{GROUP}/v1", "apis/authorization.k8s.io/v1"])
def test_operations_have_names_of_their_own(path: str) -> None:
    ids = [operation["operationId"] for item in v3(path)["paths"].values() for operation in item.values()]
    assert len(ids) == len(set(ids))


@pytest.mark.contract("W185")
def test_every_reference_of_the_v2_document_is_in_it() -> None:
    document = json.loads(BOTH.v2_json.body)
    assert document["swagger"] == "2.0"
    assert set(refs(document)) <= {f"#/definitions/{name}" for name in document["definitions"]}


@pytest.mark.contract("W185")
def test_v2_leaves_out_what_its_readers_stumble_over() -> None:
    document = json.loads(BOTH.v2_json.body)
    spec = document["definitions"][CUSTOM]["properties"]["spec"]["properties"]
    taint = spec["taints"]["items"]
    assert "type" not in taint["properties"]["timeAdded"]
    assert taint["required"] == ["key"]
    assert "type" not in spec["open"]
    assert (spec["share"]["type"], spec["share"]["format"]) == ("string", "int-or-string")
    assert document["definitions"][CUSTOM]["properties"]["metadata"]["$ref"] == f"#/definitions/{OBJECT_META_NAME}"


@pytest.mark.contract("W185")
def test_the_protobuf_form_says_what_the_json_form_says() -> None:
    document = json.loads(BOTH.v2_json.body)
    raw = fields(BOTH.v2_protobuf.body)
    assert raw[1] == [b"2.0"]
    paths = named(fields(raw[8][0])[2])
    assert list(paths) == list(document["paths"])
    patch = fields(fields(paths[f"/apis/{GROUP}/v1/managedclusters/{{name}}"])[8][0])
    written = document["paths"][f"/apis/{GROUP}/v1/managedclusters/{{name}}"]["patch"]
    assert [text.decode() for text in patch[7]] == written["consumes"]
    extensions = named(patch[13])
    assert json.loads(fields(extensions[GVK])[2][0]) == written[GVK]
    queries = [fields(fields(fields(fields(parameter)[1][0])[2][0])[3][0]) for parameter in patch[8]]
    assert {(query[2][0], query[4][0]) for query in queries} >= {(b"query", b"dryRun"), (b"query", b"fieldValidation")}
    definitions = named(fields(raw[9][0])[1])
    assert list(definitions) == list(document["definitions"])
    for name, message in definitions.items():
        same_schema(message, document["definitions"][name])


def same_schema(message: bytes, node: Doc) -> None:
    """The fields of a gnostic Schema against its JSON form, all the way down."""
    found = fields(message)
    for number, key in ((1, "$ref"), (2, "format"), (4, "description")):
        assert [text.decode() for text in found.get(number, [])] == ([node[key]] if key in node else [])
    assert [text.decode() for text in found.get(19, [])] == node.get("required", [])
    assert [fields(item)[1][0].decode() for item in found.get(22, [])] == ([node["type"]] if "type" in node else [])
    extensions = {name: json.loads(fields(item)[2][0]) for name, item in named(found.get(31, [])).items()}
    assert extensions == {key: value for key, value in node.items() if key.startswith("x-")}
    if "items" in node:
        same_schema(fields(found[23][0])[1][0], node["items"])
    if "additionalProperties" in node:
        same_schema(fields(found[21][0])[1][0], node["additionalProperties"])
    properties = named(fields(found[25][0])[1]) if 25 in found else {}
    assert list(properties) == list(node.get("properties", {}))
    for name, sub in properties.items():
        same_schema(sub, node["properties"][name])


def named(messages: list[bytes]) -> dict[str, bytes]:
    pairs = [fields(message) for message in messages]
    return {pair[1][0].decode(): pair[2][0] for pair in pairs}


def fields(message: bytes) -> dict[int, list[bytes]]:
    """A protobuf message of length-delimited fields only."""
    found: dict[int, list[bytes]] = {}
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        assert tag & 7 == 2
        size, at = varint(message, at)
        found.setdefault(tag >> 3, []).append(message[at : at + size])
        at += size
    assert at == len(message)
    return found


def varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
