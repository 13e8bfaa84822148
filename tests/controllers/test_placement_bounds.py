"""What placements may not do to each other and to the hub: miss a change, hold up others, stop the queue (D12, P1)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from clustersets.kinds import MANAGED_CLUSTER_SET_BINDING
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.control import controllers, workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import WorkItem
from ocmconsole.kubeapi.writes.store import Write
from placements import reconcilers
from placements.controller import runs
from placements.kinds import ADD_ON_PLACEMENT_SCORE, PLACEMENT
from placements.models import PlacementDecision, SteadyReference
from tests import factories as make
from tests.controllers.placement_scene import TEAM, bound_set, members, place

pytestmark = pytest.mark.django_db

Doc = dict[str, Any]


@pytest.fixture(autouse=True)
def web(db: None) -> None:
    bound_set()


def cluster(name: str) -> None:
    members(name)
    make.settle()


def chosen(name: str = "p1") -> list[str]:
    rows = PlacementDecision.objects.filter(namespace=TEAM, placement=name)
    return [each["clusterName"] for row in rows for each in (row.doc.get("status") or {}).get("decisions") or ()]


def satisfied() -> str:
    doc = verbs.find(PLACEMENT, Key(TEAM, "p1"))
    assert doc is not None
    return make.condition(doc, "PlacementSatisfied")[1]


@pytest.mark.contract("P1", "P3")
def test_what_a_binding_wakes_does_not_depend_on_the_placements_that_are_there_before_its_commit() -> None:
    doc = make.document(MANAGED_CLUSTER_SET_BINDING, "web", spec={"clusterSet": "web"})
    made = Write(MANAGED_CLUSTER_SET_BINDING, Key(TEAM, "web"), None, None, doc, make.ADMIN, "create", "")
    work = {key for name, key in controllers.caused_by([made]) if name == "binding_placements"}
    assert work == {Key(TEAM, "web")}
    cluster("c1")
    place()
    place("other", clusterSets=["db"])
    reconcilers.reconcile_binding_placements(Key(TEAM, "web"))
    assert list(WorkItem.objects.filter(reconciler="placement").values_list("name", flat=True)) == ["p1"]


@pytest.mark.contract("D12", "P7")
def test_expressions_take_turns_with_other_work_and_come_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SLICE", 0.0)
    for number in range(3):
        cluster(f"c{number}")
    expression = {"celSelector": {"celExpressions": ["managedCluster.metadata.name != 'c1'"]}}
    make.create(
        PLACEMENT,
        make.document(PLACEMENT, "p1", spec={"predicates": [{"requiredClusterSelector": expression}]}),
        namespace=TEAM,
    )
    assert reconcilers.reconcile_placement(Key(TEAM, "p1")) == timedelta()
    assert chosen() == []
    make.settle()
    assert chosen() == ["c0", "c2"]


@pytest.mark.contract("D12")
def test_a_namespace_with_much_work_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The item that comes last is next where no other is of its namespace."""
    ran: list[Key] = []
    monkeypatch.setitem(controllers._reconcilers, "tried", controllers.Reconciler("tried", ran.append))
    many = [Key("many", f"n{number:03}") for number in range(3 * workqueue.AT_ONCE)]
    asked = timezone.now() - timedelta(minutes=1)
    workqueue.put({("tried", key) for key in many}, asked)
    workqueue.put({("tried", Key("one", "x"))}, asked + timedelta(seconds=1))
    workqueue.drain()
    assert ran == [many[0], Key("one", "x"), *many[1:]]


@pytest.mark.contract("D12")
def test_a_reconciler_with_much_work_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Key] = []
    for name in ("busy", "tried"):
        monkeypatch.setitem(controllers._reconcilers, name, controllers.Reconciler(name, ran.append))
    asked = timezone.now() - timedelta(minutes=1)
    workqueue.put({("busy", Key("", f"n{number:03}")) for number in range(3 * workqueue.AT_ONCE)}, asked)
    workqueue.put({("tried", Key("", "x"))}, asked + timedelta(seconds=1))
    workqueue.drain(1)
    assert Key("", "x") in ran


@pytest.mark.contract("D12", "P7")
def test_costly_placements_of_a_namespace_take_turns_with_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time a worker begins none; the namespace for which none was begun is first the next time."""
    monkeypatch.setattr(workqueue, "AT_ONCE", 10)
    costly = 3 * workqueue.AT_ONCE
    for number in range(3):
        cluster(f"c{number}")
    make.namespace("ads")
    make.binding("web", namespace="ads")
    make.settle()
    for number in range(costly):
        expression = {"celSelector": {"celExpressions": [f"managedCluster.metadata.name != 'x{number}'"]}}
        spec = {"predicates": [{"requiredClusterSelector": expression}]}
        make.create(PLACEMENT, make.document(PLACEMENT, f"p{number}", spec=spec), namespace=TEAM)
    make.create(PLACEMENT, make.document(PLACEMENT, "cheap", spec={}), namespace="ads")
    with monkeypatch.context() as patch:
        patch.setattr(runs, "SLICE", 0.0)
        for _ in range(2):
            workqueue.drain(1)
    assert PlacementDecision.objects.filter(namespace="ads", placement="cheap").count() == 1
    assert WorkItem.objects.filter(reconciler="placement", namespace=TEAM).count() == costly


@pytest.mark.contract("D12", "K18")
def test_a_score_that_ends_with_the_last_year_stops_nobody() -> None:
    cluster("c1")
    make.namespace("c1")
    make.create(ADD_ON_PLACEMENT_SCORE, make.document(ADD_ON_PLACEMENT_SCORE, "load"), namespace="c1")
    status = {"scores": [{"name": "free", "value": 1}], "validUntil": "9999-12-31T23:59:59.999999Z"}
    change = lambda doc: doc.update(status=status)  # noqa: E731 - one use
    make.edit(ADD_ON_PLACEMENT_SCORE, "load", change, namespace="c1", subresource="status")
    coordinate = {"type": "AddOn", "addOn": {"resourceName": "load", "scoreName": "free"}}
    place(numberOfClusters=1, prioritizerPolicy={"configurations": [{"scoreCoordinate": coordinate}]})
    assert chosen() == ["c1"]
    [waiting] = WorkItem.objects.filter(reconciler="placement")
    assert waiting.due <= timezone.now() + timedelta(days=1)


@pytest.mark.contract("D14", "P28")
def test_a_misconfigured_placement_that_has_nothing_says_why_as_of_now() -> None:
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET_BINDING, Key(TEAM, "web"))
    place(tolerations=[{"operator": "Equal"}])
    assert satisfied() == "NoManagedClusterSetBindings"
    make.binding("web", namespace=TEAM)
    make.settle()
    assert satisfied() == "AllManagedClusterSetsEmpty"
    cluster("c1")
    assert (satisfied(), chosen()) == ("NoManagedClusterMatched", [])


@pytest.mark.contract("P16", "P26")
def test_a_placement_with_a_negative_steady_can_be_deleted() -> None:
    cluster("c1")
    weights = [{"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}, "weight": -1}]
    place(numberOfClusters=1, prioritizerPolicy={"mode": "Exact", "configurations": weights})
    assert SteadyReference.objects.count() == 1
    verbs.delete(make.ADMIN, PLACEMENT, Key(TEAM, "p1"))
    make.settle()
    assert (chosen(), SteadyReference.objects.count()) == ([], 0)


@pytest.mark.contract("D12", "D14", "P29")
def test_a_mistake_that_is_longer_than_a_condition_is_said_and_the_last_good_decisions_stay() -> None:
    cluster("c1")
    place()
    bogus = {"matchExpressions": [{"key": "env", "operator": "B" * 40_000}]}
    predicates = [{"requiredClusterSelector": {"labelSelector": bogus}}]
    make.edit(PLACEMENT, "p1", lambda doc: doc.update(spec={"predicates": predicates}), namespace=TEAM)
    make.settle()
    doc = verbs.find(PLACEMENT, Key(TEAM, "p1"))
    assert doc is not None
    status, reason, message = make.condition(doc, "PlacementMisconfigured")
    assert (status, reason, message[:12]) == ("True", "Misconfigured", 'Predicate:"B')
    assert chosen() == ["c1"]
    assert not WorkItem.objects.filter(reconciler="placement").exists()
