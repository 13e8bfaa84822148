"""Who uses a Placement, as far as this hub can know: add-ons whose install strategy names it, and open watches.

Clients that list its decisions are not known: the audit holds writes and refusals. What names it in other API servers,
such as an ApplicationSet of Argo CD, is not known either. Reads only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters.addons.addon_kinds import CLUSTER_MANAGEMENT_ADDON
from clusters.kinds import spec_of
from clustersets.rights.set_rights import may_access
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.models import AuditPermission
from ocmconsole.kubeapi.watch import open_watches
from placements.kinds import PLACEMENT_DECISION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.watch.open_watches import Watcher
    from placements.models import Placement, PlacementDecision

MOST_ADD_ONS = 500  # types of add-ons that are looked through; a hub has dozens


def add_ons_of(actor: Actor, row: Placement) -> Sequence[str] | None:
    """Names, in order; None where the actor may not list ClusterManagementAddOns."""
    if not may_access(actor, "list", CLUSTER_MANAGEMENT_ADDON):
        return None
    rows = CLUSTER_MANAGEMENT_ADDON.model.objects.filter(deleted_at=None).order_by("name")[:MOST_ADD_ONS]
    return [each.name for each in rows if _names(spec_of(each.doc).get("installStrategy") or {}, row)]


def _names(strategy: dict[str, Any], row: Placement) -> bool:
    if strategy.get("type") != "Placements":
        return False
    return any((each["namespace"], each["name"]) == row.key for each in strategy.get("placements") or ())


def watchers_of(actor: Actor, stored: Sequence[PlacementDecision]) -> Sequence[Watcher] | None:
    """Clients that watch any of its decisions through this server now; None where the actor may not read the audit."""
    if not authorization.permitted(actor, AuditPermission.VIEW).allowed:
        return None
    return open_watches.watchers_of(PLACEMENT_DECISION, [each.doc for each in stored])
