"""Brakes on evictions (D27): which stand, why, what waits, and the three choices: wait, hold, release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Sum
from django.shortcuts import redirect, render
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils.text import get_text_list
from django.views.decorators.http import require_http_methods

from clusters.health.status import clock_time
from ocmconsole.components.links import explain_url
from ocmconsole.components.refusals import plain
from ocmconsole.components.whole_numbers import whole_number
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access.session import actor_of
from placements import queries, services
from placements.controller import brakes
from placements.scheduler.brake import WAIT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor
    from placements.models import EvictionBrake

SHOWN = 20  # placements whose evictions wait; more are counted
WIDTH = 900  # units of the bar


@dataclass(frozen=True)
class ShownBrake:
    """One that stands, as the user may see it. ``kept`` of its ``silent`` clusters are held by ``others`` too."""

    row: EvictionBrake
    now: datetime
    scope: str
    url: str
    may_decide: bool
    silent: int
    others: str
    kept: int

    @property
    def leaving(self) -> int:
        """How many silent clusters no other brake holds."""
        return self.silent - self.kept

    @property
    def elapsed(self) -> int:
        """Units of the bar that have passed."""
        return min(round((self.now - self.row.begun) / WAIT * WIDTH), WIDTH)

    @property
    def counted(self) -> str:
        """Such as ``41 of 60 accepted clusters``: silent or late when it began."""
        return f"{self.row.silent + self.row.late:,} of {self.row.members:,} accepted clusters"

    @property
    def left(self) -> Any:
        return self.row.until - self.now if self.row.until is not None else None

    @property
    def until(self) -> str:
        return clock_time(self.row.until, self.now) if self.row.until is not None else ""

    @property
    def begun(self) -> str:
        return clock_time(self.row.begun, self.now)

    @property
    def explain_url(self) -> str:
        asked = services.right_for(self.row.scope)
        return explain_url(asked.verb, f"{asked.resource}.{asked.group}", name=asked.name)


def shown_brakes(actor: Actor, now: datetime) -> list[ShownBrake]:
    """Those that stand now; a set is named to who sees it."""
    rows = queries.standing_brakes(now)
    seen = queries.sets_of_brakes(actor, rows)
    return [
        ShownBrake(
            row,
            now,
            row.scope if row.scope in seen else "",
            reverse("clustersets:set", args=[row.scope]) if row.scope in seen else "",
            services.may_decide(actor, row.scope),
            reach.silent,
            _scopes((rows[place] for place in sorted(reach.others)), seen),
            reach.kept,
        )
        for row, reach in zip(rows, brakes.reach_of(rows), strict=True)
    ]


def _scopes(rows: Iterable[EvictionBrake], seen: set[str]) -> str:
    return get_text_list(queries.scopes_of_brakes(rows, seen), "and")


@login_required
@require_http_methods(["GET", "POST"])
def held_page(request: HttpRequest) -> HttpResponse:
    """All that stand; a POST holds or releases one."""
    actor, now = actor_of(request), clock.now()
    if request.method == "POST":
        return _decided(request, actor)
    asked = request.GET.get("release", "")
    found = shown_brakes(actor, now)
    rows = queries.held_for(actor, now)
    context = {
        "brakes": found,
        "asked": next((each for each in found if str(each.row.pk) == asked and each.may_decide), None),
        "placements": rows.select_related("held")[:SHOWN],
        "more": max(rows.count() - SHOWN, 0),
        "evictions": rows.order_by().aggregate(total=Sum("held__count"))["total"] or 0,
        "minutes": round(WAIT.total_seconds() / 60),
    }
    return render(request, "placements/pages/held.html", context)


def _decided(request: HttpRequest, actor: Actor) -> HttpResponse:
    text, act = request.POST.get("brake", ""), request.POST.get("act", "")
    pk = whole_number(text, 9) or 0
    try:
        if act == "release":
            messages.success(request, _released(actor, services.release_evictions(actor, pk)))
        elif act == "hold":
            services.hold_evictions(actor, pk)
            messages.success(request, "The evictions are held until somebody releases them.")
    except errors.ApiError as error:
        messages.error(request, plain(error.message))
    return redirect("placements:held")


def _released(actor: Actor, row: EvictionBrake) -> str:
    """What follows, and which other brakes that stand still hold up."""
    rows = [row, *(each for each in queries.standing_brakes(clock.now()) if each.pk != row.pk)]
    reach = brakes.reach_of(rows)[0]
    kept, leaving = reach.kept, reach.silent - reach.kept
    if not kept:
        return "The evictions are released. Clusters that are silent leave within moments."
    moves = f"{leaving:,} silent cluster{pluralize(leaving, ' leaves,s leave')} within moments"
    others = [rows[place] for place in sorted(reach.others)]
    scopes = _scopes(others, queries.sets_of_brakes(actor, others))
    return (
        f"The brake is released. {moves if leaving else 'No cluster leaves yet'}: {kept:,} that"
        f" {pluralize(kept, 'is,are')} silent stay{pluralize(kept, 's,')}, held by the brake of {scopes}."
    )
