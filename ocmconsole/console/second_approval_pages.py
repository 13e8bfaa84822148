"""What waits for another person: the list, one proposal with what it was proposed on, and what people do with it."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from ocmconsole.components.links import audit_url
from ocmconsole.environment.installation import PROGRAM
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.second_approval import acts, decisions, gate
from ocmconsole.second_approval.models import ProposedAct

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor

SHOWN = 100  # closed proposals of a list

TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)")
State = ProposedAct.State
LOOKS = {
    State.WAITING: ("accent", "circle-dashed"),
    State.DONE: ("ok", "circle-check"),
    State.DECLINED: ("quiet", "ban"),
    State.CHANGED: ("caution", "triangle-alert"),
    State.EXPIRED: ("quiet", "clock-alert"),
}


class DeclineProposalForm(forms.Form):
    reason = forms.CharField(
        label="Why it is not to be done",
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 2}),
        error_messages={"required": "Say why: the one who proposed it reads it."},
    )


@login_required
@require_GET
def waiting(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    return _list(request, actor, decisions.waiting_for(actor), "waiting")


@login_required
@require_GET
def closed(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    return _list(request, actor, decisions.closed_for(actor)[:SHOWN], "closed")


def _list(request: HttpRequest, actor: Actor, found: list[ProposedAct], tab: str) -> HttpResponse:
    places = (("waiting", "Waiting", "second-approval:list"), ("closed", "Closed", "second-approval:closed"))
    context = {
        "tab": tab,
        "tabs": [{"label": label, "url": reverse(route), "current": name == tab} for name, label, route in places],
        "rows": [_row(actor, each) for each in found],
        "is_on": acts.is_on(),
    }
    return render(request, "console/second_approvals.html", context)


def _row(actor: Actor, found: ProposedAct) -> dict[str, Any]:
    state = found.present_state(clock.now())
    people, rule = decisions.people_behind(found) if state is State.WAITING else ([], None)
    is_complete = rule is not None and len(people) >= rule.people
    return {
        "found": found,
        "title": _title(found),
        "state": state,
        "tone": LOOKS[state][0],
        "symbol": LOOKS[state][1],
        "people": people,
        "rule": rule,
        "is_complete": is_complete,
        "is_yours": state is State.WAITING and not is_complete and not decisions.approval_obstacle(actor, found),
    }


def _title(found: ProposedAct) -> str:
    return acts.kind_of(found.act).title.format(subject=found.subject)


@login_required
@require_GET
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    return _detail(request, pk)


def _detail(
    request: HttpRequest, pk: int, *, form: DeclineProposalForm | None = None, status: int = 200
) -> HttpResponse:
    actor = actor_of(request)
    found = _found(actor, pk)
    row, kind = _row(actor, found), acts.kind_of(found.act)
    is_waiting = row["state"] is State.WAITING
    url, is_own = kind.url(found), decisions.has_proposed(actor, found)
    context = {
        **row,
        "sections": [(name, _parts(value)) for name, value in found.evidence.items()],
        "also": [*_facts(found.arguments), *_facts(found.also)],
        "approvals": found.approvals.order_by("pk"),
        "obstacle": decisions.approval_obstacle(actor, found) if is_waiting else "",
        "has_changed": is_waiting and decisions.has_changed(found),
        "missing": row["rule"].people - len(row["people"]) if row["rule"] else 0,
        "may_decline": is_waiting and (is_own or kind.may(actor, found)),
        "is_own": is_own,
        "may_perform": is_waiting and decisions.performs(actor, found),
        "again": kind.again,
        "form": form or DeclineProposalForm(),
        "subject_url": url,
        "audit_url": audit_url(f"{gate.PLURAL}.{gate.GROUP}", str(found.pk)),
        "commands": [
            f"{PROGRAM} proposals show {found.pk} --as {shlex.quote(actor.user)}",
            f"{PROGRAM} proposals approve {found.pk} --digest {found.digest} --as {shlex.quote(actor.user)}",
        ]
        if is_waiting
        else [],
    }
    return render(request, "console/second_approval.html", context, status=status)


def _parts(value: Any) -> dict[str, Any]:
    """A section of the evidence: facts by name, or several that are alike."""
    if isinstance(value, dict):
        return {"groups": [_facts(value)]}
    rows = value if isinstance(value, list) else [value]
    if all(isinstance(each, dict) for each in rows):
        return {"groups": [_facts(each) for each in rows]}
    return {"texts": [_shown(each) for each in rows]}


def _facts(value: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), _shown(each)) for name, each in value.items()]


def _shown(value: Any) -> str:
    """As the same text for everybody who looks, whenever: times are times, not ages."""
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    if isinstance(value, str) and (moment := TIME.fullmatch(value)):
        return f"{moment[1]} {moment[2]} UTC"
    return "" if value is None else str(value)


def _found(actor: Actor, pk: int) -> ProposedAct:
    try:
        return decisions.find(actor, pk)
    except errors.NotFound as error:
        raise Http404("There is no such proposal that you may see.") from error


# ---------------------------------------------------------------- acts


@login_required
@require_POST
def approve(request: HttpRequest, pk: int) -> HttpResponse:
    """Stand behind it; the last of those whom it takes has it done, where a page can do it."""
    actor, digest = actor_of(request), request.POST.get("digest", "")
    _found(actor, pk)
    try:
        found = decisions.approve(actor, pk, digest)
        if decisions.is_complete(found) and decisions.performs(actor, found):
            return _carried_out(request, actor, pk, digest)
    except errors.ApiError as error:
        return _refused(request, pk, error)
    messages.success(request, "You have approved it. Who else it takes sees that on this page.")
    return redirect("second-approval:detail", pk)


@login_required
@require_POST
def carry_out(request: HttpRequest, pk: int) -> HttpResponse:
    actor = actor_of(request)
    _found(actor, pk)
    try:
        return _carried_out(request, actor, pk, request.POST.get("digest", ""))
    except errors.ApiError as error:
        return _refused(request, pk, error)


def _carried_out(request: HttpRequest, actor: Actor, pk: int, digest: str) -> HttpResponse:
    decisions.carry_out(actor, pk, digest)
    messages.success(request, "Done, with everybody's word whom it takes.")
    return redirect("second-approval:detail", pk)


@login_required
@require_POST
def decline(request: HttpRequest, pk: int) -> HttpResponse:
    actor, form = actor_of(request), DeclineProposalForm(request.POST)
    _found(actor, pk)
    if not form.is_valid():
        return _detail(request, pk, form=form, status=400)
    try:
        decisions.decline(actor, pk, form.cleaned_data["reason"])
    except errors.ApiError as error:
        return _refused(request, pk, error)
    messages.success(request, "Declined. Nothing was changed.")
    return redirect("second-approval:detail", pk)


def _refused(request: HttpRequest, pk: int, error: errors.ApiError) -> HttpResponse:
    messages.error(request, error.message)
    return _detail(request, pk, status=error.code)
