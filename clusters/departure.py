"""How a cluster leaves: what its removal deletes, what holds it up and for how long. Reads only, from what is there.

The pages of removal say with it what will happen, how far it is, and what Force would give up; ``removal`` and
``controllers`` do it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.conf import settings

from clusters import removal, roles
from clusters.kinds import OWN_FINALIZERS
from clusters.models import ClusterFacts
from ocmconsole.corekinds.models import ClusterRole

if TYPE_CHECKING:
    from clusters.models import ManagedCluster
    from ocmconsole.kubeapi.kinds import Kind

# Beyond this many a list says how many more there are.
SHOWN = 50


@dataclass(frozen=True, slots=True)
class Blocker:
    """An object that waits for whoever put finalizers on it."""

    what: str
    finalizers: tuple[str, ...]
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A kind of which the removal deletes everything in the cluster's namespace."""

    kind: str
    plural: str
    left: int


@dataclass(frozen=True, slots=True)
class Departure:
    """``foreign`` are finalizers on the cluster itself that the hub does not know, and so does not wait for alone."""

    has_begun: bool
    since: datetime | None
    for_: timedelta
    has_rights: bool
    cleans: bool
    cleaned: list[Cleaned]
    blockers: list[Blocker]
    more_blockers: int
    foreign: list[str]
    certificate_ends: datetime | None

    @property
    def left(self) -> int:
        return sum(each.left for each in self.cleaned)


def of(cluster: ManagedCluster, now: datetime) -> Departure:
    kinds = list(removal.cleaned_kinds())
    rows = [(kind, row) for kind in kinds for row in kind.model.objects.filter(namespace=cluster.name).order_by("name")]
    blockers = [_blocker(kind, row) for kind, row in rows if row.doc["metadata"].get("finalizers")]
    finalizers = cluster.doc["metadata"].get("finalizers") or ()
    known = ClusterFacts.objects.filter(cluster=cluster.name).first()
    ends = known.certificate_not_after if known else None
    return Departure(
        has_begun=cluster.deleted_at is not None,
        since=cluster.deleted_at,
        for_=now - cluster.deleted_at if cluster.deleted_at else timedelta(),
        has_rights=ClusterRole.objects.filter(name=roles.role_name(cluster.name)).exists(),
        cleans=settings.OCMCONSOLE_FEATURE_GATES["ResourceCleanup"],
        cleaned=[Cleaned(kind.kind, kind.plural, sum(each is kind for each, _ in rows)) for kind in kinds],
        blockers=blockers[:SHOWN],
        more_blockers=max(0, len(blockers) - SHOWN),
        foreign=[each for each in finalizers if each not in OWN_FINALIZERS],
        certificate_ends=ends if ends and ends > now else None,
    )


def _blocker(kind: Kind, row: object) -> Blocker:
    metadata = row.doc["metadata"]  # type: ignore[attr-defined] # any resource
    return Blocker(f"{kind.plural}/{metadata['name']}", tuple(metadata["finalizers"]), row.deleted_at)  # type: ignore[attr-defined] # any resource
