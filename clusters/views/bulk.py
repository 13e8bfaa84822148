"""One act on the clusters that were ticked in the list: what it does to each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from clusters import bulk
from clusters.bulk import Act, Step
from clusters.forms import LabelForm, MaintenanceForm
from ocmconsole.kubeapi import bulkjobs
from ocmconsole.kubeapi.session import actor_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

TOO_MANY = f"Only the first {bulkjobs.MOST} are taken; do the others afterwards."


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
        self.fields["typed"].required = count > bulkjobs.TYPED_ABOVE

    def clean_typed(self) -> str:
        typed: str = self.cleaned_data["typed"]
        if self.count > bulkjobs.TYPED_ABOVE and typed.strip() != str(self.count):
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
    names = [name for name in dict.fromkeys(sent.getlist("cluster")) if "\0" not in name]
    act, actor = Act(sent["act"]), actor_of(request)
    steps = bulk.plan(actor, act, names)
    possible = [step.name for step in steps if not step.obstacle]
    if request.method == "GET":
        return _page(request, act, names, steps, FORMS[act](), CountForm(len(possible)))
    form, count = FORMS[act](request.POST), CountForm(len(possible), request.POST)
    if not (form.is_valid() & count.is_valid()) or not possible:
        return _page(request, act, names, steps, form, count, status=400)
    job = bulk.start(actor, act, possible, **_told(act, form))
    return redirect("bulk:job", job.pk)


def _told(act: Act, form: forms.Form) -> dict[str, Any]:
    told = form.cleaned_data
    match act:
        case Act.MAINTENANCE:
            until = told["until"].isoformat() if told["until"] else ""
            return {"reason": told["reason"], "until": until, "effect": told["effect"]}
        case Act.LABEL:
            return {"key": told["key"], "value": told["value"]}
        case Act.END:
            return {}


def _page(
    request: HttpRequest, act: Act, names: list[str], steps: list[Step], form: forms.Form, count: CountForm,
    *, status: int = 200,
) -> HttpResponse:  # fmt: skip
    possible = [step.name for step in steps if not step.obstacle]
    told = {name: form[name].value() or "" for name in ("key", "value", "reason", "effect") if name in form.fields}
    context = {
        "act": act,
        "title": bulk.ACTS[act].title,
        "steps": steps,
        "possible": possible,
        "form": form,
        "count": count,
        "must_be_typed": len(possible) > bulkjobs.TYPED_ABOVE,
        "too_many": TOO_MANY if len(names) > bulkjobs.MOST else "",
        "commands": bulk.commands(actor_of(request), act, possible, **told) if possible else [],
    }
    return render(request, "clusters/bulk.html", context, status=status)
