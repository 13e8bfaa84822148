"""D27: when most of a fleet or set falls silent at once, evictions by the hub's own taint wait, visibly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER
from clusters.models import ManagedCluster, Serving
from ocmconsole.core.models import Event
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from placements import tasks
from placements.controller import brakes
from placements.controller.scheduling import decided_in
from placements.kinds import BRAKE_BEGUN, BRAKE_ENDED, PLACEMENT
from placements.models import EvictionBrake, HeldEvictions, PlacementDecision
from placements.scheduler import brake
from tests import factories as make
from tests.controllers.placement_scene import TEAM, bound_set, place

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D27")]

GRACE = timedelta(seconds=300)


@pytest.fixture(autouse=True)
def web(db: None) -> None:
    """A namespace with the set ``web``, in a hub that has served for a day."""
    make.serve_since(timedelta(days=1))
    bound_set()


def heard(*names: str, within: str = "web") -> None:
    """Clusters that are accepted, have joined, are well, and have just sent a heartbeat."""
    for name in names:
        make.cluster(name, labels={CLUSTERSET_LABEL: within})
        make.accept(name)
    make.settle()
    for name in names:
        make.available(name)
        make.renew(name)
    make.settle()


def fleet(count: int, within: str = "web") -> list[str]:
    names = [f"{within}-{number:02}" for number in range(count)]
    heard(*names, within=within)
    return names


def renew(names: Iterable[str]) -> None:
    for name in names:
        make.renew(name)


def chosen_of_whom_the_first_was_heard_earlier() -> list[str]:
    """Five clusters that a Placement has; the last heartbeat of the first is 50 seconds older than those of the others."""
    names = fleet(5)
    place()
    with later(timedelta(seconds=50)):
        renew(names[1:])
    return names


def chosen(name: str = "p1") -> set[str]:
    return set(decided_in(PlacementDecision.objects.filter(namespace=TEAM, placement=name)))


@contextmanager
def later(ago: timedelta) -> Iterator[None]:
    """So much later, in which the hub has served."""
    with time_machine.travel(timezone.now() + ago, tick=False):
        Serving.objects.update(seen=timezone.now(), served=timezone.now())
        yield


def standing() -> list[tuple[str, int, int, int]]:
    rows = EvictionBrake.objects.filter(ended=None).order_by("scope")
    return list(rows.values_list("scope", "silent", "late", "members"))


def events(reason: str) -> list[dict[str, Any]]:
    found = (row.doc for row in Event.objects.filter(namespace=TEAM))
    return [doc for doc in found if doc.get("reason") == reason]


def held(name: str = "p1") -> int:
    return HeldEvictions.objects.get(placement__name=name).count


def test_when_most_fall_silent_at_once_they_stay_chosen_for_a_quarter_of_an_hour() -> None:
    names = fleet(3)
    place()
    with later(GRACE):
        make.renew(names[0])
        make.sweep()
        assert make.condition(make.stored(names[1]).doc, "ManagedClusterConditionAvailable")[0] == "Unknown"
        assert make.taints(names[1]) == ["unreachable:NoSelect"]
        assert chosen() == set(names)
        assert standing() == [("", 0, 2, 3)]
        assert held() == 2
        with later(brake.WAIT - timedelta(seconds=1)):
            make.settle()
            assert chosen() == set(names)
        with later(brake.WAIT + timedelta(seconds=1)):
            make.settle()
            assert chosen() == {names[0]}
            assert held() == 0
            tasks.watch_brakes()
            assert not standing()
    assert EvictionBrake.objects.get().ended_why == EvictionBrake.Ending.TIME


def test_half_of_the_clusters_is_not_most_of_them() -> None:
    names = fleet(4)
    place()
    with later(GRACE):
        renew(names[:2])
        make.sweep()
        assert not standing()
        assert chosen() == set(names[:2])


def test_the_first_that_fall_silent_wait_when_the_others_miss_heartbeats() -> None:
    """Agents renew at different moments: the first is silent up to a lease duration before the last."""
    names = chosen_of_whom_the_first_was_heard_earlier()
    with later(GRACE):
        make.sweep()
        assert make.taints(names[0]) == ["unreachable:NoSelect"]
        assert standing() == [("", 0, 5, 5)]
        assert chosen() == set(names)
    with later(GRACE + timedelta(seconds=50)):
        make.sweep()
        assert chosen() == set(names)
        tasks.watch_brakes()
        assert EvictionBrake.objects.get().is_confirmed


def test_a_brake_ends_where_most_were_only_late() -> None:
    names = chosen_of_whom_the_first_was_heard_earlier()
    with later(GRACE):
        make.sweep()
        renew(names[1:])
        tasks.watch_brakes()
        assert standing()
        with later(GRACE - timedelta(seconds=60)):
            tasks.watch_brakes()
            assert standing()
        with later(GRACE + timedelta(seconds=1)):
            renew(names[1:])
            tasks.watch_brakes()
            make.settle()
            assert EvictionBrake.objects.get().ended_why == EvictionBrake.Ending.UNCONFIRMED
            assert chosen() == set(names[1:])


def test_a_set_with_ten_clusters_has_a_brake_of_its_own_and_a_smaller_one_has_none() -> None:
    web, few = fleet(10), fleet(9, within="few")
    fleet(6, within="db")
    make.clusterset("few")
    make.binding("few", namespace=TEAM)
    place()
    with later(GRACE):
        for row in ManagedCluster.objects.exclude(name__in=[*web[:6], *few[:6]]):
            make.renew(row.name)
        make.sweep()
        assert standing() == [("web", 0, 6, 10)]
        assert chosen() == {*web, *few[6:]}


def test_clusters_that_come_back_stay_and_the_brake_ends_with_the_last_of_them() -> None:
    names = fleet(3)
    place()
    with later(GRACE):
        make.sweep()
        tasks.watch_brakes()
        for name in names:
            make.available(name)
            make.renew(name)
        make.settle()
        assert held() == 0
        tasks.watch_brakes()
        assert EvictionBrake.objects.get().ended_why == EvictionBrake.Ending.RETURNED
        assert chosen() == set(names)


def test_after_its_end_the_same_silence_begins_no_other_brake() -> None:
    names = fleet(5)
    place()
    with later(GRACE):
        renew(names[:2])
        make.sweep()
        brakes.end(brakes.CONTROLLER, EvictionBrake.objects.get(), EvictionBrake.Ending.RELEASED, timezone.now())
        make.settle()
        assert chosen() == set(names[:2])
        with later(timedelta(seconds=30)):
            make.renew(names[1], timezone.now() - GRACE)
            make.sweep()
            assert not standing()
            assert chosen() == {names[0]}


def test_nothing_but_the_eviction_by_silence_is_held() -> None:
    """Other taints, labels and the end of membership count as ever."""
    names = fleet(4)
    place(predicates=[{"requiredClusterSelector": {"labelSelector": {"matchLabels": {CLUSTERSET_LABEL: "web"}}}}])
    with later(GRACE):
        make.sweep()
        taint = {"key": "gpu", "effect": "NoSelect"}
        make.edit(MANAGED_CLUSTER, names[0], lambda doc: doc["spec"]["taints"].append(taint))
        make.label(names[1], {CLUSTERSET_LABEL: "db"})
        make.settle()
        assert chosen() == set(names[2:])
        place("p2")
        assert chosen("p2") == set()


def test_a_brake_can_be_switched_off(settings: Any) -> None:
    settings.OCMCONSOLE_EVICTION_BRAKE = "off"
    fleet(3)
    place()
    with later(GRACE):
        make.sweep()
        assert not standing()
        assert chosen() == set()


def test_it_is_in_the_audit_and_an_event_says_how_many_wait_and_until_when() -> None:
    fleet(3)
    place()
    with later(GRACE):
        make.sweep()
        make.settle()
        [event] = events("EvictionsHeld")
        assert event["type"] == "Warning"
        until = (timezone.now() + brake.WAIT).strftime("%H:%M:%S")
        assert event["message"] == f"3 clusters fell silent with most others at once and stay chosen until {until} UTC"
        status = (verbs.find(PLACEMENT, Key(TEAM, "p1")) or {})["status"]
        assert [each["status"] for each in status["conditions"]] == ["True", "False"]
    with later(GRACE + brake.WAIT + timedelta(seconds=1)):
        tasks.watch_brakes()
        make.settle()
        assert len(events("EvictionsNoLongerHeld")) == 1
    acts = AuditEvent.objects.filter(act__in=[BRAKE_BEGUN, BRAKE_ENDED]).order_by("pk")
    assert list(acts.values_list("act", "reason")) == [
        (BRAKE_BEGUN, "all clusters: 3 of 3 silent or late"),
        (BRAKE_ENDED, "all clusters: 3 of 3 silent or late; time"),
    ]
