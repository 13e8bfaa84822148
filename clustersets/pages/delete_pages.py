"""Deleting a set: what goes with it, computed from current data, then its name typed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from clusters import queries as clusters
from clustersets import membership, services
from clustersets.forms import DeleteForm
from clustersets.kinds import MANAGED_CLUSTER_SET
from clustersets.models import ManagedClusterSet
from clustersets.pages import composition
from clustersets.pages.set_pages import head, visible_set
from clustersets.rights import reach, set_rights, visible_bindings
from ocmconsole.components.links import explain_url
from ocmconsole.components.refusals import plain
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access.session import actor_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor

CLUSTERS_SHOWN = 12  # names of clusters that lose their set; the others are counted


@login_required
@require_http_methods(["GET", "POST"])
def delete_set(request: HttpRequest, name: str) -> HttpResponse:
    """What goes with the set, then the name typed again."""
    actor = actor_of(request)
    row = visible_set(actor, name)
    form = DeleteForm(request.POST if request.method == "POST" else None, name=name)
    if request.method == "GET":
        return _removal(request, actor, row, form)
    if not form.is_valid():
        return _removal(request, actor, row, form, status=400)
    try:
        services.delete_set(actor, name)
    except errors.ApiError as error:
        form.add_error("typed", plain(error.message))
        return _removal(request, actor, row, form, status=error.code)
    messages.success(request, f"Set {name} is deleted.")
    return redirect("clustersets:list")


def _removal(
    request: HttpRequest, actor: Actor, row: ManagedClusterSet, form: DeleteForm, *, status: int = 200
) -> HttpResponse:
    found = membership.membership_of(row.doc)
    members = clusters.clusters_for(actor).filter(found.condition())
    counted = composition.of_clusters(members, clock.now())
    bound = visible_bindings.bindings_for(actor).filter(cluster_set=row.name).values_list("namespace", flat=True)
    context = head(actor, row, found, counted) | {
        "form": form,
        "standing": services.standing_reason(row.name),
        "can_delete": set_rights.may_access(actor, "delete", MANAGED_CLUSTER_SET, name=row.name),
        "delete_explain": explain_url("delete", MANAGED_CLUSTER_SET.resource, name=row.name),
        "names": list(members.values_list("name", flat=True)[:CLUSTERS_SHOWN]),
        "namespaces": list(bound),
        "shift": reach.shift([row.name], []),
        "command": f"clusteradm delete clusterset {row.name}",
    }
    return render(request, "clustersets/pages/delete.html", context, status=status)
