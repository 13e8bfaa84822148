"""Silence, clocks and taints (ocm.md 3.3 to 3.5)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from clusters.kinds import LEASE, LEASE_NAME, MANAGED_CLUSTER
from clusters.models import Lease, Serving, Silence
from clusters.tasks import clock_flipped, fallen_silent
from ocmconsole.corekinds.kinds import EVENT
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import WorkItem
from tests import factories as make

pytestmark = pytest.mark.django_db

SILENT = ("Unknown", "ManagedClusterLeaseUpdateStopped", "Registration agent stopped updating its lease.")
AVAILABLE = "ManagedClusterConditionAvailable"
CLOCK = "ManagedClusterConditionClockSynced"


def ago(seconds: float) -> datetime:
    return timezone.now() - timedelta(seconds=seconds)


@pytest.fixture
def c1() -> str:
    """Accepted, joined, available and just heard, on a hub that has been up for a day."""
    make.serve_since(timedelta(days=1))
    make.cluster("c1", accepted=True)
    make.settle()
    make.available("c1")
    make.renew("c1")
    make.settle()
    make.sweep()
    return "c1"


def available(name: str = "c1") -> tuple[str, str, str]:
    return make.condition(make.stored(name).doc, AVAILABLE)


@pytest.mark.contract("H16", "H21", "H44")
def test_a_cluster_whose_lease_is_over_is_unknown_tainted_and_told_about(c1: str) -> None:
    make.renew(c1, ago(301))
    make.sweep()
    assert available() == SILENT
    assert make.taints(c1) == ["unreachable:NoSelect"]
    event = EVENT.model.objects.get(namespace=c1).doc
    assert event["type"] == "Warning"
    assert (event["reason"], event["action"], event["reportingComponent"]) == (
        "AvailableUnknown",
        "AvailableUnknown",
        "registration-controller",
    )
    assert event["involvedObject"]["namespace"] == c1
    assert event["message"] == (
        "The c1 is successfully imported. However, the connection check from the managed cluster to the hub cluster "
        "has failed"
    )


@pytest.mark.contract("H16")
def test_a_lease_inside_its_grace_changes_nothing(c1: str) -> None:
    make.renew(c1, ago(295))
    assert make.writes_of(make.sweep) == []


@pytest.mark.contract("H16", "W5")
@pytest.mark.parametrize(("seconds", "grace"), [(1, 5), (60, 300), (0, 300), (-7, 300), (2**31 - 1, 5 * (2**31 - 1))])
@pytest.mark.contract("K13")
def test_grace_is_five_leases_whatever_the_field_says(c1: str, seconds: int, grace: int) -> None:
    make.serve_since(timedelta(days=20_000))
    make.edit(MANAGED_CLUSTER, c1, lambda doc: doc["spec"].update(leaseDurationSeconds=seconds))
    make.settle()
    if grace > 10**9:
        make.renew(c1, ago(10**8))
        make.sweep()
        assert available()[0] == "True"
        return
    make.renew(c1, ago(grace - 3))
    make.sweep()
    assert available()[0] == "True"
    make.renew(c1, ago(grace + 1))
    make.sweep()
    assert available() == SILENT


@pytest.mark.contract("H16", "K14")
def test_a_shorter_lease_counts_at_once(c1: str) -> None:
    make.renew(c1, ago(20))
    make.edit(MANAGED_CLUSTER, c1, lambda doc: doc["spec"].update(leaseDurationSeconds=3))
    make.settle()
    assert available() == SILENT


@pytest.mark.contract("K13")
def test_a_lease_without_a_time_counts_as_over(c1: str) -> None:
    make.edit(LEASE, LEASE_NAME, lambda doc: doc["spec"].pop("renewTime"), namespace=c1)
    make.settle()
    assert available() == SILENT


@pytest.mark.contract("H15")
def test_a_lease_that_somebody_deletes_is_made_again(c1: str) -> None:
    verbs.delete(make.ADMIN, LEASE, Key(c1, LEASE_NAME))
    make.settle()
    assert Lease.objects.filter(namespace=c1, name=LEASE_NAME).exists()
    assert available()[0] == "True"


@pytest.mark.contract("H15")
def test_a_cluster_being_deleted_without_a_lease_is_unknown_at_once(c1: str) -> None:
    make.edit(MANAGED_CLUSTER, c1, lambda doc: doc["metadata"]["finalizers"].append("example.com/hold"))
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", c1))
    verbs.delete(make.ADMIN, LEASE, Key(c1, LEASE_NAME))
    make.settle()
    assert available() == SILENT
    assert not Lease.objects.exists()


@pytest.mark.contract("H15")
def test_a_cluster_that_was_never_let_in_is_not_watched() -> None:
    make.serve_since(timedelta(days=1))
    make.cluster("c1")
    make.settle()
    make.sweep()
    assert available("c1") == ("", "", "")


@pytest.mark.contract("H15", "S92")
def test_a_cluster_that_was_sent_away_is_still_watched(c1: str) -> None:
    make.accept(c1, accepts=False)
    make.settle()
    make.renew(c1, ago(400))
    make.sweep()
    assert available() == SILENT


@pytest.mark.contract("H16")
def test_a_heartbeat_causes_no_work(c1: str) -> None:
    make.renew(c1)
    assert not WorkItem.objects.exists()


@pytest.mark.contract("H16")
def test_a_second_sweep_over_a_silent_cluster_writes_nothing(c1: str) -> None:
    make.renew(c1, ago(301))
    make.sweep()
    assert make.writes_of(make.sweep) == []


@pytest.mark.contract("H17")
def test_the_hub_never_says_available_again(c1: str) -> None:
    make.renew(c1, ago(301))
    make.sweep()
    make.renew(c1)
    make.sweep()
    assert available() == SILENT
    make.available(c1)
    make.settle()
    assert make.taints(c1) == []


@pytest.mark.contract("D17")
def test_silence_counts_only_while_the_hub_was_serving(c1: str) -> None:
    make.renew(c1, ago(3600))
    Serving.objects.update(since=ago(7200), seen=ago(60))
    make.sweep()
    assert available()[0] == "True"
    make.serve_since(timedelta(seconds=290))
    make.sweep()
    assert available()[0] == "True"
    make.serve_since(timedelta(seconds=310))
    make.sweep()
    assert available() == SILENT


@pytest.mark.contract("D17")
def test_sweeps_keep_count_of_how_long_the_hub_is_up() -> None:
    make.sweep()
    first = Serving.objects.get()
    Serving.objects.update(seen=ago(10), since=ago(100))
    make.sweep()
    later = Serving.objects.get()
    assert later.since < first.since
    assert later.seen >= first.seen


@pytest.mark.contract("K46")
def test_an_agent_that_cannot_renew_but_speaks_is_believed_for_a_full_grace(c1: str) -> None:
    make.renew(c1, ago(301))
    make.sweep()
    make.available(c1)
    make.settle()
    make.sweep()
    assert available()[0] == "True"
    assert make.taints(c1) == []
    Silence.objects.update(at=ago(301))
    WorkItem.objects.update(due=timezone.now())
    make.settle()
    assert available() == SILENT


@pytest.mark.contract("D12")
def test_an_odd_lease_of_one_cluster_does_not_hide_another(c1: str) -> None:
    make.cluster("c2", accepted=True)
    make.settle()
    make.available("c2")
    make.renew(c1, datetime(1000, 1, 2, tzinfo=timezone.now().tzinfo))
    make.renew("c2", ago(301))
    make.sweep()
    assert available(c1) == SILENT
    assert available("c2") == SILENT


# ---------------------------------------------------------------- clocks


def clock(name: str = "c1") -> tuple[str, str]:
    return make.condition(make.stored(name).doc, CLOCK)[:2]


@pytest.mark.contract("H18")
def test_the_first_heartbeat_and_not_the_lease_itself_says_that_clocks_agree() -> None:
    make.serve_since(timedelta(days=1))
    make.cluster("c1", accepted=True)
    make.settle()
    make.sweep()
    assert clock() == ("", "")
    make.renew("c1")
    make.sweep()
    assert clock() == ("True", "ManagedClusterClockSynced")


@pytest.mark.contract("H18", "H20", "K31")
@pytest.mark.parametrize("seconds", [-301, 301])
def test_a_clock_that_is_too_far_off_is_said_and_taken_back(c1: str, seconds: int) -> None:
    make.serve_since(timedelta())
    make.renew(c1, ago(seconds))
    make.sweep()
    assert clock() == ("False", "ManagedClusterClockOutOfSync")
    make.renew(c1)
    make.sweep()
    assert clock() == ("True", "ManagedClusterClockSynced")


@pytest.mark.contract("H18", "K47")
def test_what_counts_is_the_time_of_the_heartbeat_not_of_looking_at_it(c1: str) -> None:
    """An hour later the cluster is silent, but its clock was right when it was heard."""
    assert fallen_silent(timezone.now() + timedelta(hours=1), ago(7200)) == [c1]
    assert clock_flipped() == []
    make.edit(MANAGED_CLUSTER, c1, lambda doc: doc["spec"].update(leaseDurationSeconds=59))
    make.settle()
    assert clock()[0] == "True"


@pytest.mark.contract("H19", "K31")
def test_the_check_can_be_switched_off_for_a_cluster(c1: str) -> None:
    make.renew(c1, ago(-400))
    make.sweep()
    assert clock()[0] == "False"
    skip = {"registration.open-cluster-management.io/skip-clock-sync-check": "true"}
    make.edit(MANAGED_CLUSTER, c1, lambda doc: doc["metadata"].update(annotations=skip))
    make.settle()
    assert clock()[0] == "True"


# ---------------------------------------------------------------- taints


@pytest.mark.contract("H21")
@pytest.mark.parametrize(
    ("status", "expected"),
    [("True", []), ("False", ["unavailable:NoSelect"]), ("Unknown", ["unreachable:NoSelect"])],
)
def test_the_taint_follows_availability(c1: str, status: str, expected: list[str]) -> None:
    make.available(c1, "False")
    make.settle()
    make.available(c1, status)
    make.settle()
    assert make.taints(c1) == expected


@pytest.mark.contract("H21", "A1")
def test_taints_of_people_stay_in_their_order(c1: str) -> None:
    mine: list[dict[str, Any]] = [
        {"key": "b.example.com/x", "effect": "NoSelect"},
        {"key": "cluster.open-cluster-management.io/unreachable", "effect": "PreferNoSelect"},
        {"key": "a", "value": "v", "effect": "NoSelectIfNew"},
    ]
    make.edit(MANAGED_CLUSTER, c1, lambda doc: doc["spec"].update(taints=mine))
    make.available(c1, "False")
    make.settle()
    mine_shown = ["b.example.com/x:NoSelect", "unreachable:PreferNoSelect", "a:NoSelectIfNew"]
    assert make.taints(c1) == [*mine_shown, "unavailable:NoSelect"]
    make.available(c1)
    make.settle()
    assert make.taints(c1) == mine_shown


@pytest.mark.contract("H21")
def test_a_taint_of_the_hub_that_somebody_takes_away_comes_back() -> None:
    make.cluster("c1")
    make.settle()
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["spec"].pop("taints"))
    make.settle()
    assert make.taints("c1") == ["unreachable:NoSelect"]
    assert make.stored("c1").doc["spec"]["taints"][0]["timeAdded"]
