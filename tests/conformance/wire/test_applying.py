"""Server-side apply: ownership of fields, conflicts, and their texts (W141)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.conformance.wire.api import Api, Doc, refused, version, worked
from tests.conformance.wire.documents import ADDON, CLUSTER_SET, CONFIG_MAP, REQUEST, SAMPLES, WORK, Sample


def apply(
    admin: Api, sample: Sample, ns: str, name: str, body: Doc, manager: str = "m1", **query: Any
) -> httpx.Response:
    doc = {"apiVersion": sample.api_version, "kind": sample.kind, "metadata": {"name": name}, **body}
    return admin.patch(sample.path(ns, name), "apply", doc, fieldManager=manager, **query)


def owned(doc: Doc, manager: str) -> Doc:
    """The fields of a manager who applies."""
    entries = doc["metadata"].get("managedFields", [])
    found: Doc = next(
        each["fieldsV1"] for each in entries if (each["manager"], each["operation"]) == (manager, "Apply")
    )
    return found


@pytest.mark.contract("W4", "W141", "W122")
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_every_kind_can_be_applied(admin: Api, ns: str, name: str, sample: Sample) -> None:
    body = {key: value for key, value in sample.doc(name).items() if key not in {"apiVersion", "kind", "metadata"}}
    created = worked(apply(admin, sample, ns, name, body), 201)
    assert created["metadata"]["uid"]
    if sample.body and sample is not REQUEST:  # whose spec no manager owns at a kube-apiserver
        assert owned(created, "m1")
    again = worked(apply(admin, sample, ns, name, body))
    if not sample.busy:
        assert version(again) == version(created)


@pytest.mark.contract("W141", "W178")
@pytest.mark.parametrize("sample", [CONFIG_MAP, WORK], ids=str)
def test_apply_that_creates_minds_no_version_but_a_uid(admin: Api, ns: str, name: str, sample: Sample) -> None:
    another = {"metadata": {"name": name, "uid": "abc"}, **sample.body}
    refused(apply(admin, sample, ns, name, another), 409, "Conflict", "uid mismatch", "no existing object was found")
    versioned = {"metadata": {"name": name, "resourceVersion": "1"}, **sample.body}
    made = worked(apply(admin, sample, ns, name, versioned), 201)
    assert made["metadata"]["resourceVersion"] != "1"
    refused(apply(admin, sample, ns, name, versioned), 409, "Conflict", "the object has been modified")


@pytest.mark.contract("W141")
def test_apply_of_an_empty_map_changes_nothing_twice(admin: Api, ns: str, name: str) -> None:
    made = worked(apply(admin, CONFIG_MAP, ns, name, {"data": {}}), 201)
    assert "data" not in made
    assert version(worked(apply(admin, CONFIG_MAP, ns, name, {"data": {}}))) == version(made)


@pytest.mark.contract("W141")
@pytest.mark.parametrize("sample", [CONFIG_MAP, WORK], ids=str)
def test_field_of_another_is_a_conflict(admin: Api, ns: str, name: str, sample: Sample) -> None:
    labels = {"metadata": {"name": name, "labels": {"a": "1"}}}
    worked(apply(admin, sample, ns, name, sample.body | labels), 201)
    other = {"metadata": {"name": name, "labels": {"a": "2"}}}
    said = refused(
        apply(admin, sample, ns, name, other, "m2"),
        409,
        "Conflict",
        'Apply failed with 1 conflict: conflict with "m1": .metadata.labels.a',
    )
    assert said["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".metadata.labels.a"}
    ]
    forced = worked(apply(admin, sample, ns, name, other, "m2", force="true"))
    assert forced["metadata"]["labels"] == {"a": "2"}
    refused(apply(admin, sample, ns, name, sample.body | labels, "m1"), 409, "Conflict", 'conflict with "m2"')


@pytest.mark.contract("W141")
def test_several_conflicts_are_listed(admin: Api, ns: str, name: str) -> None:
    worked(apply(admin, CONFIG_MAP, ns, name, {"data": {"a": "1", "b": "1"}}), 201)
    text = 'Apply failed with 2 conflicts: conflicts with "m1":\n- .data.a\n- .data.b'
    said = refused(apply(admin, CONFIG_MAP, ns, name, {"data": {"a": "2", "b": "2"}}, "m2"), 409, "Conflict", text)
    assert [cause["field"] for cause in said["details"]["causes"]] == [".data.a", ".data.b"]


@pytest.mark.contract("W141")
def test_conflict_with_a_writer_names_how_it_wrote(admin: Api, ns: str, name: str) -> None:
    admin.create(CONFIG_MAP.path(ns), {"metadata": {"name": name}, "data": {"a": "1"}}, fieldManager="kubectl-edit")
    refused(
        apply(admin, CONFIG_MAP, ns, name, {"data": {"a": "2"}}),
        409,
        "Conflict",
        'conflict with "kubectl-edit" using v1',
        ": .data.a",
    )


@pytest.mark.contract("W141")
def test_same_value_is_shared(admin: Api, ns: str, name: str) -> None:
    worked(apply(admin, CONFIG_MAP, ns, name, {"data": {"a": "1"}}), 201)
    shared = worked(apply(admin, CONFIG_MAP, ns, name, {"data": {"a": "1"}}, "m2"))
    assert owned(shared, "m1")["f:data"] == owned(shared, "m2")["f:data"]
    left = worked(apply(admin, CONFIG_MAP, ns, name, {"data": {}}, "m1"))
    assert left["data"] == {"a": "1"}
    gone = worked(apply(admin, CONFIG_MAP, ns, name, {"data": {}}, "m2"))
    assert not gone.get("data")


@pytest.mark.contract("W141")
@pytest.mark.parametrize("sample", [CONFIG_MAP, ADDON], ids=str)
def test_field_that_its_only_manager_drops_disappears(admin: Api, ns: str, name: str, sample: Sample) -> None:
    both = {"metadata": {"name": name, "labels": {"a": "1", "b": "1"}}}
    worked(apply(admin, sample, ns, name, sample.body | both), 201)
    less = worked(apply(admin, sample, ns, name, sample.body | {"metadata": {"name": name, "labels": {"a": "1"}}}))
    assert less["metadata"]["labels"] == {"a": "1"}


@pytest.mark.contract("W141")
def test_items_of_a_map_list_have_owners_of_their_own(admin: Api, name: str) -> None:
    def spec(*names: str) -> Doc:
        return {"spec": {"managedNamespaces": [{"name": each} for each in names]}}

    worked(apply(admin, CLUSTER_SET, "", name, spec("a", "b")), 201)
    added = worked(apply(admin, CLUSTER_SET, "", name, spec("c"), "m2"))
    assert {each["name"] for each in added["spec"]["managedNamespaces"]} == {"a", "b", "c"}
    assert 'k:{"name":"c"}' in owned(added, "m2")["f:spec"]["f:managedNamespaces"]
    removed = worked(apply(admin, CLUSTER_SET, "", name, spec("a")))
    assert {each["name"] for each in removed["spec"]["managedNamespaces"]} == {"a", "c"}


@pytest.mark.contract("W141")
def test_finalizers_are_a_set(admin: Api, ns: str, name: str) -> None:
    def finalizers(*names: str) -> Doc:
        return {"metadata": {"name": name, "finalizers": [f"example.com/{each}" for each in names]}}

    worked(apply(admin, CONFIG_MAP, ns, name, finalizers("a")), 201)
    both = worked(apply(admin, CONFIG_MAP, ns, name, finalizers("b"), "m2"))
    assert {*both["metadata"]["finalizers"]} == {"example.com/a", "example.com/b"}
    assert 'v:"example.com/b"' in owned(both, "m2")["f:metadata"]["f:finalizers"]


@pytest.mark.contract("W141")
def test_managed_fields_say_who_when_and_how(admin: Api, ns: str, name: str) -> None:
    worked(apply(admin, CONFIG_MAP, ns, name, {"data": {"a": "1"}}), 201)
    doc = admin.merge(CONFIG_MAP.path(ns, name), {"data": {"b": "1"}}, fieldManager="writer")
    entries = {(each["manager"], each["operation"]): each for each in doc["metadata"]["managedFields"]}
    assert entries.keys() == {("m1", "Apply"), ("writer", "Update")}
    for entry in entries.values():
        assert (entry["apiVersion"], entry["fieldsType"]) == ("v1", "FieldsV1")
        assert entry["time"].endswith("Z")
    assert entries["writer", "Update"]["fieldsV1"] == {"f:data": {"f:b": {}}}


@pytest.mark.contract("W141")
def test_owner_of_a_status_is_named_with_it(admin: Api, ns: str, name: str) -> None:
    admin.create(WORK.path(ns), WORK.doc(name))
    said = {
        "type": "Applied",
        "status": "True",
        "reason": "Tested",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    doc = admin.merge(f"{WORK.path(ns, name)}/status", {"status": {"conditions": [said]}}, fieldManager="agent")
    entry = next(each for each in doc["metadata"]["managedFields"] if each["manager"] == "agent")
    assert (entry["operation"], entry["subresource"]) == ("Update", "status")


@pytest.mark.contract("W141", "W19")
def test_apply_needs_a_manager(admin: Api, ns: str, name: str) -> None:
    answer = admin.patch(CONFIG_MAP.path(ns, name), "apply", CONFIG_MAP.doc(name))
    refused(
        answer,
        422,
        "Invalid",
        'PatchOptions.meta.k8s.io "" is invalid',
        "fieldManager: Required value: is required for apply patch",
    )


@pytest.mark.contract("W141")
def test_force_is_for_apply_alone(admin: Api, ns: str, name: str) -> None:
    admin.create(CONFIG_MAP.path(ns), CONFIG_MAP.doc(name))
    answer = admin.patch(CONFIG_MAP.path(ns, name), "merge", {}, force="true")
    refused(answer, 422, "Invalid", "force: Forbidden: may not be specified for non-apply patch")


@pytest.mark.contract("W141")
@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"metadata": {"managedFields": []}}, "metadata.managedFields must be nil"),
        ({"kind": ""}, "invalid object type"),
        ({"kind": "Other"}, ""),
        ({"metadata": {"name": "other"}}, ""),
    ],
)
def test_what_cannot_be_applied(admin: Api, ns: str, name: str, body: Doc, text: str) -> None:
    doc = CONFIG_MAP.doc(name)
    metadata = {**doc["metadata"], **body.get("metadata", {})}
    answer = admin.patch(CONFIG_MAP.path(ns, name), "apply", {**doc, **body, "metadata": metadata}, fieldManager="m1")
    refused(answer, 400, "BadRequest", text)


@pytest.mark.contract("W141")
def test_version_and_uid_are_promises(admin: Api, ns: str, name: str) -> None:
    created = worked(apply(admin, CONFIG_MAP, ns, name, {"data": {"a": "1"}}), 201)["metadata"]
    stale = {"metadata": {"name": name, "resourceVersion": "1"}, "data": {"a": "2"}}
    refused(apply(admin, CONFIG_MAP, ns, name, stale), 409, "Conflict")
    current = {"metadata": {"name": name, "resourceVersion": created["resourceVersion"]}, "data": {"a": "2"}}
    worked(apply(admin, CONFIG_MAP, ns, name, current))
    other = apply(admin, CONFIG_MAP, ns, name, {"metadata": {"name": name, "uid": "zz"}})
    assert other.status_code in {409, 422}


@pytest.mark.contract("W141", "W142")
def test_applying_in_vain_stores_nothing(admin: Api, ns: str, name: str) -> None:
    told = apply(admin, CONFIG_MAP, ns, name, {"data": {"a": "1"}}, dryRun="All")
    admin.made.clear()
    assert worked(told, 201)["data"] == {"a": "1"}
    refused(admin.get(CONFIG_MAP.path(ns, name)), 404, "NotFound")


@pytest.mark.contract("W141", "W143")
def test_applied_field_must_be_known(admin: Api, ns: str, name: str) -> None:
    answer = apply(admin, WORK, ns, name, {"spec": {**WORK.body["spec"], "zz": 1}}, fieldValidation="Strict")
    assert answer.status_code in {400, 422, 500}
    assert "spec.zz" in answer.json()["message"]


@pytest.mark.contract("W141", "W4")
def test_yaml_can_be_applied(admin: Api, ns: str, name: str) -> None:
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  a: '1'\n"
    answer = admin.patch(CONFIG_MAP.path(ns, name), "apply", text.encode(), fieldManager="m1")
    assert worked(answer, 201)["data"] == {"a": "1"}


@pytest.mark.contract("W14")
@pytest.mark.parametrize("manager", ["x" * 129, "new\nline"])
def test_name_of_a_manager_has_limits(admin: Api, ns: str, name: str, manager: str) -> None:
    answer = admin.post(CONFIG_MAP.path(ns), CONFIG_MAP.doc(name), fieldManager=manager)
    refused(answer, 422, "Invalid", "fieldManager")


@pytest.mark.contract("W14")
def test_manager_is_the_program_when_nobody_names_one(admin: Api, ns: str, name: str) -> None:
    agent = admin.with_headers(User_Agent="registration-agent/v1.0 (linux/amd64)")
    doc = agent.create(CONFIG_MAP.path(ns), CONFIG_MAP.doc(name))
    assert [each["manager"] for each in doc["metadata"]["managedFields"]] == ["registration-agent"]
