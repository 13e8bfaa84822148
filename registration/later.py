"""Requests that a person has put off: hidden for him alone, until a time or until they change (console.md 4.4).

Nothing about the request changes, nobody else notices, and it counts for everybody else.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from registration import staleness
from registration.models import Snooze

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocmconsole.kubeapi.actor import Actor
    from registration.facts import Evidence
    from registration.staleness import Seen

HOUR = timedelta(hours=1)
MORNING = 8


def put_off(actor: Actor, name: str, seen: Seen, until: datetime | None) -> None:
    """Hide what the person has seen. What has changed meanwhile stays in sight."""
    with transaction.atomic():
        Snooze.objects.filter(user=actor.user, until__lte=timezone.now()).delete()
        Snooze.objects.update_or_create(user=actor.user, cluster=name, defaults={"until": until, "seen": _digest(seen)})


def bring_back(actor: Actor, name: str) -> None:
    Snooze.objects.filter(user=actor.user, cluster=name).delete()


def put_off_by(actor: Actor, found: Iterable[Evidence]) -> dict[str, Snooze]:
    """What the person does not want to see now."""
    present = {each.name: each for each in found}
    rows = Snooze.objects.filter(user=actor.user, cluster__in=present)
    now = timezone.now()
    return {
        row.cluster: row
        for row in rows
        if (row.until is None or row.until > now) and row.seen == _digest(staleness.seen_of(present[row.cluster]))
    }


def _digest(seen: Seen) -> str:
    text = repr((seen.cluster, sorted(seen.requests.items())))
    return hashlib.sha256(text.encode()).hexdigest()


def times(now: datetime) -> dict[str, datetime | None]:
    """Until when a person may put something off."""
    morning = now.replace(hour=MORNING, minute=0, second=0, microsecond=0)
    tomorrow = morning + timedelta(days=1)
    return {
        "hour": now + HOUR,
        "tomorrow": tomorrow,
        "monday": morning + timedelta(days=7 - now.weekday()),
        "changed": None,
    }
