"""Commits of this process reach its follower in memory: as the log has them, in order, and only once they are there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.core.kinds import CLUSTER_ROLE, CONFIG_MAP
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import Change
from ocmconsole.kubeapi.watch import change_log, follower
from ocmconsole.kubeapi.watch.change_log import ChangeEntry
from ocmconsole.kubeapi.writes import store
from tests import factories as make
from tests.watch.inside import LONGEST, apart

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread")]
CLUSTERS = follower.Topic(MANAGED_CLUSTER.resource)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """From where the log was read; not by the clock."""
    look, asked = follower.look, []

    def counted(after: int, *others: object) -> follower.Look:
        asked.append(after)
        return look(after, *others)  # type: ignore[arg-type] # as they came

    for name in ("POLL_SECONDS", "SOON_SECONDS"):
        monkeypatch.setattr(follower, name, LONGEST)
    monkeypatch.setattr(follower, "look", counted)
    # Other workers of the run use the same Redis, whose channels are of all its databases.
    monkeypatch.setattr(change_log, "CHANNEL", f"{change_log.CHANNEL}-of-one-test")
    return asked


async def heard(watch: follower.ChangeSubscriber, count: int) -> list[ChangeEntry]:
    found: list[ChangeEntry] = []
    while len(found) < count:
        batch = await watch.queue.get()
        assert batch is not None
        found += batch
    return found


def elsewhere(act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """As another process writes, of which this one learns nothing."""

    def acting() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(change_log, "wakers", set())
            act()

    return acting


def test_they_are_what_the_log_has_and_cost_no_query(looks: list[int]) -> None:
    def write() -> None:
        """The labels of an object move, so that a selector may have seen something else."""
        make.create(CONFIG_MAP, make.document(CONFIG_MAP, "a", labels={"x": "1"}), namespace="own")
        make.edit(CONFIG_MAP, "a", lambda doc: doc["metadata"].update(labels={"x": "2"}), namespace="own")
        make.clusterset("nobody-listens")
        verbs.delete(make.ADMIN, CONFIG_MAP, Key("own", "a"))

    async def follow() -> tuple[list[ChangeEntry], int]:
        await apart(partial(make.namespace, "own"))
        followed = follower.follower()
        async with asyncio.timeout(LONGEST), followed.subscribe(follower.Topic(CONFIG_MAP.resource)) as watch:
            first = make.document(CONFIG_MAP, "first")
            await apart(lambda: make.create(CONFIG_MAP, first, namespace="own"))
            await heard(watch, 1)
            began = len(looks)
            await apart(write)
            return await heard(watch, 3), len(looks) - began

    found, asked = asyncio.run(follow())
    assert asked == 0
    rows = Change.objects.filter(resource=CONFIG_MAP.resource).order_by("revision")
    assert [entry.columns for entry in found] == [entry.columns for entry in ChangeEntry.read(rows)][-3:]
    assert [bool(entry.before) for entry in found] == [False, True, False]


def test_what_is_rolled_back_is_not_heard_of_and_leaves_no_gap(looks: list[int]) -> None:
    def undone() -> None:
        with pytest.raises(ZeroDivisionError), store.numbered(1, MANAGED_CLUSTER.resource, list):
            raise ZeroDivisionError

    async def follow() -> list[str]:
        followed = follower.follower()
        async with asyncio.timeout(LONGEST), followed.subscribe(CLUSTERS) as watch:
            await apart(partial(make.cluster, "web-1"))
            await heard(watch, 1)
            began = len(looks)
            await apart(undone)
            await apart(partial(make.cluster, "web-2"))
            names = [entry.name for entry in await heard(watch, 1)]
            assert len(looks) == began
            return names

    assert asyncio.run(follow()) == ["web-2"]


def test_what_another_process_wrote_in_between_is_read_from_the_log_and_comes_in_order(
    looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def follow() -> list[str]:
        followed = follower.follower()
        async with asyncio.timeout(LONGEST), followed.subscribe(CLUSTERS) as watch:
            await apart(partial(make.cluster, "web-1"))
            await heard(watch, 1)
            began = len(looks)
            await apart(elsewhere(partial(make.cluster, "web-2"), monkeypatch))
            await apart(partial(make.cluster, "web-3"))
            names = [entry.name for entry in await heard(watch, 2)]
            assert len(looks) > began
            return names

    assert asyncio.run(follow()) == ["web-2", "web-3"]


def test_commits_that_are_announced_in_another_order_are_passed_on_in_that_of_their_revisions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As threads on PostgreSQL may, between the end of the transaction and the announcement."""
    held: list[change_log.CommittedChanges | None] = []

    async def follow() -> list[str]:
        followed = follower.follower()
        async with asyncio.timeout(LONGEST), followed.subscribe(CLUSTERS) as watch:
            with monkeypatch.context() as patch:
                patch.setattr(change_log, "wakers", {held.append})
                for name in ("web-1", "web-2", "web-3"):
                    await apart(partial(make.cluster, name))
            for commit in reversed(held):
                followed._wake(commit)
                await asyncio.sleep(0)
            return [entry.name for entry in await heard(watch, 3)]

    assert asyncio.run(follow()) == ["web-1", "web-2", "web-3"]


def test_an_end_of_rights_comes_with_its_number(looks: list[int]) -> None:
    async def follow() -> tuple[int, int]:
        followed = follower.follower()
        async with asyncio.timeout(LONGEST), followed.subscribe(follower.Topic(CLUSTER_ROLE.resource)) as watch:
            await apart(lambda: make.create(CLUSTER_ROLE, make.document(CLUSTER_ROLE, "first") | {"rules": []}))
            await heard(watch, 1)
            began, before = len(looks), followed.ended_rights
            await apart(lambda: make.create(CLUSTER_ROLE, make.document(CLUSTER_ROLE, "second") | {"rules": []}))
            await heard(watch, 1)
            assert followed.ended_rights == before
            await apart(lambda: verbs.delete(make.ADMIN, CLUSTER_ROLE, Key("", "first")))
            await heard(watch, 1)
            assert len(looks) == began
            assert followed.ended_rights > before
            counts = await follower.in_thread(change_log.rights_counts)
            return followed.ended_rights, counts.ended_rights

    ended, stored = asyncio.run(follow())
    assert ended == stored
