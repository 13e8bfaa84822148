"""The page of the demonstration fleet: what would be made, how far it is, and how to remove it. For admins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from ocmconsole.demo import live
from ocmconsole.demofleet import MAKE, REMOVE, WORK, State, is_offered
from ocmconsole.kubeapi import permissions, workqueue
from ocmconsole.kubeapi.actor import MASTERS
from ocmconsole.kubeapi.session import actor_of
from ocmconsole.models import DemoFleet

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.actor import Actor


@login_required
@require_GET
def page(request: HttpRequest) -> HttpResponse:
    """What would be made, how far it is, or how to remove it."""
    actor = _admin(request)
    fleet = DemoFleet.objects.first()
    context: dict[str, Any] = {"fleet": fleet, "is_offered": is_offered(actor), "states": live.STATES}
    context["count"] = len(fleet.clusters) if fleet else sum(live.STATES.values())
    if fleet:
        there = live.left(fleet).count()
        done = context["count"] - there if fleet.state == State.REMOVING else there
        context |= {"there": there, "done": done, "percent": 100 * done // max(1, context["count"])}
    return render(request, "demo.html", context)


@login_required
@require_POST
def make(request: HttpRequest) -> HttpResponse:
    actor = _admin(request)
    if not is_offered(actor):
        messages.error(request, "Nothing was made: this hub has, or has had, a cluster.")
        return redirect("demo")
    values = {"state": State.MAKING, "clusters": live.planned(), "created": timezone.now(), **_asked_by(request, actor)}
    with transaction.atomic():
        _, is_new = DemoFleet.objects.get_or_create(pk=1, defaults=values)
        if is_new:
            _record(actor, MAKE)
            workqueue.put({WORK}, timezone.now())
    workqueue.poke()
    return redirect("demo")


@login_required
@require_POST
def remove(request: HttpRequest) -> HttpResponse:
    """Also of one that is still being made."""
    actor = _admin(request)
    with transaction.atomic():
        values = {"state": State.REMOVING, "problem": "", **_asked_by(request, actor)}
        if DemoFleet.objects.filter(pk=1).update(**values):
            _record(actor, REMOVE)
            workqueue.put({WORK}, timezone.now())
    workqueue.poke()
    return redirect("demo")


def _admin(request: HttpRequest) -> Actor:
    actor = actor_of(request)
    if MASTERS not in actor.groups:
        raise PermissionDenied("A demonstration fleet is made and removed by admins.")
    return actor


def _asked_by(request: HttpRequest, actor: Actor) -> dict[str, Any]:
    origin = {name: getattr(actor, name) for name in ("credential", "address", "user_agent", "request_id")}
    return {"person": request.user, "origin": origin}


def _record(actor: Actor, act: str) -> None:
    permissions.entry(actor, act, permissions.AuditTarget("", "demofleets", "demo", ""), diff=[]).save()
