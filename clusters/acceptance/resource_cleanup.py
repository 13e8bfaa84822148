"""What a deleted cluster leaves behind in its namespace is deleted first, kind by kind (H27 to H32).

A finalizer holds the cluster until nothing is left; the condition Deleting says what it waits for. The namespace itself
stays, with all that is not in the configured list (H11).
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings

from clusters import object_writer
from clusters.addons.addon_kinds import MANAGED_CLUSTER_ADDON, MANIFEST_WORK
from clusters.kinds import (
    CLUSTER_LABEL,
    MANAGED_CLUSTER,
    RESOURCE_CLEANUP,
    ConditionType,
    finalizers_of,
    is_deleting,
    label_of,
)
from clusters.models import ManagedCluster
from clusters.object_writer import CONTROLLER
from ocmconsole.core.kinds import NAMESPACE
from ocmconsole.kubeapi import errors, kinds, verbs
from ocmconsole.kubeapi.control import controllers, workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema.conditions import Condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind
    from ocmconsole.kubeapi.models import Resource

PRIORITY = "open-cluster-management.io/cleanup-priority"
LOOK_AGAIN = timedelta(seconds=5)  # while objects remain: agents take their finalizers off in seconds
NOTHING_LEFT = Condition(ConditionType.DELETING, "True", "NoResource", "No cleaned resource in cluster ns.")


def _is_held(doc: Doc) -> bool:
    return RESOURCE_CLEANUP in finalizers_of(doc)


def _is_on() -> bool:
    return bool(settings.OCMCONSOLE_FEATURE_GATES["ResourceCleanup"])


def _is_unsettled(doc: Doc) -> bool:
    """One that is being deleted, or is not held for the time when it will be."""
    return is_deleting(doc) or (_is_on() and not _is_held(doc))


def hold(doc: Doc) -> None:
    """H27: a live cluster gets the finalizer ``resource-cleanup`` (gate ResourceCleanup)."""
    if _is_on() and not is_deleting(doc):
        object_writer.with_finalizer(RESOURCE_CLEANUP, first=True)(doc)


def _let_go_or_going(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:
    """Not one that comes: the reconciler that gives it its first taint holds it in the same write."""
    return () if old is None else _moved(old, new, key)


_moved = controllers.changed(is_deleting, _is_held, only=_is_unsettled)


@controllers.reconciler(MANAGED_CLUSTER, keys=_let_go_or_going)
def reconcile_resource_cleanup(key: Key) -> timedelta | None:
    """H27 to H32: a cluster's namespace is cleared of add-ons and works before the cluster goes.

    1. A live cluster gets the finalizer ``resource-cleanup`` (gate ResourceCleanup).
    2. A cluster being deleted: the first kind of which objects remain is deleted, lowest priority first; condition
       Deleting reports it; look again.
    3. With nothing left, the finalizer is removed.
    4. A cluster that is gone: the same deletion without conditions (H30).

    Returns when to look again.
    """
    cluster = ManagedCluster.objects.at(key).first()
    if cluster is None:
        return _clean(key.name, None) if _is_on() and _is_cluster_namespace(key.name) else None  # H30
    if cluster.deleted_at is None:
        verbs.edit(CONTROLLER, MANAGED_CLUSTER, key, hold)
        return None
    if not _is_held(cluster.doc):
        return None
    if _is_on() and (again := _clean(key.name, cluster)) is not None:
        return again
    object_writer.drop_finalizer(MANAGED_CLUSTER, key, RESOURCE_CLEANUP)
    return None


def _is_cluster_namespace(name: str) -> bool:
    """A cluster that was never let in may have been called like somebody's namespace."""
    namespace = verbs.find(NAMESPACE, Key("", name))
    return namespace is not None and label_of(namespace, CLUSTER_LABEL) == name


def _clean(name: str, cluster: ManagedCluster | None) -> timedelta | None:
    """H28: kinds are deleted one after the other, in the configured order. None when nothing is left."""
    for kind in cleaned_kinds():
        left = list(kind.model.objects.filter(namespace=name))
        if left:
            problems = list(_delete_first(kind, left))
            _say(cluster, _failing(problems) if problems else _remaining(kind, left))
            return LOOK_AGAIN
    _say(cluster, NOTHING_LEFT)
    return None


def cleaned_kinds() -> Iterator[Kind]:
    """Types that are not served are skipped; an empty list is nothing to do (K26)."""
    for entry in settings.OCMCONSOLE_GC_RESOURCES:
        group, _, rest = entry.partition("/")
        version, _, plural = rest.partition("/")
        if (served := kinds.find_served(group, version, plural)) is not None:
            yield served.kind


def _remaining(kind: Kind, left: list[Resource]) -> Condition:
    pending = sum(bool(finalizers_of(row.doc)) for row in left)
    text = (
        f"The resource {kind.plural} is remaning, the remaining count is {len(left)}, "
        f"the finalizer pending count is {pending}"
    )
    return Condition(ConditionType.DELETING, "False", "ResourceRemaining", text)


def _failing(problems: list[str]) -> Condition:
    return Condition(ConditionType.DELETING, "False", "DeletingError", "\n".join(problems))


def _delete_first(kind: Kind, left: list[Resource]) -> Iterator[str]:
    """Only those of the lowest priority; the next ones follow when they are gone. Yields what went wrong."""
    first = min(_priority(row) for row in left)
    for row in left:
        if row.deleted_at is not None or _priority(row) != first:
            continue
        try:
            verbs.delete(CONTROLLER, kind, row.key)
        except errors.NotFound:
            continue
        except errors.ApiError as error:
            yield error.message


def _priority(row: Resource) -> int:
    """0 is first; what is no number up to 100 counts as 0."""
    text = str((row.doc["metadata"].get("annotations") or {}).get(PRIORITY, ""))
    return int(text) if re.fullmatch("[0-9]{1,2}|100", text) else 0


def _say(cluster: ManagedCluster | None, condition: Condition) -> None:
    if cluster is not None:
        object_writer.report_condition(cluster.name, condition)


# ---------------------------------------------------------------- what others wait for


def _cluster_it_left(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    return (Key("", key.namespace),) if new is None else ()


@controllers.reconciler(MANAGED_CLUSTER_ADDON, keys=_cluster_it_left, also={MANIFEST_WORK: _cluster_it_left})
def reconcile_departure(key: Key) -> None:
    """H10, H28: when an add-on or a work is gone, the reconcilers that wait for the last one run at once.

    1. The work items ``acceptance`` and ``resource_cleanup`` of its cluster become due now.
    """
    workqueue.hurry(("acceptance", "resource_cleanup"), key)
