"""Reconcilers of acceptance: what a cluster gets when it is let in, loses when it is sent away or deleted (H4 to H11).

Each runs twice without a second write, for one cluster at a time; what fails for one stops no other. Health is in
``health``, removal of what a deleted cluster leaves behind in ``resource_cleanup``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings

from clusters import object_writer
from clusters.acceptance import agent_roles, cleanup_rights, withdrawal
from clusters.kinds import (
    API_RESOURCE_CLEANUP,
    CLUSTER_LABEL,
    LEASE,
    LEASE_NAME,
    MANAGED_CLUSTER,
    ConditionType,
    conditions_of,
    finalizers_of,
    is_accepted,
    is_deleting,
    label_of,
)
from clusters.models import ClusterFacts, ManagedCluster, ManifestWork
from clusters.object_writer import CONTROLLER
from ocmconsole.core import reconcilers as namespaces
from ocmconsole.core.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, NAMESPACE, ROLE_BINDING
from ocmconsole.core.models import ClusterRole
from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.control import controllers
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema import conditions, times
from ocmconsole.kubeapi.schema.conditions import Condition
from ocmconsole.kubeapi.storage import plain_sql, reader

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

log = logging.getLogger(__name__)

LOOK_AGAIN = timedelta(seconds=5)  # while works remain: agents finish them in seconds
SHARED = Key("", "shared")
SHARED_ROLES = (agent_roles.REGISTRATION_ROLE, agent_roles.WORK_ROLE)

ACCEPTED = Condition(ConditionType.ACCEPTED, "True", "HubClusterAdminAccepted", "Accepted by hub cluster admin")
DENIED = Condition(ConditionType.ACCEPTED, "False", "HubClusterAdminDenied", "Denied by hub cluster admin")


def _is_kept_for_rights(doc: Doc) -> bool:
    """Whether it has the finalizer that keeps it until its agent's rights are gone."""
    return API_RESOURCE_CLEANUP in finalizers_of(doc)


def _accepted_condition(doc: Doc) -> tuple[Any, Any, Any]:
    found = conditions.find_condition(conditions_of(doc), ConditionType.ACCEPTED) or {}
    return found.get("status"), found.get("reason"), found.get("message")


def _cluster_of(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    """The cluster that an object says it belongs to, before or after the write."""
    labels = {label_of(doc, CLUSTER_LABEL) for doc in (old, new) if doc is not None}
    return [Key("", name) for name in labels if name]


def _may_need_rights(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:
    """Not one that comes and waits: what an earlier one of its name has left is asked for by that one's end."""
    if old is None and new is not None and not is_accepted(new):
        return ()
    return _acceptance_moved(old, new, key)


_acceptance_moved = controllers.changed(is_accepted, is_deleting, _is_kept_for_rights, _accepted_condition)


@controllers.reconciler(
    MANAGED_CLUSTER,
    keys=_may_need_rights,
    also={
        NAMESPACE: _cluster_of,
        CLUSTER_ROLE: _cluster_of,
        CLUSTER_ROLE_BINDING: _cluster_of,
        ROLE_BINDING: _cluster_of,
    },
)
def reconcile_acceptance(key: Key) -> timedelta | None:
    """H4 to H8, H10, H31: an agent has the rights that its cluster's acceptance, un-acceptance or deletion calls for.

    1. Accepted: namespace, finalizer, ClusterRole and bindings; then condition HubAcceptedManagedCluster True.
    2. Not accepted: the ClusterRole is reduced, the RoleBindings are deleted, the condition is False. For a cluster
       that was never accepted nothing is written.
    3. Deleted or gone: rights are deleted; the finalizer goes once no work remains.

    Returns when to look again while works remain. Raises Conflict when a step failed, so that the queue tries again.
    """
    if key.name in agent_roles.TAKEN_NAMES:
        return None  # never accepted (D18): roles of these names are shared by all clusters
    cluster: Any = reader.read_row(MANAGED_CLUSTER, key)
    if cluster is None or cluster.deleted_at is not None:
        return _remove(key.name, cluster)
    if not cluster.hub_accepts_client:
        return _expel(cluster)
    _set_up(cluster.name)
    return None


# ---------------------------------------------------------------- accepted


def _set_up(name: str) -> None:
    """In one transaction: namespace, finalizer, rights, what a new namespace has, a lease; then the condition says so.

    What can be given is given though something else cannot; the condition then says what. Raises Conflict for that.
    """
    key, problems = Key("", name), list[str]()

    def give(batch: verbs.Batch) -> None:
        problems.clear()
        row = batch.read(MANAGED_CLUSTER, [key]).get(key)
        cluster: Doc | None = row.doc if row is not None else None
        if cluster is None or is_deleting(cluster) or not is_accepted(cluster):
            return  # meanwhile; that write has asked for another look
        problems.extend(_attempt(name, _steps(batch, name)))
        is_granted = conditions.status_of(conditions_of(cluster), ConditionType.ACCEPTED) == "True"
        if not problems:
            _complete(batch, name, is_granted=is_granted)
        elif not is_granted:  # K40: once granted it stays; an agent takes anything but True for a refusal
            failed = Condition(ConditionType.ACCEPTED, "False", "Error", "\n".join(problems))
            object_writer.say(batch, name, failed)
        if batch.writes:
            withdrawal.only_while_accepted(batch, name)
        batch.settled.add(("acceptance", key))

    verbs.together(CONTROLLER, give)
    if problems:
        raise errors.Conflict("\n".join(problems))  # the queue tries again, later each time


Step = Callable[[], object]


def _steps(batch: verbs.Batch, name: str) -> Iterable[Step]:
    """H4: what an accepted cluster gets, in this order: namespace, finalizer, ClusterRole, bindings."""
    labels = settings.OCMCONSOLE_RESOURCE_LABELS
    namespace: Doc = {"metadata": {"name": name, "labels": {**labels, CLUSTER_LABEL: name}}}
    finalizer = object_writer.with_finalizer(API_RESOURCE_CLEANUP)
    role = agent_roles.cluster_role(
        name, agent_roles.accepted_rules(name, may_renew=not _renewal_withheld(name)), labels
    )
    return (
        lambda: object_writer.ensure_object(batch, NAMESPACE, namespace),
        lambda: batch.edit(MANAGED_CLUSTER, Key("", name), finalizer),
        lambda: object_writer.ensure_object(batch, CLUSTER_ROLE, role),
        lambda: object_writer.ensure_object(
            batch, CLUSTER_ROLE_BINDING, agent_roles.cluster_role_binding(name, labels)
        ),
        lambda: object_writer.ensure_object(
            batch, ROLE_BINDING, agent_roles.registration_binding(name, labels), namespace=name
        ),
        lambda: object_writer.ensure_object(
            batch, ROLE_BINDING, agent_roles.work_binding(name, labels), namespace=name
        ),
    )


def _attempt(name: str, steps: Iterable[Step]) -> Iterable[str]:
    """Texts of what failed. A lost race is no failure: the queue tries again at once."""
    for step in steps:
        try:
            step()
        except errors.Conflict:
            raise
        except errors.ApiError as error:
            log.warning("accepting %s: %s", name, error.message)
            yield error.message


def _complete(batch: verbs.Batch, name: str, *, is_granted: bool) -> None:
    """The rights are given: say so, and with the first time give what other reconcilers would give a moment later."""
    key, lease = Key("", name), Key(name, LEASE_NAME)
    has_lease = is_granted or batch.find(LEASE, lease) is not None
    if not is_granted and has_lease:  # K15: one from before the acceptance says nothing about the agent that comes now
        now = times.micro_timestamp(clock.now())
        batch.edit(LEASE, lease, lambda doc: doc.setdefault("spec", {}).update(renewTime=now))
    object_writer.say(batch, name, ACCEPTED)
    namespace = batch.find(NAMESPACE, key)
    if is_granted or namespace is None or is_deleting(namespace):
        return
    if not has_lease:
        batch.create(LEASE, object_writer.new_lease(name), namespace=name)
    batch.settled.add(("lease_health", key))
    namespaces.furnish(batch, name)
    batch.settled.add(("namespace", key))


def _renewal_withheld(name: str) -> bool:
    return plain_sql.is_there(ClusterFacts, cluster=name, renewal_withheld=True)


# ---------------------------------------------------------------- un-accepted


def _expel(cluster: ManagedCluster) -> timedelta | None:
    """H7, K8, K8b: rights go at once, whether or not works remain or the condition ever became True."""
    had_rights = False

    def withdraw(batch: verbs.Batch) -> None:
        nonlocal had_rights
        had_rights = withdrawal.expel(batch, cluster.name)

    verbs.together(CONTROLLER, withdraw)
    again = _work_binding_left(cluster.name)
    if had_rights or cluster.accepted:
        object_writer.report_condition(cluster.name, DENIED)
    return again


def _work_binding_left(name: str) -> timedelta | None:
    """The RoleBinding for works stays until no work remains or D20's time is over: look again then."""
    work = Key(name, agent_roles.work_binding_name(name))
    if verbs.find(ROLE_BINDING, work) is None:
        return None
    left = cleanup_rights.left_at(name, clock.now())
    if _has_works(name) and (left is None or left > timedelta()):
        return LOOK_AGAIN
    object_writer.drop_finalizer(ROLE_BINDING, work, agent_roles.WORK_FINALIZER)
    return None


def _has_works(name: str) -> bool:
    return ManifestWork.objects.filter(namespace=name).exists()


# ---------------------------------------------------------------- deleted


def _remove(name: str, cluster: ManagedCluster | None) -> timedelta | None:
    """H10, H31: rights go first, the binding for works last; likewise for a cluster that is gone already."""
    verbs.together(CONTROLLER, lambda batch: withdrawal.remove(batch, name))
    again = _work_binding_left(name)
    if again is not None or cluster is None:
        return again
    if _is_kept_for_rights(cluster.doc) and _has_works(name):
        return LOOK_AGAIN  # its agent may not undo them any more; deleting them, or detaching the cluster, ends this
    object_writer.drop_finalizer(MANAGED_CLUSTER, Key("", name), API_RESOURCE_CLEANUP)
    return None


# ---------------------------------------------------------------- roles that all clusters share


def _shared(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    return (SHARED,) if old is None or new is None else ()


def _shared_role(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    return (key,) if key.name in SHARED_ROLES else ()


def _out_of_place(keys: Collection[Key]) -> Iterable[Key]:
    """A cluster that came or went asks only where the roles are missing, or where no cluster is left."""
    if SHARED in keys and plain_sql.is_there(ManagedCluster):
        present = plain_sql.rows_at(ClusterRole.objects, "name", SHARED_ROLES)
        if len(present) == len(SHARED_ROLES):
            return set(keys) - {SHARED}
    return keys


@controllers.reconciler(MANAGED_CLUSTER, keys=_shared, also={CLUSTER_ROLE: _shared_role}, among=_out_of_place)
def reconcile_shared_roles(key: Key) -> None:  # noqa: ARG001 - there is one set of them
    """H13: the shared ClusterRoles ``:registration`` and ``:work`` exist as long as there is a cluster.

    1. With a cluster, each is created, or brought back to its rules.
    2. Without any, both are deleted.
    """
    wanted = ManagedCluster.objects.exists()
    for role in agent_roles.shared_roles(settings.OCMCONSOLE_RESOURCE_LABELS):
        if wanted:
            with verbs.batch(CONTROLLER) as batch:
                object_writer.ensure_object(batch, CLUSTER_ROLE, role)
        else:
            object_writer.delete_object(CLUSTER_ROLE, Key("", role["metadata"]["name"]))
