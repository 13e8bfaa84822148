"""The one follower of a process: what a look costs, and that watches and pages get all of what is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from functools import partial
from threading import Event
from typing import Any

import pytest
from django.contrib.auth.models import User

from clusters.kinds import MANAGED_CLUSTER
from clustersets.kinds import MANAGED_CLUSTER_SET
from ocmconsole.accounts.permissions import audit_entry, place_of
from ocmconsole.console import live_updates
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.control import compaction
from ocmconsole.kubeapi.models import Change, Compaction
from ocmconsole.kubeapi.storage import audit
from ocmconsole.kubeapi.watch import change_log, follower
from tests import factories as make
from tests.watch.inside import LONGEST, apart

ANA = Actor(user="ana", entry_point=EntryPoint.WEB)
LIST = Attributes("list", "cluster.open-cluster-management.io", "managedclusters")

Asserts = Callable[[int], AbstractContextManager[Any]]


# ---------------------------------------------------------------- one look


@pytest.mark.django_db
def test_a_look_costs_a_query_where_nothing_was_written_and_one_more_for_each_kind_of_reader(
    django_assert_num_queries: Asserts,
) -> None:
    make.cluster("web-1")
    before = change_log.head()
    with django_assert_num_queries(1):
        found = follower.look(before.revision, before.audit)
    assert (found.entries, found.reached, found.cuts, found.notices) == ([], before.revision, {}, [])
    make.label("web-1", env="prod")
    with django_assert_num_queries(2):
        found = follower.look(before.revision, None)
    assert [(each.verb, each.name) for each in found.entries] == [("MODIFIED", "web-1")]
    with django_assert_num_queries(3):
        found = follower.look(before.revision, before.audit)
    assert [(each.plural, each.name) for each in found.notices] == [("managedclusters", "web-1")]


@pytest.mark.contract("W12")
@pytest.mark.django_db
@pytest.mark.parametrize("batch", [1, 2, 100])
def test_what_was_cut_unread_is_found_out(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "BATCH", batch)
    before = change_log.newest_revision()
    make.cluster("web-1")
    make.clusterset("web")
    compaction.bound_log(1)
    make.label("web-1", env="prod")
    cuts: dict[str, int] = {}
    entries: list[change_log.ChangeEntry] = []
    reached = before
    while reached < change_log.newest_revision():
        found = follower.look(reached, None)
        reached, cuts, entries = found.reached, cuts | found.cuts, entries + found.entries
    assert cuts == dict(Compaction.objects.values_list("resource", "revision"))
    assert [each.verb for each in entries][-1:] == ["MODIFIED"]
    assert follower.look(reached, None).cuts == {}


@pytest.mark.contract("W12")
@pytest.mark.django_db
def test_a_look_at_some_resources_misses_no_cut_and_finds_none_where_nothing_was_cut() -> None:
    wanted = {MANAGED_CLUSTER.resource}
    before = change_log.newest_revision()
    make.clusterset("web")
    make.cluster("web-1")
    make.clusterset("edge")
    found = follower.look(before, None, wanted)
    assert {(each.resource, each.name) for each in found.entries} == {(MANAGED_CLUSTER.resource, "web-1")}
    assert (found.reached, found.cuts) == (change_log.newest_revision(), {})
    Compaction.objects.create(resource=MANAGED_CLUSTER.resource, revision=before + 1)  # of what was read before
    assert follower.look(before, None, wanted).cuts == {}
    Change.objects.filter(resource=MANAGED_CLUSTER.resource).delete()
    assert follower.look(before, None, wanted).cuts == {MANAGED_CLUSTER.resource: before + 1}


# ---------------------------------------------------------------- following


async def named(page: follower.NoticeSubscriber, resource: str, times: int) -> list[str]:
    """The names of the first entries about the resource."""
    names: list[str] = []
    while len(names) < times:
        names += [each.name for each in await page.next() if each.plural == resource]
    return names


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread")
def test_a_watch_and_two_pages_get_what_is_written_and_pages_what_is_only_in_the_audit() -> None:
    ana = place_of(User.objects.create_user("ana"))

    async def follow() -> None:
        followed = follower.follower()
        topic = follower.Topic(MANAGED_CLUSTER.resource)
        async with (
            asyncio.timeout(LONGEST),
            followed.subscribe(topic) as watch,
            followed.notices() as first,
            followed.notices() as second,
        ):
            await apart(partial(make.cluster, "web-1"))
            batch = await watch.queue.get()
            assert batch is not None
            assert [(each.verb, each.name) for each in batch] == [("ADDED", "web-1")]
            await apart(partial(audit.record_denial, ANA, LIST, "no right"))
            await apart(audit_entry(ANA, "session:create", ana, diff=[]).save)
            for page in (first, second):
                assert await named(page, "managedclusters", 2) == ["web-1", ""]
            await apart(partial(make.label, "web-1", env="prod"))
            assert await named(first, "managedclusters", 1) == ["web-1"]
            assert first.position == (await follower.in_thread(change_log.head)).audit
        assert follower.follower() is followed

    asyncio.run(follow())


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread")
def test_a_stream_that_opens_while_the_log_is_read_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look was for other resources only, and has come past the change that the new stream must hear of."""
    reading, may_go_on, look = Event(), Event(), follower.look

    def slow_look(*arguments: Any) -> follower.Look:
        if reading.is_set():
            return look(*arguments)
        reading.set()
        assert may_go_on.wait(LONGEST)
        return look(*arguments)

    async def follow() -> None:
        followed = follower.follower()
        async with asyncio.timeout(LONGEST), followed.subscribe(follower.Topic(MANAGED_CLUSTER_SET.resource)):
            monkeypatch.setattr(follower, "look", slow_look)
            await apart(partial(make.cluster, "web-1"))
            await asyncio.to_thread(reading.wait, LONGEST)
            async with followed.subscribe(follower.Topic(MANAGED_CLUSTER.resource)) as late:
                await apart(partial(make.cluster, "web-2"))
                may_go_on.set()
                names: list[str] = []
                while "web-2" not in names:
                    names += [each.name for each in (await late.queue.get()) or ()]

    asyncio.run(follow())


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread")
def test_a_page_that_takes_nothing_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "NOTICE_QUEUE_LENGTH", 1)
    monkeypatch.setattr(follower, "NOTICE_SECONDS", 0.0)

    async def follow() -> None:
        followed = follower.follower()
        async with asyncio.timeout(LONGEST), followed.notices() as slow, followed.notices() as quick:
            for number in range(3):
                await apart(partial(make.cluster, f"web-{number}"))
                assert await named(quick, "managedclusters", 1) == [f"web-{number}"]
            assert await named(slow, "managedclusters", 1) == ["web-0"]
            await apart(partial(make.cluster, "web-3"))
            assert await named(slow, "managedclusters", 1) == ["web-3"]

    asyncio.run(follow())


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("thread")
def test_an_open_page_gets_what_happens_and_one_that_comes_back_what_it_missed() -> None:
    sight = live_updates.NoticeVisibility.of(make.ADMIN)
    scopes = [live_updates.LiveScope("managedclusters")]

    async def changed(stream: AsyncIterator[bytes]) -> bytes:
        """Beats come in between on a busy machine."""
        while not (text := await anext(stream)).startswith(b"event: changed"):
            assert text.startswith(b"event: beat")
        return text

    async def follow() -> None:
        async with asyncio.timeout(LONGEST):
            stream = live_updates._events(sight, scopes, None, "")
            hello = await anext(stream)
            assert hello.startswith(b"event: hello\nid: ")
            await apart(partial(make.clusterset, "web"))  # not on this page
            await apart(partial(make.cluster, "web-1"))
            seen = await changed(stream)
            assert b'"resources":["managedclusters"]' in seen
            again = live_updates._events(sight, scopes, int(hello.split()[3]), "")
            assert (await anext(again)).startswith(b"event: hello")
            assert (await changed(again)).split()[2:4] == seen.split()[2:4]

    asyncio.run(follow())
