"""Reconcilers of ClusterProfiles (I4 to I12): one in each namespace for each member of a set that is bound there.

A change of a cluster concerns its own few profiles, which one piece of work compares and writes. A change of a binding
or set concerns a namespace, whose clusters are gone through in the order of their names, some hundreds at a time, so
that other work has its turns and 10,000 profiles are some dozens of transactions.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings

from clusters.kinds import MANAGED_CLUSTER, conditions_of, spec_of
from clusters.models import ManagedCluster
from clustersets import membership
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from clustersets.models import ClusterProfile, ManagedClusterSet, ManagedClusterSetBinding
from clustersets.profiles import profile_contents
from clustersets.profiles.profile_kinds import CLUSTER_PROFILE, is_on
from ocmconsole.core.event_documents import event_document, object_reference
from ocmconsole.core.kinds import EVENT
from ocmconsole.core.models import Namespace
from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.control.controllers import changed, reconciler
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema import conditions
from ocmconsole.kubeapi.storage import plain_sql, selector_sql

if TYPE_CHECKING:
    from clustersets.membership import Membership
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.models import ResourceQuerySet
    from ocmconsole.kubeapi.verbs import Batch

log = logging.getLogger(__name__)

CONTROLLER = Actor.controller("clusterprofiles")
BOUND = "Bound"  # type of the condition of a binding
AT_ONCE = 200  # clusters of one transaction: about half a second, during which other writers wait
MOST_EVENTS = 10  # of one look at names that are taken: no binding needs more to be understood


class Wanted(NamedTuple):
    """A profile that should be there: the cluster's document, and the name of a binding that brings it."""

    cluster: Doc
    binding: str


def is_anything_bound() -> bool:
    """Without bindings no change of a cluster or set is work."""
    return is_on() and plain_sql.is_there(ManagedClusterSetBinding)


# ---------------------------------------------------------------- what is wanted


def _is_bound(binding: Doc) -> bool:
    return conditions.status_of(conditions_of(binding), BOUND) == "True"


def _memberships(names: Iterable[str]) -> list[Membership]:
    """Of the sets with these names that exist, in the order of their names."""
    rows = ManagedClusterSet.objects.filter(name__in=names).order_by("name")
    return [membership.membership_of(row.doc) for row in rows]


def _bound_sets(namespace: str) -> list[Membership]:
    """I4: sets that exist and have a binding in the namespace whose condition Bound is True."""
    bindings = ManagedClusterSetBinding.objects.filter(namespace=namespace)
    return _memberships({row.cluster_set for row in bindings if _is_bound(row.doc)})


def _namespaces_of(cluster: ManagedCluster) -> dict[str, str]:
    """I4: namespaces that want a profile of the cluster, each with the name of a binding that brings it."""
    bound = ManagedClusterSetBinding.objects.values_list("cluster_set", flat=True).distinct()
    sets = membership.sets_of(cluster.labels, _memberships(bound))
    bindings = ManagedClusterSetBinding.objects.filter(cluster_set__in=sets).order_by("-name")
    return {row.namespace: row.name for row in bindings if _is_bound(row.doc)}


def _open(namespaces: Iterable[str]) -> set[str]:
    """I7: those that exist and are not terminating."""
    return set(Namespace.objects.filter(name__in=namespaces, deleted_at=None).values_list("name", flat=True))


# ---------------------------------------------------------------- one cluster


def _labels(doc: Doc) -> object:
    return doc["metadata"].get("labels")


def _version(doc: Doc) -> object:
    return (doc.get("status") or {}).get("version")


def _health(doc: Doc) -> list[object]:
    """Status, reason and message of the conditions that profiles repeat."""
    found = (conditions.find_condition(conditions_of(doc), type_) or {} for type_ in profile_contents.MIRRORED)
    return [tuple(each.get(part) for part in ("status", "reason", "message")) for each in found]


def _addresses(doc: Doc) -> object:
    return settings.OCMCONSOLE_ACCESS_PROVIDER and spec_of(doc).get("managedClusterClientConfigs")


def _is_leaving(doc: Doc) -> bool:
    return bool(doc["metadata"].get("deletionTimestamp"))


def _own_part(doc: Doc) -> object:
    """Of a profile, what this hub keeps: what others add to its status is no reason to look again."""
    status = doc.get("status") or {}
    said = [each for each in conditions_of(doc) if each.get("type") in profile_contents.MIRRORED.values()]
    return status.get("version"), status.get("properties"), said, _own_provider(status)


def _own_provider(status: Doc) -> list[Doc]:
    name = settings.OCMCONSOLE_ACCESS_PROVIDER
    return [each for each in status.get("accessProviders") or () if name and each["name"] == name]


@reconciler(
    MANAGED_CLUSTER,
    keys=changed(_labels, profile_contents.properties_of, _version, _health, _addresses, _is_leaving),
    is_wanted=is_anything_bound,
)
def reconcile_cluster_profiles(key: Key) -> None:
    """I4 to I12: the profiles of one cluster, in all namespaces, are those that are wanted and say what it says.

    1. Wanted is one in each namespace with a bound set of the cluster, none while it is being deleted (I4).
    2. Namespaces that are gone or terminating are left alone (I7).
    3. Profiles are created, mended and deleted in one transaction; those of other managers stay (I6).
    """
    _compare(key.name, ClusterProfile.objects.filter(name=key.name))


def _itself(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:
    """A profile that came or went, or whose own part somebody has changed."""
    if old is not None and new is not None and (_labels(old), _own_part(old)) == (_labels(new), _own_part(new)):
        return ()
    return (key,)


@reconciler(CLUSTER_PROFILE, keys=_itself, is_wanted=is_on)
def reconcile_profile(key: Key) -> None:
    """I5, I6, I8: a profile that others have created, changed or deleted is made what it should be.

    1. Whether it is wanted is read, as for all profiles of its cluster.
    2. It is created, mended or deleted; one of another manager stays.
    """
    _compare(key.name, ClusterProfile.objects.at(key), key.namespace)


def _compare(name: str, rows: Iterable[ClusterProfile], only: str = "") -> None:
    """Make the profiles of a cluster the wanted ones, in all namespaces or one. ``rows``: those that are there."""
    if not is_on():
        return
    present = list(rows)  # first, so that no newer profile is overwritten with what an older cluster said: Conflict
    cluster = ManagedCluster.objects.at(Key("", name)).first()
    places = _namespaces_of(cluster) if cluster is not None and cluster.deleted_at is None else {}
    places = {namespace: binding for namespace, binding in places.items() if only in {"", namespace}}
    namespaces = _open({*places, *(row.namespace for row in present)})
    wanted = {
        Key(namespace, name): Wanted(cluster.doc, binding)
        for namespace, binding in places.items()
        if cluster is not None and namespace in namespaces
    }
    _write(wanted, [row for row in present if row.namespace in namespaces])


# ---------------------------------------------------------------- one namespace


def _its_namespace(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:
    """A binding that came or went, or became bound or not."""
    if old is not None and new is not None and _is_bound(old) == _is_bound(new):
        return ()
    return (Key(key.namespace, ""),)


@reconciler(MANAGED_CLUSTER_SET_BINDING, keys=_its_namespace, is_wanted=is_on)
def reconcile_namespace_profiles(key: Key) -> None:
    """I4 to I12: the profiles of a namespace are those of all clusters that its bound sets bring.

    The key's name is where to go on: clusters and profiles with later names are looked at, ``AT_ONCE`` of them.

    1. A namespace that is gone or terminating is left alone (I7).
    2. Profiles are created, mended and deleted in one transaction; those of other managers stay (I6).
    3. While there are more, the next piece is put into the queue behind all other work.
    """
    namespace, after = key
    if not is_on() or not _open([namespace]):
        return
    rows = _next(ClusterProfile.objects.filter(namespace=namespace), after)  # first, as above
    sets = _bound_sets(namespace)
    members = reduce(or_, (each.condition() for each in sets), selector_sql.NOTHING)
    found = _next(ManagedCluster.objects.filter(members, deleted_at=None), after)
    ends = [each[-1].name for each in (found, rows) if len(each) == AT_ONCE]
    end = min(ends, default=None)
    _write(
        {
            Key(namespace, row.name): Wanted(row.doc, membership.sets_of(row.labels, sets)[0])
            for row in found
            if end is None or row.name <= end
        },
        [row for row in rows if end is None or row.name <= end],
    )
    if end is not None:
        queue([Key(namespace, end)])


def _next(rows: ResourceQuerySet, after: str) -> list[Any]:
    return list(rows.filter(name__gt=after).order_by("name")[:AT_ONCE])


@reconciler(
    MANAGED_CLUSTER_SET, keys=changed(lambda doc: spec_of(doc).get("clusterSelector")), is_wanted=is_anything_bound
)
def reconcile_set_profiles(key: Key) -> None:
    """I8: the namespaces of a set that came, went, or selects otherwise are gone through.

    1. Bindings are read now, after the commit, so that one which is created beside it is not missed.
    2. Their namespaces are put into the queue.
    """
    rows = ManagedClusterSetBinding.objects.filter(cluster_set=key.name)
    queue(Key(namespace, "") for namespace in rows.values_list("namespace", flat=True))


def queue(keys: Iterable[Key]) -> None:
    workqueue.put({("namespace_profiles", key) for key in keys}, clock.now())
    workqueue.poke()


def queue_all() -> None:
    """D25: go through all namespaces that have bindings or profiles, for the start of a hub.

    The gate and the name of the access provider may have been others until now.
    """
    if is_on():
        bound = ManagedClusterSetBinding.objects.values_list("namespace", flat=True)
        described = ClusterProfile.objects.values_list("namespace", flat=True)
        queue(Key(namespace, "") for namespace in {*bound.distinct(), *described.distinct()})


# ---------------------------------------------------------------- what is written


def _write(wanted: Mapping[Key, Wanted], rows: Iterable[ClusterProfile]) -> None:
    """Make ``rows``, which are all that there is of these profiles, the wanted ones.

    Raises Conflict, NotFound or AlreadyExists where others have written meanwhile; then nothing is written.
    """
    taken: list[Key] = []
    with verbs.batch(CONTROLLER) as batch:
        missing = dict(wanted)
        for row in rows:
            key, doc = row.key, row.doc
            batch.has_read(CLUSTER_PROFILE, row)
            batch.settled.add(("profile", key))
            found = missing.pop(key, None)
            if found is None:
                if profile_contents.is_labelled(row.labels) and row.deleted_at is None:
                    batch.delete(CLUSTER_PROFILE, key)
            elif not profile_contents.is_managed(doc):
                taken.append(key)
            elif row.deleted_at is None:
                _mend(batch, key, found.cluster, doc)
        for key, (cluster, _) in missing.items():
            batch.settled.add(("profile", key))
            batch.create(CLUSTER_PROFILE, profile_contents.new_profile(cluster), namespace=key.namespace)
            _describe(batch, key, cluster, {})
    for key in taken[:MOST_EVENTS]:
        _warn(key, wanted[key].binding)


def _mend(batch: Batch, key: Key, cluster: Doc, present: Doc) -> None:
    labels = profile_contents.labels_for(cluster)
    found = present["metadata"].get("labels") or {}
    if not labels.items() <= found.items():
        batch.edit(CLUSTER_PROFILE, key, lambda doc: doc["metadata"].update(labels=found | labels))
    _describe(batch, key, cluster, present.get("status") or {})


def _describe(batch: Batch, key: Key, cluster: Doc, present: Doc) -> None:
    status = profile_contents.status_for(cluster, present, settings.OCMCONSOLE_ACCESS_PROVIDER)
    if status != present:
        batch.edit(CLUSTER_PROFILE, key, lambda doc: doc.update(status=status), subresource="status")


def _warn(key: Key, binding: str) -> None:
    """I6: an Event on the binding. Its name is that of the finding, so that it is there once until it expires."""
    row = ManagedClusterSetBinding.objects.at(Key(key.namespace, binding)).first()
    name = f"{binding}.{hashlib.sha256(key.name.encode()).hexdigest()[:16]}"
    if row is None or verbs.find(EVENT, Key(key.namespace, name)) is not None:
        return
    event = event_document(
        name,
        object_reference(MANAGED_CLUSTER_SET_BINDING, binding, key.namespace, row.uid),
        type_="Warning",
        reason="ClusterProfileExists",
        action="CreateClusterProfile",
        message=f"ClusterProfile {key.name} belongs to another cluster manager and is left as it is",
        reporter="clusterprofile-controller",
        now=clock.now(),
    )
    try:
        verbs.create(CONTROLLER, EVENT, event, namespace=key.namespace)
    except errors.ApiError as error:  # no state depends on it
        log.warning("no event about %s: %s", key, error.message)
