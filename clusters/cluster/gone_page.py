"""The page of a cluster that does not exist: who deleted it and when, for users who see all clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import Http404
from django.shortcuts import render

from clusters import queries
from clusters.acceptance import removal_progress
from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.components.links import audit_url
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import AuditEvent

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor


def page(request: HttpRequest, actor: Actor, name: str) -> HttpResponse:
    """A 404 with the deletion, for users who see all clusters. Raises Http404, which reveals nothing, for others."""
    deletion = _deletion(actor, name)
    if deletion is None:
        raise Http404(f"There is no cluster {name}, or you may not see it.")
    valid, ends = removal_progress.certificates().valid(name, clock.now())
    context = {
        "name": name,
        "deletion": deletion,
        "certificates": valid,
        "certificates_end": ends,
        "audit_url": audit_url(MANAGED_CLUSTER.resource, name),
    }
    return render(request, "clusters/cluster/gone.html", context, status=404)


def _deletion(actor: Actor, name: str) -> AuditEvent | None:
    if not queries.sees_all(actor):
        return None
    if queries.clusters_for(actor).filter(name=name).exists():
        return None
    return (
        AuditEvent.objects.filter(
            resource=MANAGED_CLUSTER.resource,
            namespace="",
            name=name,
            verb="delete",
            outcome=AuditEvent.Outcome.ALLOWED,
        )
        .order_by("-time", "-pk")
        .first()
    )
