"""Remove: what happens on the hub, what must happen on the cluster, in which order, what is in the way; progress."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from clusters import cluster_rights, services
from clusters.acceptance import removal_progress
from clusters.cluster import impact
from clusters.cluster.page_frame import Opened, frame, opens_cluster, show_refusal
from clusters.forms import AbandonForm, RemoveForm
from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.components.links import audit_url
from ocmconsole.environment.installation import PROGRAM
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.schema import times

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.errors import Doc


@opens_cluster
def remove_cluster(request: HttpRequest, cluster: Opened) -> HttpResponse:
    """Explains and asks; once the removal has begun, shows how far it is."""
    if request.method != "POST":
        return _page(request, cluster)
    form = RemoveForm(cluster.name, request.POST)
    if not form.is_valid():
        return _page(request, cluster, form=form, code=400)
    try:
        is_gone = services.remove_cluster(cluster.actor, cluster.name, revoke=form.cleaned_data["revoke"])
    except errors.ApiError as error:
        show_refusal(form, error)
        return _page(request, cluster, form=form, code=error.code)
    also = " Its certificates are revoked." if form.cleaned_data["revoke"] else ""
    if is_gone:
        messages.success(request, f"{cluster.name} is removed.{also}")
        return redirect("clusters:list")
    messages.success(request, f"The removal of {cluster.name} has begun.{also}")
    return redirect("clusters:remove", name=cluster.name)


@opens_cluster
@require_POST
def abandon(request: HttpRequest, cluster: Opened) -> HttpResponse:
    """Force: give up what its agent will not finish (K29)."""
    form = AbandonForm(cluster.name, request.POST)
    if not form.is_valid():
        return _page(request, cluster, abandon_form=form, code=400)
    try:
        given_up = services.detach_cluster(cluster.actor, cluster.name, reason=form.cleaned_data["reason"])
    except errors.ApiError as error:
        show_refusal(form, error)
        return _page(request, cluster, abandon_form=form, code=error.code)
    messages.success(request, f"Given up: {', '.join(given_up)}." if given_up else "There was nothing to give up.")
    return redirect("clusters:remove", name=cluster.name)


def _page(
    request: HttpRequest,
    cluster: Opened,
    *,
    form: RemoveForm | None = None,
    abandon_form: AbandonForm | None = None,
    code: int = 200,
) -> HttpResponse:
    found = removal_progress.departure_of(cluster.row, cluster.now)
    context: dict[str, Any] = {
        **frame(cluster),
        "page_name": "Remove",
        "departure": found,
        "impact": None
        if found.has_begun
        else impact.impact_of(cluster.actor, [cluster.name], partial(_as_removed, now=cluster.now), cluster.now),
        "may_revoke": removal_progress.certificates().may_revoke(cluster.actor, cluster.name),
        "may_delete": cluster_rights.to_delete(cluster.actor, cluster.name),
        "form": form or RemoveForm(cluster.name),
        "abandon_form": abandon_form or AbandonForm(cluster.name),
        "hub_commands": [f"kubectl delete managedcluster {cluster.name}"],
        "cluster_commands": [f"clusteradm unjoin --cluster-name {cluster.name}"],
        "force_commands": [
            f"{PROGRAM} detach {cluster.name} --reason '…'",
            f"{PROGRAM} detach {cluster.name} --reason '…' --revoke",
        ],
        "audit_url": audit_url(MANAGED_CLUSTER.resource, cluster.name),
    }
    return render(request, "clusters/cluster/remove.html", context, status=code)


def _as_removed(doc: Doc, *, now: datetime) -> Doc:
    """Placements drop a cluster that is being deleted (P5)."""
    return {**doc, "metadata": {**doc["metadata"], "deletionTimestamp": times.timestamp(now)}}
