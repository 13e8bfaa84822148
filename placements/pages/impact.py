"""Which placements would drop, keep or gain clusters that somebody is about to change: by the scheduler's pipeline.

Registered with the pages of clusters. Placements that the user may not list are counted and not named (D16).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import TYPE_CHECKING

from django.urls import reverse

from clusters.cluster import impact
from clusters.cluster.impact import Affected, ClusterEdit, PlacementImpact, PlacementLink
from clusters.models import ManagedCluster
from clustersets import queries as clustersets
from clustersets.membership import sets_of
from clustersets.models import ManagedClusterSetBinding
from placements import queries
from placements.controller.together import Together
from placements.kinds import is_disabled
from placements.models import Placement
from placements.scheduler.fleet import Cluster

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor

MOST = 60  # placements that are worked out for one page
LISTED = 12  # placements of one outcome that a page names


@impact.works_out_impact
def impact_of(actor: Actor, names: Collection[str], edit: ClusterEdit, now: datetime) -> PlacementImpact:
    """Of at most ``MOST`` placements, in the CPU time of a page; of the others the number is given."""
    rows = list(ManagedCluster.objects.filter(name__in=names).order_by("name"))
    before = {row.name: Cluster(row.doc) for row in rows}
    changed = {row.name: Cluster(edit(deepcopy(row.doc))) for row in rows}
    found, unknown, elsewhere = _concerned(before, changed)
    together = Together.read(found, now)
    drop, keep, gain, others = [], [], [], set[str]()
    for row in found:
        result = together.schedule(row, changed)
        if result is None:
            unknown += 1
            continue
        chosen = together.decided_by(row, result)
        has = together.of(row) & changed.keys()
        if has - chosen:
            drop.append(row)
            others |= chosen - together.of(row) - changed.keys()
        if has & chosen:
            keep.append(row)
        if (chosen & changed.keys()) - has:
            gain.append(row)
    keys = [row.pk for row in found]
    visible = set(queries.placements_for(actor).filter(pk__in=keys).values_list("pk", flat=True))
    return PlacementImpact(
        _outcome(drop, visible, len(others)), _outcome(keep, visible), _outcome(gain, visible), unknown, elsewhere
    )


def _concerned(before: Mapping[str, Cluster], changed: Mapping[str, Cluster]) -> tuple[list[Placement], int, int]:
    """Placements to work out, at most ``MOST``, how many more there are, and how many have one that are left out.

    First those that have one of the clusters, then those of namespaces that would see one which they do not see now,
    or see one that loses a taint. Those that another scheduler decides are left out (P2).
    """
    has = queries.deciding(changed.keys())
    rows = Placement.objects.filter(deleted_at=None).order_by("namespace", "name")
    found = list(rows.filter(pk__in=has[:MOST]))
    sets = clustersets.all_memberships()
    entered = set[str]()
    for name, after in changed.items():
        once = before[name]
        is_freed = any(taint not in after.taints for taint in once.taints)
        entered |= {*sets_of(after.labels, sets)} - (set() if is_freed else {*sets_of(once.labels, sets)})
    unknown, elsewhere = len(has) - len(found), sum(is_disabled(row.doc) for row in found)
    if entered:
        namespaces = ManagedClusterSetBinding.objects.filter(cluster_set__in=entered).values("namespace")
        further = rows.filter(namespace__in=namespaces).exclude(pk__in=has)
        more = list(further[: MOST - len(found)])
        unknown += further.count() - len(more)
        found += more
    return [row for row in found if not is_disabled(row.doc)], unknown, elsewhere


def _outcome(found: Sequence[Placement], visible: Collection[str], others: int = 0) -> Affected:
    seen = [each for each in found if each.pk in visible]
    links = tuple(
        PlacementLink(row.namespace, row.name, reverse("placements:placement", args=[row.namespace, row.name]))
        for row in seen[:LISTED]
    )
    return Affected(len(found), len(found) - len(seen), links, others)
