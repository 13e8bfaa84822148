"""Writers that wait for each other share a transaction, and each has its own outcome (ADR 22)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import Error as DatabaseFailure
from django.db import IntegrityError, connection, transaction

from clusters.models import ReportedClaim
from ocmconsole.core import kinds
from ocmconsole.core.kinds import CONFIG_MAP
from ocmconsole.kubeapi import abandoned_requests, clock, errors, verbs, write_queue
from ocmconsole.kubeapi.access.actor import AUTHENTICATED, Actor
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent, Change, Revision, WorkItem
from ocmconsole.kubeapi.storage import plain_sql, reader
from ocmconsole.kubeapi.watch import change_log
from ocmconsole.kubeapi.writes import group_commit
from tests import factories as make
from tests.actors import ROOT, grant, person, rule

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[[], object]
PATIENCE = 60.0  # seconds for what happens at once unless the test fails
WRITERS, WRITES = 16, 6


@pytest.fixture(autouse=True)
def team(settings: Any) -> None:
    settings.OCMCONSOLE_DATABASE_LOCK_TIMEOUT = timedelta(seconds=PATIENCE)
    make.namespace("team")
    put("settings")


def put(name: str, *, by: Actor = ROOT) -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"by": "nobody"}}
    verbs.create(by, CONFIG_MAP, document, namespace="team")


def edit(name: str, value: str, *, by: Actor = ROOT, expect: str = "") -> None:
    with verbs.batch(by) as batch:
        batch.edit(CONFIG_MAP, Key("team", name), lambda doc: doc["data"].update(by=value), expect=expect)


def stored(name: str) -> Doc | None:
    return verbs.find(CONFIG_MAP, Key("team", name))


def head() -> int:
    return change_log.head().revision


class Group:
    """Acts of which each is on a thread of its own; the first leads, the others wait behind it in their order."""

    def __init__(self) -> None:
        self.savepoints = 0  # in the transaction of the leader

    def run(self, *acts: Act) -> list[BaseException | None]:
        """What each raised."""
        with ThreadPoolExecutor(len(acts)) as pool:
            with write_queue.turn(), transaction.atomic(durable=True):
                Revision.take(0)  # a writer that takes its time
                running = [self._begin(pool, number, act) for number, act in enumerate(acts)]
            return [each.exception(PATIENCE) for each in running]

    def _begin(self, pool: ThreadPoolExecutor, number: int, act: Act) -> Future[None]:
        done = pool.submit(self._do, act)
        until = time.monotonic() + PATIENCE
        while not group_commit._is_led or len(group_commit._line) < number:
            assert time.monotonic() < until, done
            time.sleep(0.001)
        return done

    def _do(self, act: Act) -> None:
        with closing(connection), connection.execute_wrapper(self._count):
            act()

    def _count(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.savepoints += sql.startswith("SAVEPOINT")
        return execute(sql, params, many, context)


def refused(found: list[BaseException | None]) -> list[type[BaseException] | None]:
    return [type(each) if each is not None else None for each in found]


def with_record(name: str, record: Callable[[], Any]) -> None:
    with verbs.batch(ROOT) as batch:
        batch.create(CONFIG_MAP, {"metadata": {"name": name}}, namespace="team")
        batch.records.append(record)


def given_up(name: str) -> None:
    abandoned_requests.watch_client(lambda: True)
    put(name)


def broken() -> Iterator[Any]:
    """A record that the database refuses, in a transaction that PostgreSQL then takes for aborted."""
    plain_sql.run("SELECT nonsense FROM nowhere")
    yield from ()


@pytest.mark.contract("W14")
def test_each_write_of_a_group_has_its_own_outcome() -> None:
    version = (stored("settings") or {})["metadata"]["resourceVersion"]
    before, group = head(), Group()
    found = group.run(
        partial(edit, "settings", "first"),
        partial(edit, "settings", "second", expect=version),
        partial(put, "new"),
        partial(put, "new"),
        partial(given_up, "given-up"),
        partial(with_record, "broken", broken),
        partial(put, "last"),
    )
    assert refused(found)[:5] == [None, verbs.Stale, None, errors.AlreadyExists, errors.Timeout]
    assert isinstance(found[5], DatabaseFailure)
    assert found[6] is None
    assert group.savepoints == 5  # not for the leader, nor for whose client has gone
    assert (stored("settings") or {})["data"] == {"by": "first"}
    written = Change.objects.filter(revision__gt=before).order_by("revision")
    assert [(each.revision - before, each.name) for each in written] == [(1, "settings"), (2, "new"), (3, "last")]
    entries = AuditEvent.objects.filter(revision__gt=before).order_by("id")
    assert [(each.revision - before, each.name) for each in entries] == [(1, "settings"), (2, "new"), (3, "last")]
    assert head() == before + 3
    assert reader.check_wire()[1] == []


def test_a_write_that_others_of_its_group_have_overtaken_is_decided_again() -> None:
    def add(name: str) -> None:
        verbs.edit(ROOT, CONFIG_MAP, Key("team", "settings"), lambda doc: doc["data"].update({name: "yes"}))

    assert Group().run(*(partial(add, name) for name in "abc")) == [None] * 3
    assert set((stored("settings") or {})["data"]) == {"by", "a", "b", "c"}


@pytest.mark.contract("W13", "D11")
def test_a_right_that_ends_in_a_group_ends_before_the_next_write_of_it() -> None:
    name = grant(person("ana"), rule("create", "configmaps"))

    def ana() -> Actor:
        return Actor("ana", (AUTHENTICATED,), as_of=change_log.rights(), renew=ana)

    before = head()
    present = ana()
    found = Group().run(
        partial(put, "before", by=present),
        lambda: verbs.delete(ROOT, kinds.CLUSTER_ROLE_BINDING, Key("", name)),
        partial(put, "after", by=present),
        partial(put, "other"),
    )
    assert refused(found) == [None, None, errors.Forbidden, None]
    assert (stored("after"), [each.name for each in AuditEvent.objects.filter(outcome="denied")]) == (None, ["after"])
    revisions = Change.objects.filter(revision__gt=before).order_by("revision").values_list("revision", flat=True)
    assert [*revisions] == [*range(before + 1, head() + 1)]


@pytest.mark.contract("W13", "D11")
def test_a_right_that_ended_before_a_group_refuses_one_write_of_it() -> None:
    ended = replace(Actor("ana", (AUTHENTICATED,)), as_of=-1, renew=lambda: Actor("ana", (AUTHENTICATED,)))

    def act() -> None:
        with verbs.batch(ended) as batch:
            batch.needs(verbs.attributes(CONFIG_MAP, "delete", Key("team", "settings")), may_not_again)
            batch.note(CONFIG_MAP, Key("team", "settings"), "permission:grant", "never")

    asked: list[Actor] = []

    def may_not_again(actor: Actor) -> None:
        asked.append(actor)
        if len(asked) > 1:
            raise errors.Forbidden("not any more")

    found = Group().run(partial(put, "first"), act, partial(put, "last"))
    assert refused(found) == [None, errors.Forbidden, None]
    assert AuditEvent.objects.filter(outcome="denied", user="ana", reason="not any more").count() == 1
    assert stored("last") is not None


def test_a_commit_that_fails_is_the_failure_of_all_whose_writes_were_in_it() -> None:
    """The database looks at references only at the commit."""
    before = head()
    orphan = partial(ReportedClaim, cluster_id="nobody", name="n", value="v")
    found = Group().run(partial(put, "a"), partial(with_record, "b", orphan), partial(put, "c"))
    assert refused(found) == [IntegrityError] * 3
    assert len({id(each) for each in found}) == 3
    assert [stored(name) for name in "abc"] == [None] * 3
    assert head() == before
    put("a")
    assert head() == before + 1


def test_a_leader_that_is_refused_takes_nobody_with_it() -> None:
    before = head()
    found = Group().run(partial(put, "settings"), partial(put, "a"), partial(put, "b"))
    assert refused(found) == [errors.AlreadyExists, None, None]
    assert head() == before + 2


def test_each_write_is_done_in_the_context_of_its_own_request() -> None:
    past = [datetime(2020 + number, 1, 1, tzinfo=UTC) for number in range(3)]
    seen: list[int] = []

    def record() -> list[Any]:
        seen.append(clock.now().year)
        return []

    def act(number: int) -> None:
        with clock.at(past[number]):
            with_record(f"m{number}", record)

    assert Group().run(*(partial(act, number) for number in range(3))) == [None] * 3
    assert seen == [2020, 2021, 2022]


def test_what_a_write_of_a_group_asks_of_reconcilers_is_asked_when_it_is_committed() -> None:
    def create(name: str) -> None:
        verbs.create(ROOT, kinds.NAMESPACE, {"metadata": {"name": name}})

    assert refused(Group().run(partial(create, "a"), partial(create, "team"), partial(create, "b"))) == [
        None,
        errors.AlreadyExists,
        None,
    ]
    asked = {each.name for each in WorkItem.objects.filter(reconciler="namespace")}
    assert {"a", "b"} <= asked


def test_a_lone_writer_pays_no_savepoint() -> None:
    group = Group()
    with connection.execute_wrapper(group._count):
        put("alone")
    assert group.savepoints == 0


@pytest.mark.contract("W14")
def test_numbers_of_many_writers_have_no_gaps_and_rows_agree_with_their_text() -> None:
    """Half of the writes are refused, by a name that is taken."""
    before = head()

    def work(number: int) -> None:
        with closing(connection):
            for each in range(WRITES):
                with suppress(errors.AlreadyExists):
                    put(f"m{number // 2}-{each}")

    with ThreadPoolExecutor(WRITERS) as pool:
        for each in [pool.submit(work, number) for number in range(WRITERS)]:
            each.result()
    changes = [*Change.objects.filter(revision__gt=before).order_by("revision")]
    assert [each.revision for each in changes] == [*range(before + 1, before + 1 + WRITERS * WRITES // 2)]
    assert head() == changes[-1].revision
    assert all(
        each.doc["metadata"]["resourceVersion"] == str(each.revision) for each in change_log.between(before, head())[0]
    )
    assert reader.check_wire()[1] == []
    assert not group_commit._is_led
