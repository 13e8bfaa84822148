"""The tab of claims and labels: what the cluster says of itself, what the hub says of it, and who changed that when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import messages
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from clusters import claims, services
from clusters.claims import ClaimFilter
from clusters.cluster import page_frame
from clusters.cluster.page_frame import Opened, opens_cluster, tab
from clusters.forms import LabelForm
from clusters.health.addon_health import FEATURE
from clusters.kinds import CLUSTERSET_LABEL
from clusters.taints import edit_history
from ocmconsole.kubeapi import errors

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

CLAIMS = "claims"
HISTORY_SHOWN = 20  # changes, which fit beside the form


@tab(CLAIMS, "Claims & labels", "clusters/cluster/labels.html")
def claims_and_labels(request: HttpRequest, cluster: Opened) -> dict[str, Any]:
    """``?edit=key`` opens the form on that label."""
    labels: dict[str, str] = cluster.doc["metadata"].get("labels") or {}
    key = request.GET.get("edit", "")
    edited = key if key in labels and not _kept(key) else ""
    initial = {"key": edited, "value": labels[edited], "was_key": edited} if edited else {}
    return {
        "claims": _claims(cluster),
        "labels": [_label(cluster, key, value) for key, value in sorted(labels.items())],
        "edited": edited,
        "form": LabelForm(initial=initial),
        "history": edit_history.of_labels(cluster.doc)[:HISTORY_SHOWN],
        "commands": [f"kubectl label managedcluster {cluster.name} env=prod --overwrite"],
    }


def _claims(cluster: Opened) -> list[dict[str, str]]:
    """Each with the list of the clusters that say the same."""
    return [
        {
            "name": name,
            "value": value,
            "label": claims.RESERVED.get(name, ""),
            "url": f"{reverse('clusters:list')}?{urlencode({'claim': ClaimFilter(name, value)})}",
        }
        for name, value in claims.reported(cluster.doc).items()
    ]


def _label(cluster: Opened, key: str, value: str) -> dict[str, str]:
    move = page_frame.link("clustersets:move", cluster.name) if key == CLUSTERSET_LABEL else ""
    return {"key": key, "value": value, "kept": _kept(key), "move_url": move}


def _kept(key: str) -> str:
    """Why a label is not edited here; empty when it is."""
    if key == CLUSTERSET_LABEL:
        return "Names the set that the cluster belongs to; moving it takes rights on both sets."
    return "Set by the hub for each add-on." if key.startswith(FEATURE) else ""


@opens_cluster
@require_POST
def set_label(request: HttpRequest, cluster: Opened) -> HttpResponse:
    form = LabelForm(request.POST)
    if not form.is_valid():
        return _again(request, cluster, form, 400)
    data = form.cleaned_data
    try:
        services.set_label(cluster.actor, cluster.name, data["key"], data["value"], instead=data["was_key"])
    except errors.ApiError as error:
        page_frame.show_refusal(form, error)
        return _again(request, cluster, form, error.code)
    messages.success(request, f"The label {data['key']} is {'changed' if data['was_key'] else 'added'}.")
    return redirect(page_frame.tab_url(cluster.name, CLAIMS))


@opens_cluster
@require_POST
def remove_label(request: HttpRequest, cluster: Opened) -> HttpResponse:
    key = request.POST.get("key", "")
    try:
        services.remove_label(cluster.actor, cluster.name, key)
    except errors.ApiError as error:
        messages.error(request, page_frame.refusal_text(error))
        return page_frame.show(request, cluster, CLAIMS, status=error.code)
    messages.success(request, f"The label {key} is removed.")
    return redirect(page_frame.tab_url(cluster.name, CLAIMS))


def _again(request: HttpRequest, cluster: Opened, form: LabelForm, status: int) -> HttpResponse:
    return page_frame.show(request, cluster, CLAIMS, status=status, form=form, edited=form.data.get("was_key", ""))
