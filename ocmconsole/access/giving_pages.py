"""Give a role, take a source away, answer a request: each a page that shows what it does before it does it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import yaml
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from ocmconsole.access import explain, presets, services, who_can
from ocmconsole.access.access_pages import MOST_SUGGESTED, found_or_404, frame, url_of, written
from ocmconsole.access.forms import AccessReasonForm, GiveForm
from ocmconsole.access.presets import PRESETS, GrantPlan
from ocmconsole.accounts.permissions import PeoplePermission
from ocmconsole.components.links import audit_url
from ocmconsole.core.models import AccessRequest
from ocmconsole.core.rbac import known_rights
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access.session import actor_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.access.who_can import Source
    from ocmconsole.kubeapi.access.actor import Actor


# ---------------------------------------------------------------- give


@login_required
@require_http_methods(["GET", "POST"])
def give(request: HttpRequest) -> HttpResponse:
    """GET shows what a role would give, POST gives it."""
    actor = actor_of(request)
    _require_administration(actor)
    if request.method == "POST":
        form = GiveForm(request.POST)
        return _given(request, actor, form) if form.is_valid() else _form(request, actor, form, status=400)
    form = GiveForm(request.GET) if "scope" in request.GET else GiveForm(initial=_first(request))
    return _form(request, actor, form)


def _first(request: HttpRequest) -> dict[str, str]:
    preset = request.GET.get("preset", "")
    chosen = PRESETS.get(preset, next(iter(PRESETS.values())))
    return {"preset": chosen.key, "holder": request.GET.get("holder", ""), "scope": chosen.scopes[0].value}


def _given(request: HttpRequest, actor: Actor, form: GiveForm) -> HttpResponse:
    wish = form.wish()
    try:
        number = services.give_plan(actor, presets.plan_grant(wish))
    except errors.ApiError as error:
        messages.error(request, f"Nothing was changed: {error.message}")
        return _form(request, actor, form, status=error.code)
    if number:
        messages.success(request, f"{wish.subject.name} is now {wish.preset.title.lower()}; the audit has it.")
    else:
        messages.info(request, f"{wish.subject.name} had all of it; nothing was changed.")
    return redirect(url_of(wish.subject))


def _form(request: HttpRequest, actor: Actor, form: GiveForm, status: int = 200) -> HttpResponse:
    context: dict[str, Any] = {
        "form": form,
        "presets": PRESETS.values(),
        "holders": [*_names(User, "username"), *(f"group:{name}" for name in _names(Group, "name"))],
        "sets": known_rights.names_seen(actor, presets.GROUP, presets.SETS, most=MOST_SUGGESTED),
        "clusters": known_rights.names_seen(actor, presets.GROUP, presets.CLUSTERS, most=MOST_SUGGESTED),
        "namespaces": known_rights.names_seen(actor, "", "namespaces", most=MOST_SUGGESTED),
        "chosen": form["preset"].value(),
    }
    if form.is_bound and form.is_valid():
        wish = form.wish()
        context |= _preview(actor, presets.plan_grant(wish)) | {"wish": wish}
    elif form.is_bound:
        status = 400
    return render(request, "access/give.html", context, status=status)


def _names(model: Any, column: str) -> list[str]:
    return list(model.objects.order_by(column).values_list(column, flat=True)[:MOST_SUGGESTED])


def _preview(actor: Actor, plan: GrantPlan) -> dict[str, Any]:
    """What would be written, whether the actor may, and how kubectl says it or checks it afterwards."""
    documents = [
        {"apiVersion": each.kind.storage.api_version, "kind": each.kind.kind}
        | each.doc
        | ({"metadata": each.doc["metadata"] | {"namespace": each.namespace}} if each.namespace else {})
        for each in plan.documents
    ]
    return {
        "plan": plan,
        "problem": _missing(plan) or services.obstacle_to_plan(actor, plan),
        "yaml": yaml.safe_dump_all(documents, sort_keys=False) if documents else "",
        "commands": _checks(plan),
    }


def _missing(plan: GrantPlan) -> str:
    """What does not exist: somebody to hold a permission, or something to hold it on."""
    if not plan.permissions:
        return ""
    try:
        services.holder_of(plan.subject)
    except errors.NotFound as error:
        return f"{error.message.capitalize()}."
    for each in plan.permissions:
        if each.name and known_rights.object_of(each.group, each.plural, each.name) is None:
            return f"There is no {each.plural.removesuffix('s')} called {each.name}."
    return ""


def _checks(plan: GrantPlan) -> list[str]:
    """Commands that show afterwards what was given."""
    if plan.subject.kind != "User":
        return []
    found = []
    for each in plan.permissions:
        right = next((right for right in known_rights.all_rights() if right.permission == each.label), None)
        found += [explain.command(right.asked(each.name)[0], plan.subject.name)] if right else []
    return found


# ---------------------------------------------------------------- take away


@login_required
@require_http_methods(["GET", "POST"])
def take(request: HttpRequest) -> HttpResponse:
    """GET shows what goes and what stays, POST takes it away."""
    actor = actor_of(request)
    _require_administration(actor)
    asked = request.POST if request.method == "POST" else request.GET
    source = found_or_404(asked.get("holder", ""), asked.get("source", ""))
    status = 200
    if request.method == "POST":
        try:
            services.withdraw_source(actor, source)
        except errors.ApiError as error:
            messages.error(request, f"Nothing was changed: {error.message}")
            status = error.code
        else:
            messages.success(request, f"{source.text} is taken from {source.subject.name}; the audit has it.")
            return redirect(url_of(source.subject))
    return render(request, "access/take.html", _taking(source, asked.get("source", "")), status=status)


def _taking(source: Source, key: str) -> dict[str, Any]:
    subject = source.subject
    held = who_can.held_by([subject])[subject]
    taken = [each for each in held if services.key_of(each) == key]
    kept = [each for each in held if services.key_of(each) != key]
    return {
        "source": who_can.with_givers([source])[0],
        "subject": subject,
        "key": key,
        "holder": written(subject),
        "url": url_of(subject),
        "goes": who_can.lost(taken, kept),
        "stays": who_can.sentences(kept),
        "is_last": source.binding is not None and len(source.binding.subjects) == 1,
        "command": _taking_command(source),
    }


def _taking_command(source: Source) -> str:
    if source.binding is None or len(source.binding.subjects) > 1:
        return ""
    namespace, name = source.binding.place
    kind, more = ("rolebinding", f" -n {shlex.quote(namespace)}") if namespace else ("clusterrolebinding", "")
    return f"kubectl delete {kind} {shlex.quote(name)}{more}"


# ---------------------------------------------------------------- requests


@login_required
@require_GET
def requests(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    waiting: list[dict[str, Any]] = []
    answered: list[dict[str, Any]] = []
    for row in services.requests_for(actor)[:MOST_SUGGESTED]:
        line = {"row": row, "sentence": services.question_of(row).sentence, "is_own": row.user == actor.user}
        (answered if row.answer else waiting).append(line)
    context = {"waiting": waiting, "answered": answered[:50]} | frame(actor, "requests")
    return render(request, "access/requests.html", context)


@login_required
@require_http_methods(["GET", "POST"])
def answer(request: HttpRequest, number: int) -> HttpResponse:
    """One request, with what granting it would give."""
    actor = actor_of(request)
    row = get_object_or_404(services.requests_for(actor), pk=number)
    form, status = AccessReasonForm(request.POST if request.POST.get("act") == "dismiss" else None), 200
    if request.method == "POST":
        try:
            if _answered(request, actor, row, form):
                return redirect("access:requests")
            status = 400
        except errors.ApiError as error:
            messages.error(request, f"Nothing was changed: {error.message}")
            status = error.code
            row.refresh_from_db()
    asked, plan = services.question_of(row), services.plan_of(row)
    context = {"row": row, "asked": asked, "form": form, "user_url": url_of(plan.subject)}
    context |= {"administers": services.administers(actor), "audit_url": audit_url("accessrequests", row.user)}
    if not row.answer and context["administers"]:
        context |= _preview(actor, plan)
    return render(request, "access/request.html", context, status=status)


def _answered(request: HttpRequest, actor: Actor, row: AccessRequest, form: AccessReasonForm) -> bool:
    """False when the reason is missing."""
    if request.POST.get("act") == "dismiss":
        if not form.is_valid():
            return False
        services.dismiss_request(actor, row, form.cleaned_data["reason"])
        messages.success(request, f"The request of {row.user} is dismissed; they see the reason.")
        return True
    services.grant_request(actor, row)
    messages.success(request, f"{row.user} may now {services.question_of(row).sentence}; the audit has it.")
    return True


def _require_administration(actor: Actor) -> None:
    if not services.administers(actor):
        raise PermissionDenied(f"Giving and taking rights needs {PeoplePermission.CHANGE_PERMISSION}.")
