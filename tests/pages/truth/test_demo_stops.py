"""A demonstration fleet whose process dies while it is made or removed: the next call goes on, and nothing is left over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from clusters.models import HeartbeatDay, ManagedCluster, Transition
from clustersets.models import ManagedClusterSet
from ocmconsole.core.models import BootstrapToken, Namespace
from ocmconsole.demo import live
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.models import Revision
from ocmconsole.models import DemoFleet
from registration.models import CertificateSigningRequest
from tests import factories as make
from tests.pages.joining import hub

pytestmark = pytest.mark.django_db(transaction=True)

LONG = 60.0  # seconds: more than any of these takes
# Each begins one transaction of a step.
BEGINNINGS = ("INSERT INTO kubeapi_revision", 'UPDATE "ocmconsole_demofleet"', "DELETE FROM")


class Stopped(Exception):
    """Stands for the end of the process."""


@contextmanager
def stopping(number: int) -> Iterator[list[str]]:
    """Stops before the numbered beginning of a transaction; yields those that were begun."""
    begun: list[str] = []

    def look(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(BEGINNINGS):
            if len(begun) == number:
                raise Stopped
            begun.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(look):
        yield begun


def is_stopped(number: int, act: Callable[[], object]) -> bool:
    try:
        with stopping(number):
            act()
    except Stopped:
        return True
    return False


@pytest.fixture
def root(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    hub(tmp_path, settings)
    monkeypatch.setattr(live, "STATES", {"waiting": 3})
    return actor_for(User.objects.create_user("root", is_superuser=True))


def fleet() -> DemoFleet:
    """As a process that starts now reads it."""
    return DemoFleet.objects.get_or_create(
        pk=1, defaults={"state": "making", "clusters": live.planned(), "created": timezone.now()}
    )[0]


def made(root: Any) -> None:
    for _ in range(20):
        if live.make(fleet(), root, LONG):
            return
        make.settle()
    raise AssertionError("it was not made")


def removed(root: Any, seconds: float = LONG) -> int:
    """How many calls it took."""
    for calls in range(1, 100):
        if live.remove(fleet(), root, seconds):
            make.settle()
            assert left_over() == []
            fleet().delete()
            return calls
        make.settle()
    raise AssertionError("it was not removed")


def left_over() -> list[str]:
    rows: list[Any] = [
        *ManagedCluster.objects.all(),
        *ManagedClusterSet.objects.exclude(name__in=("default", "global")),
        *CertificateSigningRequest.objects.all(),
        *Namespace.objects.filter(name__startswith=live.PREFIX, deleted_at=None),
        *BootstrapToken.objects.filter(revoked_at=None),
        *HeartbeatDay.objects.all(),
        *Transition.objects.all(),
    ]
    return [f"{type(row).__name__} {row}" for row in rows]


def test_what_stops_while_it_is_made_is_completed_by_the_next_call(root: Any) -> None:
    number = 0
    while is_stopped(number, lambda: live._make_surroundings(fleet(), root)):
        made(root)
        assert ManagedCluster.objects.count() == 3
        assert set(fleet().made["sets"]) == set(
            ManagedClusterSet.objects.exclude(name__in=("default", "global")).values_list("name", flat=True)
        )
        assert fleet().made["tokens"] == [BootstrapToken.objects.get(revoked_at=None).pk]
        removed(root)
        number += 1
    assert number > 3


def test_what_stops_while_it_is_made_can_be_removed(root: Any) -> None:
    number = 0
    while is_stopped(number, lambda: live._make_surroundings(fleet(), root)):
        removed(root)
        number += 1
    assert number > 3
    removed(root)


def test_what_stops_while_it_is_removed_is_removed_by_the_next_call(root: Any) -> None:
    made(root)
    number, is_complete = 0, False
    while not is_complete:
        is_complete = (
            not is_stopped(number, lambda: live.remove(fleet(), root, LONG)) and not live.left(fleet()).exists()
        )
        make.settle()
        number += 1
        if number % 3 == 0 and not is_complete:  # from its beginning, so that later steps are stopped too
            removed(root)
            made(root)
    removed(root)
    assert number > 6


def test_no_slice_of_a_removal_is_longer_than_one_step(root: Any) -> None:
    made(root)
    while ManagedCluster.objects.exists():
        assert not live.remove(fleet(), root, 0.0)
        make.settle()
    counts = [len(left_over())]
    while not live.remove(fleet(), root, 0.0):
        counts.append(len(left_over()))
    assert len(counts) > 4
    assert max(before - after for before, after in pairwise(counts)) <= 1
    assert left_over() == []
    assert Revision.objects.exists()
