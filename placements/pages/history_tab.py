"""The History tab of a Placement: who was chosen in the last day, what lies ahead, and who entered and left and why.

Reads only. Names stand in PlacementDecisions, so the tab asks for the right to list these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.decorators import login_required
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from clustersets.rights.set_rights import may_access
from ocmconsole.components.links import explain_url
from ocmconsole.components.whole_numbers import whole_number
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.session import actor_of
from placements import queries
from placements.controller import history, scheduling
from placements.explaining import explanation
from placements.kinds import PLACEMENT_DECISION, is_disabled
from placements.pages.chosen_timeline import shown_timeline
from placements.pages.happened import happened
from placements.pages.placement_pages import head, visible_placement, work_out

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from placements.controller.preview import PlacementPreview

AHEAD = 10  # clusters that leave by the time alone, the next first
DIGITS = 18  # of a run's number: a database takes no more


@login_required
@require_GET
def history_page(request: HttpRequest, namespace: str, name: str) -> HttpResponse:
    """Runs that changed something, newest first, 20 on a page."""
    actor, now = actor_of(request), clock.now()
    row = visible_placement(actor, namespace, name)
    stored = queries.decisions_of(namespace, name)
    found = work_out(actor, row, stored, now)
    may_read = may_access(actor, "list", PLACEMENT_DECISION, namespace=namespace)
    before = whole_number(request.GET.get("after", ""), DIGITS)
    runs, older = happened(actor, row, before=before, most=history.PAGE) if may_read else ([], None)
    is_first = before is None and may_read
    decided = scheduling.decided_in(stored)
    context = head(actor, row, found, "history", now) | {
        "may_read": may_read,
        "explain_url": explain_url("list", PLACEMENT_DECISION.resource, namespace=namespace),
        "runs": runs,
        "next_after": older or "",
        "timeline": shown_timeline(actor, row, decided, now) if is_first else None,
        **(_ahead(found) if is_first and found is not None and not is_disabled(row.doc) else {}),
    }
    return render(request, "placements/pages/history.html", context)


def _ahead(found: PlacementPreview) -> dict[str, Any]:
    """Chosen clusters that the user sees and that leave by the time alone; ``more_ahead``: how many are not listed."""
    rows = []
    for name in found.chosen & found.present & found.seen:
        cluster = found.by_name[name]
        if (held := found.result.held.get(name)) is not None:
            rows.append((held.until, name, explanation.is_held(held, found.now)))
        elif cluster.taints and (ends := found.explanation.ahead(cluster)) is not None:
            rows.append((ends[0], name, explanation.leaves(*ends, found.now)))
    rows.sort(key=lambda row: (row[0] is None, row[0] or found.now, row[1]))
    return {
        "ahead": [
            {"time": time, "name": name, "url": reverse("clusters:detail", args=[name]), "why": why}
            for time, name, why in rows[:AHEAD]
        ],
        "more_ahead": max(len(rows) - AHEAD, 0),
    }
