"""Unknown, duplicate and wrong fields, and the warnings about them (W8, W143)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.wire.api import Api, Doc, refused, warnings, worked
from tests.conformance.wire.conftest import Made
from tests.conformance.wire.documents import (
    CLUSTER_SET,
    CLUSTERS,
    CONFIG_MAP,
    FORMS,
    MANAGED_CLUSTER,
    SAMPLES,
    WORK,
    Sample,
)


def with_unknown(sample: Sample, name: str) -> Doc:
    doc: Doc = json.loads(json.dumps(sample.doc(name)))
    place = doc
    *parents, field = sample.unknown.split(".")
    for parent in parents:
        place = place[parent]
    place[field] = 1
    return doc


def kept(sample: Sample, doc: Doc) -> bool:
    place: Any = doc
    for part in sample.unknown.split("."):
        place = place.get(part, {})
    return bool(place)


@pytest.mark.contract("W8", "W143")
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_unknown_field_is_refused_when_strict(admin: Api, ns: str, name: str, sample: Sample) -> None:
    answer = admin.post(sample.path(ns), with_unknown(sample, name), fieldValidation="Strict")
    refused(answer, 400, "BadRequest", f'strict decoding error: unknown field "{sample.unknown}"')


@pytest.mark.contract("W8", "W143", "W186")
@pytest.mark.parametrize("validation", ["Warn", ""])
@pytest.mark.parametrize("sample", FORMS, ids=str)
def test_unknown_field_is_pruned_with_a_warning(
    admin: Api, ns: str, name: str, sample: Sample, validation: str
) -> None:
    answer = admin.post(
        sample.path(ns), with_unknown(sample, name), **({"fieldValidation": validation} if validation else {})
    )
    assert not kept(sample, worked(answer, 201))
    assert f'299 - "unknown field \\"{sample.unknown}\\""' in warnings(answer)


@pytest.mark.contract("W8", "W143")
@pytest.mark.parametrize("sample", [CONFIG_MAP, WORK], ids=str)
def test_unknown_field_is_pruned_silently(admin: Api, ns: str, name: str, sample: Sample) -> None:
    answer = admin.post(sample.path(ns), with_unknown(sample, name), fieldValidation="Ignore")
    assert not kept(sample, worked(answer, 201))
    assert not warnings(answer)


@pytest.mark.contract("W184", "W143")
@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
def test_field_that_is_there_twice(admin: Api, name: str, validation: str) -> None:
    text = json.dumps(MANAGED_CLUSTER.doc(name)).replace(
        '"hubAcceptsClient": false', '"hubAcceptsClient": false, "hubAcceptsClient": false'
    )
    answer = admin.ask("POST", CLUSTERS, text.encode(), query={"fieldValidation": validation})
    if validation == "Strict":
        refused(answer, 400, "BadRequest", 'strict decoding error: duplicate field "spec.hubAcceptsClient"')
    else:
        worked(answer, 201)
        assert any("duplicate field" in each for each in warnings(answer)) is (validation == "Warn")


@pytest.mark.contract("W143")
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_validation_of_a_fourth_kind_is_refused(admin: Api, ns: str, name: str, made: Made, method: str) -> None:
    made(CONFIG_MAP)
    path = CONFIG_MAP.path(ns, "" if method == "POST" else name)
    query = {"fieldValidation": "Maybe"}
    answer = (
        admin.patch(path, "merge", {}, **query)
        if method == "PATCH"
        else admin.ask(method, path, CONFIG_MAP.doc(name), query=query)
    )
    refused(
        answer,
        422,
        "Invalid",
        'fieldValidation: Unsupported value: "Maybe": supported values: "", "Ignore", "Strict", "Warn"',
    )


@pytest.mark.contract("W143")
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("sample", [CONFIG_MAP, WORK], ids=str)
def test_strictness_is_for_changes_too(admin: Api, ns: str, name: str, made: Made, sample: Sample, method: str) -> None:
    """A kube-apiserver answers 422 to the patch, 400 to the rest."""
    doc = made(sample)
    path = sample.path(ns, name)
    wrong = with_unknown(sample, name)
    if method == "PUT":
        answer = admin.put(path, {**wrong, "metadata": doc["metadata"]}, fieldValidation="Strict")
    else:
        answer = admin.patch(
            path,
            "merge",
            {key: wrong[key] for key in wrong if key not in {"metadata", "kind", "apiVersion"}},
            fieldValidation="Strict",
        )
    assert answer.status_code in {400, 422}
    assert f'unknown field "{sample.unknown}"' in answer.json()["message"]


@pytest.mark.contract("W143", "W8")
def test_all_unknown_fields_are_named(admin: Api, name: str) -> None:
    doc = MANAGED_CLUSTER.doc(name)
    doc["spec"] = {**doc["spec"], "foo": 1, "bar": 1}
    text = 'ManagedCluster in version "v1" cannot be handled as a ManagedCluster: strict decoding error: unknown field "spec.bar", unknown field "spec.foo"'
    refused(admin.post(CLUSTERS, doc, fieldValidation="Strict"), 400, "BadRequest", text)


@pytest.mark.contract("W186")
def test_warnings_survive_refusals_and_other_languages(admin: Api, name: str) -> None:
    doc = MANAGED_CLUSTER.doc(name)
    doc["spec"] = {"hubAcceptsClient": False, 'sch"ön\\': 1, "taints": [{"key": "a b", "effect": "NoSelect"}]}
    answer = admin.post(CLUSTERS, doc)
    refused(answer, 422, "Invalid", "spec.taints[0].key")
    assert len(warnings(answer)) == 1
    assert "unknown field" in warnings(answer)[0]


@pytest.mark.contract("W20", "W8")
def test_what_may_be_anything_is_kept(admin: Api, ns: str, name: str) -> None:
    """A manifest in a work."""
    doc = WORK.doc(name)
    manifest = {
        "apiVersion": "example.com/v1",
        "kind": "Any",
        "metadata": {"name": "a"},
        "zz": {"deep": [1, None, {"a": 1.5}]},
    }
    doc["spec"] = {"workload": {"manifests": [manifest]}}
    made = admin.create(WORK.path(ns), doc, fieldValidation="Strict")
    assert made["spec"]["workload"]["manifests"][0]["zz"]["deep"][2] == {"a": 1.5}


@pytest.mark.contract("W19", "W20")
@pytest.mark.parametrize(
    ("spec", "field", "cause"),
    [
        ({"taints": [{"key": "a", "effect": "Bad"}]}, "spec.taints[0].effect", "FieldValueNotSupported"),
        ({"taints": [{"key": "a b", "effect": "NoSelect"}]}, "spec.taints[0].key", "FieldValueInvalid"),
        ({"taints": [{"key": "a", "effect": "NoSelect", "value": "x" * 1025}]}, "spec.taints[0].value", "FieldValueTooLong"),
        ({"managedClusterClientConfigs": [{"caBundle": "MQ=="}]}, "spec.managedClusterClientConfigs[0].url", "FieldValueRequired"),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_causes_name_the_field(admin: Api, name: str, spec: Doc, field: str, cause: str) -> None:
    doc = MANAGED_CLUSTER.doc(name)
    doc["spec"] |= spec
    answer = admin.post(CLUSTERS, doc)
    if cause == "FieldValueRequired" and answer.status_code == 400:  # OCM's webhook says it before the schema does
        assert "is invalid in client configs" in answer.json()["message"]
        return
    text = f'ManagedCluster.cluster.open-cluster-management.io "{name}" is invalid: {field}'
    said = refused(answer, 422, "Invalid", text)
    assert (said["details"]["kind"], said["details"]["name"]) == ("ManagedCluster", name)
    causes = {each["field"]: each["reason"] for each in said["details"]["causes"]}
    assert causes[field] == cause


@pytest.mark.contract("W19")
def test_several_faults_come_in_brackets(admin: Api, name: str) -> None:
    doc = MANAGED_CLUSTER.doc(name)
    doc["spec"]["taints"] = [{"key": "a b", "effect": "NoSelect"}, {"key": "a", "effect": "Bad"}]
    said = refused(admin.post(CLUSTERS, doc), 422, "Invalid", "is invalid: [spec.taints[")
    assert len(said["details"]["causes"]) == 2


@pytest.mark.contract("W20")
def test_defaults_fill_what_is_missing(admin: Api, name: str) -> None:
    doc = CLUSTER_SET.doc(name) | {"spec": {"clusterSelector": {}}}
    assert (
        admin.create(CLUSTER_SET.path(""), doc)["spec"]["clusterSelector"]["selectorType"] == "ExclusiveClusterSetLabel"
    )
    del doc["spec"]
    doc["metadata"]["name"] = f"{name}-2"
    assert (
        admin.create(CLUSTER_SET.path(""), doc)["spec"]["clusterSelector"]["selectorType"] == "ExclusiveClusterSetLabel"
    )


@pytest.mark.contract("W19")
@pytest.mark.parametrize("key", ["a b", "", "x" * 254, "a/b"])
def test_keys_of_data_have_a_form(admin: Api, ns: str, name: str, key: str) -> None:
    refused(admin.post(CONFIG_MAP.path(ns), CONFIG_MAP.doc(name) | {"data": {key: "1"}}), 422, "Invalid", "data[")
