"""The status of an object is written beside it (W16)."""

from __future__ import annotations

import pytest

from tests.conformance.wire.api import Api, Doc, eventually, refused, version, worked
from tests.conformance.wire.conftest import Made
from tests.conformance.wire.documents import CLUSTERS, CUSTOM, DECISION, MANAGEMENT_ADDON, WORK, Sample

with_status = pytest.mark.parametrize("sample", [each for each in CUSTOM if each.status], ids=str)
with_conditions = pytest.mark.parametrize(
    "sample", [each for each in CUSTOM if each not in (MANAGEMENT_ADDON, DECISION)], ids=str
)


def condition(kind: str = "Tested", **more: str) -> Doc:
    return {
        "type": kind,
        "status": "True",
        "reason": "Tested",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        **more,
    }


def conditions(doc: Doc) -> list[str]:
    return [each["type"] for each in (doc.get("status") or {}).get("conditions") or []]


@pytest.mark.contract("W16", "W5")
@with_conditions
def test_status_is_not_taken_at_creation(admin: Api, ns: str, name: str, sample: Sample) -> None:
    made = admin.create(sample.path(ns), {**sample.doc(name), "status": {"conditions": [condition()]}})
    assert "Tested" not in conditions(made)


@pytest.mark.contract("W16")
@with_conditions
def test_main_path_keeps_the_status_and_status_keeps_the_rest(
    admin: Api, ns: str, name: str, made: Made, sample: Sample
) -> None:
    doc = made(sample)
    path = sample.path(ns, name)
    body = {
        "metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/a"]},
        "spec": {"zz": 1},
        "status": {"conditions": [condition()]},
    }
    told = admin.merge(f"{path}/status", body)
    assert "Tested" in conditions(told)
    assert "a" not in told["metadata"].get("labels", {})
    assert "example.com/a" not in told["metadata"].get("finalizers", [])
    assert told.get("spec") == doc.get("spec")
    assert told["metadata"]["generation"] == doc["metadata"]["generation"]
    kept = admin.merge(path, {"status": {"conditions": []}, "metadata": {"labels": {"a": "b"}}})
    assert "Tested" in conditions(kept)
    assert kept["metadata"]["labels"]["a"] == "b"
    assert kept["metadata"]["generation"] == doc["metadata"]["generation"]


@pytest.mark.contract("W16")
@with_conditions
def test_status_is_replaced_by_put(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    made(sample)
    path = sample.path(ns, name)

    def put() -> Doc | None:
        seen = admin.read(path)
        seen["metadata"]["labels"] = {"a": "b"}
        seen["status"] = {**seen.get("status", {}), "conditions": [condition()]}
        answer = admin.put(f"{path}/status", seen)
        return worked(answer) if answer.status_code != 409 else None

    told = eventually(put)
    assert "Tested" in conditions(told)
    assert "a" not in told["metadata"].get("labels", {})
    assert admin.read(f"{path}/status")["metadata"]["uid"] == told["metadata"]["uid"]


@pytest.mark.contract("W14", "W16")
@pytest.mark.parametrize("sample", [each for each in CUSTOM if "spec" in each.change], ids=str)
def test_generation_counts_changes_of_the_spec(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    before = made(sample)["metadata"]["generation"]
    path = sample.path(ns, name)
    assert admin.merge(path, {"metadata": {"labels": {"a": "b"}, "generation": 77}})["metadata"]["generation"] == before
    assert admin.merge(path, sample.change)["metadata"]["generation"] == before + 1
    assert admin.merge(path, sample.change)["metadata"]["generation"] == before + 1


@pytest.mark.contract("W114", "W15")
def test_agent_reports_with_uid_and_version(admin: Api, name: str, cluster: Doc) -> None:
    """The patch of the OCM patcher: right once, in vain when somebody was faster."""
    path = f"{CLUSTERS}/{name}"
    promised = {part: cluster["metadata"][part] for part in ("uid", "resourceVersion")}
    patch = {"metadata": promised, "status": {"conditions": [condition("ManagedClusterJoined")]}}
    told = admin.merge(f"{path}/status", patch)
    assert "ManagedClusterJoined" in conditions(told)
    text = f'Operation cannot be fulfilled on managedclusters.cluster.open-cluster-management.io "{name}": the object has been modified'
    patch["status"] = {"conditions": [condition("ManagedClusterJoined", message="other")]}
    refused(admin.patch(f"{path}/status", "merge", patch), 409, "Conflict", text)


@pytest.mark.contract("W20")
def test_conditions_of_a_type_are_there_once(admin: Api, ns: str, name: str, made: Made) -> None:
    made(WORK)
    answer = admin.patch(
        f"{WORK.path(ns, name)}/status", "merge", {"status": {"conditions": [condition(), condition()]}}
    )
    refused(answer, 422, "Invalid", "status.conditions[1]: Duplicate value")


@pytest.mark.contract("W20", "W19")
@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"type": "a b"}, "status.conditions[0].type: Invalid value"),
        (
            {"status": "Maybe"},
            'status.conditions[0].status: Unsupported value: "Maybe": supported values: "True", "False", "Unknown"',
        ),
        ({"reason": ""}, "status.conditions[0].reason: Invalid value"),
        ({"reason": "9x"}, "status.conditions[0].reason: Invalid value"),
        ({"lastTransitionTime": "yesterday"}, "status.conditions[0].lastTransitionTime: Invalid value"),
        ({"observedGeneration": -1}, "status.conditions[0].observedGeneration: Invalid value"),
        ({"message": "x" * 32769}, "status.conditions[0].message: Too long"),
        ({"message": 5}, "status.conditions[0].message: Invalid value"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_condition_has_a_form(admin: Api, ns: str, name: str, made: Made, wrong: Doc, text: str) -> None:
    made(WORK)
    answer = admin.patch(f"{WORK.path(ns, name)}/status", "merge", {"status": {"conditions": [condition() | wrong]}})
    refused(answer, 422, "Invalid", f'ManifestWork.work.open-cluster-management.io "{name}" is invalid', text)


@pytest.mark.contract("W16", "W183")
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_status_can_be_written_and_nothing_else(admin: Api, ns: str, name: str, made: Made, method: str) -> None:
    made(WORK)
    answer = admin.ask(method, f"{WORK.path(ns, name)}/status", WORK.doc(name) if method == "POST" else None)
    refused(answer, 405, "MethodNotAllowed")


@pytest.mark.contract("W16")
@with_status
def test_status_of_what_is_not_there_is_not_found(admin: Api, ns: str, name: str, sample: Sample) -> None:
    path = f"{sample.path(ns, name)}/status"
    refused(admin.get(path), 404, "NotFound")
    refused(admin.patch(path, "merge", {"status": {}}), 404, "NotFound")


@pytest.mark.contract("W16", "W115")
def test_status_that_stays_is_no_write(admin: Api, ns: str, name: str, made: Made) -> None:
    made(WORK)
    path = f"{WORK.path(ns, name)}/status"
    first = admin.merge(path, {"status": {"conditions": [condition()]}})
    assert version(admin.merge(path, {"status": {"conditions": [condition()]}})) == version(first)


@pytest.mark.contract("W190")
def test_nothing_is_scaled(admin: Api, name: str, cluster: Doc) -> None:
    """`kubectl scale` patches /scale, `get all` looks for a category."""
    refused(admin.patch(f"{CLUSTERS}/{name}/scale", "merge", {"spec": {"replicas": 1}}), 404, "NotFound")
    listed = admin.read("/apis/cluster.open-cluster-management.io/v1")["resources"]
    assert not [each for each in listed if "all" in each.get("categories", [])]
