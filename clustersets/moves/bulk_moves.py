"""Moving clusters between sets: each by itself, so that one refusal stops no other, and back again (A6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters.cluster_rights import changeable
from clusters.fleet import bulk_acts as clusters_bulk
from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ManagedCluster
from clustersets import services
from clustersets.models import SetPermission
from clustersets.rights import set_rights
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.control import bulk_jobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.control.bulk_jobs import Arguments
    from ocmconsole.kubeapi.models import BulkItem, BulkJob


def _move(actor: Actor, name: str, arguments: Arguments) -> str:
    services.move_cluster(actor, name, arguments["to"], seen=arguments["seen"])
    return f"it was in set {arguments['seen']}" if arguments["seen"] else ""


def _back(moved: Iterable[BulkItem]) -> dict[str, dict[str, Any]]:
    """Unless somebody moved it again. What was in no set cannot go back: admission gives it one (A2)."""
    given = {item.name: item.given for item in moved}
    return {name: {"seen": each["to"], "to": each["seen"]} for name, each in given.items() if each["seen"]}


MOVE = bulk_jobs.register(
    bulk_jobs.BulkAct(
        name="clustersets.move",
        title="Move",
        done="moved {where}",
        resource=MANAGED_CLUSTER.resource,
        page="clusters:detail",
        back=("clustersets:list", "Sets"),
        perform=_move,
        undo=_back,
        undone={"where": "back"},
    )
)


def _removable(actor: Actor, names: Iterable[str]) -> set[str]:
    names = set(names)
    if authorization.permitted(actor, SetPermission.JOIN).allowed and changeable(actor, names) == names:
        return names
    return set_rights.removable(actor, ManagedCluster.objects.filter(name__in=names).only("name", "clusterset"))


clusters_bulk.register(
    clusters_bulk.ClusterAct("move", "Move to a set", "moved", allowed=_removable, page="clustersets:moves")
)


def move_clusters(actor: Actor, seen: Mapping[str, str], to: str) -> BulkJob:
    """``seen`` is cluster by cluster the set it was seen in."""
    return bulk_jobs.start_job(actor, MOVE, _items(seen, to), where=f"to set {to}")


def record_moved_cluster(actor: Actor, cluster: str, before: str, to: str) -> BulkJob:
    """One that was moved by itself."""
    return bulk_jobs.record_done_job(actor, MOVE, _items({cluster: before}, to), where=f"to set {to}")


def _items(seen: Mapping[str, str], to: str) -> dict[str, dict[str, Any]]:
    return {cluster: {"seen": before, "to": to} for cluster, before in seen.items()}
