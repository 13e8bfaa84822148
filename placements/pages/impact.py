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
from placements.controller import snapshot
from placements.controller.together import Together
from placements.kinds import is_disabled
from placements.models import Placement, PlacementDecision
from placements.scheduler.fleet import Cluster

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor

MOST = 60  # placements that are worked out for one page
MOST_DECISIONS = 500  # that name one of the clusters, 100 a Placement at most; a database takes no more at once
LISTED = 12  # placements of one outcome that a page names


@impact.works_out_impact
def impact_of(actor: Actor, names: Collection[str], edit: ClusterEdit, now: datetime) -> PlacementImpact:
    """Of at most ``MOST`` placements, in the CPU time of a page; of the others the number is given."""
    rows = list(ManagedCluster.objects.filter(name__in=names).order_by("name"))
    changed = {row.name: Cluster(edit(deepcopy(row.doc))) for row in rows}
    found = _concerned(changed, [row.labels for row in rows])
    together = Together.read(found[:MOST], now)
    drop: list[tuple[Placement, int, int]] = []
    keep: list[tuple[Placement, int, int]] = []
    gain: list[tuple[Placement, int, int]] = []
    unknown = len(found[MOST:])
    keys = [row.pk for row in found]
    visible = set(queries.placements_for(actor).filter(pk__in=keys).values_list("pk", flat=True))
    for row in found[:MOST]:
        result = together.schedule(row, changed)
        if result is None:
            unknown += 1
            continue
        chosen = {each.name for each in result.chosen}
        has = together.of(row) & changed.keys()
        lost, stays, comes = has - chosen, has & chosen, (chosen & changed.keys()) - has
        others = len(chosen - together.of(row) - changed.keys())
        for outcome, clusters in ((drop, lost), (keep, stays), (gain, comes)):
            if clusters:
                outcome.append((row, len(clusters), others if outcome is drop else 0))
    return PlacementImpact(_outcome(drop, visible), _outcome(keep, visible), _outcome(gain, visible), unknown)


def _concerned(changed: Mapping[str, Cluster], labels: Sequence[Mapping[str, str]]) -> list[Placement]:
    """Those that have one of the clusters; then those of namespaces that would see one which they do not see now."""
    deciding = snapshot.present.deciding(changed.keys())[:MOST_DECISIONS]
    has = {
        (namespace, name)
        for namespace, name in PlacementDecision.objects.filter(queries.rows_at(deciding))
        .order_by()
        .values_list("namespace", "placement")
    }
    rows = Placement.objects.filter(deleted_at=None).order_by("namespace", "name")
    found = list(rows.filter(queries.rows_at(sorted(has)[:MOST_DECISIONS]))) if has else []
    sets = clustersets.all_memberships()
    entered = {
        name
        for before, after in zip(labels, changed.values(), strict=True)
        for name in {*sets_of(after.labels, sets)} - {*sets_of(before, sets)}
    }
    if entered:
        namespaces = ManagedClusterSetBinding.objects.filter(cluster_set__in=entered).values("namespace")
        found += rows.filter(namespace__in=namespaces).exclude(pk__in=[row.pk for row in found])[: MOST + 1]
    return [row for row in found if not is_disabled(row.doc)]


def _outcome(found: Sequence[tuple[Placement, int, int]], visible: Collection[str]) -> Affected:
    seen = [each for each in found if each[0].pk in visible]
    links = tuple(
        PlacementLink(
            row.namespace, row.name, reverse("placements:placement", args=[row.namespace, row.name]), count, others
        )
        for row, count, others in seen[:LISTED]
    )
    return Affected(len(found), len(found) - len(seen), links)
