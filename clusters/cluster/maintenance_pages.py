"""Maintenance: a page that says what it does and asks why and how long; the end of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from clusters import services
from clusters.cluster import impact, page_frame
from clusters.cluster.page_frame import SUMMARY, Opened, frame, opens_cluster, tab_url
from clusters.forms import AT, ENDLESS, MaintenanceForm
from clusters.health import status
from clusters.kinds import TaintEffect
from clusters.taints import maintenance, taint_rules
from ocmconsole.kubeapi import errors

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.errors import Doc


@opens_cluster
def cluster_maintenance(request: HttpRequest, cluster: Opened) -> HttpResponse:
    if request.method != "POST":
        return _page(request, cluster, MaintenanceForm(initial=_initial(cluster)))
    form = MaintenanceForm(request.POST)
    if not form.is_valid():
        return _page(request, cluster, form, 400)
    wanted = {name: form.cleaned_data[name] for name in ("reason", "until", "effect")}
    try:
        services.start_maintenance(cluster.actor, cluster.name, **wanted)
    except errors.ApiError as error:
        page_frame.show_refusal(form, error)
        return _page(request, cluster, form, error.code)
    until = wanted["until"]
    text = f"until {status.clock_time(until, cluster.now)} UTC" if until else "until somebody ends it"
    messages.success(request, f"{cluster.name} is in maintenance {text}.")
    return redirect(tab_url(cluster.name, SUMMARY))


def _initial(cluster: Opened) -> dict[str, Any]:
    notes = maintenance.notes_of(cluster.doc)
    if notes is None:
        return {}
    lasts = AT if notes.until else ENDLESS
    return {"reason": notes.reason, "until": notes.until, "lasts": lasts, "effect": notes.effect}


def _page(request: HttpRequest, cluster: Opened, form: MaintenanceForm, code: int = 200) -> HttpResponse:
    typed = {name: form[name].value() or "" for name in ("effect", "reason")}
    context = {
        **frame(cluster),
        "page_name": "Maintenance",
        "form": form,
        "impact": impact.impact_of(
            cluster.actor, [cluster.name], partial(_as_maintained, now=cluster.now), cluster.now
        ),
        "notes": maintenance.notes_of(cluster.doc),
        "commands": maintenance.maintenance_commands({cluster.name: cluster.doc}, **typed),
    }
    return render(request, "clusters/cluster/maintenance.html", context, status=code)


@opens_cluster
@require_POST
def end_maintenance(request: HttpRequest, cluster: Opened) -> HttpResponse:
    try:
        services.end_maintenance(cluster.actor, cluster.name)
    except errors.ApiError as error:
        messages.error(request, page_frame.refusal_text(error))
    else:
        messages.success(request, f"The maintenance of {cluster.name} is over.")
    return redirect(tab_url(cluster.name, SUMMARY))


def _as_maintained(doc: Doc, *, now: datetime) -> Doc:
    """With the effect that keeps most placements away."""
    maintenance.begin_maintenance(doc, reason="", until=None, effect=TaintEffect.NO_SELECT.value)
    return taint_rules.stamped(doc, now)
