"""Bodies of typed clients, kind by kind (W1)."""

from __future__ import annotations

import base64

import pytest

from tests.conformance.wire.api import PROTOBUF, Api, Doc, refused, worked
from tests.conformance.wire.documents import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    NAMESPACE,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE_ACCOUNT,
    Sample,
)
from tests.conformance.wire.protobufs import MAGIC, envelope, labels, message, metadata

ACCEPT = f"{PROTOBUF},application/json"
RULE = message((1, "get"), (1, "list"), (2, ""), (3, "configmaps"), (4, "a"))
SUBJECT = message((1, "User"), (2, "rbac.authorization.k8s.io"), (3, "ana"), (4, ""))
REFERENCE = message((1, "rbac.authorization.k8s.io"), (2, "ClusterRole"), (3, "view"))
RULES = [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"]}]
BOUND: Doc = {"subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ana"}], "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}}  # fmt: skip
BODIES: list[tuple[Sample, list[tuple[int, bytes]], Doc]] = [
    (CONFIG_MAP, [(2, message((1, "a"), (2, "1"))), (3, message((1, "b"), (2, b"\0\xff")))], {"data": {"a": "1"}, "binaryData": {"b": "AP8="}}),
    (SECRET, [(2, message((1, "a"), (2, b"1"))), (3, b"Opaque"), (4, message((1, "b"), (2, "2")))], {"type": "Opaque", "data": {"a": "MQ==", "b": "Mg=="}}),
    (SERVICE_ACCOUNT, [(3, message((1, "pull")))], {"imagePullSecrets": [{"name": "pull"}]}),
    (NAMESPACE, [(2, b""), (3, message((1, "")))], {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}),
    (ROLE, [(2, RULE)], {"rules": RULES}),
    (CLUSTER_ROLE, [(2, RULE)], {"rules": RULES}),
    (ROLE_BINDING, [(2, SUBJECT), (3, REFERENCE)], BOUND),
    (CLUSTER_ROLE_BINDING, [(2, SUBJECT), (3, REFERENCE)], BOUND),
]  # fmt: skip


@pytest.mark.contract("W1", "W2", "W108", "W122")
@pytest.mark.parametrize(("sample", "fields", "expected"), BODIES, ids=lambda value: str(value)[:40])
def test_built_in_kind_is_created_from_protobuf(
    admin: Api, ns: str, name: str, sample: Sample, fields: list[tuple[int, bytes]], expected: Doc
) -> None:
    meta = metadata(name) + message(*labels(a="b"))
    body = envelope(sample.api_version, sample.kind, message((1, meta), *fields))
    answer = admin.ask("POST", sample.path(ns), body, kind=PROTOBUF, accept=ACCEPT)
    assert answer.status_code == 201, answer.text
    if sample.path(ns, name) not in admin.made:
        admin.made.append(sample.path(ns, name))
    made = admin.read(sample.path(ns, name))
    assert {part: made[part] for part in expected} == expected
    assert made["metadata"]["labels"]["a"] == "b"
    assert not {"generateName", "selfLink", "deletionTimestamp"} & made["metadata"].keys()
    assert made["metadata"]["creationTimestamp"] > "2020"


@pytest.mark.contract("W2")
@pytest.mark.parametrize("body", [b"", MAGIC], ids=["nothing", "the magic bytes alone"])
def test_empty_body_is_refused(admin: Api, ns: str, name: str, body: bytes) -> None:
    refused(admin.ask("POST", CONFIG_MAP.path(ns), body, kind=PROTOBUF), 400, "BadRequest", "empty")
    admin.create(CONFIG_MAP.path(ns), CONFIG_MAP.doc(name))
    refused(admin.ask("PUT", CONFIG_MAP.path(ns, name), body, kind=PROTOBUF), 400, "BadRequest", "empty")


@pytest.mark.contract("W1", "W2")
@pytest.mark.parametrize("sample", [CONFIG_MAP, SECRET, ROLE], ids=str)
def test_object_is_replaced_from_protobuf(admin: Api, ns: str, name: str, sample: Sample) -> None:
    made = admin.create(sample.path(ns), sample.doc(name))
    meta = metadata(
        name, namespace=ns, uid=made["metadata"]["uid"], resourceVersion=made["metadata"]["resourceVersion"]
    )
    body = envelope(sample.api_version, sample.kind, message((1, meta + message(*labels(new="yes")))))
    assert admin.ask("PUT", sample.path(ns, name), body, kind=PROTOBUF, accept=ACCEPT).status_code == 200
    after = admin.read(sample.path(ns, name))
    assert after["metadata"]["labels"] == {"new": "yes"}
    assert not after.get("data")


@pytest.mark.contract("W1", "W19")
@pytest.mark.parametrize(
    "body",
    [
        MAGIC,
        MAGIC + b"\xff",
        MAGIC + b"\x0a\x7f",
        b"k8s",
        b"garbage",
        envelope("v1", "ConfigMap", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
        envelope("v1", "ConfigMap", b"\x0a\x05ab"),
        envelope("v1", "Secret", b""),
        envelope("apps/v1", "Deployment", b""),
    ],
    ids=lambda value: value[:24].hex(),
)
def test_broken_protobuf_is_a_bad_request(admin: Api, ns: str, body: bytes) -> None:
    answer = admin.ask("POST", CONFIG_MAP.path(ns), body, kind=PROTOBUF, accept="application/json")
    assert answer.status_code in {400, 422}
    refused(answer, answer.status_code, "BadRequest" if answer.status_code == 400 else "Invalid")


@pytest.mark.contract("W108")
def test_unknown_fields_of_newer_clients_are_skipped(admin: Api, ns: str, name: str) -> None:
    data = (2, message((1, "a"), (2, "1"), (77, "new")))
    body = envelope("v1", "ConfigMap", message((1, metadata(name)), data, (99, "later"), (98, 5)))
    assert worked(admin.ask("POST", CONFIG_MAP.path(ns), body, kind=PROTOBUF), 201)["data"] == {"a": "1"}


@pytest.mark.contract("W106", "W1")
def test_token_is_asked_for_in_protobuf(admin: Api, ns: str) -> None:
    raw = message((1, metadata("")), (2, message((4, 3600))), (3, message((1, ""), (2, b""))))
    body = envelope("authentication.k8s.io/v1", "TokenRequest", raw)
    told = worked(admin.ask("POST", f"{SERVICE_ACCOUNT.path(ns, 'default')}/token", body, kind=PROTOBUF), 201)
    assert told["spec"]["expirationSeconds"] == 3600
    assert len(told["status"]["token"].split(".")) == 3
    payload = told["status"]["token"].split(".")[1]
    assert base64.urlsafe_b64decode(payload + "==")


@pytest.mark.contract("W148", "W1")
def test_a_client_asks_for_its_own_name_in_protobuf(admin: Api) -> None:
    body = envelope(
        "authentication.k8s.io/v1", "SelfSubjectReview", message((1, metadata("")), (2, message((1, message((1, ""))))))
    )
    told = worked(admin.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body, kind=PROTOBUF), 201)
    assert told["status"]["userInfo"]["username"]
