"""Bulk jobs: how far an act on many objects has come, stop, what became of each, and the way back.

Users see their own jobs only, because the results say what they saw and did.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Case, When
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from clusters.fleet.export_pages import safe
from ocmconsole.components.links import audit_url
from ocmconsole.components.refusals import plain
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.control import bulk_jobs

if TYPE_CHECKING:
    from uuid import UUID

    from django.http import HttpRequest

    from ocmconsole.kubeapi.control.bulk_jobs import BulkAct
    from ocmconsole.kubeapi.models import BulkItem, BulkJob

SHOWN = 50  # jobs of a list
ITEMS = 200  # objects of a job


@login_required
@require_GET
def jobs(request: HttpRequest) -> HttpResponse:
    """The user's last jobs; they are kept for a week."""
    found = [(job, bulk_jobs.find_act(job.act)) for job in bulk_jobs.jobs_of(actor_of(request))[:SHOWN]]
    rows = [{"job": job, "act": act, "word": _word(job, act)} for job, act in found if act is not None]
    return render(request, "console/bulk_jobs.html", {"rows": rows, "kept": bulk_jobs.KEPT})


@login_required
@require_GET
def job(request: HttpRequest, pk: UUID) -> HttpResponse:
    found, act = _own(request, pk)
    context = {
        "job": found,
        "act": act,
        "word": _word(found, act),
        "percent": 100 * (found.count - found.open) // max(found.count, 1),
        "rows": [_row(item, act) for item in _items(found)],
        "more": max(0, found.count - ITEMS),
        "back": bulk_jobs.back_of(act, found.query),
        "can_undo": bulk_jobs.can_undo(found),
        "undo_until": found.ended + bulk_jobs.UNDO if found.ended else None,
    }
    return render(request, "console/bulk_job.html", context)


def _items(job: Any) -> list[BulkItem]:
    """The first ``ITEMS``: in their order while it goes on, so that nothing jumps; then first what was not done."""
    is_done = Case(When(state=bulk_jobs.State.DONE, then=1), default=0)
    items = job.items.order_by("pk") if job.open else job.items.order_by(is_done, "pk")
    return list(items[:ITEMS])


def _row(item: BulkItem, act: BulkAct) -> dict[str, Any]:
    return {
        "name": item.name,
        "state": item.state,
        "text": plain(item.text),
        "url": reverse(act.page, args=[item.name]),
        "audit_url": audit_url(act.resource, item.name),
    }


def _word(job: BulkJob, act: BulkAct) -> str:
    return act.done.format(**job.arguments)


@login_required
@require_POST
def stop(request: HttpRequest, pk: UUID) -> HttpResponse:
    found, _ = _own(request, pk)
    if found.open:
        bulk_jobs.end_job(found)
        messages.success(request, "Stopped. What was done stays done; the others are as they were.")
    else:
        messages.info(request, "It had ended before you stopped it.")
    return redirect("bulk:job", pk)


@login_required
@require_POST
def undo(request: HttpRequest, pk: UUID) -> HttpResponse:
    """A job of its own: each asks for the same rights, and what somebody has changed since stays as it is."""
    found, _ = _own(request, pk)
    back = bulk_jobs.undo_job(actor_of(request), found)
    if back is None:
        messages.error(request, "It can be undone once, for 10 minutes. Nothing was done.")
        return redirect("bulk:job", pk)
    return redirect("bulk:job", back.pk)


@login_required
@require_GET
def results(request: HttpRequest, pk: UUID) -> HttpResponse:
    """As CSV, to work on with what could not be done."""
    found, _ = _own(request, pk)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["name", "result", "why"])
    writer.writerows((safe(item.name), item.state, safe(plain(item.text))) for item in found.items.order_by("pk"))
    headers = {"Content-Disposition": 'attachment; filename="results.csv"', "Cache-Control": "no-store"}
    return HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8", headers=headers)


def _own(request: HttpRequest, pk: UUID) -> tuple[Any, BulkAct]:
    found = bulk_jobs.jobs_of(actor_of(request)).filter(pk=pk).first()
    act = bulk_jobs.find_act(found.act) if found is not None else None
    if found is None or act is None:
        raise Http404("There is no such bulk act of yours. Results are kept for a week.")
    return found, act
