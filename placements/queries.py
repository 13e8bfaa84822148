"""Reads for pages: the placements a person may see, by RBAC in the namespace or on the whole hub."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db.models import Max, Q

from clustersets import queries as clustersets
from clustersets.rights.set_rights import may_access
from ocmconsole.core.rbac import rule_index
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage.selector_sql import EVERYTHING
from placements.controller import snapshot
from placements.explaining.status import Held
from placements.kinds import PLACEMENT, PLACEMENT_DECISION
from placements.models import EvictionBrake, HeldEvictions, Placement, PlacementDecision
from placements.scheduler.brake import still_waits

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from ocmconsole.kubeapi.access.actor import Actor


AT_ONCE = 500  # places in one query: each of their namespaces is a condition, and SQLite takes 1,000


def placements_for(actor: Actor) -> QuerySet[Any]:
    """Placements that the actor may list where they are, by namespace and name."""
    return Placement.objects.filter(_listable(actor)).order_by("namespace", "name")


def _listable(actor: Actor) -> Q:
    namespaces = listable_namespaces(actor)
    return EVERYTHING if namespaces is None else Q(namespace__in=namespaces)


def listable_namespaces(actor: Actor) -> set[str] | None:
    """Those in which the actor may list placements; None for all."""
    if may_access(actor, "list", PLACEMENT):
        return None
    mine = rule_index.index.namespaces_of(actor)
    return {each for each in mine if may_access(actor, "list", PLACEMENT, namespace=each)}


def held_for(actor: Actor, now: datetime) -> QuerySet[Any]:
    """D27: placements that the actor may list and in which evictions wait."""
    waits = Q(held__until=None) | Q(held__until__gt=now)
    return placements_for(actor).filter(waits, held__count__gt=0)


def standing_brakes(now: datetime) -> list[EvictionBrake]:
    """D27: brakes that hold evictions now, the first that began before the others."""
    return [row for row in EvictionBrake.objects.filter(ended=None).order_by("begun") if still_waits(row.until, now)]


def sets_of_brakes(actor: Actor, rows: Iterable[EvictionBrake]) -> set[str]:
    """Names of sets that the brakes are about and the actor may see."""
    names = {row.scope for row in rows if row.scope}
    return set(clustersets.sets_for(actor).filter(name__in=names).values_list("name", flat=True)) if names else set()


def scopes_of_brakes(rows: Iterable[EvictionBrake], seen: Collection[str]) -> list[str]:
    """What they are about, in words: ``the whole hub``, ``set prod``; sets that are not among ``seen`` are counted."""
    scopes = [row.scope for row in rows]
    named = [f"set {each}" if each else "the whole hub" for each in scopes if not each or each in seen]
    unseen = len(scopes) - len(named)
    if unseen == 1:
        return [*named, "another set" if named else "a set"]
    return [*named, f"{unseen} {'other ' if named else ''}sets"] if unseen else named


def held_of(row: Placement, now: datetime) -> Held | None:
    """D27: evictions of the Placement that wait; one query unless ``held`` was selected with the row."""
    known: HeldEvictions | None = getattr(row, "held", None)
    return held(known.count, known.since, known.until, now) if known is not None else None


def held(count: int | None, since: datetime | None, until: datetime | None, now: datetime) -> Held | None:
    """The same from the columns of a row of HeldEvictions, which are None where there is none."""
    return Held(count, since, until) if count and since is not None and still_waits(until, now) else None


def may_create_somewhere(actor: Actor) -> bool:
    places = ("", *rule_index.index.namespaces_of(actor))
    return any(may_access(actor, "create", PLACEMENT, namespace=each) for each in places)


def decisions_of(namespace: str, placement: str) -> list[PlacementDecision]:
    """Its PlacementDecisions in the order of their numbers."""
    found = PlacementDecision.objects.filter(namespace=namespace, placement=placement)
    return sorted(found, key=lambda each: (len(each.name), each.name))


def rows_at(places: Iterable[tuple[str, str]]) -> Q:
    """Rows with one of these pairs of namespace and name: one condition for each namespace; none for no pair."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for namespace, name in places:
        names[namespace].append(name)
    wanted = Q(pk__in=())
    for namespace, listed in names.items():
        wanted |= Q(namespace=namespace, name__in=listed)
    return wanted


def deciding(clusters: Collection[str]) -> list[str]:
    """Keys of the placements whose decisions name one of the clusters, by namespace and name.

    Two queries for each ``AT_ONCE`` PlacementDecisions that do.
    """
    owners: set[tuple[str, str]] = set()
    for part in _parts(snapshot.present.deciding(clusters)):
        owners.update(PlacementDecision.objects.filter(rows_at(part)).order_by().values_list("namespace", "placement"))
    keys: list[str] = []
    for part in _parts(sorted(owners)):
        rows = Placement.objects.filter(rows_at(part), deleted_at=None).order_by("namespace", "name")
        keys += rows.values_list("pk", flat=True)
    return keys


def _parts(places: Sequence[tuple[str, str]]) -> Iterator[Sequence[tuple[str, str]]]:
    return (places[start : start + AT_ONCE] for start in range(0, len(places), AT_ONCE))


def last_changes(rows: Iterable[tuple[str, str, Iterable[str]]]) -> dict[tuple[str, str], datetime]:
    """By namespace and name of a Placement, when one of its PlacementDecisions was written last. One query.

    ``rows``: namespace, name and the names of its decisions.
    """
    owners = {(namespace, decision): (namespace, name) for namespace, name, names in rows for decision in names}
    entries = AuditEvent.objects.filter(
        rows_at(owners), resource=PLACEMENT_DECISION.resource, outcome=AuditEvent.Outcome.ALLOWED
    ).order_by()
    found: dict[tuple[str, str], datetime] = {}
    for namespace, decision, at in entries.values_list("namespace", "name").annotate(last=Max("time")):
        owner = owners[namespace, decision]
        found[owner] = max(at, found.get(owner, at))
    return found
