"""Lives of the hub (D28): which one this is, and whether a person has activated it.

A restore begins one that is not activated; ``hub_setup`` begins the first. Read by the scheduler, by the pages and by
backups.
"""

from __future__ import annotations

import uuid

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import Incarnation


def present() -> Incarnation | None:
    """None before the first start of a hub."""
    return Incarnation.objects.order_by("-number").first()


def ensure_first() -> None:
    """The first one is active from its beginning. A second call changes nothing."""
    now = clock.now()
    values = {"uid": str(uuid.uuid4()), "begun_at": now, "activated_at": now}
    if not Incarnation.objects.exists():
        Incarnation.objects.get_or_create(number=1, defaults=values)


def is_quiet() -> bool:
    """D28: whether this hub was restored and nobody has activated it. One query by primary key."""
    found = present()
    return found is not None and found.activated_at is None
