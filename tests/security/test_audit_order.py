"""Entries of the audit become visible in the order of their numbers, so that a reader that goes on from the newest misses none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from ocmconsole.accounts.permissions import audit_entry, place_of
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.storage import audit
from ocmconsole.kubeapi.watch import change_log, follower
from tests import factories as make

LIST = Attributes("list", "cluster.open-cluster-management.io", "managedclusters")
SLOW, QUICK = (Actor(user=name, entry_point=EntryPoint.API) for name in ("slow", "quick"))


@pytest.mark.django_db(transaction=True)
@pytest.mark.contract("D11")
@pytest.mark.parametrize("what", ["denial", "write", "act"])
def test_no_entry_becomes_visible_before_one_with_a_lower_number(what: str) -> None:
    make.cluster("web-1")
    quick = place_of(User.objects.create_user("quick"))
    before = change_log.head().audit
    begun, released = Event(), Event()

    def deny_slowly() -> None:
        try:
            with transaction.atomic():
                audit.record_denial(SLOW, LIST, "no right")
                begun.set()
                released.wait(60)
        finally:
            connection.close()

    def come_second() -> None:
        try:
            if what == "denial":
                audit.record_denial(QUICK, LIST, "no right")
            elif what == "act":
                audit_entry(QUICK, "session:create", quick, diff=[]).save()
            else:
                make.label("web-1", env="prod")
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(deny_slowly)
        assert begun.wait(60)
        second = threads.submit(come_second)
        wait([second], timeout=1)  # it waits for the first one, or is done
        seen = follower.notices_after(before)
        newest = seen[-1].number if seen else before
        released.set()
        for each in (first, second):
            each.result()
    later = follower.notices_after(newest)
    assert [each.number for each in seen + later] == [each.number for each in follower.notices_after(before)]
    assert len(seen + later) == 2
