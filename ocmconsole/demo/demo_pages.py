"""The page of the demonstration fleet: what would be made, how far it is, and how to remove it. For admins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from ocmconsole.accounts import permissions
from ocmconsole.demo import live
from ocmconsole.demo.reconcilers import MAKE, REMOVE, WORK, State, is_offered
from ocmconsole.kubeapi import clock, verbs
from ocmconsole.kubeapi.access.actor import MASTERS
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.models import DemoFleet

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor


@login_required
@require_GET
def page(request: HttpRequest) -> HttpResponse:
    """What would be made, how far it is, or how to remove it."""
    actor = actor_of(request)
    _require_admin(actor)
    fleet = DemoFleet.objects.first()
    context: dict[str, Any] = {"fleet": fleet, "is_offered": is_offered(actor), "states": live.STATES}
    context["count"] = len(fleet.clusters) if fleet else sum(live.STATES.values())
    if fleet:
        there = live.left(fleet).count()
        done = context["count"] - there if fleet.state == State.REMOVING else there
        context |= {"there": there, "done": done, "percent": 100 * done // max(1, context["count"])}
    return render(request, "demo/demo.html", context)


@login_required
@require_POST
def make(request: HttpRequest) -> HttpResponse:
    plan = live.planned()

    def begin(actor: Actor) -> bool:
        _require_admin(actor)
        if not is_offered(actor):
            return False
        values = {"state": State.MAKING, "clusters": plan, "created": clock.now(), **_asked_by(request, actor)}
        with verbs.while_permitted(actor):
            _, is_new = DemoFleet.objects.get_or_create(pk=1, defaults=values)
            if is_new:
                _begun(actor, MAKE)
        return True

    if not verbs.with_present_rights(actor_of(request), begin):
        messages.error(request, "Nothing was made: this hub has, or has had, a cluster.")
    return redirect("demo")


@login_required
@require_POST
def remove(request: HttpRequest) -> HttpResponse:
    """Also of one that is still being made."""

    def begin(actor: Actor) -> None:
        _require_admin(actor)
        values = {"state": State.REMOVING, "problem": "", **_asked_by(request, actor)}
        with verbs.while_permitted(actor):
            if DemoFleet.objects.filter(pk=1).update(**values):
                _begun(actor, REMOVE)

    verbs.with_present_rights(actor_of(request), begin)
    return redirect("demo")


def _require_admin(actor: Actor) -> None:
    if MASTERS not in actor.groups:
        raise PermissionDenied("A demonstration fleet is made and removed by admins.")


def _asked_by(request: HttpRequest, actor: Actor) -> dict[str, Any]:
    origin = {name: getattr(actor, name) for name in ("credential", "address", "user_agent", "request_id")}
    return {"person": request.user, "origin": origin}


def _begun(actor: Actor, act: str) -> None:
    """In the transaction that stores it: the audit entry, and the reconciler's work."""
    workqueue.put({WORK}, clock.now())
    transaction.on_commit(workqueue.poke)
    permissions.audit_entry(actor, act, permissions.AuditTarget("", "demofleets", "demo", ""), diff=[]).save()
