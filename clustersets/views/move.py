"""Moving clusters between sets: what it does to everybody, one or many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from clusters import queries as clusters
from clusters.bulk import NAMES_IN_COMMAND
from clusters.views.refusals import plain
from clustersets import bulk, moves, queries, services
from clustersets.forms import MoveForm
from clustersets.kinds import DEFAULT_SET
from ocmconsole.kubeapi import bulkjobs, errors
from ocmconsole.kubeapi.session import actor_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.actor import Actor

TOO_MANY = f"Only the first {bulkjobs.MOST} are shown; move the others afterwards."


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
    if len(seen) > bulkjobs.TYPED_ABOVE and form.cleaned_data["typed"] != str(len(seen)):
        form.add_error("typed", f"{len(seen)} clusters would move. Type that number.")
        return _page(request, actor, form, list(seen), to, status=400)
    if len(seen) == 1:
        return _moved_alone(request, actor, form, next(iter(seen)), to)
    return redirect("bulk:job", bulk.move(actor, seen, to).pk)


def _moved_alone(request: HttpRequest, actor: Actor, form: MoveForm, cluster: str, to: str) -> HttpResponse:
    """A refusal stands beside the form, where something can be done about it."""
    before = form.cleaned_data["seen"][cluster]
    try:
        services.move_cluster(actor, cluster, to, seen=before)
    except errors.ApiError as error:
        form.add_error("to", plain(error.message))
        return _page(request, actor, form, [cluster], to, status=error.code)
    return redirect("bulk:job", bulk.moved(actor, cluster, before, to).pk)


def _targets(actor: Actor) -> list[str]:
    """Only an exclusive set can be moved into; the others choose for themselves."""
    return [each.name for each in queries.memberships_for(actor) if each.is_exclusive]


def _page(
    request: HttpRequest, actor: Actor, form: MoveForm, names: list[str], to: str, *, status: int = 200
) -> HttpResponse:
    plan = moves.plan(actor, names, to) if to else None
    rows = list(clusters.clusters_for(actor).filter(name__in=names).values("name", "clusterset")[: bulkjobs.MOST])
    possible = plan.possible if plan else ()
    many = ",".join(step.cluster for step in possible[:NAMES_IN_COMMAND]) + (
        ",…" if len(possible) > NAMES_IN_COMMAND else ""
    )
    context = {
        "form": form,
        "plan": plan,
        "rows": rows,
        "one": rows[0] if len(rows) == 1 else None,
        "to": to,
        "too_many": TOO_MANY if len(set(names)) > bulkjobs.MOST else "",
        "default_set": DEFAULT_SET,
        "seen": ",".join(f"{step.cluster}={step.before}" for step in possible),
        "command": f"clusteradm clusterset set {to} --clusters {many}" if possible else "",
    }
    return render(request, "clustersets/move.html", context, status=status)
