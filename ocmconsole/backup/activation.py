"""A person activates a restored hub (D28): from then on it schedules again."""

from __future__ import annotations

from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.models import Incarnation
from ocmconsole.kubeapi.storage import audit, incarnations
from placements import tasks as placements


def activate(actor: Actor) -> None:
    """Every placement is scheduled again. Raises Forbidden unless the actor is an admin, Conflict if it is active."""
    verbs.with_present_rights(actor, _activate)
    for turn in range(placements.TURNS):
        placements.resync(turn)


def _activate(actor: Actor) -> None:
    if not actor.is_master:
        raise errors.Forbidden("a restored hub is activated by its admins")
    found = incarnations.present()
    if found is None or found.activated_at is not None:
        raise errors.Conflict("the hub is active already")
    with verbs.while_permitted(actor):
        Incarnation.objects.filter(activated_at=None).update(activated_at=clock.now(), activated_by=actor.user[:320])
        place = {"resource": "incarnations", "namespace": "", "name": found.uid}
        audit.entry_of(actor, incarnations.ACTIVATED, verb="update", diff=[], **place).save()
