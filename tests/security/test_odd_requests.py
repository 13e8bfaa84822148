"""Cheap requests that must cost little and break nothing, for the sender and for others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time

import pytest
from django.test import Client

from clustersets.kinds import MANAGED_CLUSTER_SET
from ocmconsole.core import kinds
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import WorkItem
from tests import factories as make
from tests.actors import ROOT
from tests.security.callers import CLUSTERS, RBAC, REQUESTS, Answer, Caller, agent_of, holder, request_for

pytestmark = pytest.mark.usefixtures("fresh_hub")
MAPS = "/api/v1/namespaces/default/configmaps"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/c1/leases/managed-cluster-lease"
MERGE = "application/merge-patch+json"
# RFC 3339 in form; none of them is a moment in UTC, or Python's own parser takes it as written.
ODD_TIMES = ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-01-01T00:00:00+99:99"]
EDGE_TIMES = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-01-01t00:00:00z"]


def admin() -> Caller:
    return holder("admin", "system:masters")


@contextmanager
def cheap(seconds: float = 3.0) -> Iterator[None]:
    """Far above what it costs on a slow machine, and far below what each looking at each other costs."""
    before = process_time()
    yield
    assert process_time() - before < seconds


def names(answer: Answer) -> list[str]:
    assert answer.code == 200, answer
    return [item["metadata"]["name"] for item in answer.doc["items"]]


@pytest.mark.contract("W10")
@pytest.mark.parametrize("key", ["1", "01", "0.1", "a.b/c", "A_b-c.d"])
def test_a_label_is_found_by_its_key_whatever_the_key_looks_like(key: str) -> None:
    verbs.create(ROOT, kinds.CONFIG_MAP, {"metadata": {"name": "it", "labels": {key: "x"}}}, namespace="default")
    assert names(admin().get(f"{MAPS}?labelSelector={key}%3Dx")) == ["it"]
    assert names(admin().get(f"{MAPS}?labelSelector={key}%20in%20(x,y)")) == ["it"]
    assert names(admin().get(f"{MAPS}?labelSelector={key}%3Dz")) == []


@pytest.mark.parametrize("key", ["a'b", 'a"b', "a\\b", "a$b", "$.a", "a[0]", "%25s", "a;b", "a b", "/a", "a/"])
def test_a_key_that_is_none_is_refused_before_it_reaches_the_database(key: str) -> None:
    assert admin().get(f"{MAPS}?labelSelector={key}%3Dx").code == 400


def test_a_selector_of_thousands_of_labels_is_answered() -> None:
    labels = {f"k{number}": "x" for number in range(1500)}
    verbs.create(ROOT, kinds.CONFIG_MAP, {"metadata": {"name": "it", "labels": labels}}, namespace="default")
    wanted = "%2C".join(f"k{number}%3Dx" for number in range(1500))
    assert names(admin().get(f"{MAPS}?labelSelector={wanted}")) == ["it"]
    assert names(admin().get(f"{MAPS}?labelSelector={wanted}%2Ck1%3Dy")) == []


def test_the_largest_limit_is_a_limit() -> None:
    assert admin().get(f"{MAPS}?limit={2**63 - 1}").code == 200


def test_too_many_parameters_are_the_clients_mistake() -> None:
    assert admin().get(f"{MAPS}?{'&'.join(f'a{number}=b' for number in range(1500))}").code == 400


@pytest.mark.parametrize("path", [f"{RBAC}/clusterroles", REQUESTS])
def test_a_name_that_no_column_holds_is_refused(path: str) -> None:
    doc = request_for("c1", "n" * 254) if path == REQUESTS else {"metadata": {"name": "n" * 254}, "rules": []}
    assert admin().post(path, doc).code == 422


@pytest.mark.contract("D12")
@pytest.mark.parametrize("when", [*ODD_TIMES, *EDGE_TIMES])
def test_an_agents_odd_times_break_no_request_no_reconciler_and_no_page(when: str) -> None:
    from django.contrib.auth import get_user_model

    for name in ("c1", "c2"):
        make.cluster(name, accepted=True)
    make.settle()
    agent = agent_of("c1")
    is_edge = when in EDGE_TIMES
    lease = agent.get(LEASE).doc
    lease["spec"]["renewTime"] = when
    assert agent.send("PUT", LEASE, lease).code == (200 if is_edge else 400), "a built-in kind cannot be read so"
    for type_ in ("ManagedClusterConditionAvailable", "HubAcceptedManagedCluster", "ManagedClusterJoined"):
        condition = {"type": type_, "status": "True", "reason": "Odd", "message": "", "lastTransitionTime": when}
        answer = agent.send("PATCH", f"{CLUSTERS}/c1/status", {"status": {"conditions": [condition]}}, kind=MERGE)
        assert answer.code == (200 if is_edge else 422), "a custom kind is refused by its schema"
    event = {"metadata": {"name": "odd"}, "involvedObject": {"namespace": "default"}, "lastTimestamp": when}
    assert admin().post("/api/v1/namespaces/default/events", event).code == (201 if is_edge else 400)
    make.settle()
    assert not [str(item) for item in WorkItem.objects.filter(attempts__gt=0)]
    browser = Client()
    browser.force_login(get_user_model().objects.get(username="admin"))
    assert [browser.get(path).status_code for path in ("/clusters/", "/clusters/c1/", "/clusters/c2/")] == [200] * 3


@pytest.mark.contract("D12", "K24")
def test_a_set_with_a_huge_selector_has_no_members_and_stops_nobody() -> None:
    make.cluster("c1")
    expressions = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(1500)]
    make.clusterset(
        "huge", selector={"selectorType": "LabelSelector", "labelSelector": {"matchExpressions": expressions}}
    )
    make.clusterset("fine", selector={"selectorType": "LabelSelector", "labelSelector": {}})
    make.settle()
    assert not [str(item) for item in WorkItem.objects.filter(attempts__gt=0)]
    for name, status in (("huge", "True"), ("fine", "False")):
        doc = verbs.find(MANAGED_CLUSTER_SET, Key("", name))
        assert doc is not None
        assert make.condition(doc, "ClusterSetEmpty")[0] == status


@pytest.mark.contract("W23")
def test_a_request_with_countless_usages_is_refused_in_few_words() -> None:
    doc = request_for("c1", "r1")
    doc["spec"]["usages"] = [f"u{number}" for number in range(100_000)]
    with cheap():
        answer = admin().post(REQUESTS, doc)
    assert answer.code == 422
    assert answer.doc["details"]["causes"] == [
        {
            "reason": "FieldValueTooMany",
            "message": "Too many: 100000: must have at most 23 items",
            "field": "spec.usages",
        }
    ]


@pytest.mark.contract("A1")
def test_an_agent_keeps_nobody_waiting_with_countless_taints() -> None:
    make.cluster("c1", accepted=True)
    make.settle()
    agent = agent_of("c1")
    for effect in ("NoSelect", "PreferNoSelect"):
        doc = agent.get(f"{CLUSTERS}/c1").doc
        doc["spec"]["taints"] = [{"key": f"k{number % 5000}", "effect": effect} for number in range(15_000)]
        with cheap():
            assert agent.send("PUT", f"{CLUSTERS}/c1", doc).code == 200


@pytest.mark.contract("W18")
def test_an_agent_keeps_nobody_waiting_with_countless_finalizers() -> None:
    make.cluster("c1", accepted=True)
    make.settle()
    agent = agent_of("c1")
    doc = agent.get(f"{CLUSTERS}/c1").doc
    doc["metadata"]["finalizers"] += [f"example.com/f{number}" for number in range(25_000)]
    assert agent.send("PUT", f"{CLUSTERS}/c1", doc).code == 200
    assert admin().send("DELETE", f"{CLUSTERS}/c1").code == 200
    said = {"status": {"version": {"kubernetes": "v1"}}}
    assert agent.send("PATCH", f"{CLUSTERS}/c1/status", said, MERGE).code == 403  # H10: its rights went as well
    with cheap():
        assert admin().send("PATCH", f"{CLUSTERS}/c1/status", said, MERGE).code == 200


@pytest.mark.contract("W181")
def test_nobody_makes_work_for_the_collector_with_countless_owners() -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "controller": True}
    doc = request_for("c1", "r1")
    doc["metadata"]["ownerReferences"] = [{**reference, "uid": f"u{number}"} for number in range(20_000)]
    before = WorkItem.objects.count()
    with cheap():
        answer = admin().post(REQUESTS, doc)
    assert answer.code == 422
    assert "Too many: 20000: must have at most 100 items" in answer.message
    assert WorkItem.objects.count() == before
