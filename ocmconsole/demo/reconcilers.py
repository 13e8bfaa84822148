"""The demonstration fleet of a hub that serves: its reconciler, and whether one is offered. Its page is ``demo_pages``.

One is offered to admins while the hub has never had a cluster. It is made and removed in the background, as the person
who asked. What is done is in ``demo.live``, which is imported when it is needed: few hubs have such a fleet.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ClusterFacts, ManagedCluster, Transition
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access.actor import MASTERS, EntryPoint
from ocmconsole.kubeapi.access.session import actor_of_present
from ocmconsole.kubeapi.control import controllers
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import audit_acts
from ocmconsole.models import DemoFleet

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor

State = DemoFleet.State
WORK = ("demo_fleet", Key("", "demo"))
SLICE_SECONDS = 0.5  # then the reconcilers that its clusters wait for have their turn
PAUSE = timedelta(milliseconds=300)  # until the next slice
AFTER_A_REFUSAL = timedelta(seconds=10)  # until it is tried again
MAKE = audit_acts.declare("demofleet:create", "Demonstration fleet asked for")
REMOVE = audit_acts.declare("demofleet:delete", "Removal of the demonstration fleet asked for")


def there_is() -> bool:
    """Whether the hub has a demonstration fleet, or a part of one."""
    return DemoFleet.objects.exists()


def is_offered(actor: Actor) -> bool:
    """To admins, until there has been a cluster of any sort; a removed cluster leaves facts, transitions and audit."""
    if MASTERS not in actor.groups or there_is():
        return False
    asked = AuditEvent.objects.filter(resource=MANAGED_CLUSTER.resource, outcome=AuditEvent.Outcome.ALLOWED)
    return not (
        ManagedCluster.objects.exists()
        or ClusterFacts.objects.exists()
        or Transition.objects.exists()
        or asked.filter(verb="create").exists()
    )


# ---------------------------------------------------------------- in the background


@controllers.on_request
def reconcile_demo_fleet(key: Key) -> timedelta | None:  # noqa: ARG001 - there is one
    """Make or remove the fleet a slice at a time, with the rights and in the name of the person who asked (D11).

    1. Without a fleet that is being made or removed nothing happens.
    2. One slice of acts is done as the person, with the rights that they have now.
    3. A refusal is shown with its reason: it is tried again later, or never where the person cannot sign in any more.
    4. A complete fleet is marked so; a removed one loses its row.

    Returns when to go on.
    """
    fleet = DemoFleet.objects.filter(state__in=(State.MAKING, State.REMOVING)).first()
    if fleet is None:
        return None
    try:
        actor = actor_of_present(fleet.person_id or 0, entry_point=EntryPoint.WEB, **fleet.origin)
        is_done = _go_on(fleet, actor)
    except errors.Unauthorized:
        return _stand_still(fleet, "The person who asked for this cannot sign in any more.", None)
    except errors.ApiError as error:
        return _stand_still(fleet, error.message, AFTER_A_REFUSAL)
    if not is_done:
        return PAUSE
    if fleet.state == State.REMOVING:
        fleet.delete()
    else:
        DemoFleet.objects.filter(pk=fleet.pk, state=State.MAKING).update(state=State.COMPLETE, problem="")
    return None


def _go_on(fleet: DemoFleet, actor: Actor) -> bool:
    from ocmconsole.demo import live  # noqa: PLC0415 - see the module

    act = live.remove if fleet.state == State.REMOVING else live.make
    return act(fleet, actor, SLICE_SECONDS)


def _stand_still(fleet: DemoFleet, why: str, pause: timedelta | None) -> timedelta | None:
    DemoFleet.objects.filter(pk=fleet.pk).update(problem=why)
    return pause
