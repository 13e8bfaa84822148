"""Deletion, finalizers, collections, owners (W18, W180, W181)."""

from __future__ import annotations

import re

import pytest

from tests.conformance.wire.api import PROTOBUF, Api, Doc, eventually, refused, types, version, worked
from tests.conformance.wire.conftest import Made
from tests.conformance.wire.documents import (
    ADDON,
    CONFIG_MAP,
    CUSTOM,
    FORMS,
    NAMESPACE,
    NAMESPACES,
    SAMPLES,
    SECRET,
    WORK,
    Sample,
)
from tests.conformance.wire.protobufs import envelope, message

HOLD = "example.com/hold"


def gone(admin: Api, path: str) -> bool:
    return admin.get(path).status_code == 404


def owner_of(doc: Doc, **more: object) -> Doc:
    return {
        "apiVersion": doc["apiVersion"],
        "kind": doc["kind"],
        "name": doc["metadata"]["name"],
        "uid": doc["metadata"]["uid"],
        **more,
    }


@pytest.mark.contract("W18", "W136")
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_object_is_deleted_and_its_deletion_seen(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    uid = made(sample)["metadata"]["uid"]
    path = sample.path(ns, name)
    with admin.watch(sample.path(ns), fieldSelector=f"metadata.name={name}", seconds=60) as watch:
        before = version(watch.next()["object"])
        told = worked(admin.delete(path, {"propagationPolicy": "Background"}))
        last = watch.until("DELETED")[-1]["object"]
    if told["kind"] == "Status":
        assert told["status"] == "Success"
        assert (told["details"]["name"], told["details"]["kind"], told["details"]["uid"]) == (name, sample.plural, uid)
        assert told["details"].get("group", "") in {sample.stored_group, sample.group}
    else:
        assert told["metadata"]["uid"] == uid
    assert version(last) > before
    eventually(lambda: gone(admin, path))


@pytest.mark.contract("W18", "W136")
@pytest.mark.parametrize("sample", [each for each in FORMS if each is not NAMESPACE], ids=str)
def test_finalizer_holds_an_object(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    made(sample, finalizers=[HOLD])
    path = sample.path(ns, name)
    told = worked(admin.delete(path))
    assert told["kind"] == sample.kind
    assert told["metadata"]["deletionTimestamp"]
    assert told["metadata"]["deletionGracePeriodSeconds"] == 0
    again = worked(admin.delete(path))
    assert again["metadata"]["deletionTimestamp"] == told["metadata"]["deletionTimestamp"]
    answer = admin.patch(path, "merge", {"metadata": {"finalizers": [HOLD, "example.com/new"]}})
    refused(answer, 422, "Invalid", 'metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/new"}')  # fmt: skip

    def let_go() -> bool:
        kept = [each for each in admin.read(path)["metadata"].get("finalizers", []) if each != HOLD]
        return admin.patch(path, "merge", {"metadata": {"finalizers": kept}}).status_code == 200

    eventually(let_go)
    eventually(lambda: gone(admin, path))


@pytest.mark.contract("W18", "W14")
@pytest.mark.parametrize("sample", [each for each in CUSTOM if each.status], ids=str)
def test_deletion_is_a_new_generation(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    before = made(sample, finalizers=[HOLD])["metadata"]["generation"]
    assert worked(admin.delete(sample.path(ns, name)))["metadata"]["generation"] > before


@pytest.mark.contract("W18")
def test_orphaning_is_true_or_false(admin: Api, ns: str, name: str, made: Made) -> None:
    """A kube-apiserver takes every other word for true."""
    made(CONFIG_MAP)
    answer = admin.delete(CONFIG_MAP.path(ns, name), orphanDependents="perhaps")
    if answer.status_code != 200:
        refused(answer, 400, "BadRequest")
        assert "deletionTimestamp" not in admin.read(CONFIG_MAP.path(ns, name))["metadata"]


@pytest.mark.contract("W137", "W18")
@pytest.mark.parametrize("sample", FORMS, ids=str)
def test_deletion_of_another_object_is_a_conflict(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    uid = made(sample)["metadata"]["uid"]
    path = sample.path(ns, name)
    said = refused(admin.delete(path, {"preconditions": {"uid": "zzz"}}), 409, "Conflict", f'"{name}"')
    texts = [
        f"the UID in the precondition (zzz) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
    ]
    if sample is NAMESPACE:  # of these a kube-apiserver says it in the words of a write
        texts.append(f"Precondition failed: UID in precondition: zzz, UID in object meta: {uid}")
    assert any(text in said["message"] for text in texts)
    said = refused(admin.delete(path, {"preconditions": {"resourceVersion": "1"}}), 409, "Conflict")
    assert re.search(r"[Pp]recondition.* 1, ResourceVersion in object meta|ResourceVersion in the precondition \(1\) does not match the ResourceVersion in record", said["message"])  # fmt: skip
    worked(admin.delete(path, {"preconditions": {"uid": uid}}))


@pytest.mark.contract("W170")
@pytest.mark.parametrize(
    "api_version", ["v1", "certificates.k8s.io/v1", "cluster.open-cluster-management.io/v1", "meta.k8s.io/v1"]
)
def test_options_come_in_the_version_of_the_client(
    admin: Api, ns: str, name: str, made: Made, api_version: str
) -> None:
    made(WORK)
    options = {
        "kind": "DeleteOptions",
        "apiVersion": api_version,
        "propagationPolicy": "Background",
        "gracePeriodSeconds": 0,
    }
    worked(admin.delete(WORK.path(ns, name), options))


@pytest.mark.contract("W170", "W1")
def test_options_come_as_protobuf(admin: Api, ns: str, name: str, made: Made) -> None:
    """Typed clients; gracePeriodSeconds 0 and propagationPolicy Background."""
    made(SECRET)
    body = envelope("v1", "DeleteOptions", message((1, 0), (4, "Background")))
    worked(admin.ask("DELETE", SECRET.path(ns, name), body, kind=PROTOBUF))
    assert gone(admin, SECRET.path(ns, name))


@pytest.mark.contract("W18")
@pytest.mark.parametrize(
    "query", [{"propagationPolicy": "Background"}, {"gracePeriodSeconds": "0"}, {"orphanDependents": "false"}], ids=str
)
def test_options_come_in_the_query(admin: Api, ns: str, name: str, made: Made, query: dict[str, str]) -> None:
    made(CONFIG_MAP)
    worked(admin.delete(CONFIG_MAP.path(ns, name), **query))
    assert gone(admin, CONFIG_MAP.path(ns, name))


@pytest.mark.contract("W18", "W19")
def test_policy_that_is_none_is_refused(admin: Api, ns: str, name: str, made: Made) -> None:
    made(CONFIG_MAP)
    answer = admin.delete(CONFIG_MAP.path(ns, name), {"propagationPolicy": "Bogus"})
    refused(
        answer,
        422,
        "Invalid",
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Bogus": supported values: "Foreground", "Background", "Orphan"',
    )


@pytest.mark.contract("W18", "W19")
@pytest.mark.parametrize(
    ("options", "query", "code", "text"),
    [
        ({"orphanDependents": True, "propagationPolicy": "Background"}, {}, 422, "propagationPolicy: Invalid value"),
        ({"orphanDependents": False, "propagationPolicy": "Orphan"}, {}, 422, "cannot be both set"),
        (None, {"orphanDependents": "true", "propagationPolicy": "Background"}, 422, "cannot be both set"),
        (None, {"propagationPolicy": "Bogus"}, 422, 'propagationPolicy: Unsupported value: "Bogus"'),
        (None, {"gracePeriodSeconds": "soon"}, 400, ""),
        (None, {"dryRun": ""}, 422, 'dryRun: Unsupported value: [""]: supported values: "All"'),
        ({"dryRun": [""]}, {}, 422, 'dryRun: Unsupported value: [""]: supported values: "All"'),
        ({"dryRun": "All"}, {}, 400, ""),
        ({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}}, {}, 400, ""),
        ({"kind": "Status", "apiVersion": "v1"}, {}, 400, ""),
        ({"propagationPolicy": 1}, {}, 400, ""),
        ({"gracePeriodSeconds": "0"}, {}, 400, ""),
        ({"preconditions": []}, {}, 400, ""),
        ({"preconditions": {"uid": ""}}, {}, 409, "the UID in the precondition () does not match"),
        ({"preconditions": {"resourceVersion": ""}}, {}, 409, "the ResourceVersion in the precondition () does not"),
        ([], {}, 400, ""),
    ],
    ids=str,
)
def test_options_that_make_no_sense_delete_nothing(
    admin: Api, ns: str, name: str, made: Made, options: Doc | None, query: dict[str, str], code: int, text: str
) -> None:
    """Contradictory, of another kind, of wrong types, or preconditions that nothing meets."""
    doc = made(CONFIG_MAP)
    reason = {400: "BadRequest", 409: "Conflict", 422: "Invalid"}[code]
    refused(admin.delete(CONFIG_MAP.path(ns, name), options, **query), code, reason, text)
    selected = {**query, "fieldSelector": f"metadata.name={name}"}
    refused(admin.delete(CONFIG_MAP.path(ns), options, **selected), code, reason, text)
    assert admin.read(CONFIG_MAP.path(ns, name)) == doc


@pytest.mark.contract("W18", "W142")
def test_dry_run_in_the_query_counts_beside_a_body(admin: Api, ns: str, name: str, made: Made) -> None:
    """A kube-apiserver reads the query only where there is no body, and deletes."""
    doc = made(CONFIG_MAP)
    worked(admin.delete(CONFIG_MAP.path(ns, name), {"propagationPolicy": "Background"}, dryRun="All"))
    answer = admin.get(CONFIG_MAP.path(ns, name))
    assert answer.status_code == 404 or answer.json() == doc


@pytest.mark.contract("W18")
def test_orphans_are_asked_for_in_either_way(admin: Api, ns: str, name: str, made: Made) -> None:
    owner = made(WORK)
    admin.create(CONFIG_MAP.path(ns), CONFIG_MAP.doc(name, ownerReferences=[owner_of(owner)]))
    told = worked(admin.delete(WORK.path(ns, name), orphanDependents="true"))
    assert "orphan" in told["metadata"]["finalizers"]
    eventually(lambda: not admin.read(CONFIG_MAP.path(ns, name))["metadata"].get("ownerReferences"))


@pytest.mark.contract("W18", "W19")
def test_name_of_what_is_being_deleted_is_taken(admin: Api, ns: str, name: str, made: Made) -> None:
    made(CONFIG_MAP, finalizers=[HOLD])
    worked(admin.delete(CONFIG_MAP.path(ns, name)))
    text = f'object is being deleted: configmaps "{name}" already exists'
    for dry in ({}, {"dryRun": "All"}):
        said = refused(admin.post(CONFIG_MAP.path(ns), CONFIG_MAP.doc(name), **dry), 409, "AlreadyExists")
        assert said["message"] == text
    admin.merge(CONFIG_MAP.path(ns, name), {"metadata": {"finalizers": None}})


@pytest.mark.contract("W180")
@pytest.mark.parametrize("policy", ["Orphan", "Foreground"])
@pytest.mark.parametrize("sample", [CONFIG_MAP, WORK], ids=str)
def test_finalizers_of_the_server_come_off(
    admin: Api, ns: str, name: str, made: Made, sample: Sample, policy: str
) -> None:
    """`kubectl delete --cascade=…` waits for it."""
    made(sample)
    worked(admin.delete(sample.path(ns, name), {"propagationPolicy": policy}))
    eventually(lambda: gone(admin, sample.path(ns, name)))


@pytest.mark.contract("W181", "W18")
def test_what_nobody_owns_any_more_is_collected(admin: Api, ns: str, name: str, made: Made) -> None:
    owner, other = made(WORK), made(WORK, f"{name}-other")
    one = admin.create(CONFIG_MAP.path(ns), CONFIG_MAP.doc(name, ownerReferences=[owner_of(owner)]))
    both = [owner_of(owner), owner_of(other)]
    admin.create(CONFIG_MAP.path(ns), CONFIG_MAP.doc(f"{name}-two", ownerReferences=both))
    assert one["metadata"]["ownerReferences"] == [owner_of(owner)]
    worked(admin.delete(WORK.path(ns, name), {"propagationPolicy": "Background"}))
    eventually(lambda: gone(admin, CONFIG_MAP.path(ns, name)))
    worked(admin.get(CONFIG_MAP.path(ns, f"{name}-two")))


@pytest.mark.contract("W181", "W180")
def test_orphans_stay_without_the_reference(admin: Api, ns: str, name: str, made: Made) -> None:
    owner = made(WORK)
    admin.create(CONFIG_MAP.path(ns), CONFIG_MAP.doc(name, ownerReferences=[owner_of(owner)]))
    worked(admin.delete(WORK.path(ns, name), {"propagationPolicy": "Orphan"}))
    eventually(lambda: gone(admin, WORK.path(ns, name)))
    eventually(lambda: not admin.read(CONFIG_MAP.path(ns, name))["metadata"].get("ownerReferences"))


@pytest.mark.contract("W181")
def test_owner_waits_for_those_who_hold_it(admin: Api, ns: str, name: str, made: Made) -> None:
    owner = made(WORK)
    references = [owner_of(owner, blockOwnerDeletion=True)]
    admin.create(CONFIG_MAP.path(ns), CONFIG_MAP.doc(name, ownerReferences=references, finalizers=[HOLD]))
    told = worked(admin.delete(WORK.path(ns, name), {"propagationPolicy": "Foreground"}))
    assert "foregroundDeletion" in told["metadata"]["finalizers"]
    eventually(lambda: admin.read(CONFIG_MAP.path(ns, name))["metadata"].get("deletionTimestamp"))
    worked(admin.get(WORK.path(ns, name)))
    admin.merge(CONFIG_MAP.path(ns, name), {"metadata": {"finalizers": None}})
    eventually(lambda: gone(admin, WORK.path(ns, name)))


@pytest.mark.contract("W160")
@pytest.mark.parametrize("sample", [CONFIG_MAP, WORK, SECRET, ADDON], ids=str)
def test_collection_is_deleted_by_label(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    for number in range(3):
        made(sample, f"{name}-{number}", labels={"example.com/group": f"{name}-{number % 2}"})
    selector = f"example.com/group={name}-0"
    dry = worked(admin.delete(sample.path(ns), dryRun="All", labelSelector=selector))
    assert len(dry["items"]) == 2
    deleted = worked(admin.delete(sample.path(ns), labelSelector=selector))
    assert deleted["kind"] == f"{sample.kind}List"
    assert {each["metadata"]["name"] for each in deleted["items"]} == {f"{name}-0", f"{name}-2"}
    assert not admin.names(sample.path(ns), labelSelector=selector)
    assert admin.names(sample.path(ns), labelSelector=f"example.com/group={name}-1") == [f"{name}-1"]


@pytest.mark.contract("W160")
def test_collection_is_deleted_by_field(admin: Api, ns: str, name: str, made: Made) -> None:
    made(CONFIG_MAP)
    made(CONFIG_MAP, f"{name}-other")
    worked(admin.delete(CONFIG_MAP.path(ns), fieldSelector=f"metadata.name={name}"))
    assert gone(admin, CONFIG_MAP.path(ns, name))
    worked(admin.get(CONFIG_MAP.path(ns, f"{name}-other")))


@pytest.mark.contract("W160")
def test_namespaces_are_no_collection_to_delete(admin: Api, ns: str) -> None:
    answer = admin.delete(NAMESPACES, labelSelector="example.com/never=there")
    refused(answer, 405, "MethodNotAllowed")


@pytest.mark.contract("W18")
def test_write_that_empties_the_finalizers_answers_with_the_object(admin: Api, ns: str, name: str, made: Made) -> None:
    made(WORK, finalizers=[HOLD])
    path = WORK.path(ns, name)
    worked(admin.delete(path))
    with admin.watch(WORK.path(ns), fieldSelector=f"metadata.name={name}") as watch:
        assert watch.next()["object"]["metadata"]["deletionTimestamp"]
        last = admin.merge(path, {"metadata": {"finalizers": []}})
        assert types([watch.next()]) == ["DELETED"]
    assert last["kind"] == "ManifestWork"


@pytest.mark.contract("W18")
def test_update_of_what_is_being_deleted_keeps_its_date(admin: Api, ns: str, name: str, made: Made) -> None:
    made(WORK, finalizers=[HOLD])
    path = WORK.path(ns, name)
    before = worked(admin.delete(path))
    after = admin.merge(path, {"metadata": {"deletionTimestamp": None, "labels": {"a": "b"}}})
    assert after["metadata"]["deletionTimestamp"] == before["metadata"]["deletionTimestamp"]
    assert after["metadata"]["labels"] == {"a": "b"}
