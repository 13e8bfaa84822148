"""A new set: its name, how it chooses, and whom it would take in, shown before it is made."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from clusters import queries as clusters
from clustersets import membership, services
from clustersets.forms import BY_LABELS, MOST_ROWS, RequirementFormSet, SetForm
from clustersets.kinds import MANAGED_CLUSTER_SET
from clustersets.pages import composition, selector_help
from clustersets.rights import set_rights
from ocmconsole.components.document_display import as_yaml
from ocmconsole.components.links import explain_url
from ocmconsole.components.refusals import plain
from ocmconsole.components.whole_numbers import whole_number
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access.session import actor_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.errors import Doc

NAMES_SHOWN = 12  # clusters that a selector would take; the others are counted


@login_required
@require_http_methods(["GET", "POST"])
def create_set(request: HttpRequest) -> HttpResponse:
    """Name, kind and requirements; whom it would take in is shown before it is made."""
    if request.method == "GET":
        return _form(request, SetForm(initial={"name": request.GET.get("name", "")}), RequirementFormSet(prefix="r"))
    form, rows = SetForm(request.POST), RequirementFormSet(request.POST, prefix="r")
    if "more" in request.POST:
        return _form(request, form, _one_more(request))
    if not (form.is_valid() and rows.is_valid() and _says_something(form, rows)):
        return _form(request, form, rows, status=400)
    if "preview" in request.POST:
        return _form(
            request, form, rows, preview=_preview(request, form.cleaned_data["name"], _requirements(form, rows))
        )
    return _create(request, form, rows)


def _create(request: HttpRequest, form: SetForm, rows: Any) -> HttpResponse:
    name = form.cleaned_data["name"]
    try:
        services.create_set(actor_of(request), name, requirements=_requirements(form, rows))
    except errors.ApiError as error:
        form.add_error("name", plain(error.message))
        return _form(request, form, rows, status=error.code)
    messages.success(request, f"Set {name} is there.")
    return redirect("clustersets:set", name=name)


def _says_something(form: SetForm, rows: Any) -> bool:
    if _requirements(form, rows) != []:
        return True
    form.add_error("kind", "Say at least one condition. A set of all clusters exists already: global.")
    return False


def _requirements(form: SetForm, rows: Any) -> list[Doc] | None:
    if form.cleaned_data["kind"] != BY_LABELS:
        return None
    return [row.requirement for row in rows if row.requirement is not None]


def _one_more(request: HttpRequest) -> Any:
    """The same rows and an empty one, without complaints about what is not finished."""
    data = request.POST.copy()
    number = whole_number(data.get("r-TOTAL_FORMS", ""), 2) or 0
    data["r-TOTAL_FORMS"] = str(min(number + 1, MOST_ROWS))
    return RequirementFormSet(data, prefix="r")


def _preview(request: HttpRequest, name: str, requirements: list[Doc] | None) -> dict[str, Any]:
    found = membership.membership_of(services.set_document(name, requirements))
    rows = clusters.clusters_for(actor_of(request)).filter(found.condition())
    return {
        "sentence": selector_help.membership_sentence(found),
        "composition": composition.of_clusters(rows, clock.now()),
        "names": list(rows.values_list("name", flat=True)[:NAMES_SHOWN]),
        "command": f"kubectl apply -f - <<'EOF'\n{as_yaml(services.set_document(name, requirements))}EOF",
    }


def _form(
    request: HttpRequest, form: SetForm, rows: Any, *, preview: dict[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    actor = actor_of(request)
    name = quote(str(form["name"].value() or "NAME"))
    context = {
        "form": form,
        "rows": rows,
        "can_have_more": rows.total_form_count() < MOST_ROWS,
        "preview": preview,
        "can_create": set_rights.may_access(actor, "create", MANAGED_CLUSTER_SET),
        "create_explain": explain_url("create", MANAGED_CLUSTER_SET.resource),
        "command": preview["command"] if preview else f"clusteradm create clusterset {name}",
    }
    return render(request, "clustersets/pages/create.html", context, status=status)
