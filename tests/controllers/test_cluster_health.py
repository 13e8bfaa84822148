"""Silence, clocks and taints (H15 to H21)."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from threading import Event
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from clusters.health import uptime, verdicts
from clusters.health.deadlines import clock_flipped, fallen_silent
from clusters.kinds import LEASE, LEASE_NAME, MANAGED_CLUSTER, SECOND, microseconds
from clusters.models import Lease, Serving, Silence
from clusters.tasks import sweep_leases
from ocmconsole.core.kinds import EVENT
from ocmconsole.embedded import Presence
from ocmconsole.kubeapi import verbs, write_queue
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import Change, Revision, WorkItem
from ocmconsole.kubeapi.storage import plain_sql
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
def test_a_cluster_whose_lease_is_over_is_unknown_tainted_and_reported(c1: str) -> None:
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
@pytest.mark.parametrize(("seconds", "grace"), [(1, 5), (60, 300), (0, 300), (-7, 300), (2**31 - 1, 5 * 86_400)])
@pytest.mark.contract("K13")
def test_grace_is_five_leases_whatever_the_field_says_and_five_days_at_most(c1: str, seconds: int, grace: int) -> None:
    make.serve_since(timedelta(days=20_000))
    make.edit(MANAGED_CLUSTER, c1, lambda doc: doc["spec"].update(leaseDurationSeconds=seconds))
    make.settle()
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


# ---------------------------------------------------------------- only while the hub served, D17


def served(*spans: tuple[float, float]) -> None:
    """A hub that began with the first of these spans, in seconds from now, and noted every five that it serves."""
    Serving.objects.all().delete()
    serve_on(*spans)


def serve_on(*spans: tuple[float, float]) -> None:
    now = timezone.now()
    for begin, end in spans:
        moments = [begin + 5 * number for number in range(int(end - begin) // 5 + 1)]
        for moment in (*moments, end):
            uptime.note_serving(now + timedelta(seconds=moment))


def silent_after(seconds: float) -> list[str]:
    WorkItem.objects.all().delete()  # what waits in the queue already is not found again
    now = timezone.now() + timedelta(seconds=seconds)
    return fallen_silent(now, uptime.serving_gaps(now))


@pytest.mark.contract("D17")
def test_a_late_sweep_of_a_hub_that_serves_gives_nobody_a_new_grace(c1: str) -> None:
    make.renew(c1, ago(301))
    Serving.objects.update(seen=ago(60))
    make.sweep()
    assert available() == SILENT


@pytest.mark.contract("D17")
def test_a_gap_is_subtracted_from_every_silence_that_spans_it(c1: str) -> None:
    """Heard 400 seconds ago, 300 of them without a hub, so that 200 of the grace are left."""
    make.renew(c1, ago(400))
    served((-900, -350), (-50, 195))
    assert silent_after(195) == []
    serve_on((200, 205))
    assert silent_after(205) == [c1]


@pytest.mark.contract("D17")
def test_a_hub_that_does_not_serve_now_calls_nobody_silent(c1: str) -> None:
    make.renew(c1, ago(100))
    served((-900, 0))
    assert silent_after(3_600) == []
    assert silent_after(10) == []


@pytest.mark.contract("D17")
@pytest.mark.django_db(transaction=True)
def test_a_hub_in_which_nobody_can_write_does_not_serve(settings: Any) -> None:
    """A server is gone with its machine in the middle of a write: no heartbeat is stored until the database notices."""
    presence, held, over = Presence(), Event(), Event()

    def write_for_long() -> None:
        with closing(connection), write_queue.turn(), transaction.atomic(durable=True):
            Revision.take(0)
            held.set()
            over.wait(60)

    served((-900, -20))
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write_for_long)
        assert held.wait(60)
        settings.OCMCONSOLE_DATABASE_LOCK_TIMEOUT = timedelta(milliseconds=50)
        if connection.vendor == "postgresql":
            plain_sql.run("SET lock_timeout = '50ms'")
        presence.note()
        assert not uptime.is_serving(timezone.now())
        over.set()
        writing.result(60)
    presence.note()
    assert uptime.is_serving(timezone.now())
    assert len(uptime.serving_gaps(timezone.now())) == 2
    if connection.vendor == "postgresql":
        plain_sql.run("RESET lock_timeout")


@pytest.mark.contract("D17")
def test_a_hub_that_begins_to_serve_waits_for_a_full_grace(c1: str) -> None:
    make.renew(c1, ago(10_000))
    served((-290, 5))
    assert silent_after(5) == []
    serve_on((10, 15))
    assert silent_after(15) == [c1]


@pytest.mark.contract("D17")
def test_heartbeats_that_arrived_prove_that_the_hub_served(c1: str) -> None:
    """Nobody noted it for a minute, as on a machine that is too busy."""
    beats = Change.objects.filter(resource=LEASE.resource)
    for seconds in (50, 36, 22, 8):
        make.renew(c1, ago(350))
        beats.filter(revision=beats.latest("revision").revision).update(time=ago(seconds), verb="MODIFIED")
    Serving.objects.update(served=ago(60))
    assert uptime.serving_gaps(timezone.now()) == uptime.serving_gaps(timezone.now())[:1]
    assert silent_after(0) == [c1]


@pytest.mark.contract("D17")
def test_a_clock_that_jumps_ahead_and_back_makes_nobody_silent(c1: str) -> None:
    served((-900, 0), (400 * 86_400, 400 * 86_400 + 60))
    assert silent_after(400 * 86_400 + 60) == []
    uptime.note_serving(timezone.now())
    assert silent_after(0) == []
    assert uptime.serving_since(timezone.now()) > ago(5)


@pytest.mark.contract("D17")
def test_a_hub_that_stutters_still_finds_silence(c1: str) -> None:
    """Twenty seconds of every minute are lost: five minutes of service have passed in the eighth."""
    served((-1_800, -1_760), *((60 * minute, 60 * minute + 40) for minute in range(-29, 0)))
    assert len(Serving.objects.get().gaps) == uptime.MOST_GAPS
    make.renew(c1)
    found = []
    for minute in range(9):
        serve_on((60 * minute, 60 * minute + 40))
        found.append(silent_after(60 * minute + 40))
    assert found == [[]] * 7 + [[c1]] * 2
    assert len(Serving.objects.get().gaps) == uptime.MOST_GAPS


@pytest.mark.contract("D17", "H16")
def test_the_query_and_the_reconciler_agree_about_every_gap(c1: str) -> None:
    dice = random.Random(17)  # noqa: S311 - a repeatable choice
    now = timezone.now()
    at = microseconds(now)
    for _ in range(40):
        times = sorted(at - dice.randrange(1_000) * SECOND for _ in range(6))
        gaps = [(uptime.BEGINNING, times[0]), (times[1], times[2]), (times[3], times[4])]
        Serving.objects.update(gaps=gaps, served=now)
        make.renew(c1, ago(dice.randrange(1_000)))
        WorkItem.objects.all().delete()  # as above
        lease = Lease.objects.get(namespace=c1, name=LEASE_NAME)
        left = verdicts.time_left(make.stored(c1), lease.renew_time, None, now, uptime.serving_gaps(now))
        assert fallen_silent(now, uptime.serving_gaps(now)) == ([c1] if left <= timedelta() else []), (gaps, left)


@pytest.mark.contract("D17")
def test_the_sweep_gives_its_verdicts_although_other_work_waits(c1: str) -> None:
    make.renew(c1, ago(301))
    workqueue.put({("taints", Key("", f"other-{number}")) for number in range(60)}, ago(100))
    sweep_leases()
    assert available() == SILENT


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
    assert fallen_silent(timezone.now() + timedelta(hours=1), [(uptime.BEGINNING, microseconds(ago(7200)))]) == [c1]
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
