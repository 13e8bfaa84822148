"""The sweep for silence looks at clusters that moved, and at all of them when one may be silent (H16, H18, D17)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clusters.health import deadlines, uptime
from clusters.kinds import LEASE, LEASE_NAME, MANAGED_CLUSTER
from clusters.models import Serving
from clusters.tasks import sweep_leases
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.control import compaction
from ocmconsole.kubeapi.kinds import Key
from tests import factories as make

pytestmark = pytest.mark.django_db

NAMES = ("c1", "c2", "c3", "c4")


@pytest.fixture(autouse=True)
def heard(db: None) -> None:
    make.serve_since(timedelta(days=1))
    make.joined(*NAMES)
    make.sweep()


@contextmanager
def later(seconds: float) -> Iterator[None]:
    """So long from now, of a hub that has served all the time."""
    with time_machine.travel(timezone.now() + timedelta(seconds=seconds), tick=False):
        Serving.objects.update(seen=timezone.now(), served=timezone.now())
        yield


def is_asked(table: str) -> bool:
    """Whether a sweep reads the table."""
    with CaptureQueriesContext(connection) as queries:
        sweep_leases()
    return any(f'"{table}"' in query["sql"] for query in queries)


@pytest.mark.contract("H16", "H18")
def test_a_sweep_over_clusters_that_have_not_moved_reads_none_of_them() -> None:
    sweep_leases()
    assert not is_asked("clusters_managedcluster")
    make.renew("c1")
    assert is_asked("clusters_managedcluster")
    assert not is_asked("clusters_managedcluster")


@pytest.mark.contract("H16", "D17")
def test_all_are_looked_at_when_the_hub_has_not_served_and_once_a_minute() -> None:
    sweep_leases()
    Serving.objects.update(gaps=[[uptime.BEGINNING, 0], [0, 5]])
    assert is_asked("clusters_managedcluster")
    assert not is_asked("clusters_managedcluster")
    with later(61):
        assert is_asked("clusters_managedcluster")


@pytest.mark.contract("H18", "D23")
def test_all_are_looked_at_when_what_moved_was_cut_from_the_log() -> None:
    """A log that has grown beyond its bound may lose what is younger than a sweep."""
    sweep_leases()
    make.renew("c1", timezone.now() + timedelta(hours=1))
    compaction.bound_log(1)
    now = timezone.now()
    assert deadlines.due(now, uptime.serving_gaps(now)).flipped == ["c1"]


@pytest.mark.contract("H16")
def test_one_that_falls_silent_within_the_minute_is_found_in_time() -> None:
    """Its lease is short, so that its time is over before the next look at all."""
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["spec"].update(leaseDurationSeconds=4))
    make.settle()
    make.renew("c1")
    sweep_leases()
    for seconds, expected in ((18, "True"), (21, "Unknown")):
        with later(seconds):
            sweep_leases()
            assert make.stored("c1").available == expected


@pytest.mark.contract("H16")
def test_one_that_falls_silent_is_no_reason_to_look_at_all_others() -> None:
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["spec"].update(leaseDurationSeconds=4))
    make.settle()
    make.renew("c1")
    sweep_leases()
    for seconds in (21, 23):
        with later(seconds):
            with CaptureQueriesContext(connection) as queries:
                sweep_leases()
            looks = [each["sql"] for each in queries if """"accepted" = ''""" in each["sql"]]
            assert looks
            assert all("""IN ('c1')""" in each for each in looks)
    assert make.stored("c1").available == "Unknown"


@pytest.mark.contract("H18")
def test_of_more_than_one_sweep_says_the_next_says_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "MOST_AT_ONCE", 1)
    sweep_leases()
    for name in NAMES:
        make.renew(name, timezone.now() + timedelta(hours=1))
    for _ in NAMES:
        make.sweep()
    assert {make.stored(name).clock_synced for name in NAMES} == {"False"}


@pytest.mark.contract("H16", "H18", "K46", "D17")
@pytest.mark.parametrize("seed", range(4))
def test_what_is_due_is_what_the_look_at_all_finds(seed: int) -> None:
    dice, now = random.Random(seed), timezone.now()  # noqa: S311 - a repeatable choice
    acts: list[Callable[[str], object]] = [
        lambda name: make.renew(name, timezone.now()),
        lambda name: make.renew(name, timezone.now() - timedelta(seconds=dice.randrange(600))),
        lambda name: make.edit(
            MANAGED_CLUSTER, name, lambda doc: doc["spec"].update(leaseDurationSeconds=dice.choice((2, 10, 60)))
        ),
        lambda name: make.available(name, dice.choice(("True", "False", "Unknown"))),
        lambda name: make.accept(name, accepts=dice.random() < 0.5),
        lambda name: verbs.delete(make.ADMIN, LEASE, Key(name, LEASE_NAME)),
        lambda name: make.label(name, moved=str(dice.randrange(9))),
    ]
    for _ in range(40):
        now += timedelta(seconds=dice.choice((0, 2, 10, 30, 100)))
        with time_machine.travel(now, tick=False):
            Serving.objects.update(seen=now, served=now)
            if dice.random() < 0.7:
                dice.choice(acts)(dice.choice(NAMES))
            gaps = uptime.serving_gaps(now)
            wanted = deadlines.fallen_silent(now, gaps), deadlines.clock_flipped()
            assert tuple(map(sorted, deadlines.due(now, gaps))) == tuple(map(sorted, wanted))
            if dice.random() < 0.5:
                make.sweep()
            else:
                make.settle()
