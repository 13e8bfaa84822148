"""Acts on rows that are selected in a list of Django admin: each is a service's, as the person, with its own audit.

Each needs a fresh proof of who is signed in (``signin.stepup``). One that takes something away, decides, or needs a
reason, has a page that names the rows first, and is done to these rows and no others. Acts on any number of clusters
have pages of the console, which ``leads_to`` opens with the selection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IS_POPUP_VAR
from django.http import HttpResponse
from django.template.response import TemplateResponse

from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.access.session import actor_of

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

MOST = 100  # rows of one act; each takes some hundredths of a second while the person waits
CONFIRMED = "confirmed"


class ConfirmationForm(forms.Form):
    """An act that needs nothing but a yes."""


@dataclass(frozen=True, slots=True)
class Described:
    """A row on the page that confirms. ``version`` comes back with the confirmation as ``given["seen"]``."""

    text: str
    version: str


@dataclass(frozen=True, slots=True)
class AdminAct:
    """``perform(actor, row, given)`` does one, with the cleaned values of ``form``, and raises ApiError.

    ``done`` completes "web-1 …". ``effects`` are the sentences of the page that confirms; without them there is none.
    ``describe(rows)`` returns for each row what that page says of it, so that ``perform`` can refuse one that changed.
    """

    name: str
    title: str
    done: str
    perform: Callable[[Actor, Any, Mapping[str, Any]], object]
    effects: tuple[str, ...] = ()
    form: type[forms.Form] = ConfirmationForm
    describe: Callable[[Sequence[Any]], Sequence[Described]] | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """An act with pages of its own: ``leads_to(request, rows)`` returns the first of them."""

    name: str
    title: str
    leads_to: Callable[[HttpRequest, QuerySet[Any]], HttpResponse]


class Acting(admin.ModelAdmin):  # type: ignore[type-arg] # one admin for every model
    """``acts`` are offered in the list; without the right the service refuses, and records that."""

    acts: tuple[AdminAct | Way, ...] = ()

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Without Django's deletion in bulk, which knows no services."""
        if IS_POPUP_VAR in request.GET:
            return {}
        return {act.name: (_action(act), act.name, act.title) for act in self.acts}

    def act(self, request: HttpRequest, rows: QuerySet[Any], act: AdminAct) -> HttpResponse | None:
        """The page that confirms, or None when the act was done or refused: the list shows what became of each."""
        chosen = list(rows[: MOST + 1])
        if len(chosen) > MOST:
            text = f"Nothing was changed: at most {MOST} rows are done at once here. Select fewer."
            self.message_user(request, text, messages.ERROR)
            return None
        is_sent = CONFIRMED in request.POST
        form = act.form(request.POST if is_sent else None)
        is_right = is_sent and form.is_valid()
        if act.effects and not is_right:
            return self._confirm(request, act, chosen, form)
        for row in chosen:
            given = form.cleaned_data if is_right else {}
            self._do(request, act, row, {**given, "seen": request.POST.get(_seen(row), "")})
        return None

    def _do(self, request: HttpRequest, act: AdminAct, row: Any, given: Mapping[str, Any]) -> None:
        """One row's refusal does not stop the others."""
        named = f"{self.opts.verbose_name} {row}".capitalize()
        try:
            act.perform(actor_of(request, EntryPoint.ADMIN), row, given)
        except errors.ApiError as error:
            self.message_user(request, f"{named}: {error.message}", messages.ERROR)
        else:
            self.message_user(request, f"{named} {act.done}", messages.SUCCESS)

    def _confirm(self, request: HttpRequest, act: AdminAct, rows: list[Any], form: forms.Form) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": act.title.rstrip("…"),
            "opts": self.opts,
            "act": act,
            "rows": list(_described(act, rows)),
            "form": form,
            "checkbox": ACTION_CHECKBOX_NAME,
            "media": self.media,
        }
        return TemplateResponse(request, "admin/confirm_act.html", context, status=400 if form.is_bound else 200)


def _seen(row: Any) -> str:
    """The field of the page that confirms which has the row's version."""
    return f"seen-{row.pk}"


def _described(act: AdminAct, rows: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """The rows as the page that confirms lists them."""
    found = act.describe(rows) if act.describe else [Described("", "")] * len(rows)
    for row, said in zip(rows, found, strict=True):
        yield {"row": row, "text": said.text, "field": _seen(row) if said.version else "", "version": said.version}


def _action(act: AdminAct | Way) -> Callable[[Any, HttpRequest, QuerySet[Any]], HttpResponse | None]:
    def run(model_admin: Any, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
        return act.leads_to(request, rows) if isinstance(act, Way) else model_admin.act(request, rows, act)

    return run
