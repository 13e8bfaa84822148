"""The health timeline of a cluster: what it says of a past that is known, and to whom."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from guardian.shortcuts import assign_perm

from clusters.health import heartbeat_history, heartbeat_sampling
from clusters.health.heartbeat_history import CELLS, NO_SKEWS, Level
from clusters.kinds import MAINTENANCE_TAINT, MANAGED_CLUSTER
from clusters.models import ClusterFacts, FleetMinute, HeartbeatDay, ManagedCluster, Transition
from ocmconsole.kubeapi import verbs
from tests import actors
from tests import factories as make

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 21, 18, 2, tzinfo=UTC)
MIDNIGHT = NOW.replace(hour=0, minute=0)


@pytest.fixture(autouse=True)
def fleet() -> Any:
    """Two clusters that joined weeks ago, in the evening of a day in which the hub always looked."""
    with time_machine.travel(NOW - timedelta(days=40)):
        make.serve_since(timedelta(days=1))
        for name in ("shop", "other"):
            make.cluster(name, accepted=True)
    with time_machine.travel(NOW):
        minutes = [MIDNIGHT + timedelta(minutes=index) for index in range(18 * 60)]
        FleetMinute.objects.bulk_create(FleetMinute(minute=each, heard=2, expected=2) for each in minutes)
        yield


def past(name: str = "shop", day: datetime = NOW, **hours: Level) -> None:
    """A day heard in full until 18:00, but for ``at_H_MM`` of one cell each."""
    levels = [Level.FULL] * (18 * 12 if day.date() == NOW.date() else CELLS)
    levels += [Level.UNKNOWN] * (CELLS - len(levels))
    for place, level in hours.items():
        _, hour, minute = place.split("_")
        levels[int(hour) * 12 + int(minute) // 5] = level
    skews = heartbeat_history.sampled(NO_SKEWS, 17, 87_000_000)
    heartbeat_sampling.store_readings(
        [HeartbeatDay(cluster=name, day=day.date(), cells=heartbeat_history.packed(levels), skews=skews)]
    )


def heartbeat(*, behind: timedelta) -> None:
    with time_machine.travel(NOW, tick=False):
        make.settle()
        make.renew("shop", NOW - behind)


def clock_samples(**hours: timedelta) -> None:
    """Of this day, one for each ``at_H``."""
    skews = NO_SKEWS
    for place, behind in hours.items():
        hour = int(place.removeprefix("at_"))
        skews = heartbeat_history.sampled(skews, hour, behind // timedelta(microseconds=1))
    HeartbeatDay.objects.filter(cluster="shop", day=NOW.date()).update(skews=skews)


def signed_in(name: str, *clusters: str, **more: Any) -> Client:
    user = User.objects.create_user(name, **more)
    for each in clusters:
        assign_perm("clusters.view_managedcluster", user, ManagedCluster.objects.get(name=each))
    return actors.signed_in(name)


def read(client: Client, query: str = "") -> str:
    answer = client.get(f"/clusters/shop/health/{query}")
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", answer.content.decode().split('id="main"')[1]))


def test_a_gap_has_start_length_and_cause() -> None:
    past(at_9_00=Level.LATE, at_9_05=Level.MISSED, at_9_10=Level.MISSED, at_11_00=Level.LATE)
    heartbeat(behind=timedelta(seconds=87))
    text = read(signed_in("li", "shop"))
    assert "2 gaps · longest 15 min" in text
    assert "09:00 15 min Silent The agent was silent." in text
    assert "11:00 5 min Late Heartbeats came late, inside the limit of 5 min." in text
    assert "1 min 27 s behind , limit 5 min" in text
    assert "1 time silent" in text


@pytest.mark.contract("D17")
def test_time_without_the_hub_is_distinguished_from_silence() -> None:
    FleetMinute.objects.filter(
        minute__gte=MIDNIGHT + timedelta(hours=3), minute__lt=MIDNIGHT + timedelta(hours=3, minutes=10)
    ).delete()
    past(at_3_00=Level.UNKNOWN, at_3_05=Level.UNKNOWN)
    text = read(signed_in("li", "shop"))
    assert "The hub was not serving" in text
    assert "100 % heard · no gaps" in text


@pytest.mark.contract("D17")
def test_a_silence_over_a_restart_of_the_hub_is_one_gap_and_says_for_how_long_nobody_could_be_heard() -> None:
    past(
        at_9_00=Level.MISSED,
        at_9_05=Level.MISSED,
        at_9_10=Level.UNKNOWN,
        at_9_15=Level.UNKNOWN,
        at_9_20=Level.MISSED,
        at_9_25=Level.MISSED,
    )
    text = read(signed_in("li", "shop"))
    assert "1 gap · longest 30 min" in text
    assert "1 time silent" in text
    assert "09:00 30 min Silent The agent was silent. For 10 min of it the hub was not serving" in text
    assert "09:10" not in text.partition("Every gap")[2].partition("What changed")[0]


def test_silence_after_a_revocation_names_it() -> None:
    past(at_9_00=Level.MISSED)
    at = MIDNIGHT + timedelta(hours=8, minutes=58)
    ClusterFacts.objects.update_or_create(
        cluster="shop", defaults={"certificate_revoked_at": at, "certificate_revoked_by": "ana"}
    )
    assert "Its certificate had been revoked by ana, so the agent could not speak." in read(signed_in("li", "shop"))


def test_silence_in_maintenance_says_so() -> None:
    past(at_9_00=Level.MISSED)
    taint = {"key": MAINTENANCE_TAINT, "effect": "NoSelectIfNew"}
    with time_machine.travel(MIDNIGHT + timedelta(hours=8)):
        make.edit(MANAGED_CLUSTER, "shop", lambda doc: doc["spec"].update(taints=[taint]))
    text = read(signed_in("li", "shop"))
    assert "The agent was silent while in maintenance." in text
    assert re.search(r"1 Maintenance began 08:00", text)


def test_others_are_counted_among_those_that_one_may_see() -> None:
    past(at_9_00=Level.MISSED)
    for minutes in (6, 9):
        Transition.objects.create(cluster="other", at=MIDNIGHT + timedelta(hours=9, minutes=minutes), turn="silent")
    assert "1 other fell silent with it" in read(signed_in("ana", "shop", "other"))
    assert "fell silent with it" not in read(signed_in("li", "shop"))


def test_an_earlier_cluster_of_the_name_has_a_history_of_its_own() -> None:
    past(at_9_00=Level.MISSED)
    Transition.objects.create(cluster="shop", at=MIDNIGHT + timedelta(hours=9), turn="silent")
    with time_machine.travel(MIDNIGHT + timedelta(hours=12)):
        verbs.delete(make.ADMIN, MANAGED_CLUSTER, make.stored("shop").key)
        make.settle()
        make.cluster("shop", accepted=True)
    text = read(signed_in("li", "shop"))
    assert "The agent was silent" not in text
    assert "Available became Unknown" not in text


def test_an_earlier_cluster_of_the_name_had_a_clock_of_its_own() -> None:
    past()
    clock_samples(at_11=timedelta(seconds=11), at_12=timedelta(seconds=12), at_13=timedelta(seconds=13))
    li = signed_in("li", "shop")
    assert all(f"+{hour}.0 s" in read(li) for hour in (11, 12, 13))
    with time_machine.travel(MIDNIGHT + timedelta(hours=12, minutes=20)):
        verbs.delete(make.ADMIN, MANAGED_CLUSTER, make.stored("shop").key)
        make.settle()
        make.cluster("shop", accepted=True)
    found = read(signed_in("raj", "shop"))
    assert [hour for hour in (11, 12, 13) if f"+{hour}.0 s" in found] == [13]


def test_the_clock_is_that_of_the_last_heartbeat_and_a_sample_says_where_it_was_cut() -> None:
    past()
    clock_samples(at_15=timedelta(hours=-2), at_16=timedelta(hours=2))
    li = signed_in("li", "shop")
    heartbeat(behind=timedelta(hours=2))
    text = read(li)
    assert "2 h behind , limit 5 min" in text
    assert "+54 min or more" in text
    assert "-54 min or more" in text
    heartbeat(behind=timedelta())
    assert "in step , limit 5 min" in read(li)


def test_nothing_is_known_of_a_new_cluster() -> None:
    text = read(signed_in("li", "shop"), "?gaps=30d")
    assert "nothing is known yet" in text
    assert "No heartbeat in the last 24 hours" in text
    assert "Nothing of what is kept" in text


def test_who_may_not_see_the_cluster_sees_no_health() -> None:
    past()
    assert signed_in("mallory").get("/clusters/shop/health/").status_code == 404
    assert signed_in("raj", "other").get("/clusters/shop/health/").status_code == 404


def test_a_month_of_gaps_takes_as_many_queries_as_one() -> None:
    client = signed_in("li", "shop")
    past(at_9_00=Level.MISSED, at_10_00=Level.UNKNOWN)
    _, few = _queries(client)
    for back in range(1, 30):
        past(day=NOW - timedelta(days=back), at_9_00=Level.MISSED, at_10_00=Level.UNKNOWN, at_12_00=Level.LATE)
    text, many = _queries(client)
    assert text.count("The agent was silent.") > 10
    assert "The newest 50 of 90 gaps, 30 days" in text
    assert many <= few


def _queries(client: Client) -> tuple[str, int]:
    read(client, "?gaps=30d")  # the index of rights has caught up
    with CaptureQueriesContext(connection) as queries:
        text = read(client, "?gaps=30d")
    return text, len(queries)
