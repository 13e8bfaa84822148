"""The outbox of work for reconcilers: rows written with the change that caused them, drained by any worker.

Invariants: a request for work is never lost, and no two workers are at one item. A worker claims an item until
``busy_until`` (compare and set), right before it runs it; it deletes the item only if nobody asked again meanwhile. Who
asks again makes it due for when the worker is done. A claim and its end wait for no disk: a failure of power may give
work to be done twice. Times in the rows are of the clock that all processes share (``database_clock``); times that
callers give are of their own. Pokes (Celery, a thread's event) carry no state.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from math import inf
from operator import itemgetter
from time import monotonic
from typing import NamedTuple

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connection

from ocmconsole.kubeapi import clock, errors, spans, write_queue
from ocmconsole.kubeapi.control import controllers
from ocmconsole.kubeapi.health import outages, probes
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import Pulse, WorkItem
from ocmconsole.kubeapi.storage import database_clock, plain_sql
from ocmconsole.kubeapi.storage.plain_sql import moment
from ocmconsole.kubeapi.watch import redis_client
from ocmconsole.kubeapi.watch.notifier import Notifier

log = logging.getLogger(__name__)

DRAIN = "ocmconsole.kubeapi.tasks.drain"
VISIBILITY = timedelta(seconds=30)  # for so long a claim holds: longer than a reconciler runs, a dead worker's wait
POKE_EXPIRES = 15.0  # seconds; newer pokes and the clock's own follow
AT_ONCE = 50  # items read at a time
MOST_IN_TURN = 5_000  # oldest items among which turns are taken: 7 ms for each ``AT_ONCE`` that are read
FOLD = timedelta(seconds=30)  # what an act on many objects causes waits at most so long for its end
MOST_TOGETHER = 25  # items that a reconciler gets together: as long a commit as a few clusters' writes take
QUIET_TRIES = 5  # lost races of one item that are nothing to speak of
FIRST_RETRY = timedelta(milliseconds=50)  # doubled by each try
LONGEST_RETRY = timedelta(minutes=5)  # at most
LONGEST_PAUSE = 1.0  # seconds
PULSE = timedelta(seconds=5)  # how often a worker says that it is alive
WORKER = "worker"
LONGEST_DELAY = timedelta(seconds=30)  # of work that is due: then nobody works

# Another writer was first, or what the reconciler was about to write has gone or come: it looks again.
LOST_RACES = (errors.Conflict, errors.NotFound, errors.AlreadyExists)

ASK = """INSERT INTO kubeapi_workitem (reconciler, namespace, name, due, attempts, busy_until)
         VALUES (%s, %s, %s, %s, 0, NULL)
         ON CONFLICT (reconciler, namespace, name) DO UPDATE SET due = excluded.due, attempts = 0"""
# An item that is due earlier stays so, unless a worker is at it: then its time is the end of the claim.
ASK_LATER = """INSERT INTO kubeapi_workitem (reconciler, namespace, name, due, attempts, busy_until)
               VALUES (%s, %s, %s, %s, 0, NULL)
               ON CONFLICT (reconciler, namespace, name) DO UPDATE SET attempts = 0, due = CASE
                   WHEN kubeapi_workitem.busy_until IS NULL AND kubeapi_workitem.due < excluded.due
                   THEN kubeapi_workitem.due ELSE excluded.due END"""
# Each of these holds for the worker that has the claim: its ``busy_until`` is in the row.
# In the transaction that ends the claim before: it must not wait for a row while it holds another one.
CLAIM = """UPDATE kubeapi_workitem SET due = %s, busy_until = %s, attempts = %s WHERE id =
           (SELECT id FROM kubeapi_workitem
            WHERE id = %s AND due = %s AND (busy_until IS NULL OR busy_until <= %s) {unless_locked})"""
# Several of one reconciler, whose rows are locked in the order in which ``put`` asks.
CLAIM_ALL = """UPDATE kubeapi_workitem SET due = %s, busy_until = %s, attempts = attempts + 1 WHERE id IN
               (SELECT id FROM kubeapi_workitem
                WHERE ({each}) AND (busy_until IS NULL OR busy_until <= %s) {unless_locked}) RETURNING id"""
CLAIMED = """id IN (SELECT id FROM kubeapi_workitem WHERE id IN ({marks}) AND busy_until = %s
             ORDER BY namespace, name {locked})"""
END = "DELETE FROM kubeapi_workitem WHERE id = %s AND busy_until = %s AND due = %s"
DEFER = """UPDATE kubeapi_workitem SET due = %s, attempts = %s, busy_until = NULL
           WHERE id = %s AND busy_until = %s AND due = %s"""
LET_GO = "UPDATE kubeapi_workitem SET busy_until = NULL WHERE id = %s AND busy_until = %s"
FREE = "(busy_until IS NULL OR busy_until <= %s)"
# D12: one item of each reconciler and namespace comes before the second of any, so that none waits for all of another.
IN_TURN = """id IN (SELECT id FROM (SELECT id, due, ROW_NUMBER() OVER (
                  PARTITION BY reconciler, namespace ORDER BY due, id) AS turn
              FROM (SELECT id, reconciler, namespace, due FROM kubeapi_workitem WHERE {waiting}
                    ORDER BY due, id LIMIT %s) AS oldest) AS lines ORDER BY turn, due, id LIMIT %s)
              ORDER BY due, id"""
PUT_OFF = "UPDATE kubeapi_workitem SET due = %s WHERE id = %s AND due = %s AND busy_until IS NULL"

woken = threading.Event()
# By reconciler and key, when this process may run it again (``Reconciler.pause``), in seconds of ``monotonic``.
_rests: dict[tuple[str, Key], float] = {}


def put(work: Iterable[tuple[str, Key]], due: datetime) -> None:
    """Ask for work, inside the transaction that caused it. Asking again makes an item due now."""
    ahead = database_clock.ahead()
    asked = [(name, key.namespace, key.name, moment(due + ahead)) for name, key in sorted(work)]
    if asked:
        plain_sql.run_each(ASK, asked)


def put_folded(work: Iterable[tuple[str, Key]], now: datetime) -> None:
    """As ``put``, for a transaction after which others of the same act come: before ``FOLD`` ends or ``end_fold``."""
    ahead = database_clock.ahead()
    asked = [(name, key.namespace, key.name, moment(now + ahead + FOLD)) for name, key in sorted(work)]
    if asked:
        plain_sql.run_each(ASK_LATER, asked)


def end_fold() -> None:
    """An act on many objects has ended: what waits for it is due."""
    now = database_clock.now()
    waiting = WorkItem.objects.filter(reconciler__in=controllers.folding(), due__gt=now, due__lte=now + FOLD)
    found = list(waiting.values_list("pk", flat=True))
    for pk in found:  # one by one: who holds one row must not wait for another
        waiting.filter(pk=pk).update(due=now)
    if found:
        poke()


def hurry(names: Iterable[str], key: Key) -> None:
    """What these reconcilers wait for has happened: where they wait for the key they look now. Nobody else is asked."""
    waiting = WorkItem.objects.filter(reconciler__in=list(names), namespace=key.namespace, name=key.name)
    waiting.update(due=database_clock.now())


def poke() -> None:
    """Tell a worker that something is due; beat drains what the broker did not take."""
    if settings.OCMCONSOLE_CONTROLLERS == "thread":
        woken.set()
    elif settings.OCMCONSOLE_CONTROLLERS == "celery":
        _workers.request()


def _poke_celery() -> None:
    from celery import current_app  # noqa: PLC0415 - for hubs with Redis only: it takes 0.1 s of CPU time

    redis_client.require_redis()
    current_app.send_task(DRAIN, retry=False, ignore_result=True, expires=POKE_EXPIRES)


_workers = Notifier("poke", _poke_celery)


class _Done(NamedTuple):
    """A claimed item that was run, and in how long it is looked at again; None for never."""

    item: WorkItem
    again: timedelta | None
    attempts: int


def drain(limit: int = 0, *, only: Collection[str] = (), seconds: float = inf) -> int:
    """Work off what is due now, in turn by reconciler and namespace, oldest first; returns how many items were run.

    ``limit`` 0 is all. ``only`` are names of reconcilers, for a worker that is there for these. After ``seconds`` no
    other item is begun, so that a worker takes turns.
    """
    count, until = 0, monotonic() + seconds
    while (not limit or count < limit) and monotonic() < until:
        ran = _work_off(_due(only), until)
        if not ran:
            break
        count += ran
    return count


def _work_off(items: Iterable[WorkItem], until: float) -> int:
    """How many were run. The claim of one ends in the transaction that claims the next."""
    count, done = 0, list[_Done]()
    for some in _groups(items):
        if monotonic() >= until:
            break
        with write_queue.forgettable():
            _end_all(done)
            mine = _take_all(some)
        done = _run_all(mine)
        count += len(mine)
    if done:
        with write_queue.forgettable():
            _end_all(done)
    return count


def _groups(items: Iterable[WorkItem]) -> Iterator[list[WorkItem]]:
    """Items that are claimed at once: neighbours whose reconciler does several together, else one."""
    group: list[WorkItem] = []
    for item in items:
        if group and (group[0].reconciler != item.reconciler or len(group) == MOST_TOGETHER):
            yield group
            group = []
        group.append(item)
        if not controllers.does_together(item.reconciler):
            yield group
            group = []
    if group:
        yield group


def _take_all(items: Sequence[WorkItem]) -> list[WorkItem]:
    """Claim them; returns those that could be."""
    if len(items) == 1 or controllers.pause_of(items[0].reconciler):
        return [item for item in items if _take(item)]
    now, dues = database_clock.now(), [moment(item.due) for item in items]
    statement = CLAIM_ALL.format(
        each=" OR ".join(["(id = %s AND due = %s)"] * len(items)),
        unless_locked="FOR UPDATE SKIP LOCKED" if connection.features.has_select_for_update_skip_locked else "",
    )
    until, pairs = now + VISIBILITY, (value for item, due in zip(items, dues, strict=True) for value in (item.pk, due))
    taken = {pk for (pk,) in plain_sql.rows(statement, moment(until), moment(until), *pairs, moment(now))}
    mine = [item for item in items if item.pk in taken]
    for item in mine:
        item.due = item.busy_until = until
        item.attempts += 1
    return mine


def _take(item: WorkItem) -> bool:
    """Claim it, unless it must rest."""
    if rest := _rest_of(item):
        plain_sql.run(PUT_OFF, moment(database_clock.now() + rest), item.pk, moment(item.due))
        return False
    return _claim(item)


def _rest_of(item: WorkItem) -> timedelta:
    """For how long the item must rest. Who calls ``drain`` to have all done that is due does not wait."""
    pause = controllers.pause_of(item.reconciler)
    if not pause or settings.OCMCONSOLE_CONTROLLERS == "inline":
        return timedelta()
    now, place = monotonic(), (item.reconciler, item.key)
    if (until := _rests.get(place, now)) > now:
        return timedelta(seconds=until - now)
    for each in [each for each, ends in _rests.items() if ends <= now]:
        del _rests[each]
    _rests[place] = now + pause.total_seconds()
    return timedelta()


def _due(only: Collection[str]) -> list[WorkItem]:
    now, names = moment(database_clock.now()), sorted(only)
    among = f"AND reconciler IN ({plain_sql.marks(names)})" if names else ""
    waiting = f"due <= %s AND {FREE} {among}"
    found = plain_sql.rows_where(WorkItem.objects, f"{waiting} ORDER BY due, id LIMIT {AT_ONCE}", now, now, *names)
    if len(found) == AT_ONCE:  # there may be more
        found = plain_sql.rows_where(
            WorkItem.objects, IN_TURN.format(waiting=waiting), now, now, *names, MOST_IN_TURN, AT_ONCE
        )
    return _in_turn(found)


def _in_turn(items: Sequence[WorkItem]) -> list[WorkItem]:
    """D12: of the items of each reconciler, which keep their places, one of a namespace after the other."""
    turns: Counter[tuple[str, str]] = Counter()
    lines: defaultdict[str, list[tuple[int, WorkItem]]] = defaultdict(list)
    for item in items:
        turns[item.reconciler, item.namespace] += 1
        lines[item.reconciler].append((turns[item.reconciler, item.namespace], item))
    following = {name: iter(sorted(line, key=itemgetter(0))) for name, line in lines.items()}
    return [next(following[item.reconciler])[1] for item in items]


def release() -> None:
    """Make everything due now, for a start with no other worker: what a killed one had claimed is nobody's."""
    WorkItem.objects.update(due=database_clock.now(), busy_until=None)


def next_due() -> datetime | None:
    """When the next item that nobody is at wants attention, by ``database_clock``, or None when there is none."""
    first = plain_sql.rows_where(WorkItem.objects, f"{FREE} ORDER BY due LIMIT 1", moment(database_clock.now()))
    return first[0].due if first else None


def say_alive() -> None:
    """By a Celery worker, each second; a row is written when it is needed."""
    now = database_clock.now()
    if not Pulse.objects.filter(name=WORKER, seen__gt=now - PULSE).exists():
        Pulse.objects.update_or_create(name=WORKER, defaults={"seen": now})


def is_due() -> bool:
    """Whether something waits for a worker."""
    due = next_due()
    return due is not None and due <= database_clock.now()


def trouble(now: datetime) -> str:
    """Why work is not done, in words; empty when what is due is done in time."""
    now += database_clock.ahead()
    if settings.OCMCONSOLE_CONTROLLERS == "celery":
        seen = Pulse.objects.filter(name=WORKER).values_list("seen", flat=True).first()
        if seen is None or now - seen > LONGEST_DELAY:
            return "no worker is alive" if seen is None else f"no worker is alive since {seen:%d %b, %H:%M:%S} UTC"
    late = WorkItem.objects.filter(due__lt=now - LONGEST_DELAY).count()
    return f"{late:,} pieces of work are overdue by more than {LONGEST_DELAY.seconds} s" if late else ""


if settings.OCMCONSOLE_CONTROLLERS != "inline":
    probes.register("worker", lambda: trouble(clock.now()), has_grace=True)


def _claim(item: WorkItem) -> bool:
    now, due = database_clock.now(), moment(item.due)
    item.due = item.busy_until = now + VISIBILITY
    item.attempts += 1
    can_skip = connection.features.has_select_for_update_skip_locked
    statement = CLAIM.format(unless_locked="FOR UPDATE SKIP LOCKED" if can_skip else "")
    mine = (moment(item.due), moment(item.busy_until), item.attempts)
    return plain_sql.run(statement, *mine, item.pk, due, moment(now)) == 1


def _run_all(items: Sequence[WorkItem]) -> list[_Done]:
    """Together, if there are several; what is left out then has a run of its own, in which it may fail alone."""
    done: Mapping[Key, timedelta | None] = {}
    if len(items) > 1:
        reconciler = controllers.find_reconciler(items[0].reconciler)
        try:
            if reconciler is not None and reconciler.together is not None:
                with spans.root(f"reconcile {items[0].reconciler}", {"ocmconsole.items": len(items)}):
                    done = reconciler.together([item.key for item in items])
        except Exception:
            log.exception("%d items are run one by one", len(items))
    return [_Done(item, done[item.key], 0) if item.key in done else _run(item) for item in items]


def _run(item: WorkItem) -> _Done:
    reconciler = controllers.find_reconciler(item.reconciler)
    try:
        if reconciler is None:
            log.warning("dropping work for unknown reconciler %s", item)
            return _Done(item, None, 0)
        about: spans.Attributes = {"ocmconsole.key": str(item.key), "ocmconsole.attempt": item.attempts}
        with spans.root(f"reconcile {item.reconciler}", about):
            return _Done(item, reconciler.reconcile(item.key), 0)
    except LOST_RACES as error:
        if item.attempts >= QUIET_TRIES:
            log.warning("%s has lost %d races and is tried again: %s", item, item.attempts, error.message)
    except errors.ApiError as error:
        log.warning("%s was refused and is tried again: %s", item, error.message)
    except Exception:  # one bad object never stops the others (D12)
        log.exception("reconciler failed: %s", item)
    return _Done(item, _delay(item.attempts), item.attempts)


def _end_all(done: Sequence[_Done]) -> None:
    """In the order in which ``put`` asks: who holds one row waits for none that another holds who waits for it."""
    claims = {(each.item.busy_until, each.item.due, each.again) for each in done}
    if len(done) > 1 and len(claims) == 1 and done[0].again is None:
        _end_claim([each.item for each in done])
        return
    for each in sorted(done, key=lambda each: (each.item.reconciler, each.item.key)):
        _end(each)


def _end_claim(items: Sequence[WorkItem]) -> None:
    """As ``_end`` for several that were claimed together, are of one reconciler, and are never looked at again."""
    until = items[0].busy_until
    assert until is not None
    locked = "FOR UPDATE" if connection.features.has_select_for_update else ""
    claimed = CLAIMED.format(marks=plain_sql.marks(items), locked=locked)
    mine = (*(item.pk for item in items), moment(until))
    ended = plain_sql.run(
        f"DELETE FROM kubeapi_workitem WHERE {claimed} AND due = %s",  # noqa: S608 - ours
        *mine,
        moment(items[0].due),
    )
    if ended < len(items):
        plain_sql.run(f"UPDATE kubeapi_workitem SET busy_until = NULL WHERE {claimed}", *mine)  # noqa: S608 - ours


def _end(done: _Done) -> None:
    """End the claim. What somebody asked for meanwhile stays due; a claim that has run out is another worker's."""
    item, again, attempts = done
    assert item.busy_until is not None
    mine = (item.pk, moment(item.busy_until))
    if again is None:
        ended = plain_sql.run(END, *mine, moment(item.due))
    else:
        ended = plain_sql.run(DEFER, moment(database_clock.now() + again), attempts, *mine, moment(item.due))
    if not ended:
        plain_sql.run(LET_GO, *mine)


def _delay(attempts: int) -> timedelta:
    factor: int = 2 ** min(attempts - 1, 20)
    return min(FIRST_RETRY * factor, LONGEST_RETRY)


def follow(stopping: threading.Event | None = None) -> None:
    """Drain for ever: at a poke, when the next item is due, and once a second."""
    stopping = stopping or threading.Event()
    while not stopping.is_set():
        woken.clear()
        close_old_connections()
        pause = LONGEST_PAUSE
        try:
            if not outages.state.only_reads:
                drain()
                if due := next_due():
                    pause = (due - database_clock.now()).total_seconds()
        except (DatabaseError, errors.ServiceUnavailable):
            log.exception("the work queue could not be read; trying again")
        woken.wait(min(max(pause, 0.001), LONGEST_PAUSE))
