"""People and groups: make them, switch people on and off, say who is in which group. Saved by ``accounts.people``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from ocmconsole.access import services
from ocmconsole.access.forms import GroupForm, MembershipForm, PersonForm
from ocmconsole.accounts import people
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access.session import actor_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


@login_required
@require_http_methods(["GET", "POST"])
def add_person(request: HttpRequest) -> HttpResponse:
    form = PersonForm(request.POST or None)
    if request.method == "GET":
        return _form(request, form, "person")
    if not form.is_valid():
        return _form(request, form, "person", status=400)
    person = form.save(commit=False)
    try:
        people.save_user(actor_of(request), person, groups=form.cleaned_data["groups"])
    except errors.ApiError as error:
        messages.error(request, f"Nothing was changed: {error.message}")
        return _form(request, form, "person", status=error.code)
    messages.success(request, f"{person.username} has an account; without a role it opens nothing.")
    return redirect("access:user", name=person.username)


@login_required
@require_http_methods(["GET", "POST"])
def add_group(request: HttpRequest) -> HttpResponse:
    form = GroupForm(request.POST or None)
    if request.method == "GET":
        return _form(request, form, "group")
    if not form.is_valid():
        return _form(request, form, "group", status=400)
    group = form.save(commit=False)
    try:
        people.save_group(actor_of(request), group)
    except errors.ApiError as error:
        messages.error(request, f"Nothing was changed: {error.message}")
        return _form(request, form, "group", status=error.code)
    messages.success(request, f"Group {group.name} is made; bring people in on their pages.")
    return redirect("access:group", name=group.name)


def _form(request: HttpRequest, form: Any, word: str, status: int = 200) -> HttpResponse:
    return render(request, "access/account.html", {"form": form, "word": word}, status=status)


@login_required
@require_POST
def activate(request: HttpRequest) -> HttpResponse:
    """Switch a person off, who loses every credential at once, or on again."""
    person = _person(request)
    person.is_active = request.POST.get("active") == "yes"
    state = "active again" if person.is_active else "deactivated: none of their credentials is accepted"
    done = f"{person.username} is {state}."
    return _saved(request, person, done)


@login_required
@require_POST
def join(request: HttpRequest) -> HttpResponse:
    """Say which groups a person is in."""
    person = _person(request)
    form = MembershipForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Nothing was changed: one of the groups does not exist any more.")
        return redirect("access:user", name=person.username)
    return _saved(request, person, f"The groups of {person.username} are changed.", groups=form.cleaned_data["groups"])


def _person(request: HttpRequest) -> User:
    """The user meant; users who may not see everyone learn nothing of who exists."""
    name = request.POST.get("user", "")
    found = User.objects.filter(username=name).first() if "\0" not in name else None
    if found is None or not services.sees_everyone(actor_of(request)):
        raise Http404("There is nobody of this name, or you may not see them.")
    return found


def _saved(request: HttpRequest, person: User, done: str, groups: Any = None) -> HttpResponse:
    try:
        people.save_user(actor_of(request), person, groups=groups)
    except errors.ApiError as error:
        messages.error(request, f"Nothing was changed: {error.message}")
    else:
        messages.success(request, done)
    return redirect("access:user", name=person.username)
