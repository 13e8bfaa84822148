"""Schemas of the core kinds: what clients send passes, what is wrong is named, `explain` has something to say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ocmconsole.core import protobuf_fields
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.formats.protobuf import Message
from tests.unit.kubeapi.test_schemafiles import FILES, schema_of

# Tables of protobuf by the file that describes the same kind.
TABLES: dict[str, Message] = {
    "events.v1": protobuf_fields.EVENT_CORE,
    "events.v1.events.k8s.io": protobuf_fields.EVENT,
    **{
        stem: table
        for name, table in vars(protobuf_fields).items()
        if not name.startswith(("_", "EVENT")) and isinstance(table, Message)
        if (stem := f"{name.replace('_', '').lower()}s.v1") in FILES
    },
}


def admitted(stem: str, doc: Doc) -> tuple[Doc, list[str], list[str]]:
    """The document as stored, its unknown fields, and what is wrong with it."""
    schema = schema_of(stem)
    pruned, unknown = schema.prune(doc)
    stored = schema.default(pruned)
    return stored, unknown, [str(cause) for cause in schema.validate(stored)]


def nodes(node: Any, path: str = "") -> Iterator[tuple[str, Doc]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from nodes(node[key], f"{path}[]")


@pytest.mark.contract("W145")
@pytest.mark.parametrize("stem", sorted(FILES))
def test_every_field_is_explained_in_a_sentence(stem: str) -> None:
    schema = schema_of(stem)
    assert schema.publish()["description"]
    for path, node in nodes(schema.root):
        if "properties" in node or (path and not path.endswith("[]")):
            assert node["description"].endswith("."), path


def fields_of(root: Doc, message: Message, path: str = "") -> Iterator[str]:
    """Fields that a protobuf body may have and the schema would drop."""
    for field in message.fields.values():
        node = root.get("properties", {}).get(field.name)
        if field.name == "metadata" and not path:
            continue
        if node is None:
            yield f"{path}.{field.name}"
        elif isinstance(field.type, Message):
            yield from fields_of(node.get("items", node), field.type, f"{path}.{field.name}")


@pytest.mark.contract("W1")
@pytest.mark.parametrize("stem", sorted(TABLES))
def test_the_schema_knows_every_field_of_the_protobuf_table(stem: str) -> None:
    assert list(fields_of(schema_of(stem).root, TABLES[stem])) == []


@pytest.mark.contract("W5")
def test_a_core_event_may_have_null_times() -> None:
    event = {
        "metadata": {"name": "c1.18", "namespace": "default"},
        "involvedObject": {"kind": "ManagedCluster", "name": "c1"},
        "reason": "Seen",
        "eventTime": None,
        "firstTimestamp": "2026-11-21T02:21:11Z",
        "lastTimestamp": None,
        "count": 1,
        "source": {},
    }
    stored, unknown, causes = admitted("events.v1", event)
    assert (unknown, causes) == ([], [])
    assert "eventTime" not in stored


@pytest.mark.contract("W28")
def test_an_event_of_the_new_group_needs_its_time() -> None:
    event = {"metadata": {"name": "e"}, "regarding": {"kind": "ManagedCluster"}, "note": "x" * 1025, "eventTime": None}
    assert admitted("events.v1.events.k8s.io", event)[2] == [
        "eventTime: Required value",
        "note: Too long: may not be more than 1024 bytes",
    ]
    event |= {"eventTime": "2026-11-21T02:21:11.000001Z", "note": "x"}
    assert admitted("events.v1.events.k8s.io", event)[2] == []


def test_a_secret_is_opaque_unless_it_says_otherwise() -> None:
    assert admitted("secrets.v1", {"data": {"a": "YQ=="}})[0]["type"] == "Opaque"
    assert admitted("secrets.v1", {"data": {"a": "?"}})[2] == [
        'data.a: Invalid value: "?": data.a in body must be of type byte: "?"'
    ]


def test_a_binding_names_its_role_and_its_subjects() -> None:
    stored, _, causes = admitted("rolebindings.v1", {"roleRef": {"kind": "Role", "name": "r"}})
    assert causes == []
    assert stored["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"
    assert admitted("clusterrolebindings.v1", {"subjects": [{}]})[2] == [
        "roleRef: Required value",
        "subjects[0].kind: Required value",
        "subjects[0].name: Required value",
    ]


def test_a_definition_of_a_kind_is_kept_as_it_is() -> None:
    spec = {"names": {"kind": "X"}, "versions": [{"schema": {"openAPIV3Schema": {"x": [1]}}}]}
    assert admitted("customresourcedefinitions.v1", {"spec": spec}) == ({"spec": spec}, [], [])


@pytest.mark.contract("W23")
def test_a_signing_request_needs_request_and_signer() -> None:
    assert admitted("certificatesigningrequests.v1", {"spec": {}})[2] == [
        "spec.request: Required value",
        "spec.signerName: Required value",
    ]
    approved = {"type": "Approved", "status": "True", "reason": "clusteradm Approve"}
    doc = {"spec": {"request": "YQ==", "signerName": "a/b"}, "status": {"conditions": [approved, approved]}}
    assert admitted("certificatesigningrequests.v1", doc)[2] == [
        'status.conditions[1]: Duplicate value: {"type":"Approved"}'
    ]


@pytest.mark.contract("W26")
def test_reviews_and_token_requests_have_room_for_question_and_answer() -> None:
    spec = {"nonResourceAttributes": {"path": "/", "verb": "get"}, "user": "u", "extra": {"scopes": ["a"]}}
    assert admitted("subjectaccessreviews.v1", {"spec": spec}) == ({"spec": spec}, [], [])
    assert admitted("selfsubjectaccessreviews.v1", {"spec": spec})[1] == ["spec.extra", "spec.user"]
    assert admitted("tokenrequests.v1", {"spec": {"audiences": None, "expirationSeconds": 3600}}) == (
        {"spec": {"expirationSeconds": 3600}},
        [],
        [],
    )
