"""Acts on many objects: each is a write and a decision of its own, and what became of each is kept.

Few are done within the request, many in the background: as the user, with the rights that the user has when it is
done. Invariant: an item that was acknowledged is done once, or has the reason why not; if a worker died over it, the
audit knows whether it was done. Apps register their acts; the pages start jobs and show them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from math import inf
from time import monotonic
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Count, Q
from django.http import QueryDict
from django.urls import reverse

from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.access.session import actor_of_present
from ocmconsole.kubeapi.control import controllers, workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import LONGEST_QUERY, AuditEvent, BulkItem, BulkJob, BulkSelection

log = logging.getLogger(__name__)

State = BulkItem.State
OPEN = (State.WAITING, State.RUNNING)
FEW = 20  # each takes some hundredths of a second
MOST = 100_000  # objects of one act: a whole fleet
ITEMS_AT_ONCE = 1_000  # rows of one statement
TYPED_ABOVE = 20  # so many are confirmed by typing how many they are
SLICE_SECONDS = 1.0  # then the reconcilers have their turn
BUSY = timedelta(minutes=2)  # longer than any one act
UNDO = timedelta(minutes=10)  # in which a job can be undone
KEPT = timedelta(days=7)  # of a job's results
SELECTED = timedelta(days=1)  # how long a selection waits for its act
WORKER = "bulk_job"

Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BulkAct:
    """``perform(actor, name, arguments)`` does one and says what it did, or raises ApiError.

    ``permit`` raises Forbidden, and the first that does ends the job. ``done`` completes "3 of 5 clusters
    …" and may name arguments: ``moved {where}``. ``page`` and ``back`` are routes of one object and of their list.
    ``undo`` gives the items of the job that takes one back, ``undone`` its arguments.
    """

    name: str
    title: str
    done: str
    resource: str
    page: str
    back: tuple[str, str]
    perform: Callable[[Actor, str, Arguments], str]
    permit: Callable[[Actor, str], None] | None = None
    noun: str = "cluster"  # what one of the objects is called; the plural takes an s
    undo: Callable[[Iterable[BulkItem]], dict[str, dict[str, Any]]] | None = None
    undone: Arguments = field(default_factory=dict)
    is_audited: bool = True  # else the audit has no entry of it, and no page says so


_acts: dict[str, BulkAct] = {}


def register(act: BulkAct) -> BulkAct:
    _acts[act.name] = act
    return act


def find_act(name: str) -> BulkAct | None:
    return _acts.get(name)


# ---------------------------------------------------------------- by the person


def store_selection(actor: Actor, items: Mapping[str, Arguments], *, query: str = "") -> BulkSelection:
    """Keep what the person selected, at most ``MOST`` objects, until an act is done to them or a day has passed.

    ``query`` is that of the list's address; the pages that follow lead back to it.
    """
    kept = dict(islice(items.items(), MOST))
    now = clock.now()
    return BulkSelection.objects.create(person=_account(actor), items=kept, query=_kept_query(query), created=now)


def find_selection(actor: Actor, pk: UUID) -> BulkSelection | None:
    """A selection of the actor's own, or None when there is none of that number, or not any more."""
    return BulkSelection.objects.filter(pk=pk, person__username=actor.user).first()


def _kept_query(query: str) -> str:
    """Without what no address holds; a list that is asked for in more words than are kept is the whole list."""
    written = QueryDict(query.replace("\0", "")).urlencode()
    return written if len(written) <= LONGEST_QUERY else ""


def back_of(act: BulkAct, query: str) -> str:
    """The address of the list from which the act began, with its filter."""
    return reverse(act.back[0]) + (f"?{query}" if query else "")


def led_back(job: BulkJob, query: str) -> BulkJob:
    """The job, whose page leads back to the list of this query."""
    job.query = _kept_query(query)
    BulkJob.objects.filter(pk=job.pk).update(query=job.query)
    return job


def start_job(actor: Actor, act: BulkAct, items: Mapping[str, Arguments], **arguments: Any) -> BulkJob:
    """Begin; when it returns, few are done and many are begun. ``items`` is by name what the act needs of each."""
    now = clock.now()
    is_small = len(items) <= FEW
    with transaction.atomic():
        job = _job(actor, act, items, arguments)
        # Of a small one only what is left when this process dies.
        due = now + workqueue.VISIBILITY if is_small else now
        workqueue.put({(WORKER, Key("", str(job.pk)))}, due)
    if is_small:
        advance_job(job)
    else:
        workqueue.poke()
    return job


def record_done_job(actor: Actor, act: BulkAct, items: Mapping[str, Arguments], **arguments: Any) -> BulkJob:
    """What was done by itself, so that it has the same page and the same way back."""
    with transaction.atomic():
        job = _job(actor, act, items, arguments)
        job.items.update(state=State.DONE)
        _close(job)
    return job


def _job(actor: Actor, act: BulkAct, items: Mapping[str, Arguments], arguments: Arguments) -> BulkJob:
    origin = {name: getattr(actor, name) for name in ("credential", "address", "user_agent", "request_id")}
    job = BulkJob(person=_account(actor), act=act.name, arguments=arguments, origin=origin, created=clock.now())
    job.save()
    rows = (BulkItem(job=job, name=name, given=given) for name, given in items.items())
    BulkItem.objects.bulk_create(rows, batch_size=ITEMS_AT_ONCE)
    return job


def _account(actor: Actor) -> Any:
    return get_user_model().objects.get(username=actor.user)


def end_job(job: BulkJob) -> None:
    """What is done stays done; what waits is left as it is."""
    _leave(job, "You stopped before its turn.", (State.WAITING,))
    _close(job)


def undo_job(actor: Actor, job: BulkJob) -> BulkJob | None:
    """Take back what was done, each if nobody has changed it since. None when it is too late for that."""
    act, items = find_act(job.act), _way_back(job)
    if act is None or not items or not BulkJob.objects.filter(pk=job.pk, undone=False).update(undone=True):
        return None
    return led_back(start_job(actor, act, items, **act.undone), job.query)


def can_undo(job: BulkJob) -> bool:
    return bool(_way_back(job))


def _way_back(job: BulkJob) -> dict[str, dict[str, Any]]:
    """The items of the job that would take this one back; none when it cannot be, or not any more."""
    act = find_act(job.act)
    if act is None or act.undo is None or job.undone or job.ended is None or clock.now() >= job.ended + UNDO:
        return {}
    if job.items.filter(state__in=OPEN).exists():
        return {}
    return act.undo(job.items.filter(state=State.DONE))


def jobs_of(actor: Actor) -> Any:
    """The user's jobs, newest first, each with its numbers of items, of those done and of those open."""
    counts = {
        "count": Count("items"),
        "done": Count("items", filter=Q(items__state=State.DONE)),
        "open": Count("items", filter=Q(items__state__in=OPEN)),
    }
    return BulkJob.objects.filter(person__username=actor.user).annotate(**counts).order_by("-created")


# ---------------------------------------------------------------- in the background


@controllers.on_request
def reconcile_bulk_job(key: Key) -> timedelta | None:
    """Go on with a job for a moment, until nothing of it waits; the audit has each item as its person's (D11).

    1. A job that is gone needs nothing.
    2. Items are done one by one for ``SLICE_SECONDS``, each with the rights that the person has now.

    Returns when to go on, None when no item waits.
    """
    job = BulkJob.objects.filter(pk=key.name).first()
    return advance_job(job, SLICE_SECONDS) if job is not None else None


def advance_job(job: BulkJob, seconds: float = inf) -> timedelta | None:
    """Do what waits, for so long but one at least. When to look again; None when nothing waits any more."""
    if busy := _taken(job):
        return busy
    try:
        return None if _go_on(job, seconds) else timedelta(0)
    finally:
        BulkJob.objects.filter(pk=job.pk).update(busy_until=None)


def _go_on(job: BulkJob, seconds: float) -> bool:
    """Whether nothing waits any more."""
    act, actor, until = find_act(job.act), _person(job), monotonic() + seconds
    for number, item in enumerate(job.items.filter(state__in=OPEN).order_by("pk")):
        if number and monotonic() > until:
            return False
        if act is None or actor is None:
            _leave(job, "Who asked for it may not sign in any more." if act else "This hub knows no such act.")
            break
        if not BulkItem.objects.filter(pk=item.pk, state__in=OPEN).update(state=State.RUNNING):
            continue  # its person ended it meanwhile
        if item.state == State.RUNNING and _was_done(act, job, item):
            item.state = State.DONE
        else:
            item.state, item.text = _outcome(act, actor, job, item)
        BulkItem.objects.filter(pk=item.pk).update(state=item.state, text=item.text)  # it may be gone with its person
        BulkJob.objects.filter(pk=job.pk).update(busy_until=clock.now() + BUSY)
        if item.state == State.REFUSED and act.permit is not None:
            _leave(job, "An earlier one was not permitted.")
            break
    _close(job)
    return True


def _taken(job: BulkJob) -> timedelta | None:
    """None when the job is ours from now on; else for how long another worker is at it, or has died over it."""
    now = clock.now()
    free = BulkJob.objects.filter(Q(busy_until=None) | Q(busy_until__lte=now), pk=job.pk)
    if free.update(busy_until=now + BUSY):
        return None
    found = BulkJob.objects.filter(pk=job.pk).values_list("busy_until", flat=True).first()
    return max((found or now) - now, timedelta(seconds=1))


def _was_done(act: BulkAct, job: BulkJob, item: BulkItem) -> bool:
    """A worker died over it: the audit entry is written with the act, or neither is."""
    written = AuditEvent.objects.filter(request_id=job.origin["request_id"], resource=act.resource, name=item.name)
    return written.filter(outcome=AuditEvent.Outcome.ALLOWED, time__gte=job.created).exists()


def _person(job: BulkJob) -> Actor | None:
    """The person as of now, read after the count of rights; None when the account is deactivated or gone."""
    try:
        return actor_of_present(job.person_id, entry_point=EntryPoint.WEB, **job.origin)
    except errors.Unauthorized:
        return None


def _outcome(act: BulkAct, actor: Actor, job: BulkJob, item: BulkItem) -> tuple[str, str]:
    try:
        if act.permit is not None:
            try:
                act.permit(actor, item.name)
            except errors.Forbidden as error:
                return State.REFUSED, error.message
        return State.DONE, act.perform(actor, item.name, {**job.arguments, **item.given})
    except errors.Forbidden as error:
        return State.FAILED if act.permit is not None else State.REFUSED, error.message
    except errors.ApiError as error:
        return State.FAILED, error.message
    except Exception:  # one that breaks stops no other (D12)
        log.exception("%s failed at %s", job, item.name)
        return State.FAILED, "The hub could not do this one. Its log says why."


def _leave(job: BulkJob, why: str, states: Iterable[str] = OPEN) -> None:
    job.items.filter(state__in=states).update(state=State.NOT_TRIED, text=why)


def _close(job: BulkJob) -> None:
    job.ended = clock.now()
    BulkJob.objects.filter(pk=job.pk, ended=None).update(ended=job.ended)


def delete_old_jobs() -> None:
    """Results are kept for a week, selections for a day."""
    BulkSelection.objects.filter(created__lt=clock.now() - SELECTED).delete()
    BulkJob.objects.filter(ended__lt=clock.now() - KEPT).delete()
