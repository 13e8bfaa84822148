"""Metadata: what the server owns, and what form the rest has (W14)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conformance.wire.api import Api, Doc, refused, warnings, worked
from tests.conformance.wire.conftest import Made
from tests.conformance.wire.documents import CONFIG_MAP, FORMS, MANAGED_CLUSTER, SAMPLES, WORK, Sample

both = pytest.mark.parametrize("sample", [CONFIG_MAP, WORK], ids=str)
UID = "00000000-0000-0000-0000-000000000000"
OTHER_UID = "00000000-0000-0000-0000-000000000001"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": UID}
HELD: Doc = {**OWNER, "blockOwnerDeletion": True}


@pytest.mark.contract("W14")
@pytest.mark.parametrize("sample", FORMS, ids=str)
def test_server_owns_what_it_owns(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    claimed = {
        "uid": UID,
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "selfLink": "/a",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
    }
    metadata = made(sample, **claimed)["metadata"]
    assert metadata["uid"] != UID
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert metadata["creationTimestamp"] > "2001-01-01T00:00:00Z"
    assert not {"selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"} & metadata.keys()
    changed = admin.merge(
        sample.path(ns, name), {"metadata": {"creationTimestamp": "2002-01-01T00:00:00Z", "labels": {"a": "b"}}}
    )
    assert changed["metadata"]["creationTimestamp"] == metadata["creationTimestamp"]


@pytest.mark.contract("W14")
@pytest.mark.parametrize("sample", [each for each in SAMPLES if each.custom], ids=str)
def test_generation_begins_with_one(admin: Api, ns: str, name: str, sample: Sample) -> None:
    assert admin.create(sample.path(ns), sample.doc(name, generation=7))["metadata"]["generation"] == 1


@pytest.mark.contract("W14")
def test_versions_grow_across_kinds(admin: Api, ns: str, name: str, made: Made) -> None:
    versions = [int(made(sample)["metadata"]["resourceVersion"]) for sample in (CONFIG_MAP, WORK)]
    assert versions == sorted({*versions})


@pytest.mark.contract("W19")
@both
@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"labels": {"a": "b c"}}, "metadata.labels: Invalid value"),
        ({"labels": {"a b": "c"}}, "metadata.labels: Invalid value"),
        ({"labels": {"a": "x" * 64}}, "metadata.labels: Invalid value"),
        ({"labels": {"/a": "c"}}, "metadata.labels: Invalid value"),
        ({"labels": {"A.B/c": "c"}}, "metadata.labels: Invalid value"),
        ({"annotations": {"a b": "c"}}, "metadata.annotations: Invalid value"),
        ({"finalizers": ["a b"]}, "metadata.finalizers"),
        ({"finalizers": [""]}, "metadata.finalizers"),
        ({"ownerReferences": [{**OWNER, "uid": ""}]}, "metadata.ownerReferences.uid: Invalid value"),
        ({"ownerReferences": [{**OWNER, "name": ""}]}, "metadata.ownerReferences.name: Invalid value"),
        ({"ownerReferences": [{**OWNER, "kind": ""}]}, "metadata.ownerReferences.kind: Invalid value"),
        ({"ownerReferences": [{**OWNER, "apiVersion": ""}]}, "metadata.ownerReferences.apiVersion: Invalid value"),
        ({"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "uid": f"{UID[:-1]}1", "controller": True}]}, "Only one reference can have Controller set to true"),
        ({"name": "UPPER"}, "metadata.name: Invalid value"),
        ({"name": "x" * 254}, "metadata.name: Invalid value"),
        ({"name": "-a"}, "metadata.name: Invalid value"),
    ],
    ids=lambda value: str(value)[:45],
)  # fmt: skip
def test_metadata_has_a_form(
    admin: Api, ns: str, name: str, sample: Sample, metadata: dict[str, Any], text: str
) -> None:
    doc = sample.doc(name)
    doc["metadata"] |= metadata
    said = refused(admin.post(sample.path(ns), doc), 422, "Invalid", text)
    assert said["details"]["kind"] == sample.kind
    assert {*said["details"]["causes"][0]} == {"reason", "message", "field"}


@pytest.mark.contract("W19")
@both
@pytest.mark.parametrize(
    "metadata",
    [{"labels": "text"}, {"labels": {"a": 1}}, {"annotations": ["a"]}, {"finalizers": "a"}, {"name": 5}],
    ids=str,
)
def test_metadata_of_another_type_is_unreadable(
    admin: Api, ns: str, name: str, sample: Sample, metadata: dict[str, Any]
) -> None:
    doc = sample.doc(name)
    doc["metadata"] |= metadata
    refused(admin.post(sample.path(ns), doc), 400, "BadRequest")


@pytest.mark.contract("W18", "W186")
def test_finalizer_without_a_domain_is_warned_about(admin: Api, ns: str, name: str) -> None:
    answer = admin.post(WORK.path(ns), WORK.doc(name, finalizers=["bad"]))
    worked(answer, 201)
    assert any("prefer a domain-qualified finalizer name" in text for text in warnings(answer))
    admin.merge(WORK.path(ns, name), {"metadata": {"finalizers": None}})


@pytest.mark.contract("W17")
def test_long_prefix_of_a_generated_name_is_cut(admin: Api, ns: str) -> None:
    made = admin.create(CONFIG_MAP.path(ns), CONFIG_MAP.doc("", generateName="x" * 70))
    assert len(made["metadata"]["name"]) == 63
    assert made["metadata"]["generateName"] == "x" * 70


@pytest.mark.contract("W19")
def test_namespace_of_what_is_in_none_is_dropped(admin: Api, name: str, made: Made) -> None:
    assert "namespace" not in made(MANAGED_CLUSTER, namespace="elsewhere")["metadata"]


@pytest.mark.contract("W14")
@both
def test_labels_survive_as_they_are(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    labels = {"example.com/A-b_c.D": "", "x": "y" * 63, "a": "0"}
    annotations = {"example.com/text": 'ä€𝄞 <&> \u2028 \\ " \n', "empty": ""}
    metadata = made(sample, labels=labels, annotations=annotations)["metadata"]
    assert metadata["labels"] == labels
    assert admin.read(sample.path(ns, name))["metadata"]["annotations"] == annotations


@pytest.mark.contract("W181", "W20")
@both
def test_equal_owners_are_merged_with_a_warning(admin: Api, ns: str, name: str, sample: Sample) -> None:
    doubled = {"ownerReferences": [HELD, HELD, {**HELD, "uid": OTHER_UID}]}
    text = ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references"
    said = f"please fix your requests; duplicate UID(s) observed: {UID}"
    answers = [
        (admin.post(sample.path(ns), sample.doc(name, **doubled), dryRun="All"), text.format("")),
    ]
    made = admin.create(sample.path(ns), sample.doc(name))
    put = {**made, "metadata": {**made["metadata"], **doubled}}
    answers.append((admin.put(sample.path(ns, name), put, dryRun="All"), text.format("")))
    patched = admin.patch(sample.path(ns, name), "merge", {"metadata": doubled}, dryRun="All")
    answers.append((patched, text.format(" after mutating admission happens")))
    for answer, expected in answers:
        metadata = worked(answer, answer.status_code)["metadata"]
        told = " ".join(warnings(answer))
        assert expected in told
        assert said in told
        assert metadata["ownerReferences"] == [HELD, {**HELD, "uid": OTHER_UID}]


@pytest.mark.contract("W181", "W20")
@both
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"kind": "Event"},
            "metadata.ownerReferences: Invalid value: {}: /v1, Kind=Event is disallowed from being an owner",
        ),
        ({"apiVersion": "a/b/c"}, 'metadata.ownerReferences.apiVersion: Invalid value: "a/b/c"'),
        ({"apiVersion": "apps/"}, 'metadata.ownerReferences.apiVersion: Invalid value: "apps/"'),
        ({"apiVersion": "/"}, 'metadata.ownerReferences.apiVersion: Invalid value: "/"'),
        ({"apiVersion": ""}, "metadata.ownerReferences.apiVersion"),
    ],
    ids=str,
)
def test_owner_that_cannot_be_one_is_refused(
    admin: Api, ns: str, name: str, sample: Sample, change: dict[str, str], text: str
) -> None:
    """Newer servers name the place in the list as well."""
    said = refused(admin.post(sample.path(ns), sample.doc(name, ownerReferences=[{**OWNER, **change}])), 422, "Invalid")
    start, _, end = text.partition("{}")
    message = said["message"].replace("[0]", "")
    assert start in message
    assert end in message


@pytest.mark.contract("W181")
@both
def test_owner_of_a_version_of_any_group_is_taken(admin: Api, ns: str, name: str, sample: Sample) -> None:
    owner = {**OWNER, "apiVersion": "events.k8s.io/v1", "kind": "Event"}
    worked(admin.post(sample.path(ns), sample.doc(name, ownerReferences=[owner]), dryRun="All"), 201)
    admin.made.clear()


@pytest.mark.contract("W20")
@both
def test_two_owners_with_one_uid_are_refused(admin: Api, ns: str, name: str, sample: Sample) -> None:
    """A kube-apiserver stores them, and merges them by uid with the next patch."""
    answer = admin.post(sample.path(ns), sample.doc(name, ownerReferences=[OWNER, {**OWNER, "name": "b"}]))
    if answer.status_code != 201:
        refused(answer, 422, "Invalid", "metadata.ownerReferences", "Duplicate value")
