"""The tab of taints: what keeps placements away, by whom and since when; add, edit, remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from clusters import services
from clusters.cluster import impact, page_frame
from clusters.cluster.page_frame import Opened, opens_cluster, tab
from clusters.cluster.summary_tab import taint_row
from clusters.forms import TaintForm
from clusters.kinds import TaintEffect, taints_of
from clusters.taints import edit_history, taint_rules
from ocmconsole.kubeapi import errors

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.errors import Doc

TAINTS = "taints"
EXAMPLE = {"key": "dedicated", "effect": TaintEffect.NO_SELECT.value}  # in the command that the page shows


@tab(TAINTS, "Taints", "clusters/cluster/taints.html", count=lambda cluster: len(taints_of(cluster.doc)))
def taint_rows(request: HttpRequest, cluster: Opened) -> dict[str, Any]:
    """``?edit=key`` with ``&effect=`` opens the form on that taint."""
    present = taints_of(cluster.doc)
    edited = taint_rules.find_taint(present, request.GET.get("edit", ""), request.GET.get("effect", ""))
    editable = edited if edited is not None and taint_rules.owner_of(edited["key"]) == "person" else None
    owners = edit_history.owners_of_taints(cluster.doc)
    rows = [{**taint_row(taint), "by": owners.get((taint["key"], taint["effect"]), "")} for taint in present]
    return {
        "rows": rows,
        "edited": editable,
        "has_preview": True,
        "form": TaintForm(initial=_initial(editable) if editable else {"effect": TaintEffect.NO_SELECT.value}),
        "commands": taint_rules.taint_commands({cluster.name: present}, EXAMPLE),
    }


def _initial(taint: Doc) -> dict[str, str]:
    return {**taint, "was_key": taint["key"], "was_effect": taint["effect"]}


@opens_cluster
@require_POST
def set_taint(request: HttpRequest, cluster: Opened) -> HttpResponse:
    form = TaintForm(request.POST)
    if not form.is_valid():
        return _again(request, cluster, form, 400)
    if "preview" in request.POST:
        return _previewed(request, cluster, form)
    try:
        services.set_taint(cluster.actor, cluster.name, form.taint(), instead=form.instead())
    except errors.ApiError as error:
        page_frame.show_refusal(form, error)
        return _again(request, cluster, form, error.code)
    done = "changed" if form.instead() else "added"
    messages.success(request, f"The taint {form.cleaned_data['key']} is {done}.")
    return redirect(page_frame.tab_url(cluster.name, TAINTS))


@opens_cluster
@require_POST
def remove_taint(request: HttpRequest, cluster: Opened) -> HttpResponse:
    key, effect = request.POST.get("key", ""), request.POST.get("effect", "")
    try:
        services.remove_taint(cluster.actor, cluster.name, key, effect)
    except errors.ApiError as error:
        messages.error(request, page_frame.refusal_text(error))
        return page_frame.show(request, cluster, TAINTS, status=error.code)
    messages.success(request, f"The taint {key} is removed.")
    return redirect(page_frame.tab_url(cluster.name, TAINTS))


def _previewed(request: HttpRequest, cluster: Opened, form: TaintForm) -> HttpResponse:
    """What placements would do with the taint of the form; nothing is written."""
    taint, instead = form.taint(), form.instead()

    def tainted(doc: Doc) -> Doc:
        present = taints_of(doc)
        former = taint_rules.find_taint(present, *instead) if instead else None
        taint_rules.write_taints(doc, taint_rules.put_taint(present, taint, former))
        return taint_rules.stamped(doc, cluster.now)

    found = impact.impact_of(cluster.actor, [cluster.name], tainted, cluster.now)
    more = {} if instead else {"commands": taint_rules.taint_commands({cluster.name: taints_of(cluster.doc)}, taint)}
    return _again(request, cluster, form, 200, impact=found, **more)


def _again(request: HttpRequest, cluster: Opened, form: TaintForm, status: int, **more: Any) -> HttpResponse:
    was = form.data.get("was_key", ""), form.data.get("was_effect", "")
    edited = taint_rules.find_taint(taints_of(cluster.doc), *was)
    return page_frame.show(request, cluster, TAINTS, status=status, form=form, edited=edited, **more)
