"""What a person keeps about the list: views under a name, columns, and how much room a row has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from clusters.fleet import columns, listing, saved_views
from clusters.fleet.filters import Filters
from ocmconsole.kubeapi import errors

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


class ViewForm(forms.Form):
    name = forms.CharField(max_length=60, error_messages={"required": "Give the view a name."})
    query = forms.CharField(required=False, max_length=8000)


@login_required
@require_POST
def save_view(request: HttpRequest) -> HttpResponse:
    form = ViewForm(request.POST)
    query = _known(request.POST.get("query", ""))
    if not form.is_valid():
        messages.error(request, " ".join(str(text) for texts in form.errors.values() for text in texts))
        return redirect(_list(query))
    try:
        saved_views.save_view(request.user, form.cleaned_data["name"], query)
    except errors.Conflict as error:
        messages.error(request, error.message)
    else:
        messages.success(request, f"The view {form.cleaned_data['name']} is saved; only you see it.")
    return redirect(_list(query))


@login_required
@require_POST
def forget_view(request: HttpRequest, view: int) -> HttpResponse:
    if name := saved_views.delete_saved_view(request.user, view):
        messages.success(request, f"The view {name} is forgotten.")
    return redirect("clusters:list")


@login_required
@require_POST
def choose_columns(request: HttpRequest) -> HttpResponse:
    """Columns, claims and density in one form; density alone keeps the columns."""
    chosen = columns.chosen_by(request.user)
    ids = chosen.ids
    if "columns" in request.POST:
        claims = request.POST.get("claims", "").split()
        ids = (*request.POST.getlist("column"), *(f"{columns.CLAIM}{name}" for name in claims))
    is_comfortable = request.POST.get("density", "comfortable" if chosen.is_comfortable else "dense") == "comfortable"
    columns.save_columns(request.user, ids, is_comfortable=is_comfortable)
    return redirect(_list(_known(request.POST.get("query", ""))))


def _known(text: str) -> str:
    """What of a query the list understands: nothing else is kept, or led to."""
    asked = QueryDict(text)
    sort, _ = listing.order_of(asked.get("sort", ""))
    return Filters.read(asked).query(sort="" if sort == "name" else sort)


def _list(query: str) -> str:
    return f"{reverse('clusters:list')}?{query}" if query else reverse("clusters:list")
