"""Decisions about several requests: a preview with effects from now, then each by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from ocmconsole.kubeapi import bulkjobs
from ocmconsole.kubeapi.session import actor_of
from registration import bulk, effects, inbox
from registration.facts import Verdict
from registration.forms import DAMAGED, FilterForm, ReasonForm, packed, unpacked

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.actor import Actor

ACCEPT, DECLINE = "accept", "decline"


@login_required
@require_http_methods(["GET", "POST"])
def preview(request: HttpRequest) -> HttpResponse:
    """GET shows what was selected; POST decides about exactly what was shown."""
    actor = actor_of(request)
    given = request.POST if request.method == "POST" else request.GET
    act = DECLINE if given.get("act") == DECLINE else ACCEPT
    if request.method == "GET":
        return _preview(request, actor, act, request.GET.getlist("select"))
    try:
        chosen = [unpacked(text) for text in request.POST.getlist("row")]
    except ValidationError:
        return _preview(request, actor, act, [], problem=DAMAGED, status=400)
    names = [name for name, _ in chosen]
    if not 0 < len(chosen) <= bulkjobs.MOST:
        problem = f"At most {bulkjobs.MOST} are decided at once." if chosen else "Select requests first."
        return _preview(request, actor, act, names, problem=problem, status=400)
    form = ReasonForm(request.POST)
    if act == DECLINE and not form.is_valid():
        return _preview(request, actor, act, names, form=form, status=400)
    if len(chosen) > bulkjobs.TYPED_ABOVE and request.POST.get("count", "").strip() != str(len(chosen)):
        return _preview(request, actor, act, names, problem=f"Type {len(chosen)} to confirm.", form=form, status=400)
    if act == ACCEPT:
        job = bulk.accept(actor, chosen)
    else:
        job = bulk.decline(actor, chosen, reason=form.cleaned_data["words"])
    return redirect("bulk:job", job.pk)


def _preview(
    request: HttpRequest,
    actor: Actor,
    act: str,
    names: list[str],
    *,
    problem: str = "",
    form: ReasonForm | None = None,
    status: int = 200,
) -> HttpResponse:
    present = inbox.filtered(inbox.of(actor).rows, FilterForm(request.GET).wanted())
    sums = inbox.sums(present, names, every_safe=request.GET.get("all") == Verdict.SAFE)
    wanted = set(names)
    rows = sums.rows[: bulkjobs.MOST]
    context = {
        "act": act,
        "rows": [{"row": row, "packed": packed(row.name, row.seen), **_effect(row)} for row in rows],
        "sums": inbox.Sums(rows, sums.safe),
        "left_out": [row for row in present if row.name in wanted and not row.can_select],
        "over": sums.count - len(rows),
        "form": form or ReasonForm(),
        "must_count": len(rows) > bulkjobs.TYPED_ABOVE,
        "problem": problem,
        "joined": " ".join(row.name for row in rows),
    }
    return render(request, "registration/bulk.html", context, status=status)


def _effect(row: inbox.Row) -> dict[str, Any]:
    newest = next(iter(row.found.waiting), None)
    return {"signed": newest, "certificate": effects.certificate(newest) if newest else ""}
