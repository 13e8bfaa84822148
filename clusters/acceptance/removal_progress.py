"""How a cluster leaves: what its removal deletes, what holds it up and for how long. Reads only, from what is there.

The pages of removal say with it what will happen, how far it is, and what Force would give up; ``resource_cleanup`` and
``reconcilers`` do it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from django.conf import settings

from clusters.acceptance import agent_roles, cleanup_rights, resource_cleanup
from clusters.addons.addon_kinds import MANIFEST_WORK
from clusters.kinds import API_RESOURCE_CLEANUP, OWN_FINALIZERS, finalizers_of
from clusters.models import ManagedCluster, ManifestWork
from ocmconsole.core.models import ClusterRole
from ocmconsole.environment.durations import span
from ocmconsole.kubeapi import clock

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind
    from ocmconsole.kubeapi.models import Resource
    from ocmconsole.kubeapi.verbs import Batch

# Beyond this many a list says how many more there are.
SHOWN = 50


class ClusterCertificates(Protocol):
    """The certificates that give rights of a cluster, kept by the app that signs them (D19)."""

    def valid(self, cluster: str, now: datetime) -> tuple[int, datetime | None]:
        """How many are neither expired nor revoked, and when the last one expires."""

    def may_revoke(self, actor: Actor, cluster: str) -> bool: ...

    def revoke(self, batch: Batch, cluster: str, reason: str) -> None:
        """Adds to the batch that all of them are revoked. Raises Forbidden unless its actor may."""

    def without_override(self, doc: Doc) -> None:
        """Takes a person's word for a key (D9) from the document of the cluster."""


_kept: list[ClusterCertificates] = []


def keeps_certificates(keeper: ClusterCertificates) -> None:
    """Registers the app that signs certificates."""
    _kept[:] = [keeper]


def certificates() -> ClusterCertificates:
    return _kept[0]


@dataclass(frozen=True, slots=True)
class Blocker:
    """An object that waits for the owners of its finalizers. ``since`` is when its deletion began; it may be ahead.

    ``is_inside`` says that it is in the cluster's namespace; else it is the cluster itself.
    """

    what: str
    finalizers: tuple[str, ...]
    since: datetime | None
    is_inside: bool = True

    @property
    def is_of_agent(self) -> bool:
        """Whether the agent of the cluster has to do something before it goes."""
        return set(self.finalizers) == {agent_roles.WORK_FINALIZER}


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A kind of which the removal deletes everything in the cluster's namespace."""

    kind: str
    plural: str
    left: int


@dataclass(frozen=True, slots=True)
class Departure:
    """``foreign`` are finalizers on the cluster itself that are not the hub's: their own clients take them off.

    ``undeleted_works``: how many works the removal waits for that nobody deletes: the hub does not, because the gate
    ResourceCleanup is off or its list of kinds has no works. ``certificates`` are those that are neither expired nor
    revoked, ``cleanup_left`` as in ``cleanup_rights.left_at``.
    """

    has_begun: bool
    since: datetime | None
    for_: timedelta
    has_rights: bool
    cleans: bool
    cleaned: list[Cleaned]
    blockers: list[Blocker]
    more_blockers: int
    foreign: list[str]
    held_by: Blocker | None
    undeleted_works: int
    certificates: int
    certificates_end: datetime | None
    cleanup_left: timedelta | None

    @property
    def cleanup(self) -> str:
        """What its agent may do with works after its rights are withdrawn, and for how long (D20)."""
        limit = settings.OCMCONSOLE_CLEANUP_RIGHTS
        if limit is None:
            return "read and change all works in its namespace, as long as there are any"
        return f"read and clean up works that are being deleted, for {span(limit)} at most"

    @property
    def may_clean_up(self) -> bool:
        """Whether that goes on now."""
        return self.has_begun and (self.cleanup_left is None or self.cleanup_left > timedelta())

    @property
    def kinds(self) -> str:
        """Of what is counted: ``ManagedClusterAddOns or ManifestWorks``."""
        return " or ".join(f"{each.kind}s" for each in self.cleaned)

    @property
    def left_by_kind(self) -> str:
        """``1 ManagedClusterAddOn and 2 ManifestWorks``."""
        found = [each for each in self.cleaned if each.left]
        return " and ".join(f"{each.left} {each.kind}{'' if each.left == 1 else 's'}" for each in found)

    @property
    def left(self) -> int:
        return sum(each.left for each in self.cleaned)


def departure_of(cluster: ManagedCluster, now: datetime) -> Departure:
    kinds = list(resource_cleanup.cleaned_kinds())
    rows = [(kind, row) for kind in kinds for row in kind.model.objects.filter(namespace=cluster.name).order_by("name")]
    blockers = [_blocker(kind, row) for kind, row in rows if finalizers_of(row.doc)]
    foreign = [each for each in finalizers_of(cluster.doc) if each not in OWN_FINALIZERS]
    count, ends = certificates().valid(cluster.name, now)
    cleans = settings.OCMCONSOLE_FEATURE_GATES["ResourceCleanup"]
    works = [] if cleans and MANIFEST_WORK in kinds else _works_left_to_people(cluster)
    waited_for = [*(rows if cleans else []), *((MANIFEST_WORK, work) for work in works)]
    return Departure(
        has_begun=cluster.deleted_at is not None,
        since=cluster.deleted_at,
        for_=now - cluster.deleted_at if cluster.deleted_at else timedelta(),
        has_rights=ClusterRole.objects.filter(name=agent_roles.role_name(cluster.name)).exists(),
        cleans=cleans,
        cleaned=[Cleaned(kind.kind, kind.plural, sum(each is kind for each, _ in rows)) for kind in kinds],
        blockers=blockers[:SHOWN],
        more_blockers=max(0, len(blockers) - SHOWN),
        foreign=foreign,
        held_by=_held_by(cluster, waited_for, foreign),
        undeleted_works=sum(work.deleted_at is None for work in works),
        certificates=count,
        certificates_end=ends,
        cleanup_left=cleanup_rights.left_at(cluster.name, now),
    )


def _held_by(cluster: ManagedCluster, rows: list[tuple[Kind, Resource]], foreign: list[str]) -> Blocker | None:
    """What the removal waits for now. H28: of the first kind of which something is left, what is being deleted.

    Finalizers of others on the cluster itself count when nothing is left in its namespace.
    """
    if cluster.deleted_at is None:
        return None
    if not rows:
        found = tuple(foreign)
        return Blocker(f"managedclusters/{cluster.name}", found, cluster.deleted_at, is_inside=False) if found else None
    first = rows[0][0]
    waiting = [_blocker(kind, row) for kind, row in rows if kind is first and finalizers_of(row.doc) and row.deleted_at]
    return min(waiting, key=lambda each: each.since or clock.now(), default=None)


def _works_left_to_people(cluster: ManagedCluster) -> list[ManifestWork]:
    """Works that the hub waits for and does not delete (H31)."""
    if API_RESOURCE_CLEANUP not in finalizers_of(cluster.doc):
        return []
    return list(ManifestWork.objects.filter(namespace=cluster.name).order_by("name"))


def _blocker(kind: Kind, row: Resource) -> Blocker:
    return Blocker(f"{kind.plural}/{row.name}", tuple(finalizers_of(row.doc)), row.deleted_at)
