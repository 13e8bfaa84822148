"""Reads for pages: the clusters a person may see, and the state of each in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from django.db.models import F, Q

from clusters.claims import ClaimFilter
from clusters.grants import CLUSTERS
from clusters.health import status, status_sql, uptime, verdicts
from clusters.health.status import Facts, Status
from clusters.kinds import MANAGED_CLUSTER, parse_instant
from clusters.models import ClusterFacts, ManagedCluster, ReportedClaim, Silence
from clusters.taints import maintenance, taint_rules
from ocmconsole.core.rbac import known_rights
from ocmconsole.kubeapi import request_cache
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.storage.selector_sql import EVERYTHING, NOTHING

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from ocmconsole.kubeapi.access.actor import Actor

Sight = Callable[["Actor"], "Q"]
_sights: list[Sight] = []


def sight(rule: Sight) -> Sight:
    """Add a reason to see clusters; sets use it for their members (D16)."""
    _sights.append(rule)
    return rule


class NamedSet(Protocol):
    """A set of clusters, as far as a list of clusters needs to know one."""

    @property
    def name(self) -> str: ...

    @property
    def is_exclusive(self) -> bool: ...

    @property
    def takes_everything(self) -> bool: ...

    def includes(self, present: Mapping[str, str]) -> bool: ...

    def condition(self) -> Q: ...


SetReader = Callable[["Actor"], "Iterable[NamedSet]"]
_Reader = TypeVar("_Reader", bound=SetReader)
_set_readers: list[SetReader] = []


def names_sets(reader: _Reader) -> _Reader:
    """Say which sets an actor may see; sets do so for themselves."""
    _set_readers.append(reader)
    return reader


def named_sets(actor: Actor) -> list[NamedSet]:
    """The sets that a list may name and filter by, in the order of their names."""
    return [each for reader in _set_readers for each in reader(actor)]


@known_rights.sees("cluster", MANAGED_CLUSTER.resource)
def clusters_for(actor: Actor) -> QuerySet[Any]:
    """Clusters the actor may see in the console (D16), in the order of their names."""
    visible = request_cache.cached(("clusters seen", actor.user, actor.groups), lambda: _visible(actor))
    rows = ManagedCluster.objects.order_by("name")
    return rows if visible == EVERYTHING else rows.filter(visible)  # a condition of no use costs an index its use


def _visible(actor: Actor) -> Q:
    visible = CLUSTERS.visible(actor)
    return visible if visible == EVERYTHING else reduce(or_, (rule(actor) for rule in _sights), visible)


def with_claims(clusters: QuerySet[Any], *wanted: ClaimFilter) -> QuerySet[Any]:
    """Those of the clusters that make every claim."""
    return clusters.filter(*map(claiming, wanted))


def claiming(wanted: ClaimFilter) -> Q:
    """Clusters that make the claim."""
    if not wanted.is_possible:
        return NOTHING
    rows = ReportedClaim.objects.filter(name=wanted.name)
    return Q(pk__in=(rows if wanted.value is None else rows.filter(value=wanted.value)).values("cluster"))


def sees_all(actor: Actor) -> bool:
    return bool(CLUSTERS.visible(actor) == EVERYTHING)


def may_see(actor: Actor, name: str) -> bool:
    """D16: a user sees clusters with ``get`` or the Django permission; a name without a cluster, with ``get`` alone."""
    if sees_all(actor) or CLUSTERS.held_on(actor, name) or clusters_for(actor).filter(name=name).exists():
        return True
    if ManagedCluster.objects.filter(name=name).exists():
        return False
    return authorization.authorize(
        actor, Attributes("get", MANAGED_CLUSTER.group, MANAGED_CLUSTER.plural, name=name)
    ).allowed


@dataclass(frozen=True, slots=True)
class Observed:
    """A cluster, the word for its state, and when its agent was heard last by the hub's clock.

    The word follows the time of the renewal itself, which is that of the agent's clock (H16).
    """

    row: ManagedCluster
    status: Status
    last_heard: datetime | None
    skew: timedelta | None  # by which the agent's clock was behind the hub's then


def observe_clusters(clusters: QuerySet[Any], now: datetime) -> list[Observed]:
    """The state of each cluster, with three queries at most however many they are; two more when one is late."""
    rows = list(status_sql.with_heard(clusters).annotate(skew=F("lease__skew")))
    _read_facts(rows)
    _read_notes(rows)
    left = _grace_left(rows, now)
    return [_observed(row, now, left.get(row.name)) for row in rows]


def _grace_left(rows: list[Any], now: datetime) -> dict[str, timedelta]:
    """By name, of those that may be late: until their silence is found, as the sweep for it reckons (H16, D17)."""
    late = [
        row
        for row in rows
        if row.heard is not None
        and row.hub_accepts_client
        and row.available != "Unknown"
        and now - parse_instant(row.heard) > timedelta(seconds=status.LATE_LEASES * row.lease_duration_seconds)
    ]
    if not late:
        return {}
    gaps, noted = uptime.serving_gaps(now), Silence.objects.in_bulk([row.name for row in late])
    return {row.name: verdicts.time_left(row, row.heard, noted.get(row.name), now, gaps) for row in late}


def _read_facts(rows: list[Any]) -> None:
    """As a prefetch, which Django spells as one OR for each row: SQLite takes no more than a thousand."""
    facts = ManagedCluster._meta.get_field("facts")  # noqa: SLF001 - Django's documented name
    found = {each.cluster: each for each in ClusterFacts.objects.filter(cluster__in=[row.name for row in rows])}
    for row in rows:
        facts.set_cached_value(row, found.get(row.name))


def _read_notes(rows: list[Any]) -> None:
    """The sentence of clusters in maintenance wants their notes; where documents were left out, these come at once."""
    lacking = [row for row in rows if row.in_maintenance and "wire" in row.get_deferred_fields()]
    if lacking:
        wires = dict(ManagedCluster.objects.filter(pk__in=[row.pk for row in lacking]).values_list("pk", "wire"))
        for row in lacking:
            row.wire = wires.get(row.pk, "{}")  # it may have gone in between


def _observed(row: Any, now: datetime, grace_left: timedelta | None) -> Observed:
    renewed = parse_instant(row.heard) if row.heard is not None else None
    found = status.status_of(_facts(row, row.facts or ClusterFacts(), renewed, row.skew, grace_left), now)
    skew = timedelta(microseconds=row.skew) if row.skew is not None else None
    heard = renewed + skew if renewed is not None and skew is not None else None
    return Observed(row, found, heard, skew)


def _facts(
    row: ManagedCluster,
    facts: ClusterFacts,
    last_heard: datetime | None,
    skew: int | None,
    grace_left: timedelta | None,
) -> Facts:
    notes = maintenance.notes_of(row.doc) if row.in_maintenance else None
    return Facts(
        created=row.created,
        deleted_at=row.deleted_at,
        deleting_message=row.deleting_message,
        hub_accepts=row.hub_accepts_client,
        accepted=row.accepted,
        accepted_since=row.accepted_since,
        joined=row.joined,
        available=row.available,
        available_since=row.available_since,
        available_message=row.available_message,
        clock_synced=row.clock_synced,
        clock_since=row.clock_since,
        clock_skew=timedelta(microseconds=skew) if skew is not None else None,
        lease_seconds=row.lease_duration_seconds,
        last_heard=last_heard,
        grace_left=grace_left,
        decision=facts.decision,
        decided_by=facts.decided_by,
        decided_at=facts.decided_at,
        decision_reason=facts.decision_reason,
        certificate_not_before=facts.certificate_not_before,
        certificate_not_after=facts.certificate_not_after,
        certificate_revoked_at=facts.certificate_revoked_at,
        certificate_revoked_by=facts.certificate_revoked_by,
        certificate_revocation_reason=facts.certificate_revocation_reason,
        in_maintenance=row.in_maintenance,
        maintenance_since=row.maintenance_since,
        maintenance_by=notes.by if notes else "",
        maintenance_reason=notes.reason if notes else "",
        maintenance_until=notes.until if notes else None,
        maintenance_means=taint_rules.EFFECTS.get(notes.effect, "") if notes else "",
    )
