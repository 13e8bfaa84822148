"""Why somebody may or may not, and asking for it. Sent with GET, so that any page can link to a question."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import Group, User
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from ocmconsole.access import explain, services
from ocmconsole.access.forms import AccessReasonForm, QuestionForm
from ocmconsole.components.links import explain_url
from ocmconsole.core.rbac import known_rights
from ocmconsole.kubeapi import errors, kinds
from ocmconsole.kubeapi.access.actor import AUTHENTICATED, Actor
from ocmconsole.kubeapi.access.session import actor_for, actor_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.access.explain import Explanation

MOST_SUGGESTED = 500  # names that a field suggests
VERBS = ("create", "get", "list", "watch", "update", "patch", "delete")


@login_required
@require_GET
def explained(request: HttpRequest) -> HttpResponse:
    is_asked = request.GET.get("verb") and request.GET.get("resource")
    return _page(request, QuestionForm(request.GET) if is_asked else QuestionForm(initial=request.GET.dict()))


@login_required
@require_POST
def ask(request: HttpRequest) -> HttpResponse:
    """Ask those who can for what was refused."""
    form, reason = QuestionForm(request.POST), AccessReasonForm(request.POST)
    if not form.is_valid() or not reason.is_valid():
        return _page(request, form, reason=reason, status=HTTPStatus.BAD_REQUEST)
    try:
        row = services.request_access(actor_of(request), form.question, reason.cleaned_data["reason"])
    except errors.ApiError as error:
        messages.error(request, f"{error.message.capitalize()}.")
        return _page(request, form, reason=reason, status=error.code)
    messages.success(
        request, f"You have asked to {services.question_of(row).sentence}; those who can give it see that."
    )
    return redirect(explain_url(row.verb, row.resource, name=row.name, namespace=row.namespace))


def _page(
    request: HttpRequest, form: QuestionForm, *, reason: AccessReasonForm | None = None, status: int = HTTPStatus.OK
) -> HttpResponse:
    actor = actor_of(request)
    context: dict[str, Any] = {
        "form": form,
        "sees_everyone": services.sees_everyone(actor),
        "verbs": sorted({*VERBS, *(right.word for right in known_rights.all_rights())}),
        "resources": sorted({*(kind.resource for kind in kinds.all_kinds()), *_spelled()}),
        "people": User.objects.order_by("username").values_list("username", flat=True)[:MOST_SUGGESTED],
    }
    if not context["sees_everyone"]:
        context["people"] = [actor.user]
    if form.is_bound and form.is_valid():
        subject = _subject(actor, form)
        if subject is None:
            form.add_error("user", "You may ask about yourself only.")
            status = HTTPStatus.FORBIDDEN
        else:
            context |= _explained(actor, subject, explain.explain(subject, form.question))
            context["reason"] = reason or AccessReasonForm()
    if form.errors and status == HTTPStatus.OK:
        status = HTTPStatus.BAD_REQUEST
    return render(request, "access/explain.html", context, status=status)


def _spelled() -> set[str]:
    asked = [each for right in known_rights.all_rights() for each in right.asked("")]
    return {errors.qualified(each.group, each.full_resource) for each in asked}


def _subject(actor: Actor, form: QuestionForm) -> Actor | None:
    """The subject of the question: the actor with its own credential, a user with the user's groups, or a bare name."""
    user, groups = form.cleaned_data["user"], form.named_groups
    if user in {"", actor.user} and not groups:
        return actor
    if not services.sees_everyone(actor):
        return None
    person = User.objects.filter(username=user).first() if user else None
    if person is not None and not groups:
        return actor_for(person)
    return Actor(user=user, groups=(*groups, AUTHENTICATED))


def _explained(actor: Actor, subject: Actor, explanation: Explanation) -> dict[str, Any]:
    asked, is_self = explanation.question, subject.user == actor.user
    open_request = None
    if is_self and not explanation.allowed:
        about = {"verb": asked.verb, "resource": asked.resource, "name": asked.name, "namespace": asked.namespace}
        open_request = services.requests_of(actor).filter(answer="", **about).first()
    return {
        "explanation": explanation,
        "subject": subject,
        "is_self": is_self,
        "is_deactivated": User.objects.filter(username=subject.user, is_active=False).exists(),
        "groups": list(Group.objects.filter(name__in=subject.groups).order_by("name").values_list("name", flat=True)),
        "granters": [] if explanation.allowed else explain.granters(asked),
        "open_request": open_request,
        "may_give": not explanation.allowed and not is_self and services.administers(actor),
        "commands": [explain.command(each, "" if is_self else subject.user) for each in asked.asked],
    }
