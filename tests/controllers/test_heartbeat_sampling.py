"""The looks at all heartbeats, and what is recorded of clusters that become something else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import time_machine
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from clusters.health import heartbeat_history, heartbeat_sampling
from clusters.health.heartbeat_history import Level
from clusters.kinds import LEASE_NAME, MAINTENANCE_TAINT, MANAGED_CLUSTER
from clusters.models import FleetMinute, HeartbeatDay, Lease, ManagedCluster, Transition
from clusters.tasks import note_heartbeats
from ocmconsole.kubeapi import verbs
from tests import factories as make

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
NOON = datetime(2026, 11, 21, 12, 0, 1, tzinfo=UTC)  # most of a minute is left for a loaded machine


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(NOON) as found:
        make.serve_since(timedelta(days=1))
        yield found


def looks(clock: time_machine.Traveller, minutes: int) -> None:
    """One look a minute by a hub that goes on serving, as the clock makes it."""
    for _ in range(minutes):
        clock.shift(MINUTE)
        make.serve_since(timedelta(days=1))
        note_heartbeats()


def cells(name: str, first: int = 144, count: int = 3) -> list[Level]:
    """From noon on."""
    row = HeartbeatDay.objects.get(cluster=name)
    return heartbeat_history.unpacked(bytes(row.cells))[first : first + count]


@pytest.mark.contract("D17")
def test_a_look_notes_who_was_heard(clock: time_machine.Traveller) -> None:
    make.joined("c1")
    note_heartbeats()
    assert cells("c1") == [Level.FULL, Level.UNKNOWN, Level.UNKNOWN]
    assert [(row.heard, row.expected) for row in FleetMinute.objects.all()] == [(1, 1)]


@pytest.mark.contract("D17")
def test_a_cell_keeps_the_worst_of_its_looks(clock: time_machine.Traveller) -> None:
    make.joined("c1", "c2")
    for _ in range(14):
        make.renew("c2")
        looks(clock, 1)
    assert cells("c1") == [Level.LATE, Level.MISSED, Level.MISSED]
    assert cells("c2") == [Level.FULL, Level.FULL, Level.FULL]
    assert FleetMinute.objects.latest("minute").heard == 1


@pytest.mark.contract("D17")
def test_time_in_which_the_hub_did_not_serve_is_unknown(clock: time_machine.Traveller) -> None:
    make.joined("c1")
    note_heartbeats()
    clock.shift(timedelta(minutes=10))  # the hub is down: nobody looks, and the agent cannot renew
    make.serve_since(timedelta())
    note_heartbeats()
    assert cells("c1") == [Level.FULL, Level.UNKNOWN, Level.UNKNOWN]
    assert FleetMinute.objects.count() == 1
    clock.shift(3 * MINUTE)
    heartbeat_sampling.note_heartbeats(timezone.now(), timezone.now() - 3 * MINUTE)
    assert [(row.heard, row.expected) for row in FleetMinute.objects.order_by("minute")] == [(1, 1), (0, 1)]


@pytest.mark.contract("D17")
def test_a_second_look_writes_nothing(
    clock: time_machine.Traveller, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    make.joined("c1", "c2")
    note_heartbeats()
    before = list(HeartbeatDay.objects.order_by("pk").values()), list(FleetMinute.objects.values())
    with django_assert_num_queries(3):  # clusters with their leases, days, the minute
        heartbeat_sampling.note_heartbeats(timezone.now(), timezone.now() - timedelta(days=1))
    assert before == (list(HeartbeatDay.objects.order_by("pk").values()), list(FleetMinute.objects.values()))


def test_a_look_takes_as_many_statements_for_many_clusters(
    clock: time_machine.Traveller, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    make.joined(*(f"c{number}" for number in range(6)))
    with django_assert_max_num_queries(9):
        heartbeat_sampling.note_heartbeats(timezone.now(), timezone.now() - timedelta(days=1))
    assert HeartbeatDay.objects.count() == 6


@pytest.mark.contract("H18", "K47")
def test_a_heartbeat_counts_when_it_came_and_its_clock_is_sampled_once_an_hour(clock: time_machine.Traveller) -> None:
    make.joined("c1")
    make.renew("c1", at=timezone.now() - 4 * MINUTE)
    looks(clock, 1)
    assert cells("c1", count=1) == [Level.FULL]
    assert heartbeat_history.seconds(bytes(HeartbeatDay.objects.get().skews))[11:14] == [None, 240.0, None]


@pytest.mark.contract("H15")
def test_the_lease_of_an_earlier_cluster_is_no_heartbeat(clock: time_machine.Traveller) -> None:
    make.joined("c1")
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, ManagedCluster.objects.get().key)
    make.settle()
    assert not ManagedCluster.objects.exists()
    clock.shift(10 * MINUTE)
    assert Lease.objects.filter(name=LEASE_NAME).exists()
    make.cluster("c1", accepted=True)
    make.available("c1")
    looks(clock, 1)
    assert cells("c1", first=146, count=1) == [Level.MISSED]


def test_who_is_not_in_is_not_expected(clock: time_machine.Traveller) -> None:
    make.cluster("asks")
    make.cluster("has-not-joined", accepted=True)
    make.joined("sent-away")
    make.accept("sent-away", accepts=False)
    note_heartbeats()
    assert not HeartbeatDay.objects.exists()


def test_what_is_older_than_a_month_is_forgotten(clock: time_machine.Traveller) -> None:
    make.joined("c1")
    note_heartbeats()
    Transition.objects.create(cluster="c1", at=timezone.now(), turn="silent")
    kept = HeartbeatDay.objects.all(), FleetMinute.objects.all(), Transition.objects.all()
    clock.shift(timedelta(days=29))
    heartbeat_sampling.delete_old_heartbeats(timezone.now())
    assert all(rows.all().exists() for rows in kept)
    clock.shift(timedelta(days=2))
    heartbeat_sampling.delete_old_heartbeats(timezone.now())
    assert not any(rows.all().exists() for rows in kept)


# ------------------------------------------------------------------------------------------------------ transitions


def turns(name: str = "c1") -> list[str]:
    return list(Transition.objects.filter(cluster=name).order_by("pk").values_list("turn", flat=True))


@pytest.mark.contract("H7", "H16", "H17")
def test_a_cluster_that_becomes_something_else_leaves_a_row() -> None:
    make.serve_since(timedelta(days=1))
    make.joined("c1")
    assert turns() == ["joined"]
    make.available("c1", "Unknown")
    make.available("c1", "True")
    make.available("c1", "True")
    make.available("c1", "False")
    assert turns() == ["joined", "silent", "recovered", "unhealthy"]
    taint = {"key": MAINTENANCE_TAINT, "effect": "NoSelectIfNew"}
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["spec"].update(taints=[taint]))
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["spec"].update(taints=[]))
    make.said("c1", "ManagedClusterConditionClockSynced", "False")
    make.accept("c1", accepts=False)
    make.accept("c1")
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, ManagedCluster.objects.get().key)
    make.settle()
    assert turns()[4:9] == ["maintenance", "maintenance-ended", "clock-off", "disconnected", "connected"]
    assert turns()[9:] == ["clock-synced", "left"]  # by the reconciler, which knows the last heartbeat


@pytest.mark.contract("H7")
def test_who_was_never_in_does_not_leave() -> None:
    make.cluster("c1")
    make.edit(MANAGED_CLUSTER, "c1", partial(dict.update, spec={"hubAcceptsClient": False, "leaseDurationSeconds": 30}))
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, ManagedCluster.objects.get().key)
    make.settle()
    assert turns() == []
