"""One act on the clusters that were ticked in the list: what it does to each, then what became of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_GET, require_http_methods

from clusters import bulk
from clusters.bulk import Act, Done, Step
from clusters.forms import LabelForm, MaintenanceForm
from clusters.kinds import MANAGED_CLUSTER
from clusters.views.refusals import plain
from ocmconsole.kubeapi.links import audit_url
from ocmconsole.kubeapi.session import actor_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.actor import Actor

SESSION = "clusters.bulk"
TITLES = {Act.MAINTENANCE: "Start maintenance", Act.END: "End maintenance", Act.LABEL: "Add a label"}
DONE = {Act.MAINTENANCE: "in maintenance", Act.END: "out of maintenance", Act.LABEL: "labelled"}


class CountForm(forms.Form):
    """How many it concerns, typed when they are many."""

    typed = forms.CharField(
        label="Type how many clusters it concerns",
        required=False,
        max_length=10,
        widget=forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "off"}),
        error_messages={"required": "It concerns many clusters. Type that number."},
    )

    def __init__(self, count: int, *args: Any, **options: Any) -> None:
        self.count = count
        super().__init__(*args, **options)
        self.fields["typed"].required = count > bulk.TYPED_ABOVE

    def clean_typed(self) -> str:
        typed: str = self.cleaned_data["typed"]
        if self.count > bulk.TYPED_ABOVE and typed.strip() != str(self.count):
            raise forms.ValidationError(f"It concerns {self.count} clusters. Type that number.")
        return typed


FORMS: dict[Act, type[forms.Form]] = {Act.MAINTENANCE: MaintenanceForm, Act.LABEL: LabelForm, Act.END: forms.Form}


@login_required
@require_http_methods(["GET", "POST"])
def bulk_act(request: HttpRequest) -> HttpResponse:
    """A page that says what would happen to each; posting it does it to those that it said could be."""
    sent = request.POST if request.method == "POST" else request.GET
    if sent.get("act") not in set(Act):
        raise Http404("There is no such act on many clusters.")
    act, names, actor = Act(sent["act"]), list(dict.fromkeys(sent.getlist("cluster"))), actor_of(request)
    steps = bulk.plan(actor, act, names)
    possible = [step.name for step in steps if not step.obstacle]
    if request.method == "GET":
        return _page(request, act, names, steps, FORMS[act](), CountForm(len(possible)))
    form, count = FORMS[act](request.POST), CountForm(len(possible), request.POST)
    if not (form.is_valid() & count.is_valid()) or not possible:
        return _page(request, act, names, steps, form, count, status=400)
    return _keep(request, act, _carry_out(actor, act, possible, form.cleaned_data))


def _carry_out(actor: Actor, act: Act, names: Iterable[str], told: dict[str, Any]) -> list[Done]:
    match act:
        case Act.MAINTENANCE:
            return bulk.start_maintenance(
                actor, names, reason=told["reason"], until=told["until"], effect=told["effect"]
            )
        case Act.LABEL:
            return bulk.add_label(actor, names, key=told["key"], value=told["value"])
        case Act.END:
            return bulk.end_maintenance(actor, names)


def _page(
    request: HttpRequest, act: Act, names: list[str], steps: list[Step], form: forms.Form, count: CountForm,
    *, status: int = 200,
) -> HttpResponse:  # fmt: skip
    possible = [step.name for step in steps if not step.obstacle]
    told = {name: form[name].value() or "" for name in ("key", "value", "reason", "effect") if name in form.fields}
    context = {
        "act": act,
        "title": TITLES[act],
        "steps": steps,
        "possible": possible,
        "form": form,
        "count": count,
        "must_be_typed": len(possible) > bulk.TYPED_ABOVE,
        "too_many": len(names) > bulk.MOST,
        "most": bulk.MOST,
        "commands": bulk.commands(actor_of(request), act, possible, **told) if possible else [],
    }
    return render(request, "clusters/bulk.html", context, status=status)


def _keep(request: HttpRequest, act: Act, done: list[Done]) -> HttpResponse:
    rows = [[each.name, plain(each.refusal)] for each in done]
    request.session[SESSION] = {"act": act, "at": timezone.now().isoformat(), "rows": rows}
    count = sum(not each.refusal for each in done)
    if count:
        messages.success(request, f"{count} of {len(done)} clusters {DONE[act]}.")
    else:
        messages.error(request, "Nothing was changed.")
    return redirect("clusters:bulk-done")


@login_required
@require_GET
def bulk_done(request: HttpRequest) -> HttpResponse:
    """What became of each cluster of the last such act in this session."""
    last: dict[str, Any] = request.session.get(SESSION) or {}
    if not last:
        return redirect("clusters:list")
    rows = [
        {
            "name": name,
            "refusal": refusal,
            "url": reverse("clusters:detail", args=[name]),
            "audit_url": audit_url(MANAGED_CLUSTER.resource, name),
        }
        for name, refusal in last["rows"]
    ]
    context = {
        "title": TITLES[Act(last["act"])],
        "word": DONE[Act(last["act"])],
        "at": parse_datetime(last["at"]),
        "rows": rows,
        "refused": [row for row in rows if row["refusal"]],
        "done": [row for row in rows if not row["refusal"]],
    }
    return render(request, "clusters/bulk_done.html", context)
