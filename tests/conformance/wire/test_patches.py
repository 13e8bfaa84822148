"""Merge patches, JSON patches, strategic patches (W4, W135, W179)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.wire.api import Api, Doc, refused, version, worked
from tests.conformance.wire.conftest import Made
from tests.conformance.wire.documents import (
    BUILT_IN,
    CLUSTER_ROLE,
    CONFIG_MAP,
    CUSTOM,
    NAMESPACE,
    REQUEST,
    REQUESTS,
    SAMPLES,
    SERVICE_ACCOUNT,
    WORK,
    Sample,
)
from tests.conformance.wire.identities import approve

UNFIT = "the server rejected our request due to an error in our request"
START: Doc = {"a": "1", "b": "2"}


# ---------------------------------------------------------------------------------------------------------------- merge


@pytest.mark.contract("W4", "W133")
@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({}, START),
        ({"data": {}}, START),
        ({"data": {"c": "3"}}, {**START, "c": "3"}),
        ({"data": {"a": None}}, {"b": "2"}),
        ({"data": {"nothing": None}}, START),
        ({"data": {"a": "9"}}, {"a": "9", "b": "2"}),
        ({"data": None}, None),
        ({"data": {"a": "9", "b": None, "c": "3"}}, {"a": "9", "c": "3"}),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("how", ["merge", "strategic"])
def test_merge_removes_nulls_and_keeps_the_rest(
    admin: Api, ns: str, name: str, how: str, patch: Doc, expected: Doc | None
) -> None:
    """For maps a strategic patch means the same."""
    made = admin.create(CONFIG_MAP.path(ns), {"metadata": {"name": name}, "data": START})
    patched = worked(admin.patch(CONFIG_MAP.path(ns, name), how, patch))
    assert patched.get("data") == expected
    assert (version(patched) == version(made)) is (expected == START)


@pytest.mark.contract("W15")
def test_merge_replaces_lists(admin: Api, ns: str, name: str, made: Made) -> None:
    made(WORK, finalizers=["example.com/a", "example.com/b"])
    path = WORK.path(ns, name)
    assert admin.merge(path, {"metadata": {"finalizers": ["example.com/c"]}})["metadata"]["finalizers"] == [
        "example.com/c"
    ]
    admin.merge(path, {"metadata": {"finalizers": None}})


@pytest.mark.contract("W4", "W19")
@pytest.mark.parametrize(
    ("how", "body"),
    [("merge", []), ("merge", "text"), ("merge", 1), ("merge", b"{"), ("merge", b""), ("json", {}), ("json", b"["), ("json", [1]),
     ("json", [{"op": "fly", "path": "/data"}]), ("json", [{"op": "add", "path": "data", "value": 1}]), ("strategic", []), ("strategic", b"{")],
    ids=str,
)  # fmt: skip
def test_patch_of_the_wrong_form_is_refused(admin: Api, ns: str, name: str, made: Made, how: str, body: Any) -> None:
    made(CONFIG_MAP)
    answer = admin.patch(CONFIG_MAP.path(ns, name), how, body)
    assert answer.status_code in {400, 422}
    refused(answer, answer.status_code, "BadRequest" if answer.status_code == 400 else "Invalid")


@pytest.mark.contract("W15", "W114")
@pytest.mark.parametrize("sample", [*CUSTOM, CONFIG_MAP], ids=str)
def test_version_in_a_patch_is_a_lock(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    """The OCM patcher sends uid and version with everything."""
    doc = made(sample)
    path = sample.path(ns, name)
    old = {part: doc["metadata"][part] for part in ("uid", "resourceVersion")}
    patched = admin.merge(path, {"metadata": {**old, "labels": {"example.com/a": "1"}}})
    assert version(patched) > version(doc)
    text = f'Operation cannot be fulfilled on {sample.qualified} "{name}": the object has been modified; please apply your changes to the latest version and try again'
    refused(admin.patch(path, "merge", {"metadata": {**old, "labels": {"example.com/a": "2"}}}), 409, "Conflict", text)


@pytest.mark.contract("W15")
@pytest.mark.parametrize("sample", [CONFIG_MAP, WORK], ids=str)
def test_uid_in_a_patch_must_be_right(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    """A kube-apiserver does not call it a conflict (409), but an immutable field (422)."""
    made(sample)
    said = refused(
        admin.patch(sample.path(ns, name), "merge", {"metadata": {"uid": "zz"}}),
        422,
        "Invalid",
        "metadata.uid: Invalid value",
        "field is immutable",
    )
    assert said["details"]["causes"][0]["field"] == "metadata.uid"


@pytest.mark.contract("W15")
@pytest.mark.parametrize("sample", [CONFIG_MAP, WORK], ids=str)
def test_name_stays(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    made(sample)
    for patch in ({"metadata": {"name": "other"}}, {"metadata": {"namespace": "other"}}):
        answer = admin.patch(sample.path(ns, name), "merge", patch)
        assert answer.status_code in {400, 422}, answer.text
    assert admin.read(sample.path(ns, name))["metadata"]["name"] == name


@pytest.mark.contract("W19")
def test_patch_of_what_is_not_there_is_not_found(admin: Api, ns: str, name: str) -> None:
    for sample in SAMPLES:
        refused(admin.patch(sample.path(ns, name), "merge", {}), 404, "NotFound")


@pytest.mark.contract("W19", "W8")
def test_wrong_type_after_a_patch_is_invalid(admin: Api, ns: str, name: str, made: Made) -> None:
    made(WORK)
    answer = admin.patch(WORK.path(ns, name), "merge", {"spec": {"workload": "text"}})
    refused(answer, 422, "Invalid", "spec.workload: Invalid value", "must be of type object")


# ----------------------------------------------------------------------------------------------------------- JSON patch


@pytest.mark.contract("W4", "W133")
@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/data/c", "value": "3"}], {**START, "c": "3"}),
        ([{"op": "add", "path": "/data/a", "value": "9"}], {"a": "9", "b": "2"}),
        ([{"op": "replace", "path": "/data/a", "value": "9"}], {"a": "9", "b": "2"}),
        ([{"op": "remove", "path": "/data/a"}], {"b": "2"}),
        ([{"op": "copy", "from": "/data/a", "path": "/data/c"}], {**START, "c": "1"}),
        ([{"op": "move", "from": "/data/a", "path": "/data/c"}], {"b": "2", "c": "1"}),
        ([{"op": "test", "path": "/data/a", "value": "1"}, {"op": "remove", "path": "/data/a"}], {"b": "2"}),
        ([{"op": "add", "path": "/data/a.b~1c", "value": "x"}], None),
        ([], START),
    ],
    ids=str,
)  # fmt: skip
def test_operations_are_carried_out_in_order(
    admin: Api, ns: str, name: str, operations: list[Doc], expected: Doc | None
) -> None:
    admin.create(CONFIG_MAP.path(ns), {"metadata": {"name": name}, "data": START})
    answer = admin.patch(CONFIG_MAP.path(ns, name), "json", operations)
    if expected is None:
        refused(answer, 422, "Invalid")  # `/` is in the key, which no key of a ConfigMap may have
    else:
        assert worked(answer)["data"] == expected


@pytest.mark.contract("W4", "W135")
@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "test", "path": "/data/a", "value": "other"}],
        [{"op": "test", "path": "/data/zz", "value": "1"}],
        [{"op": "remove", "path": "/data/zz"}],
        [{"op": "add", "path": "/zz/zz/zz", "value": "1"}],
        [{"op": "replace", "path": "/zz/zz", "value": "1"}],
        [{"op": "copy", "from": "/zz/zz", "path": "/data/c"}],
        [{"op": "fly", "path": "/data/a"}],
        [{"op": "add", "path": "data", "value": "1"}],
        [{"op": "replace", "path": "/data/a", "value": "9"}, {"op": "test", "path": "/data/a", "value": "1"}],
    ],
    ids=str,
)
def test_operation_that_fails_changes_nothing(admin: Api, ns: str, name: str, operations: list[Doc]) -> None:
    made = admin.create(CONFIG_MAP.path(ns), {"metadata": {"name": name}, "data": START})
    refused(admin.patch(CONFIG_MAP.path(ns, name), "json", operations), 422, "Invalid", UNFIT)
    assert admin.read(CONFIG_MAP.path(ns, name)) == made


@pytest.mark.contract("W4")
@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "replace", "path": "/data/zz", "value": "1"}], {**START, "zz": "1"}),
        ([{"op": "test", "path": "/data/zz", "value": None}], START),
        ([{"op": "test", "path": "/data/zz"}, {"op": "remove", "path": "/data/a"}], {"b": "2"}),
        ([{"op": "copy", "from": "/data/zz", "path": "/data/c"}], {**START, "c": ""}),
        ([{"op": "add", "path": "/data/c", "value": None}], {**START, "c": ""}),
        ([{"op": "add", "path": "/data/c"}], {**START, "c": ""}),
    ],
    ids=str,
)
def test_member_that_is_not_there_is_null(admin: Api, ns: str, name: str, operations: list[Doc], expected: Doc) -> None:
    """Only `remove` and `move` need it. A null in a map of texts is stored as the empty text."""
    admin.create(CONFIG_MAP.path(ns), {"metadata": {"name": name}, "data": START})
    assert worked(admin.patch(CONFIG_MAP.path(ns, name), "json", operations))["data"] == expected


@pytest.mark.contract("W4")
@pytest.mark.parametrize("operation", [{"op": "remove"}, {"op": "move", "from": "/data/zz"}], ids=str)
def test_member_that_is_not_there_is_not_taken_away(admin: Api, ns: str, name: str, operation: Doc) -> None:
    admin.create(CONFIG_MAP.path(ns), {"metadata": {"name": name}, "data": START})
    answer = admin.patch(CONFIG_MAP.path(ns, name), "json", [{"path": "/data/zz", **operation}])
    refused(answer, 422, "Invalid", "the server rejected our request due to an error in our request")
    assert admin.read(CONFIG_MAP.path(ns, name))["data"] == START


@pytest.mark.contract("W4")
def test_keys_are_escaped_and_lists_extended(admin: Api, ns: str, name: str, made: Made) -> None:
    made(WORK, annotations={"example.com/a": "1"}, finalizers=["example.com/a"])
    operations = [
        {"op": "replace", "path": "/metadata/annotations/example.com~1a", "value": "2"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/c"},
        {"op": "add", "path": "/metadata/finalizers/1", "value": "example.com/b"},
    ]
    metadata = worked(admin.patch(WORK.path(ns, name), "json", operations))["metadata"]
    assert metadata["annotations"]["example.com/a"] == "2"
    assert metadata["finalizers"] == ["example.com/a", "example.com/b", "example.com/c"]


@pytest.mark.contract("W4", "W141")
def test_managed_fields_can_be_migrated(admin: Api, ns: str, name: str, made: Made) -> None:
    """What kubectl does with objects that were applied from the client before."""
    doc = made(CONFIG_MAP)
    entries = doc["metadata"].get("managedFields", [])
    operations = [
        {"op": "add" if not entries else "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": doc["metadata"]["resourceVersion"]},
    ]
    worked(admin.patch(CONFIG_MAP.path(ns, name), "json", operations))
    operations[1]["value"] = "1"
    refused(admin.patch(CONFIG_MAP.path(ns, name), "json", operations), 409, "Conflict")


@pytest.mark.contract("W133")
def test_body_that_is_a_list_is_no_merge_patch(admin: Api, ns: str, name: str, made: Made) -> None:
    made(WORK)
    answer = admin.patch(WORK.path(ns, name), "merge", [{"op": "add", "path": "/metadata/labels", "value": {}}])
    refused(answer, 400, "BadRequest", "cannot unmarshal array into Go value")


# ------------------------------------------------------------------------------------------------------------ strategic


@pytest.mark.contract("W4", "W122", "W179")
@pytest.mark.parametrize("sample", BUILT_IN, ids=str)
def test_built_in_kinds_take_strategic_patches(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    made(sample, labels={"example.com/a": "1"})
    patch = {**sample.change, "metadata": {"labels": {"example.com/a": None, "example.com/b": "2"}}}
    labels = worked(admin.patch(sample.path(ns, name), "strategic", patch))["metadata"]["labels"]
    assert labels.get("example.com/a") is None
    assert labels["example.com/b"] == "2"


@pytest.mark.contract("W179")
@pytest.mark.parametrize("sample", [each for each in BUILT_IN if each is not NAMESPACE], ids=str)
def test_finalizers_merge_as_a_set(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    made(sample, finalizers=["example.com/a"])
    path = sample.path(ns, name)
    metadata = worked(admin.patch(path, "strategic", {"metadata": {"finalizers": ["example.com/b"]}}))["metadata"]
    assert {*metadata["finalizers"]} == {"example.com/a", "example.com/b"}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}
    assert worked(admin.patch(path, "strategic", patch))["metadata"]["finalizers"] == ["example.com/b"]
    worked(admin.patch(path, "strategic", {"metadata": {"finalizers": None}}))


@pytest.mark.contract("W179")
def test_lists_of_objects_merge_by_their_key(admin: Api, ns: str, name: str) -> None:
    admin.create(SERVICE_ACCOUNT.path(ns), {"metadata": {"name": name}, "secrets": [{"name": "a"}, {"name": "b"}]})
    path = SERVICE_ACCOUNT.path(ns, name)

    def patched(body: Doc) -> list[str]:
        return [each["name"] for each in worked(admin.patch(path, "strategic", body)).get("secrets") or []]

    assert {*patched({"secrets": [{"name": "c"}]})} == {"a", "b", "c"}
    assert {*patched({"secrets": [{"name": "a", "$patch": "delete"}]})} == {"b", "c"}
    assert patched({"secrets": [], "$setElementOrder/secrets": [{"name": "c"}, {"name": "b"}]}) == ["c", "b"]
    assert patched({"secrets": [{"$patch": "replace"}, {"name": "d"}]}) == ["d"]


@pytest.mark.contract("W179")
def test_pull_secrets_are_replaced(admin: Api, ns: str, name: str) -> None:
    """Unlike the other list of the same kind."""
    admin.create(SERVICE_ACCOUNT.path(ns), {"metadata": {"name": name}, "imagePullSecrets": [{"name": "a"}]})
    patched = worked(admin.patch(SERVICE_ACCOUNT.path(ns, name), "strategic", {"imagePullSecrets": [{"name": "b"}]}))
    assert patched["imagePullSecrets"] == [{"name": "b"}]


@pytest.mark.contract("W179")
def test_owners_merge_by_uid(admin: Api, ns: str, name: str, made: Made) -> None:
    owners = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "name": ns,
            "uid": admin.read(f"/api/v1/namespaces/{ns}")["metadata"]["uid"],
        }
    ]
    made(CLUSTER_ROLE, ownerReferences=owners)
    patch = {"metadata": {"ownerReferences": [{**owners[0], "blockOwnerDeletion": True}]}}
    merged = worked(admin.patch(CLUSTER_ROLE.path("", name), "strategic", patch))["metadata"]["ownerReferences"]
    assert merged == [{**owners[0], "blockOwnerDeletion": True}]


@pytest.mark.contract("W153", "W179")
def test_rules_are_replaced(admin: Api, name: str, made: Made) -> None:
    made(CLUSTER_ROLE)
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    assert worked(admin.patch(CLUSTER_ROLE.path("", name), "strategic", {"rules": rules}))["rules"] == rules


@pytest.mark.contract("W179")
@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"data": {"$patch": "replace", "c": "3"}}, {"c": "3"}),
        ({"data": {"$patch": "delete"}}, None),
        ({"data": {"$retainKeys": ["b"], "b": "9"}}, {"b": "9"}),
    ],
    ids=str,
)
def test_directives_are_obeyed(admin: Api, ns: str, name: str, patch: Doc, expected: Doc | None) -> None:
    admin.create(CONFIG_MAP.path(ns), {"metadata": {"name": name}, "data": START})
    assert (worked(admin.patch(CONFIG_MAP.path(ns, name), "strategic", patch)).get("data") or None) == expected


@pytest.mark.contract("W179", "W154")
def test_approval_cannot_be_patched_away(admin: Api, name: str, made: Made) -> None:
    """Conditions of a request are replaced: a list without Approved would drop it."""
    made(REQUEST)
    approve(admin, name)
    said = {"type": "Other", "status": "True", "reason": "Tested", "message": ""}
    for how in ("strategic", "merge"):
        answer = admin.patch(f"{REQUESTS}/{name}/approval", how, {"status": {"conditions": [said]}})
        refused(answer, 422, "Invalid", 'updates may not remove a condition of type "Approved"')
