"""Moving clusters between sets: what it does to everybody, one or many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from clusters import queries as clusters
from clusters.cluster import impact
from clusters.fleet.bulk_acts import NAMES_IN_COMMAND
from clusters.fleet.bulk_pages import selected
from clusters.kinds import CLUSTERSET_LABEL
from clustersets import queries, services
from clustersets.forms import MoveForm
from clustersets.kinds import DEFAULT_SET
from clustersets.moves import bulk_moves, move_preview
from ocmconsole.components.refusals import plain
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.control import bulk_jobs

if TYPE_CHECKING:
    from uuid import UUID

    from django.http import HttpRequest, HttpResponse

    from clusters.cluster.impact import PlacementImpact
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.models import BulkSelection

MOST_WORKED_OUT = 500  # clusters whose placements a page works out
SHOWN = 100  # clusters of a preview, those that cannot move first


@login_required
@require_http_methods(["GET", "POST"])
def move_one(request: HttpRequest, cluster: str) -> HttpResponse:
    """One cluster: where it is, where it could go, and what that would mean."""
    if not clusters.clusters_for(actor_of(request)).filter(name=cluster).exists():
        raise Http404(f"There is no cluster {cluster}, or you may not see it.")
    return _move(request, [cluster])


@login_required
@require_http_methods(["GET", "POST"])
def move_many(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The clusters that were selected in a list."""
    selection = selected(request, pk)
    return _move(request, list(selection.items), selection)


def _move(request: HttpRequest, names: list[str], selection: BulkSelection | None = None) -> HttpResponse:
    actor = actor_of(request)
    targets = _targets(actor)
    if request.method == "GET":
        to = request.GET.get("to", "")
        form = MoveForm(initial={"to": to}, sets=targets)
        return _page(request, actor, form, names, to if to in targets else "", selection)
    form = MoveForm(request.POST, sets=targets, previewed=_previewed(selection, request.POST.get("to", "")))
    if not form.is_valid():
        return _page(request, actor, form, names, "", selection, status=400)
    seen, to = form.cleaned_data["seen"], form.cleaned_data["to"]
    if len(seen) > bulk_jobs.TYPED_ABOVE and form.cleaned_data["typed"] != str(len(seen)):
        form.add_error("typed", f"{len(seen)} clusters would move. Type that number.")
        return _page(request, actor, form, list(seen), to, selection, status=400)
    if len(seen) == 1:
        return _moved_alone(request, actor, form, next(iter(seen)), to)
    return redirect("bulk:job", bulk_moves.move_clusters(actor, seen, to).pk)


def _previewed(selection: BulkSelection | None, to: str) -> dict[str, str] | None:
    """Of a selection, by cluster the set in which its page showed it when it could move to ``to``."""
    if selection is None:
        return None
    return {name: given["seen"] for name, given in selection.items.items() if given.get("to") == to}


def _moved_alone(request: HttpRequest, actor: Actor, form: MoveForm, cluster: str, to: str) -> HttpResponse:
    """A refusal stands beside the form, where something can be done about it."""
    before = form.cleaned_data["seen"][cluster]
    try:
        services.move_cluster(actor, cluster, to, seen=before)
    except errors.ApiError as error:
        form.add_error("to", plain(error.message))
        return _page(request, actor, form, [cluster], to, status=error.code)
    return redirect("bulk:job", bulk_moves.record_moved_cluster(actor, cluster, before, to).pk)


def _targets(actor: Actor) -> list[str]:
    """Only an exclusive set can be moved into; the others choose for themselves."""
    return [each.name for each in queries.memberships_for(actor) if each.is_exclusive]


def _page(
    request: HttpRequest,
    actor: Actor,
    form: MoveForm,
    names: list[str],
    to: str,
    selection: BulkSelection | None = None,
    *,
    status: int = 200,
) -> HttpResponse:
    plan = move_preview.plan_move(actor, names, to) if to else None
    rows = list(clusters.clusters_for(actor).filter(name__in=names).values("name", "clusterset"))
    possible = plan.possible if plan else ()
    if selection is not None and plan is not None:
        selection.items = {name: {} for name in names} | {
            step.cluster: {"seen": step.before, "to": to} for step in possible
        }
        selection.save(update_fields=["items"])
    steps = sorted(plan.steps, key=lambda step: step.is_possible) if plan else []
    context = {
        "form": form,
        "plan": plan,
        "impact": _impact(actor, [step.cluster for step in possible], to),
        "rows": rows,
        "one": rows[0] if len(rows) == 1 else None,
        "to": to,
        "steps": steps[:SHOWN],
        "more": len(steps[SHOWN:]),
        "default_set": DEFAULT_SET,
        "seen": "" if selection is not None else ",".join(f"{step.cluster}={step.before}" for step in possible),
        "commands": _commands(to, [step.cluster for step in possible]),
    }
    return render(request, "clustersets/moves/move.html", context, status=status)


def _commands(to: str, names: list[str]) -> list[str]:
    """What one would type instead; of many clusters, for the first few."""
    shown, more = names[:NAMES_IN_COMMAND], len(names) - NAMES_IN_COMMAND
    found = [f"clusteradm clusterset set {to} --clusters {','.join(shown)}"] if names else []
    return [*found, f"# and the same for {more:,} more"] if more > 0 else found


def _impact(actor: Actor, names: list[str], to: str) -> PlacementImpact | None:
    """None for a move of nobody, or of more clusters than a page works out."""
    if not 0 < len(names) <= MOST_WORKED_OUT:
        return None

    def moved(doc: Doc) -> Doc:
        doc["metadata"]["labels"] = {**(doc["metadata"].get("labels") or {}), CLUSTERSET_LABEL: to}
        return doc

    return impact.impact_of(actor, names, moved, clock.now())
