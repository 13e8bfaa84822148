"""Acts on brakes (D27), with the rights of who asks: hold until somebody releases, and release now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clusters.kinds import MANAGED_CLUSTER
from clustersets.kinds import MANAGED_CLUSTER_SET
from clustersets.rights.set_rights import may_access
from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import Attributes
from placements.controller import brakes
from placements.kinds import BRAKE_KEPT, PLACEMENT
from placements.models import EvictionBrake

if TYPE_CHECKING:
    from django.db.models import Model

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.kinds import Kind

UPDATE = "update"


def may_decide(actor: Actor, scope: str) -> bool:
    """To update every cluster, or for the brake of a set to update the set. ``scope``: as in EvictionBrake."""
    return may_access(actor, UPDATE, MANAGED_CLUSTER) or bool(
        scope and may_access(actor, UPDATE, MANAGED_CLUSTER_SET, name=scope)
    )


def right_for(scope: str) -> Attributes:
    """The right that explanations name."""
    kind: Kind = MANAGED_CLUSTER_SET if scope else MANAGED_CLUSTER
    return Attributes(UPDATE, kind.group, kind.plural, name=scope)


def hold_evictions(actor: Actor, pk: int) -> EvictionBrake:
    """The brake no longer ends by time. Raises Forbidden, Conflict for one that has ended."""
    row, now = _standing(pk), clock.now()

    def keep() -> Iterator[Model]:
        found = _standing(pk)
        found.until, found.held_by = None, actor.user[:320]
        yield found
        yield brakes.entry(actor, BRAKE_KEPT, found)

    with verbs.batch(actor) as batch:
        _needs(batch, row.scope)
        batch.records.append(keep)
    brakes.wake(now)
    return row


def release_evictions(actor: Actor, pk: int) -> EvictionBrake:
    """The brake ends; who is still silent leaves. Raises Forbidden, Conflict for one that has ended."""
    row, now = _standing(pk), clock.now()
    with verbs.batch(actor) as batch:
        _needs(batch, row.scope)
        brakes.end_in(batch, row, EvictionBrake.Ending.RELEASED, now)
    brakes.wake(now)
    return row


def _needs(batch: verbs.Batch, scope: str) -> None:
    asked = right_for(scope)

    def require(actor: Actor) -> None:
        if not may_decide(actor, scope):
            authorization.require(actor, asked)

    batch.needs(asked, require)


def _standing(pk: int) -> EvictionBrake:
    row = EvictionBrake.objects.filter(pk=pk, ended=None).first()
    if row is None:
        raise errors.conflict(PLACEMENT.group, PLACEMENT.plural, "", "the brake has ended; nothing was changed")
    return row
