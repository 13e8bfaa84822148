"""What of Events and audit belongs to a cluster: its own, that of what is in its namespace, and what other apps add.

Invariant: users who see a cluster see what was done to it; what was done to add-ons and works is for those who may list
them. Pages pass both querysets to ``components.trail``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from django.db.models import Q

from clusters.addons.addon_kinds import MANAGED_CLUSTER_ADDON, MANIFEST_WORK
from clusters.kinds import MANAGED_CLUSTER, REGISTER
from ocmconsole.core.models import Event
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage.selector_sql import NOTHING

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from ocmconsole.kubeapi.access.actor import Actor

Trace = Callable[["Actor", str], Q]
# Denials are recorded by what was asked for: the cluster, its status, the right to let it in (D2).
OWN = (
    MANAGED_CLUSTER.resource,
    f"{MANAGED_CLUSTER.plural}/status.{MANAGED_CLUSTER.group}",
    *(f"{MANAGED_CLUSTER.plural}/accept.{group}" for group in (MANAGED_CLUSTER.group, REGISTER)),
)
IN_ITS_NAMESPACE = (MANAGED_CLUSTER_ADDON, MANIFEST_WORK)
_traces: list[Trace] = []


def trace(rule: Trace) -> Trace:
    """Add entries of the audit to those of a cluster: ``rule(actor, name)`` selects what the actor may see."""
    _traces.append(rule)
    return rule


def events_of(actor: Actor, name: str) -> QuerySet[Event]:
    """Events about the cluster; and about objects in its namespace, if the actor may list them there."""
    about = Q(regarding_kind=MANAGED_CLUSTER.kind, regarding_name=name)
    if authorization.authorize(actor, Attributes("list", "", "events", namespace=name)).allowed:
        about |= Q(namespace=name)
    return Event.objects.filter(about)


def audit_of(actor: Actor, name: str) -> QuerySet[AuditEvent]:
    own = Q(resource__in=OWN, namespace="", name=name)
    return AuditEvent.objects.filter(reduce(or_, (rule(actor, name) for rule in _traces), own))


@trace
def of_its_namespace(actor: Actor, name: str) -> Q:
    listed = [
        kind.resource
        for kind in IN_ITS_NAMESPACE
        if authorization.authorize(actor, Attributes("list", kind.group, kind.plural, namespace=name)).allowed
    ]
    return Q(resource__in=listed, namespace=name) if listed else NOTHING
