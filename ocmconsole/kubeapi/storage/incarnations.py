"""Lives of the hub (D28): which one this is, and whether a person has activated it.

A restore begins one that is not activated; ``hub_setup`` begins the first. Read by the scheduler, by the pages and by
backups.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import Incarnation
from ocmconsole.kubeapi.storage import audit_acts

if TYPE_CHECKING:
    from django.db.models import QuerySet


SECOND = timedelta(seconds=1)  # times of certificates have no parts of it
FRESH_SECONDS = 1.0  # a list of texts in clear asks once
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


# ---------------------------------------------------------------- since when everything is encrypted


@dataclass
class _Asked:
    at: float = float("-inf")  # seconds of ``monotonic``
    answer: bool = False


_asked = _Asked()


def is_all_encrypted() -> bool:
    """Whether nothing that is to be encrypted was left in clear once; what was found is good for a second.

    On an event loop, where the database is not asked, it is what was found last; ``look_at_encryption`` keeps it fresh.
    """
    if monotonic() - _asked.at > FRESH_SECONDS and not _is_on_event_loop():
        look_at_encryption()
    return _asked.answer


def look_at_encryption() -> None:
    """Raises an error of the database, and then what was known before stands."""
    _asked.answer = Incarnation.objects.filter(encrypted_since__isnull=False).exists()
    _asked.at = monotonic()


def note_all_encrypted() -> bool:
    """In the caller's transaction, which has seen that nothing is left; returns whether it was not known before.

    Other processes know it within seconds.
    """
    ensure_first()
    if Incarnation.objects.filter(encrypted_since__isnull=False).exists():
        return False
    Incarnation.objects.filter(pk=all_of_them()[0].pk).update(encrypted_since=clock.now())
    _asked.at = float("-inf")
    return True


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
