"""What the agent of a cluster that was sent away or deleted keeps, so that it can clean up (D20, K8, H7, H10).

Invariant: it reads and changes only works of its namespace that are being deleted, and of these only finalizers and
status; it creates nothing. The right exists as long as the RoleBinding for works, which is being deleted with its
finalizer on, and at most ``OCMCONSOLE_CLEANUP_RIGHTS``. While no work is being deleted there is no right: an agent
that gets an empty list instead of a refusal would take its live works for gone, and undo them.

The binding itself grants nothing meanwhile, unless the setting is ``unlimited``: then RBAC decides as upstream does.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings

from clusters.acceptance import agent_roles
from clusters.addons.addon_kinds import MANIFEST_WORK, WORK_GROUP
from clusters.models import ManifestWork
from ocmconsole.core.models import RoleBinding
from ocmconsole.core.rbac import rule_index
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import AccessDecision

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.access.authorization import Attributes
    from ocmconsole.kubeapi.errors import Doc

READS = frozenset({"get", "list", "watch"})
WRITES = frozenset({"update", "patch"})
# Of the document and of its status subresource.
FIELDS = {"": frozenset({"metadata.finalizers"}), "status": frozenset({"status"})}


def left_at(cluster: str, now: datetime) -> timedelta | None:
    """For how long the right goes on; None is without end, and zero or less is over or never there."""
    if settings.OCMCONSOLE_CLEANUP_RIGHTS is None:
        return None
    key = {"namespace": cluster, "name": agent_roles.work_binding_name(cluster), "deleted_at__isnull": False}
    begun = RoleBinding.objects.filter(**key).values_list("deleted_at", flat=True).first()
    limit: timedelta = settings.OCMCONSOLE_CLEANUP_RIGHTS
    return begun + limit - now if begun else timedelta()


def works_being_deleted(cluster: str) -> QuerySet[ManifestWork]:
    found: QuerySet[ManifestWork] = ManifestWork.objects.filter(namespace=cluster, deleted_at__isnull=False)
    return found


@rule_index.suspends
def grants_no_works_any_more(binding: Doc) -> bool:
    """D20: a work RoleBinding that is being deleted grants nothing by RBAC; ``cleans_up`` grants what is left."""
    metadata = binding.get("metadata") or {}
    return (
        settings.OCMCONSOLE_CLEANUP_RIGHTS is not None
        and bool(metadata.get("deletionTimestamp"))
        and bool(metadata.get("namespace"))
        and metadata["name"] == agent_roles.work_binding_name(metadata["namespace"])
    )


@authorization.authorizer
def cleans_up(actor: Actor, asked: Attributes) -> AccessDecision | None:
    """D20: the agent of an un-accepted or deleted cluster may read works that are being deleted, and finish them.

    Limited to finalizers and status, and to ``OCMCONSOLE_CLEANUP_RIGHTS``. None is no grant.
    """
    cluster = asked.namespace
    if (asked.group, asked.resource) != (WORK_GROUP, MANIFEST_WORK.plural) or not cluster:
        return None
    if not set(agent_roles.groups_of(cluster)).intersection(actor.groups) or asked.subresource not in FIELDS:
        return None
    if asked.verb not in WRITES and (asked.verb not in READS or asked.subresource):
        return None
    left = left_at(cluster, clock.now())
    if left is None or left <= timedelta():
        return None
    works = works_being_deleted(cluster)
    if not (works.filter(name=asked.name) if asked.name else works).exists():
        return None
    fields = FIELDS[asked.subresource] if asked.verb in WRITES else None
    return AccessDecision(allowed=True, reason=f"may clean up works of cluster {cluster}", fields=fields, deleting=True)
