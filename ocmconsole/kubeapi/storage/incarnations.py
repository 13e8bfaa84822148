"""Lives of the hub (D28): which one this is, and whether a person has activated it.

A restore begins one that is not activated; ``hub_setup`` begins the first. Read by the scheduler, by the pages and by
backups.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import Incarnation
from ocmconsole.kubeapi.storage import audit_acts

if TYPE_CHECKING:
    from django.db.models import QuerySet


SECOND = timedelta(seconds=1)  # times of certificates have no parts of it
RESTORED = audit_acts.declare("hub:restore", "Hub restored from a backup")
ACTIVATED = audit_acts.declare("hub:activate", "Restored hub activated")


def present() -> Incarnation | None:
    """None before the first start of a hub."""
    return Incarnation.objects.order_by("-number").first()


def all_of_them() -> list[Incarnation]:
    """The first one, whose uid is the hub's, comes first."""
    return list(Incarnation.objects.order_by("number"))


def hub_uid() -> str:
    """The same in all incarnations; empty before the first start of a hub."""
    return Incarnation.objects.order_by("number").values_list("uid", flat=True).first() or ""


def ensure_first() -> None:
    """The first one is active from its beginning. A second call changes nothing."""
    now = clock.now()
    values = {"uid": str(uuid.uuid4()), "begun_at": now, "activated_at": now}
    if not Incarnation.objects.exists():
        Incarnation.objects.get_or_create(number=1, defaults=values)


def quiet() -> QuerySet[Incarnation]:
    """The present one where nobody has activated it (D28). None is activated twice, so that no older one is left."""
    return Incarnation.objects.filter(activated_at=None)


def is_quiet() -> bool:
    """D28: whether this hub was restored and nobody has activated it."""
    return quiet().exists()


def is_lost(moment: datetime) -> bool:
    """Whether what was recorded then may be missing: it lies between a backup and the restore of it (D26)."""
    found = Incarnation.objects.filter(backup_at__lte=moment + SECOND, begun_at__gte=moment)
    return found.exists()
