"""One act on the selected clusters of the list: the selection is stored, then a page says what the act does to each.

The inbox selects and asks in the same way (``registration.approvals.bulk_pages``), through ``selected`` and ``answer``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from clusters.fleet import bulk_acts
from ocmconsole.components.links import query_of
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.control import bulk_jobs

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from django.http import HttpRequest, HttpResponse

    from clusters.fleet.bulk_acts import BulkPlan, BulkStep, ClusterAct, FormValues
    from ocmconsole.kubeapi.models import BulkJob, BulkSelection

SHOWN = 100  # clusters of a preview, those that are left out first


class CountForm(forms.Form):
    """How many clusters the act concerns, typed when they are many or the act cannot be undone."""

    typed = forms.CharField(
        label="Type how many clusters it concerns",
        required=False,
        max_length=10,
        widget=forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "off"}),
        error_messages={"required": "Type how many clusters it concerns."},
    )

    def __init__(self, count: int, *args: Any, always: bool = False, **options: Any) -> None:
        self.count = count
        self.is_asked = always or count > bulk_jobs.TYPED_ABOVE
        super().__init__(*args, **options)
        self.fields["typed"].required = self.is_asked

    def clean_typed(self) -> str:
        typed: str = self.cleaned_data["typed"]
        if self.is_asked and typed.strip() != str(self.count):
            raise forms.ValidationError(f"It concerns {self.count} clusters. Type that number.")
        return typed


@login_required
@require_POST
def select(request: HttpRequest) -> HttpResponse:
    """Store what the list has selected, and go to the page of the act."""
    act = _act(request.POST.get("act", ""))
    actor = actor_of(request)
    names = bulk_acts.names_of(actor, request.POST)
    chosen = bulk_jobs.store_selection(actor, {name: {} for name in names}, query=request.POST.get("query", ""))
    if act.page:  # it may begin with a choice that the list has made
        begun = {"to": request.POST.get("to", "")}
        return redirect(reverse(act.page, args=[chosen.pk]) + (query_of(begun) if begun["to"] else ""))
    return redirect("clusters:bulk", chosen.pk, act.name)


@login_required
@require_http_methods(["GET", "POST"])
def bulk_act(request: HttpRequest, pk: UUID, name: str) -> HttpResponse:
    """A page that says what would happen to each; posting it does it to those that it said could be."""
    act, actor = _act(name), actor_of(request)
    selection = selected(request, pk)
    if act.perform is None:
        raise Http404("This act has a page of its own.")
    plan = bulk_acts.plan_act(actor, act, selection.items)
    return answer(
        request, act, plan, lambda values: bulk_acts.start_act(actor, act, plan.possible, values), selection=selection,
        up="clusters:list",
    )  # fmt: skip


def selected(request: HttpRequest, pk: UUID) -> BulkSelection:
    """The selection of that number. Raises Http404 when it is not the person's, or not there any more."""
    selection = bulk_jobs.find_selection(actor_of(request), pk)
    if selection is None:
        raise Http404("There is no such selection of yours. Selections are kept for a day.")
    return selection


def _act(name: str) -> ClusterAct:
    if name not in bulk_acts.ACTS:
        raise Http404("There is no such act on many clusters.")
    return bulk_acts.ACTS[name]


def answer(
    request: HttpRequest,
    act: ClusterAct,
    plan: BulkPlan,
    begin: Callable[[FormValues], BulkJob],
    *,
    selection: BulkSelection,
    up: str,
    template: str = "clusters/fleet/bulk.html",
    describe: Callable[[BulkStep], BulkStep] = lambda step: step,
    **context: Any,
) -> HttpResponse:
    """The page of an act on a selection; a valid POST begins the job and redirects to it.

    ``up`` is the route of the list, to which page and job lead back with the query of the ``selection``. ``describe``
    completes a step that is shown. ``context`` goes to the template.
    """
    possible = len(plan.possible)
    if request.method == "GET":
        form, count, status = act.form(), CountForm(possible, always=act.is_final), 200
    else:
        form, count, status = act.form(request.POST), CountForm(possible, request.POST, always=act.is_final), 400
        if (form.is_valid() & count.is_valid()) and possible:
            return redirect("bulk:job", bulk_jobs.led_back(begin(act.arguments(form)), selection.query).pk)
    form_values = {name: form[name].value() or "" for name in form.fields}
    shown = sorted(plan.steps, key=lambda step: not step.obstacle)[:SHOWN]
    context |= {
        "act": act,
        "up": reverse(up) + (f"?{selection.query}" if selection.query else ""),
        "plan": plan,
        "steps": [describe(step) for step in shown],
        "more": len(plan.steps) - len(shown),
        "form": form,
        "count": count,
        "commands": bulk_acts.act_commands(actor_of(request), act, plan.possible, form_values) if possible else [],
    }
    return render(request, template, context, status=status)
