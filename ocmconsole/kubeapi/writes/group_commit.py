"""Group commit: writes of one process that wait for each other are made durable by one transaction.

A commit waits for the disk, which takes longer than all else in it. The first writer leads: in its transaction it does
its own write, then those that wait, on its own connection, each inside a savepoint and in the context of the request
that asked for it. It commits once, and only then does anybody return. A write that fails is rolled back alone; when the
transaction fails, all writes in it fail. A writer that meets no other opens the same transaction as it would alone.

Invariant: what a write reads of rights is committed. All of a group are asked before the first of them writes, and a
group ends behind a write that changes rights: indexes in memory must not follow a log that may be rolled back.

Called by ``store.commit`` alone. All other transactions (turns, renewals, rights) are taken one by one.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db import connection, transaction

from ocmconsole.kubeapi import write_queue
from ocmconsole.kubeapi.health import outages
from ocmconsole.kubeapi.models import Revision, TakenCounter

MOST = 32  # writes of others in one transaction: some 40 ms, in which no other process and no heartbeat gets in


class Part(Protocol):
    """What one writer does in the transaction: ``check``, then ``write``. Either may run on another's thread."""

    @property
    def count(self) -> int:
        """How many revisions it needs."""

    def check(self, taken: TakenCounter) -> None:
        """Raises what refuses it, now that nobody else can commit."""

    def write(self, last: int) -> bool:
        """Write with the revisions up to ``last``, once; whether that changes rights."""


@dataclass(slots=True, eq=False)
class _WaitingPart:
    """A part that waits for a leader. When ``woken`` is set it ``leads``, or its last revision or error is there."""

    part: Part
    context: Context = field(default_factory=copy_context)
    woken: threading.Event = field(default_factory=threading.Event)
    leads: bool = False
    result: int = 0
    error: BaseException | None = None


_guard = threading.Lock()  # of these two
_line: deque[_WaitingPart] = deque()
_is_led = False


def commit(part: Part) -> int:
    """Do the part in a durable transaction and return its result; raises what it raises.

    Raises ServiceUnavailable where others hold the database for longer than ``OCMCONSOLE_DATABASE_LOCK_TIMEOUT``.
    """
    if connection.in_atomic_block:  # of a test; any other is refused by ``durable``
        with transaction.atomic(durable=True):
            return alone(part)
    waiting = _stand_in_line(part)
    if waiting is not None and _is_done(waiting):
        return waiting.result
    try:
        return _lead(part)
    finally:
        _hand_over()


def alone(part: Part) -> int:
    """The part as the first in a transaction that is open; returns its last revision."""
    taken = Revision.take(part.count)
    part.check(taken)
    part.write(taken.last)
    return taken.last


def _stand_in_line(part: Part) -> _WaitingPart | None:
    """None for the leader, whom nobody is before."""
    global _is_led  # noqa: PLW0603 - under the guard
    with _guard:
        if not _is_led:
            _is_led = True
            return None
        waiting = _WaitingPart(part)
        _line.append(waiting)
        return waiting


def _hand_over() -> None:
    global _is_led  # noqa: PLW0603 - under the guard
    with _guard:
        if not _line:
            _is_led = False
            return
        first = _line.popleft()
        first.leads = True
    first.woken.set()


def _is_done(waiting: _WaitingPart) -> bool:
    """Wait; False when the caller must lead. Raises what the part raised, or that the database is held by others."""
    until = monotonic() + settings.OCMCONSOLE_DATABASE_LOCK_TIMEOUT.total_seconds()
    while not waiting.woken.wait(write_queue.LOOK_SECONDS):
        if trouble := outages.state.away or outages.state.locked or (outages.LOCKED if monotonic() > until else ""):
            with _guard:
                if waiting in _line:
                    _line.remove(waiting)
                    raise outages.outage_error(trouble)
    if waiting.error is not None:
        raise waiting.error
    return not waiting.leads


def _lead(own: Part) -> int:
    """The own part first, without a savepoint, then those that wait when its turn has come."""
    group = _Group()
    try:
        with write_queue.turn(), transaction.atomic(durable=True):
            transaction.on_commit(group.note_commit)
            taken = Revision.take(own.count)
            own.check(taken)
            group.gather(taken)
            if not own.write(taken.last):
                group.write(taken.last)
    except BaseException as error:
        group.failure = error
        raise
    else:
        return taken.last
    finally:
        group.end()


class _Group:
    """Parts that one transaction does behind its leader's own."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self._left: deque[_WaitingPart] = deque()
        self._begun: list[_WaitingPart] = []
        self._is_committed = False

    def note_commit(self) -> None:
        self._is_committed = True

    def gather(self, taken: TakenCounter) -> None:
        """Take those that wait, and see that they are still permitted. An error of the database ends the group."""
        with _guard:
            while _line and len(self._left) < MOST:
                self._left.append(_line.popleft())
        for each in self._left:
            try:
                each.context.run(each.part.check, taken)
            except DatabaseFailure:
                raise
            except Exception as error:  # noqa: BLE001 - raised by the thread that waits for it
                each.error = error

    def write(self, last: int) -> None:
        """All that are permitted, until one changes rights. Revisions follow those of the leader, without gaps."""
        reached, changes_rights = last, False
        while self._left and not changes_rights:
            each = self._left.popleft()
            self._begun.append(each)
            if each.error is not None:
                continue
            savepoint = transaction.savepoint()  # released by the commit: one statement less for each
            each.result = reached + each.part.count
            try:
                changes_rights = each.context.run(each.part.write, each.result)
            except Exception as error:  # noqa: BLE001 - raised by the thread that waits for it
                each.error = error
                _roll_back(savepoint, error)
            else:
                reached = each.result
        if reached > last:
            Revision.take(reached - last)

    def end(self) -> None:
        """Answer those whose part was done; the others go to the head of the line."""
        if self._left:
            for each in self._left:
                each.error = None
            with _guard:
                _line.extendleft(reversed(self._left))
        for each in self._begun:
            if self.failure is not None and not self._is_committed:
                each.error = _like(self.failure)
            each.woken.set()


def _roll_back(savepoint: str, error: Exception) -> None:
    """Raises the error of the database that has ended the whole transaction."""
    transaction.set_rollback(False)  # as blocks inside of the write have asked for
    try:
        transaction.savepoint_rollback(savepoint)
    except DatabaseFailure as failure:
        raise (error if isinstance(error, DatabaseFailure) else failure) from failure


def _like(error: BaseException) -> BaseException:
    """A failure of one's own: each thread adds its traceback."""
    if not isinstance(error, Exception):  # the end of the leader's thread
        return outages.outage_error(outages.AWAY)
    twin = copy.copy(error)
    twin.__cause__ = error.__cause__  # which says to ``outages`` what it was
    return twin
