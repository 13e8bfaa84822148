"""Many clusters that fall silent in one sweep, and what comes with a report: in one commit, as one by one (H16, H21)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import orjson
import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clusters.health import silence, verdicts
from clusters.health.reconcilers import reconcile_clock, reconcile_lease_health
from clusters.kinds import LEASE, LEASE_NAME, MANAGED_CLUSTER, SECOND, microseconds
from clusters.models import Lease, ManagedCluster, Silence, Transition
from clusters.tasks import sweep_leases
from ocmconsole.core.kinds import EVENT, NAMESPACE
from ocmconsole.kubeapi import many_writes, verbs
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent, Change, WorkItem, writing
from ocmconsole.kubeapi.storage import reader
from tests import factories as make
from tests.controllers.placement_scene import bound_set, place

pytestmark = pytest.mark.django_db

OVER = timedelta(seconds=301)
HOLD = "example.com/hold"
OWN = {"key": "a.example.com/x", "value": "v", "effect": "NoSelectIfNew"}
UNREACHABLE = {"key": "cluster.open-cluster-management.io/unreachable", "effect": "NoSelect"}
# What differs between two clusters in any case.
PASSING = {"uid", "resourceVersion", "renew_time"}


def heard(*names: str) -> None:
    """Accepted, joined, available, with clocks that agree."""
    make.serve_since(timedelta(days=1))
    make.joined(*names)
    make.sweep()


def change(name: str, edit: Callable[[Any], None]) -> None:
    make.edit(MANAGED_CLUSTER, name, edit)


def tainted(name: str) -> None:
    change(name, lambda doc: doc["spec"].update(taints=[OWN, UNREACHABLE]))


def leaving(name: str) -> None:
    """Being deleted, without a lease: silent at once (H15)."""
    change(name, lambda doc: doc["metadata"]["finalizers"].append(HOLD))
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", name))
    verbs.delete(make.ADMIN, LEASE, Key(name, LEASE_NAME))
    WorkItem.objects.filter(reconciler="lease_health").delete()


def closed(name: str) -> None:
    """As ``leaving``, in a namespace that is terminating: no Event can be written (H44)."""
    leaving(name)
    make.edit(NAMESPACE, name, lambda doc: doc["metadata"].update(finalizers=[HOLD]))
    verbs.delete(make.ADMIN, NAMESPACE, Key("", name))


def with_addon(name: str) -> None:
    make.addon(name)


def silent_before(name: str) -> None:
    """K46: it was called silent a while ago, of another renewal."""
    Silence.objects.create(cluster=name, renew_time=microseconds(timezone.now()) - 900 * SECOND, at=timezone.now())


STATES: dict[str, Callable[[str], object]] = {
    "plain": lambda name: name,
    "ill": lambda name: make.available(name, "False"),
    "tainted": tainted,
    "away": lambda name: make.accept(name, accepts=False),
    "closed": closed,
    "addon": with_addon,
    "again": silent_before,
    "leaving": leaving,
    "mute": lambda name: make.edit(LEASE, LEASE_NAME, lambda doc: doc["spec"].pop("renewTime"), namespace=name),
    "untracked": lambda name: change(name, lambda doc: doc["metadata"].update(managedFields=[{}])),
}


def rows_of(name: str, since: int) -> list[Any]:
    """All that is stored about a cluster, without what differs between two clusters in any case."""
    row = ManagedCluster.objects.get(name=name)
    places = [("", name)] + [(name, each) for each in Change.objects.values_list("name", flat=True).distinct()]
    log = Change.objects.filter(revision__gt=since).order_by("revision")
    entries = AuditEvent.objects.filter(revision__gt=since).order_by("pk")
    changes = [each for each in log if (each.namespace, each.name) in places]
    audit = [each for each in entries if (each.namespace, each.name) in places]
    return [
        plain(row.doc, name),
        sorted(row.taints.values_list("key", "value", "effect")),
        [plain(each.doc, name) for each in EVENT.model.objects.filter(namespace=name)],
        list(Transition.objects.filter(cluster=name).order_by("pk").values_list("turn", flat=True)),
        Silence.objects.filter(
            cluster=name, renew_time=Lease.objects.filter(namespace=name).values("renew_time")[:1]
        ).count(),
        [(each.verb, each.resource, plain(orjson.loads(each.wire), name), bool(each.before)) for each in changes],
        [(each.act, each.verb, each.user, each.resource, plain(each.diff, name)) for each in audit],
    ]


def plain(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        found = {plain(key, name): plain(each, name) for key, each in value.items() if key not in PASSING}
        if "managedFields" in found:  # in the order of their times
            found["managedFields"] = sorted(
                found["managedFields"], key=lambda each: orjson.dumps(each, option=orjson.OPT_SORT_KEYS)
            )
        return found
    if isinstance(value, list):
        return [plain(each, name) for each in value]
    if isinstance(value, str):
        value = re.sub(rf"{name}\.[0-9a-f]{{16}}", "EVENT", value).replace(name, "CLUSTER")
        return re.sub(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$", "TIME", value)
    return value


def revision() -> int:
    return Change.objects.order_by("-revision").values_list("revision", flat=True)[0]


def quieten(*names: str, ago: timedelta = OVER) -> None:
    """The last renewal of those that have one is over, as if time had passed."""
    for name in names:
        lease = Lease.objects.filter(namespace=name).first()
        if lease is not None and lease.renew_time is not None:
            make.renew(name, timezone.now() - ago)
    WorkItem.objects.filter(reconciler="lease_health").delete()  # asked for because the time of a lease went back
    make.serve_since(timedelta(days=1))


@pytest.mark.contract("H16", "H21", "H44", "K46", "D11", "D12")
def test_clusters_that_fall_silent_together_leave_the_rows_that_they_leave_one_by_one() -> None:
    names = {way: [f"{state}-{way}" for state in STATES] for way in ("alone", "many")}
    # In another second than the silence: a condition that changes twice within one keeps its time, and the field its owner.
    with time_machine.travel(timezone.now() - timedelta(minutes=1)):
        heard(*names["alone"], *names["many"])
        for state, prepare in STATES.items():
            for way in ("alone", "many"):
                prepare(f"{state}-{way}")
        make.settle()
    WorkItem.objects.all().delete()
    since = revision()
    quieten(*names["alone"], *names["many"])
    for name in names["alone"]:
        reconcile_clock(Key("", name))
        reconcile_lease_health(Key("", name))
    make.settle()
    sweep_leases()
    assert {"lease_health", "taints", "clock"}.isdisjoint(WorkItem.objects.values_list("reconciler", flat=True))
    make.settle()
    for one, other in zip(names["alone"], names["many"], strict=True):
        assert make.stored(other).available == "Unknown"
        assert rows_of(other, since) == rows_of(one, since), other
    assert reader.check_wire()[1] == []
    assert make.writes_of(make.sweep) == []


@pytest.mark.contract("H16", "D12")
def test_one_odd_cluster_among_fifty_is_left_to_its_reconciler() -> None:
    names = [f"c{number:02}" for number in range(50)]
    heard(*names)
    odd = make.stored("c07")
    doc = odd.doc
    doc["spec"]["managedClusterClientConfigs"] = "odd"  # as no rule would let it be stored
    odd.wire = orjson.dumps(doc).decode()
    with writing():
        odd.save()
    quieten(*names)
    with CaptureQueriesContext(connection) as queries:
        sweep_leases()
    assert {name for name in names if make.stored(name).available != "Unknown"} == {"c07"}
    assert [item.name for item in WorkItem.objects.filter(reconciler="lease_health")] == ["c07"]
    assert len(queries) < 2 * len(names)


@pytest.mark.contract("H16", "H18")
def test_queries_of_a_sweep_do_not_grow_with_the_clusters_that_fall_silent() -> None:
    names = [f"c{number:02}" for number in range(30)]
    heard(*names)
    counts = []
    for some in (names[:3], names[3:]):
        quieten(*some)
        with CaptureQueriesContext(connection) as queries:
            sweep_leases()
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert not list(WorkItem.objects.values_list("reconciler", "name"))


@pytest.mark.contract("H15", "K46")
def test_what_needs_another_look_is_left_out(db: None) -> None:
    """A cluster whose lease somebody has deleted, one whose period starts again, and one that is gone."""
    heard("gone", "lost", "again", "fine")
    quieten("again", "fine")
    verbs.delete(make.ADMIN, LEASE, Key("lost", LEASE_NAME))
    lease = Lease.objects.get(namespace="again")
    Silence.objects.create(cluster="again", renew_time=lease.renew_time, at=timezone.now())
    gaps = [(0, microseconds(timezone.now() - timedelta(days=1)))]
    left = verdicts.call_silent(["lost", "again", "fine", "absent"], timezone.now(), gaps)
    assert sorted(left) == ["absent", "again", "lost"]
    assert make.stored("fine").available == "Unknown"


@pytest.mark.contract("P1")
def test_placements_wait_for_the_end_of_a_sweep_over_many(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first transactions cause is due after the last one, or when its time is over."""
    heard("a", "b", "fine")
    bound_set()
    place()
    quieten("a", "b")
    monkeypatch.setattr(many_writes, "AT_ONCE", 1)
    before: list[timedelta] = []
    end = workqueue.end_fold

    def note() -> None:
        before.extend(each.due - timezone.now() for each in WorkItem.objects.filter(reconciler="bound_placements"))
        end()

    monkeypatch.setattr(workqueue, "end_fold", note)
    gaps = [(0, microseconds(timezone.now() - timedelta(days=1)))]
    assert verdicts.call_silent(["a", "b", "fine"], timezone.now(), gaps) == ["fine"]
    assert before
    assert all(timedelta() < each <= workqueue.FOLD for each in before)
    due = WorkItem.objects.filter(reconciler="bound_placements").values_list("due", flat=True)
    assert all(each <= timezone.now() for each in due)


def test_work_that_is_due_does_not_wait_for_an_act_on_many(db: None) -> None:
    work = {("bound_placements", Key("taints", ""))}
    workqueue.put(work, timezone.now())
    workqueue.put_folded(work, timezone.now())
    assert workqueue.is_due()


# ---------------------------------------------------------------- what comes with a report


@pytest.mark.contract("H21")
@pytest.mark.parametrize(
    ("status", "expected"), [("True", []), ("False", ["unavailable:NoSelect"]), ("Unknown", ["unreachable:NoSelect"])]
)
def test_a_report_changes_the_taint_in_its_own_commit(status: str, expected: list[str]) -> None:
    heard("c1")
    make.available("c1", "Unknown" if status == "True" else "True")
    make.settle()
    with CaptureQueriesContext(connection) as queries:
        wrote = make.writes_of(make.said, "c1", "ManagedClusterConditionAvailable", status)
    assert wrote == [f"MODIFIED {MANAGED_CLUSTER.resource} c1"] * 2
    assert make.taints("c1") == expected
    assert sum("kubeapi_revision" in query["sql"] and "INSERT" in query["sql"] for query in queries) == 1
    assert not WorkItem.objects.exclude(reconciler="addon_health").exists()
    assert make.writes_of(make.settle) == []


@pytest.mark.contract("H21")
def test_a_report_leaves_the_taint_of_a_cluster_that_is_being_deleted() -> None:
    heard("c1")
    change("c1", lambda doc: doc["metadata"]["finalizers"].append(HOLD))
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()
    make.available("c1", "False")
    assert make.taints("c1") == []


@pytest.mark.contract("H41", "H40")
def test_only_silence_of_clusters_with_addons_is_work() -> None:
    heard("c1", "c2")
    make.addon("c2")
    make.settle()
    for status in ("False", "True", "Unknown"):
        for name in ("c1", "c2"):
            make.available(name, status)
        assert list(WorkItem.objects.values_list("reconciler", "name")) == [("addon_health", "c2")] * (
            status == "Unknown"
        )


@pytest.mark.contract("H16")
def test_a_sweep_leaves_one_that_is_under_way_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    heard("c1")
    quieten("c1")
    seen = []

    def sweep_again(*_: object) -> None:
        sweep_leases()
        seen.append(make.stored("c1").available)

    monkeypatch.setattr(silence, "_watchers", [sweep_again])
    sweep_leases()
    assert seen == ["True"]
    assert make.stored("c1").available == "Unknown"
