"""Snoozed requests: hidden for one user alone, until a time or until they change.

Nothing about the request changes, nobody else notices, and it counts for everybody else.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import orjson
from django.db.models import Q

from clusters import queries as clusters
from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ManagedCluster
from ocmconsole.kubeapi import clock, errors, request_cache, verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.storage import reader
from registration import queries
from registration.approvals import stale_decision
from registration.models import Snooze

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.models import Resource
    from registration.approvals.stale_decision import SeenVersions, Versioned

HOUR = timedelta(hours=1)
MORNING = 8  # o'clock


def put_off(actor: Actor, name: str, seen: SeenVersions, until: datetime | None) -> bool:
    """Hide what the person has seen; False when it has changed meanwhile, and stays in sight. Raises NotFound."""
    return verbs.with_present_rights(actor, lambda actor: _put_off(actor, name, seen, until))


def _put_off(actor: Actor, name: str, seen: SeenVersions, until: datetime | None) -> bool:
    if not clusters.may_see(actor, name):
        raise errors.not_found(MANAGED_CLUSTER.group, MANAGED_CLUSTER.plural, name)
    row, waiting = reader.read_row(MANAGED_CLUSTER, Key("", name)), queries.waiting_requests(name)
    if not stale_decision.is_present(seen, row, waiting):
        return False
    with verbs.while_permitted(actor):
        Snooze.objects.filter(user=actor.user, until__lte=clock.now()).delete()
        values = {"until": until, "seen": _digest(row, waiting)}
        Snooze.objects.update_or_create(user=actor.user, cluster=name, defaults=values)
    return True


def bring_back(actor: Actor, name: str) -> None:
    def forget(actor: Actor) -> None:
        with verbs.while_permitted(actor):
            Snooze.objects.filter(user=actor.user, cluster=name).delete()

    verbs.with_present_rights(actor, forget)


def put_off_by(actor: Actor, names: Collection[str]) -> dict[str, Snooze]:
    """By cluster name, what the user does not want to see now. Weighs no evidence; at most four queries."""
    snoozed = request_cache.cached(("snoozed", actor.user), lambda: _snoozed(actor.user))
    wanted = frozenset(snoozed).intersection(names)
    return request_cache.cached(("put off", actor.user, wanted), lambda: _unchanged(snoozed, wanted))


def _snoozed(user: str) -> dict[str, Snooze]:
    live = Q(until=None) | Q(until__gt=clock.now())
    return {row.cluster: row for row in Snooze.objects.filter(live, user=user)}


def _unchanged(snoozed: dict[str, Snooze], names: frozenset[str]) -> dict[str, Snooze]:
    if not names:
        return {}
    present = {row.name: row for row in ManagedCluster.objects.filter(name__in=names)}
    waiting = queries.waiting_requests_of_all(names)
    return {name: snoozed[name] for name in names if snoozed[name].seen == _digest(present.get(name), waiting[name])}


def in_sight(actor: Actor) -> list[str]:
    """Names that wait for a decision and that the user has not put off: what badge, tab and inbox count."""

    def names() -> list[str]:
        waiting = queries.waiting_names(actor)
        put_off = put_off_by(actor, waiting)
        return [name for name in waiting if name not in put_off]

    return request_cache.cached(("in sight", actor.user, actor.groups), names)


def _digest(row: Resource | None, waiting: Iterable[Versioned]) -> str:
    """Of what a person reads: it stays the same while the hub takes a new cluster into its care."""
    requests = sorted((request.name, request.resource_version) for request in waiting)
    text = orjson.dumps([stale_decision.as_read(row.doc) if row else None, requests], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()


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
