"""Moving clusters between sets: what it does to everybody, one or many at a time, what became of each, and undo."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from clusters import bulk
from clusters import queries as clusters
from clusters.kinds import MANAGED_CLUSTER
from clusters.views.refusals import plain
from clustersets import moves, queries, services
from clustersets.forms import MoveForm
from clustersets.kinds import DEFAULT_SET
from clustersets.services import Moved
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.links import audit_url
from ocmconsole.kubeapi.session import actor_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.actor import Actor

UNDO = timedelta(minutes=10)
SESSION = "clustersets.moved"


@login_required
@require_http_methods(["GET", "POST"])
def move_one(request: HttpRequest, cluster: str) -> HttpResponse:
    """One cluster: where it is, where it could go, and what that would mean."""
    if not clusters.clusters_for(actor_of(request)).filter(name=cluster).exists():
        raise Http404(f"There is no cluster {cluster}, or you may not see it.")
    return _move(request, [cluster])


@login_required
@require_http_methods(["GET", "POST"])
def move_many(request: HttpRequest) -> HttpResponse:
    """The clusters that were ticked in a list."""
    return _move(request, request.GET.getlist("cluster"))


def _move(request: HttpRequest, names: list[str]) -> HttpResponse:
    actor = actor_of(request)
    targets = _targets(actor)
    if request.method == "GET":
        to = request.GET.get("to", "")
        return _page(request, actor, MoveForm(initial={"to": to}, sets=targets), names, to if to in targets else "")
    form = MoveForm(request.POST, sets=targets)
    if not form.is_valid():
        return _page(request, actor, form, names, "", status=400)
    seen, to = form.cleaned_data["seen"], form.cleaned_data["to"]
    if len(seen) > bulk.TYPED_ABOVE and form.cleaned_data["typed"] != str(len(seen)):
        form.add_error("typed", f"{len(seen)} clusters would move. Type that number.")
        return _page(request, actor, form, list(seen), to, status=400)
    if len(seen) == 1:
        return _moved_alone(request, actor, form, next(iter(seen)), to)
    return _keep(request, services.move_clusters(actor, seen, to), to)


def _moved_alone(request: HttpRequest, actor: Actor, form: MoveForm, cluster: str, to: str) -> HttpResponse:
    """A refusal stands beside the form, where something can be done about it."""
    before = form.cleaned_data["seen"][cluster]
    try:
        services.move_cluster(actor, cluster, to, seen=before)
    except errors.ApiError as error:
        form.add_error("to", plain(error.message))
        return _page(request, actor, form, [cluster], to, status=error.code)
    return _keep(request, [Moved(cluster, before)], to)


def _targets(actor: Actor) -> list[str]:
    """Only an exclusive set can be moved into; the others choose for themselves."""
    return [each.name for each in queries.memberships_for(actor) if each.is_exclusive]


def _page(
    request: HttpRequest, actor: Actor, form: MoveForm, names: list[str], to: str, *, status: int = 200
) -> HttpResponse:
    plan = moves.plan(actor, names, to) if to else None
    rows = list(clusters.clusters_for(actor).filter(name__in=names).values("name", "clusterset")[: bulk.MOST])
    possible = plan.possible if plan else ()
    many = ",".join(step.cluster for step in possible[: bulk.NAMES_IN_COMMAND]) + (
        ",…" if len(possible) > bulk.NAMES_IN_COMMAND else ""
    )
    context = {
        "form": form,
        "plan": plan,
        "rows": rows,
        "one": rows[0] if len(rows) == 1 else None,
        "to": to,
        "too_many": len(set(names)) > bulk.MOST,
        "most": bulk.MOST,
        "default_set": DEFAULT_SET,
        "seen": ",".join(f"{step.cluster}={step.before}" for step in possible),
        "command": f"clusteradm clusterset set {to} --clusters {many}" if possible else "",
    }
    return render(request, "clustersets/move.html", context, status=status)


# ---------------------------------------------------------------- afterwards


def _keep(request: HttpRequest, done: list[Moved], to: str) -> HttpResponse:
    request.session[SESSION] = {
        "to": to,
        "at": timezone.now().isoformat(),
        "rows": [[each.cluster, each.before, plain(each.refusal)] for each in done],
    }
    count = sum(not each.refusal for each in done)
    if count:
        what = done[0].cluster if len(done) == 1 else f"{count} of {len(done)} clusters"
        messages.success(request, f"{what} moved to set {to}.")
    else:
        messages.error(request, "Nothing was moved.")
    return redirect("clustersets:moved")


@login_required
@require_GET
def moved(request: HttpRequest) -> HttpResponse:
    """What became of each cluster of the last move in this session."""
    last, at = _last(request)
    if at is None:
        return redirect("clustersets:list")
    rows = [
        {
            "name": name,
            "before": before,
            "refusal": refusal,
            "url": reverse("clusters:detail", args=[name]),
            "audit_url": audit_url(MANAGED_CLUSTER.resource, name),
        }
        for name, before, refusal in last["rows"]
    ]
    context = {
        "to": last["to"],
        "at": at,
        "rows": rows,
        "moved": [row for row in rows if not row["refusal"]],
        "refused": [row for row in rows if row["refusal"]],
        "until": at + UNDO,
        "can_undo": timezone.now() < at + UNDO and any(row["before"] and not row["refusal"] for row in rows),
    }
    return render(request, "clustersets/moved.html", context)


@login_required
@require_POST
def undo(request: HttpRequest) -> HttpResponse:
    """Put each cluster back where it was, unless somebody moved it again; each asks for the same rights (A6)."""
    last, at = _last(request)
    if at is None or timezone.now() >= at + UNDO:
        messages.error(request, "A move can be undone for 10 minutes. Nothing was done.")
        return redirect("clustersets:list")
    actor = actor_of(request)
    back = [
        moved
        for name, before, refusal in last["rows"]
        if before and not refusal
        for moved in services.move_clusters(actor, {name: last["to"]}, before)
    ]
    refused = [each for each in back if each.refusal]
    for each in refused:
        messages.error(request, f"{each.cluster}: {plain(each.refusal)}")
    if len(back) > len(refused):
        messages.success(request, f"Undone: {len(back) - len(refused)} back where they were.")
    del request.session[SESSION]
    return redirect("clustersets:list")


def _last(request: HttpRequest) -> tuple[dict[str, Any], datetime | None]:
    last: dict[str, Any] = request.session.get(SESSION) or {}
    return last, parse_datetime(last["at"]) if last else None
