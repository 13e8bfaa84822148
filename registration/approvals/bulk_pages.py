"""Decisions about several requests: the selection is stored, then a page says what the act does to each.

Selections, page and jobs are those of the cluster list (``clusters.fleet.bulk_pages``). Names travel in bodies, never
in an address.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from django.contrib.auth.decorators import login_required
from django.http import Http404, QueryDict
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from clusters.fleet.bulk_pages import answer, selected
from ocmconsole.kubeapi.access.session import actor_of
from registration.approvals import accept_preview, bulk_decisions, inbox
from registration.approvals.forms import FilterForm, query_of
from registration.evidence.evidence_items import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from django.http import HttpRequest, HttpResponse

    from clusters.fleet.bulk_acts import BulkStep, ClusterAct


@login_required
@require_POST
def select(request: HttpRequest) -> HttpResponse:
    """Store what the inbox has selected, and go to the page of the act."""
    act, given = _act(request.POST.get("act", "")), QueryDict(request.POST.get("query", ""))
    chosen = bulk_decisions.select_requests(
        actor_of(request),
        request.POST.getlist("select"),
        FilterForm(given).wanted(),
        every_safe=request.POST.get("all") == Verdict.SAFE,
        query=query_of(given),
    )
    return redirect("registration:bulk", chosen.pk, act.name)


@login_required
@require_http_methods(["GET", "POST"])
def preview(request: HttpRequest, pk: UUID, name: str) -> HttpResponse:
    """A page that says what would happen to each; posting it decides about what was selected, as it was then."""
    act, actor = _act(name), actor_of(request)
    selection = selected(request, pk)
    items = selection.items
    plan = bulk_decisions.plan_requests(actor, act, items)
    return answer(
        request, act, plan, lambda typed: bulk_decisions.start_requests(actor, act, plan, items, typed),
        selection=selection,
        up=bulk_decisions.BACK[0],
        template="registration/approvals/bulk.html",
        describe=_with_certificate(act),
        unasked=sum(not step.row.found.waiting for step in plan.steps if not step.obstacle),
        joins=inbox.joins(step.row for step in plan.steps if not step.obstacle),
    )  # fmt: skip


def _with_certificate(act: ClusterAct) -> Callable[[BulkStep], BulkStep]:
    """Fills in what the newest request of a step would get."""
    ca_ends = accept_preview.authority_ends()

    def describe(step: BulkStep) -> BulkStep:
        waiting = step.row.found.waiting if step.row is not None and act is bulk_decisions.ACTS["accept"] else []
        return replace(step, now=accept_preview.certificate_sentence(waiting[0], ca_ends)) if waiting else step

    return describe


def _act(name: str) -> ClusterAct:
    if name not in bulk_decisions.ACTS:
        raise Http404("There is no such act on many requests.")
    return bulk_decisions.ACTS[name]
