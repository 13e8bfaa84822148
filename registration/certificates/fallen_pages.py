"""Agents that fell off: accepted clusters whose agent cannot speak any more, or soon will not, each with its repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q
from django.shortcuts import render
from django.views.decorators.http import require_GET

from clusters import queries as clusters
from ocmconsole.components.links import query_of
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.session import actor_of
from registration.approvals import services
from registration.certificates import agent_troubles
from registration.certificates.agent_troubles import FELL_OFF, Trouble

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

PAGE = 50  # rows
ALL = ""
KINDS = (*FELL_OFF, Trouble.NOT_GIVEN)


@login_required
@require_GET
def fallen_list(request: HttpRequest) -> HttpResponse:
    """Of clusters that the person sees (D16), by name; those whose agents lack the new serving CA on demand."""
    actor, now = actor_of(request), clock.now()
    asked = request.GET.get("trouble", ALL)
    wanted = asked if asked in set(KINDS) else ALL
    visible = agent_troubles.fallen(clusters.clusters_for(actor), now)
    conditions = agent_troubles.fallen_conditions(now)
    counts = visible.order_by().aggregate(
        **{f"n_{kind.name}": Count("pk", filter=condition) for kind, condition in conditions.items()}
    )
    lacking = agent_troubles.not_given(visible)
    number = {kind: counts[f"n_{kind.name}"] for kind in FELL_OFF} | {Trouble.NOT_GIVEN: len(lacking)}
    after = request.GET.get("after", "").replace("\0", "")
    if wanted == Trouble.NOT_GIVEN:
        rows = visible.filter(name__in=[name for name in lacking if name > after][: PAGE + 1])
    else:
        fits = next((fits for kind, fits in conditions.items() if kind == wanted), _any(conditions))
        rows = visible.filter(fits, name__gt=after)
    found = clusters.observe_clusters(rows.order_by("name")[: PAGE + 1], now)
    shown = found[:PAGE]
    given = agent_troubles.handed(each.row.name for each in shown)
    may = services.acceptable(actor, [each.row.name for each in shown])
    total = sum(number[kind] for kind in FELL_OFF)
    choices = [(ALL, "All", total), *((kind.value, kind.label, number[kind]) for kind in KINDS)]
    context: dict[str, Any] = {
        "rows": [
            {
                "name": each.row.name,
                "trouble": agent_troubles.trouble_of(each, given, now),
                "heard": each.last_heard,
                "facts": each.row.facts,
                "may_repair": each.row.name in may,
            }
            for each in shown
        ],
        "choices": [
            {"label": label, "count": count, "url": query_of({"trouble": value}), "current": value == wanted}
            for value, label, count in choices
            if value != Trouble.NOT_GIVEN or count or wanted == value
        ],
        "total": total,
        "wanted": wanted,
        "next_after": shown[-1].row.name if len(found) > PAGE else "",
    }
    return render(request, "registration/certificates/fallen.html", context)


def _any(conditions: dict[Trouble, Q]) -> Q:
    fits = Q()
    for condition in conditions.values():
        fits |= condition
    return fits
