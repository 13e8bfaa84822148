"""What a person decides about one request. Each act parses, calls a service and says what was done."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.http import require_POST

from clusters import queries as clusters
from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.components import refusals
from ocmconsole.components.links import audit_url
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.second_approval import gate
from registration import join_guide
from registration.approvals import services, snooze, stale_decision
from registration.approvals.forms import DecisionForm, DeclineForm, LaterForm, OverrideForm, query_of
from registration.approvals.request_pages import may_revoke, page, wizard_of
from registration.evidence import assessment

if TYPE_CHECKING:
    from django.forms import Form
    from django.http import HttpRequest, HttpResponse

    from registration.approvals.stale_decision import SeenVersions
    from registration.evidence.evidence_items import Evidence


@login_required
@require_POST
def accept(request: HttpRequest, name: str) -> HttpResponse:
    form = DecisionForm(request.POST)
    if not form.is_valid():
        return _damaged(request, name)
    seen, clusterset = form.seen(), form.cleaned_data["clusterset"]
    try:
        approved = services.accept_cluster(actor_of(request), name, seen=seen, clusterset=clusterset)
    except gate.Waits as waits:
        return refusals.proposed(request, waits.pk)
    except errors.ApiError as error:
        return _refused(request, name, error, seen)
    return _accepted(request, name, approved)


@login_required
@require_POST
def override(request: HttpRequest, name: str) -> HttpResponse:
    """Accept a key that the hub would not give the name to, on a person's word with a fresh proof (D9)."""
    form = OverrideForm({**request.POST.dict(), "name": name})
    if not form.is_valid():
        return page(request, name, forms={"override_form": form}, status=400)
    seen, clusterset = form.seen(), form.cleaned_data["clusterset"]
    actor = actor_of(request)
    try:
        approved = services.accept_cluster(actor, name, seen=seen, override=form.override(), clusterset=clusterset)
    except gate.Waits as waits:
        return refusals.proposed(request, waits.pk)
    except errors.ApiError as error:
        return _refused(request, name, error, seen, override_form=form, field="accept_key")
    return _accepted(request, name, approved)


def _accepted(request: HttpRequest, name: str, approved: list[str]) -> HttpResponse:
    certificate = (
        f"its request {approved[0]} is approved"
        if approved
        else "its certificate request waits for a decision of its own when it comes"
    )
    _tell(request, name, f"{name} is accepted; {certificate}.")
    token_id = wizard_of(request)  # back to the wizard's last step, where the user came from
    return redirect(join_guide.watch_url(token_id, name)) if token_id else _to_the_list(request, name)


@login_required
@require_POST
def decline(request: HttpRequest, name: str) -> HttpResponse:
    actor = actor_of(request)
    try:
        services.require_accept(actor, name)  # before the form is judged
    except errors.ApiError as error:
        return _refused(request, name, error)
    found = assessment.evidence_of(name)
    form = DeclineForm(request.POST, may_revoke=may_revoke(actor, found))
    if not form.is_valid():
        return page(request, name, forms={"decline_form": form}, status=400)
    seen, words = form.seen(), form.cleaned_data["words"]
    token = found.recorded.token if form.revokes else None
    try:
        denied = services.decline_cluster(actor, name, reason=words, seen=seen, scope=form.scope_of_decline())
        if token is not None:
            tokens.revoke_as(actor, token)
    except errors.ApiError as error:
        return _refused(request, name, error, seen, decline_form=form, field="reason")
    also = f" The token {token.name or token.pk} is revoked." if token is not None else ""
    _tell(request, name, f"{_declined(found, denied)}{also}")
    return _to_the_list(request, name)


def _declined(found: Evidence, denied: list[str]) -> str:
    if not found.is_accepted:
        return f"{found.name} is declined."
    which = f"request {denied[0]} is" if len(denied) == 1 else f"requests {', '.join(denied)} are"
    return f"The {which} denied; {found.name} stays accepted."


@login_required
@require_POST
def lift(request: HttpRequest, name: str) -> HttpResponse:
    """Let what was declined ask again (D10)."""
    actor = actor_of(request)
    try:
        services.lift_decline(actor, name)
    except errors.ApiError as error:
        return _refused(request, name, error)
    _tell(request, name, f"{name} may ask again; its next request waits for a decision.")
    found = assessment.evidence_of(name)
    if found.cluster or found.asked:
        return redirect("registration:request", name=name)
    return _to_the_list(request, name)


@login_required
@require_POST
def put_off(request: HttpRequest, name: str) -> HttpResponse:
    """Hide it for this person, until a time or until it changes."""
    actor = actor_of(request)
    form = LaterForm(request.POST)
    if not clusters.may_see(actor, name):
        raise Http404(f"Nothing called {name} asks to join.")
    if not form.is_valid():
        return page(request, name, forms={"later_form": form}, status=400)
    seen = form.seen()
    if not snooze.put_off(actor, name, seen, form.moment()):
        return page(request, name, status=409, refusal=stale_decision.refusal_text(name, seen))
    messages.success(request, f"{name} is put off for you; it still waits for everybody else.")
    return _to_the_list(request, name)


@login_required
@require_POST
def bring_back(request: HttpRequest, name: str) -> HttpResponse:
    snooze.bring_back(actor_of(request), name)
    return _to_the_list(request, name)


def _to_the_list(request: HttpRequest, name: str) -> HttpResponse:
    """The inbox as it was left: filter, page, and the place of the row, which stays for a moment when it is decided."""
    query = query_of(QueryDict(request.POST.get("list", "")))
    return redirect(reverse("registration:approvals") + (f"?{query}" if query else "") + f"#request-{quote(name)}")


def _tell(request: HttpRequest, name: str, text: str) -> None:
    """What was done, and where it is recorded."""
    link = format_html('<a href="{}">Its audit entry</a>', audit_url(MANAGED_CLUSTER.resource, name))
    messages.success(request, format_html("{} {}", text, link))


def _damaged(request: HttpRequest, name: str) -> HttpResponse:
    return page(request, name, status=409, refusal=f"{stale_decision.STALE} Look at it again.")


def _refused(
    request: HttpRequest,
    name: str,
    error: errors.ApiError,
    seen: SeenVersions | None = None,
    *,
    field: str = "",
    **forms: Form,
) -> HttpResponse:
    """The refusal, or that there is no such thing; nothing was changed. ``forms`` keep what was typed.

    What is not about the page's age also stands beside ``field`` of the form.
    """
    moved = isinstance(error, errors.Conflict) and "object has been modified" in error.message
    text = stale_decision.refusal_text(name, seen) if moved and seen is not None else error.message
    for form in forms.values():
        if not moved:
            form.add_error(field, refusals.plain(error.message))
    return page(request, name, forms=forms, status=error.code, refusal=text)
