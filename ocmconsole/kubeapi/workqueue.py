"""The outbox of work for reconcilers: rows written with the change that caused them, drained by whoever is there.

Invariant: a request for work is never lost. A worker claims an item by pushing its due time out of reach (compare and
set); it deletes the item only if nobody asked again meanwhile. Pokes (Celery, a thread's event) carry no state.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from datetime import datetime, timedelta

from celery import current_app
from django.conf import settings
from django.db import DatabaseError, close_old_connections
from django.utils import timezone

from ocmconsole.kubeapi import controllers, errors, probes
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import WorkItem
from ocmconsole.kubeapi.notifier import Notifier

log = logging.getLogger(__name__)

DRAIN = "ocmconsole.kubeapi.tasks.drain"
VISIBILITY = timedelta(seconds=30)
FIRST_RETRY = timedelta(milliseconds=50)
LONGEST_RETRY = timedelta(minutes=5)
LONGEST_PAUSE = 1.0  # seconds
LONGEST_DELAY = timedelta(seconds=30)  # of work that is due: then nobody works

woken = threading.Event()


def put(work: Iterable[tuple[str, Key]], due: datetime) -> None:
    """Ask for work, inside the transaction that caused it. Asking again makes an item due now."""
    items = [WorkItem(reconciler=name, namespace=key.namespace, name=key.name, due=due) for name, key in sorted(work)]
    if items:
        WorkItem.objects.bulk_create(
            items,
            update_conflicts=True,
            unique_fields=["reconciler", "namespace", "name"],
            update_fields=["due", "attempts"],
        )


def hurry(names: Iterable[str], key: Key) -> None:
    """What these reconcilers wait for has happened: where they wait for the key they look now. Nobody else is asked."""
    waiting = WorkItem.objects.filter(reconciler__in=list(names), namespace=key.namespace, name=key.name)
    waiting.update(due=timezone.now())


def poke() -> None:
    """Tell a worker that something is due; beat drains what the broker did not take."""
    if settings.OCMCONSOLE_CONTROLLERS == "thread":
        woken.set()
    elif settings.OCMCONSOLE_CONTROLLERS == "celery":
        _workers.ask()


_workers = Notifier("poke", lambda: current_app.send_task(DRAIN, retry=False, ignore_result=True))


def drain(limit: int = 0) -> int:
    """Work off what is due now, oldest first; returns how many items were run. ``limit`` 0 is all."""
    done = 0
    while not limit or done < limit:
        due = WorkItem.objects.filter(due__lte=timezone.now()).order_by("due", "pk")[:50]
        claimed = [item for item in due if _claim(item)]
        if not claimed:
            break
        for item in claimed:
            _run(item)
            done += 1
    return done


def release() -> None:
    """Make everything due now, for a start with no other worker: what a killed one had claimed is nobody's."""
    WorkItem.objects.update(due=timezone.now())


def next_due() -> datetime | None:
    """When the next item wants attention, or None when there is none."""
    return WorkItem.objects.order_by("due").values_list("due", flat=True).first()


def trouble(now: datetime) -> str:
    """Why work is not done, in words; empty when what is due is done in time."""
    late = WorkItem.objects.filter(due__lt=now - LONGEST_DELAY).count()
    return f"{late:,} pieces of work are overdue by more than {LONGEST_DELAY.seconds} s" if late else ""


if settings.OCMCONSOLE_CONTROLLERS != "inline":
    probes.register("worker", lambda: trouble(timezone.now()), has_grace=True)


def _claim(item: WorkItem) -> bool:
    mine = WorkItem.objects.filter(pk=item.pk, due=item.due)
    item.due = timezone.now() + VISIBILITY
    item.attempts += 1
    return mine.update(due=item.due, attempts=item.attempts) == 1


def _run(item: WorkItem) -> None:
    reconciler = controllers.find(item.reconciler)
    mine = WorkItem.objects.filter(pk=item.pk, due=item.due)
    if reconciler is None:
        log.warning("dropping work for unknown reconciler %s", item)
        mine.delete()
        return
    try:
        again = reconciler.reconcile(item.key)
    except errors.Conflict:
        mine.update(due=timezone.now() + _delay(item.attempts))
    except Exception:  # one bad object never stops the others (D12)
        log.exception("reconciler failed: %s", item)
        mine.update(due=timezone.now() + _delay(item.attempts))
    else:
        if again is None:
            mine.delete()
        else:
            mine.update(due=timezone.now() + again, attempts=0)


def _delay(attempts: int) -> timedelta:
    factor: int = 2 ** min(attempts - 1, 20)
    return min(FIRST_RETRY * factor, LONGEST_RETRY)


def follow(stopping: threading.Event | None = None) -> None:
    """Drain for ever: at a poke, when the next item is due, and once a second."""
    stopping = stopping or threading.Event()
    while not stopping.is_set():
        woken.clear()
        close_old_connections()
        try:
            drain()
            due = next_due()
        except DatabaseError:
            log.exception("the work queue could not be read; trying again")
            due = None
        pause = (due - timezone.now()).total_seconds() if due else LONGEST_PAUSE
        woken.wait(min(max(pause, 0.001), LONGEST_PAUSE))
