"""Events in their two forms, and heartbeats (W28, W29)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.wire.api import PROTOBUF, Api, Doc, refused, version, worked
from tests.conformance.wire.conftest import Made
from tests.conformance.wire.documents import EVENT, LEASE, NEW_EVENT, NOW, Sample
from tests.conformance.wire.protobufs import envelope, message, metadata, moment

SECONDS = 1767366245  # 2026-01-02T15:04:05Z


# --------------------------------------------------------------------------------------------------------------- events


@pytest.mark.contract("W28", "W107")
def test_event_is_one_in_both_groups(admin: Api, ns: str, name: str, made: Made) -> None:
    made(NEW_EVENT)
    old = admin.read(EVENT.path(ns, name))
    assert (old["apiVersion"], old["message"], old["involvedObject"]["name"]) == ("v1", "one", "a")
    assert (old["reportingComponent"], old["reportingInstance"], old["action"]) == (
        "example.com/test",
        "test-0",
        "Testing",
    )
    admin.merge(EVENT.path(ns, name), {"message": "two"})
    assert admin.read(NEW_EVENT.path(ns, name))["note"] == "two"
    assert admin.names(EVENT.path(ns), fieldSelector=f"metadata.name={name}") == [name]


@pytest.mark.contract("W28")
def test_old_event_is_read_in_the_new_form(admin: Api, ns: str, name: str) -> None:
    doc = EVENT.doc(name) | {
        "count": 3,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-02T00:00:00Z",
        "source": {"component": "test", "host": "h"},
    }
    admin.create(EVENT.path(ns), doc)
    new = admin.read(NEW_EVENT.path(ns, name))
    assert (new["note"], new["deprecatedCount"], new["deprecatedSource"]) == (
        "one",
        3,
        {"component": "test", "host": "h"},
    )
    assert (new["deprecatedFirstTimestamp"], new["deprecatedLastTimestamp"]) == (
        "2026-01-01T00:00:00Z",
        "2026-01-02T00:00:00Z",
    )
    assert new["regarding"]["kind"] == "ConfigMap"


@pytest.mark.contract("W107", "W1", "W28", "W108")
def test_event_of_an_agent_comes_as_protobuf(admin: Api, name: str) -> None:
    regarding = message(
        (1, "ManagedCluster"),
        (2, "default"),
        (3, name),
        (4, ""),
        (5, "cluster.open-cluster-management.io/v1"),
        (6, ""),
        (7, ""),
    )
    raw = message(
        (1, metadata(name, namespace="default")), (2, moment(SECONDS, 123456000)), (4, "example.com/agent"), (5, "agent-0"), (6, "Testing"),
        (7, "Tested"), (8, regarding), (10, "protobuf says"), (11, "Normal"), (12, message((1, ""), (2, ""))), (13, b""), (14, b""), (15, 0),
    )  # fmt: skip
    path = NEW_EVENT.path("")
    answer = admin.ask(
        "POST", path, envelope("events.k8s.io/v1", "Event", raw), kind=PROTOBUF, accept=f"{PROTOBUF},application/json"
    )
    assert answer.status_code == 201
    if f"{path}/{name}" not in admin.made:
        admin.made.append(f"{path}/{name}")
    old = admin.read(EVENT.path("", name))
    assert (old["message"], old["involvedObject"]["name"], old["eventTime"]) == ("protobuf says", name, NOW)
    for field in ("firstTimestamp", "lastTimestamp"):
        assert not old.get(field)
    assert "generateName" not in old["metadata"]


@pytest.mark.contract("W28", "W4")
def test_repeats_are_a_strategic_patch(admin: Api, ns: str, name: str, made: Made) -> None:
    made(NEW_EVENT)
    series = {"count": 2, "lastObservedTime": "2026-01-02T15:10:00.000000Z"}
    patch = {"series": series}
    assert worked(admin.patch(NEW_EVENT.path(ns, name), "strategic", patch))["series"] == series
    assert admin.read(EVENT.path(ns, name))["series"] == series
    more = {"series": {"count": 3}}
    assert worked(admin.patch(NEW_EVENT.path(ns, name), "strategic", more))["series"] == {**series, "count": 3}


@pytest.mark.contract("W28")
@pytest.mark.parametrize("field", ["eventTime", "reportingController", "reportingInstance", "action", "reason"])
def test_new_form_asks_for_more(admin: Api, ns: str, name: str, field: str) -> None:
    doc = NEW_EVENT.doc(name)
    del doc[field]
    refused(admin.post(NEW_EVENT.path(ns), doc), 422, "Invalid", field)


@pytest.mark.contract("W28")
@pytest.mark.parametrize(
    ("field", "value"), [("note", "x" * 1025), ("type", "Odd"), ("reason", "x" * 129), ("action", "x" * 129)]
)
def test_event_has_limits(admin: Api, ns: str, name: str, field: str, value: str) -> None:
    doc = NEW_EVENT.doc(name) | {field: value}
    said = refused(admin.post(NEW_EVENT.path(ns), doc), 422, "Invalid")
    assert {field, {"note": "message"}.get(field, field)} & {each["field"] for each in said["details"]["causes"]}


@pytest.mark.contract("W28")
def test_words_of_an_event_stay_or_may_change(admin: Api, ns: str, name: str, made: Made) -> None:
    """A kube-apiserver lets nothing be changed through this group but series and metadata."""
    made(NEW_EVENT)
    answer = admin.patch(NEW_EVENT.path(ns, name), "merge", {"note": "two"})
    if answer.status_code != 200:
        refused(answer, 422, "Invalid", "message: Invalid value", "field is immutable")


@pytest.mark.contract("W28")
@pytest.mark.parametrize("place", ["elsewhere", ""])
def test_event_is_where_its_object_is(admin: Api, ns: str, name: str, place: str) -> None:
    """What has no namespace has its events in `default`."""
    about = {"kind": "ConfigMap", "name": "a", "namespace": place}
    text = f'involvedObject.namespace: Invalid value: "{place}": does not match event.namespace'
    doc = EVENT.doc(name) | {"involvedObject": about}
    refused(admin.post(f"{EVENT.root}/namespaces/{ns}/events", doc), 422, "Invalid", text)
    answer = admin.post(f"{EVENT.root}/namespaces/default/events", doc)
    if place:
        refused(answer, 422, "Invalid", text)
    else:
        worked(answer, 201)


@pytest.mark.contract("W28")
@pytest.mark.parametrize("sample", [EVENT, NEW_EVENT], ids=str)
def test_event_with_a_time_may_be_about_what_is_elsewhere(admin: Api, ns: str, name: str, sample: Sample) -> None:
    """Newer programs write so; one about what has no namespace is in `default` or `kube-system`."""
    said = {"eventTime": NOW, "action": "Testing", "reason": "Tested", "type": "Normal", "reportingInstance": "test-0"}
    reference = "involvedObject" if sample is EVENT else "regarding"
    said["reportingComponent" if sample is EVENT else "reportingController"] = "example.com/test"
    about = {"kind": "ConfigMap", "name": "a", "namespace": "elsewhere"}
    here, system = (f"{sample.root}/namespaces/{place}/events" for place in (ns, "kube-system"))
    worked(admin.post(here, {**sample.doc(name), **said, reference: about}), 201)
    nowhere = {"kind": "ManagedCluster", "name": "a"}
    doc = {**sample.doc(f"{name}-b"), **said, reference: nowhere}
    refused(admin.post(here, doc), 422, "Invalid", "does not match event.namespace")
    worked(admin.post(system, doc), 201)
    if sample is EVENT:
        del doc["reportingComponent"]
        doc["metadata"]["name"] = f"{name}-c"
        told = refused(admin.post(system, doc), 422, "Invalid", ": Required value")
        # By the field's own name since Kubernetes 1.33.
        causes = {each["field"] for each in told["details"]["causes"]}
        assert causes & {"reportingController", "reportingComponent"}


@pytest.mark.contract("W146", "W28")
def test_description_of_a_cluster_finds_its_events(admin: Api, name: str, cluster: Doc) -> None:
    """`kubectl describe mcl`: by kind, name, uid and an empty namespace, as protobuf or JSON."""
    uid = cluster["metadata"]["uid"]
    doc = EVENT.doc(name) | {"involvedObject": {"kind": "ManagedCluster", "name": name, "uid": uid}}
    admin.create(EVENT.path(""), doc)
    selector = f"involvedObject.kind=ManagedCluster,involvedObject.name={name},involvedObject.namespace=,involvedObject.uid={uid}"
    listed = admin.read("/api/v1/events", accept=f"{PROTOBUF};q=0,application/json", fieldSelector=selector, limit=500)
    assert [each["metadata"]["name"] for each in listed["items"]] == [name]
    answer = admin.get("/api/v1/events", accept=f"{PROTOBUF},application/json", fieldSelector=selector, limit=500)
    assert answer.status_code == 200


@pytest.mark.contract("W28")
def test_events_are_watched_in_either_form(admin: Api, ns: str, name: str, made: Made) -> None:
    query: dict[str, Any] = {"fieldSelector": f"metadata.name={name}"}
    with admin.watch(EVENT.path(ns), **query) as old, admin.watch(NEW_EVENT.path(ns), **query) as new:
        made(NEW_EVENT)
        assert old.next()["object"]["message"] == "one"
        assert new.next()["object"]["note"] == "one"


# --------------------------------------------------------------------------------------------------------------- leases


@pytest.mark.contract("W104", "W29", "W1")
def test_heartbeat_comes_as_protobuf(admin: Api, ns: str, name: str, made: Made) -> None:
    doc = made(LEASE)
    meta = metadata(name, namespace=ns, uid=doc["metadata"]["uid"], resourceVersion=doc["metadata"]["resourceVersion"])
    spec = message((1, "agent"), (2, 60), (4, moment(SECONDS + 60, 1000)))
    body = envelope("coordination.k8s.io/v1", "Lease", message((1, meta), (2, spec)))
    answer = admin.ask("PUT", LEASE.path(ns, name), body, kind=PROTOBUF, accept=f"{PROTOBUF},application/json")
    assert answer.status_code == 200
    after = admin.read(LEASE.path(ns, name))
    assert after["spec"] == {
        "holderIdentity": "agent",
        "leaseDurationSeconds": 60,
        "renewTime": "2026-01-02T15:05:05.000001Z",
    }
    assert version(after) > version(doc)


@pytest.mark.contract("W29")
@pytest.mark.parametrize(
    ("given", "shown"),
    [(NOW, NOW), ("2026-01-02T15:04:05.000000Z", "2026-01-02T15:04:05.000000Z"), ("2026-01-02T17:04:05.500000+02:00", "2026-01-02T15:04:05.500000Z")],
)  # fmt: skip
def test_times_have_six_decimals(admin: Api, ns: str, name: str, given: str, shown: str) -> None:
    doc = LEASE.doc(name)
    doc["spec"] |= {"renewTime": given, "acquireTime": given}
    spec = admin.create(LEASE.path(ns), doc)["spec"]
    assert (spec["renewTime"], spec["acquireTime"]) == (shown, shown)


@pytest.mark.contract("W29")
@pytest.mark.parametrize("given", ["yesterday", "2026-13-01T00:00:00.000000Z", 5])
def test_time_that_is_none_is_refused(admin: Api, ns: str, name: str, given: Any) -> None:
    doc = LEASE.doc(name)
    doc["spec"] |= {"renewTime": given}
    answer = admin.post(LEASE.path(ns), doc)
    assert answer.status_code in {400, 422}


@pytest.mark.contract("W29", "W178")
@pytest.mark.parametrize(
    "spec", [{"leaseDurationSeconds": 0}, {"leaseDurationSeconds": -1}, {"leaseTransitions": -1}], ids=str
)
def test_lease_has_limits(admin: Api, ns: str, name: str, spec: Doc) -> None:
    doc = LEASE.doc(name)
    doc["spec"] |= spec
    refused(admin.post(LEASE.path(ns), doc), 422, "Invalid", f"spec.{next(iter(spec))}: Invalid value")


@pytest.mark.contract("W104", "W14")
def test_two_holders_do_not_overwrite_each_other(admin: Api, ns: str, name: str, made: Made) -> None:
    seen = made(LEASE)
    one = {**seen, "spec": {**seen["spec"], "holderIdentity": "one"}}
    worked(admin.put(LEASE.path(ns, name), one))
    refused(
        admin.put(LEASE.path(ns, name), {**seen, "spec": {**seen["spec"], "holderIdentity": "two"}}), 409, "Conflict"
    )
