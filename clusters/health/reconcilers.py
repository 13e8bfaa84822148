"""Reconcilers of health: silence, clocks and the taints that follow (H15 to H21).

A heartbeat causes no work. ``tasks.sweep_leases`` finds what the passing of time has changed and writes it for many at
once (``verdicts``). What could not be written so the reconcilers here look at, for themselves; they may come late or
twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings

from clusters import object_writer
from clusters.acceptance import resource_cleanup
from clusters.health import hub_taints, uptime, verdicts
from clusters.kinds import (
    CLUSTER_LABEL,
    LEASE,
    LEASE_NAME,
    MANAGED_CLUSTER,
    SKIP_CLOCK_CHECK,
    ConditionType,
    conditions_of,
    is_deleting,
    label_of,
    spec_of,
    taints_of,
)
from clusters.models import Lease, ManagedCluster, Serving, Silence
from clusters.object_writer import CONTROLLER
from ocmconsole.core.kinds import NAMESPACE
from ocmconsole.kubeapi import admission, clock, errors, verbs
from ocmconsole.kubeapi.control import controllers
from ocmconsole.kubeapi.health import probes
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema import conditions

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

log = logging.getLogger(__name__)

LONGEST_PAUSE = timedelta(seconds=30)  # without a look at leases: then the clock counts as dead
LOOK_AGAIN = timedelta(seconds=5)  # while the namespace of a lease is missing or terminating


def _lease_seconds(doc: Doc) -> object:
    return spec_of(doc).get("leaseDurationSeconds")


def _skips_clock(doc: Doc) -> object:
    return (doc["metadata"].get("annotations") or {}).get(SKIP_CLOCK_CHECK)


def _was_accepted(doc: Doc) -> bool:
    """Whether the cluster has, or once had, a lease."""
    return conditions.find_condition(conditions_of(doc), ConditionType.ACCEPTED) is not None


def _clock(doc: Doc) -> str:
    return conditions.status_of(conditions_of(doc), ConditionType.CLOCK_SYNCED)


# ---------------------------------------------------------------- whether somebody looks


def clock_trouble() -> str:
    """Why silence would not be found: the clock looks at leases every two seconds. Empty when all is well."""
    seen = Serving.objects.values_list("seen", flat=True).first()
    if seen is not None and clock.now() - seen <= LONGEST_PAUSE:
        return ""
    since = "yet" if seen is None else f"since {seen:%d %b, %H:%M:%S} UTC"
    return f"nobody has looked at leases {since}: are worker and beat running?"


if settings.OCMCONSOLE_CONTROLLERS != "inline":
    probes.register("clock", clock_trouble, has_grace=True)


# ---------------------------------------------------------------- silence


def _lost_renewal(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:
    """A lease that went, or whose time was taken back, may be silence; a renewal never is."""
    if key.name != LEASE_NAME or old is None:
        return ()
    before = spec_of(old).get("renewTime") or ""
    after = (spec_of(new).get("renewTime") or "") if new is not None else ""
    return (Key("", key.namespace),) if after < before else ()


def _new_namespace(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:
    return (key,) if old is None and new is not None and label_of(new, CLUSTER_LABEL) else ()


@controllers.reconciler(
    MANAGED_CLUSTER,
    keys=controllers.changed(_was_accepted, is_deleting, _lease_seconds, only=_was_accepted),
    also={LEASE: _lost_renewal, NAMESPACE: _new_namespace},
)
def reconcile_lease_health(key: Key) -> timedelta | None:
    """H15, H16: Available becomes Unknown five lease durations after the last renewal; only the agent ends that (H17).

    1. A cluster that was never accepted has no lease and is skipped.
    2. A missing lease is created; while the cluster is being deleted it counts as silent instead.
    3. Before the grace period is over nothing is written.
    4. Then Available becomes Unknown, the renewal is recorded as silent (K46), and a Warning Event is written.

    Runs after changes of a cluster, its lease or its namespace. Time that runs out by itself is found by
    ``tasks.sweep_leases``, which leaves here what it could not write with others; only a renewal that was once called
    silent has a timer. Returns when to look again.
    """
    cluster = ManagedCluster.objects.at(key).first()
    if cluster is None:
        Silence.objects.filter(cluster=key.name).delete()
    if cluster is None or not cluster.accepted:
        return None
    lease = Lease.objects.at(Key(cluster.name, LEASE_NAME)).first()
    if lease is None and cluster.deleted_at is None:
        return _create_lease(cluster)
    if cluster.available == verdicts.SILENT.status:
        return None
    now = clock.now()
    renewed = lease.renew_time if lease is not None else None
    noted = Silence.objects.filter(cluster=cluster.name).first()
    left = verdicts.time_left(cluster, renewed, noted, now, uptime.serving_gaps(now))
    if lease is not None and left > timedelta():
        was_called_silent = noted is not None and noted.renew_time == renewed
        return left if was_called_silent else None  # then the sweep's arithmetic does not apply, and a timer does
    with verbs.batch(CONTROLLER) as batch:
        verdicts.silence_in(batch, cluster, renewed, now)
    return None


def _create_lease(cluster: ManagedCluster) -> timedelta | None:
    """H15: create the cluster's lease. Returns when to look again while its namespace is missing or terminating."""
    try:
        verbs.create(CONTROLLER, LEASE, object_writer.new_lease(cluster.name), namespace=cluster.name)
    except (errors.NotFound, errors.Forbidden):
        return LOOK_AGAIN
    return None


# ---------------------------------------------------------------- clocks


@controllers.reconciler(
    MANAGED_CLUSTER, keys=controllers.changed(_lease_seconds, _skips_clock, _clock, only=_was_accepted)
)
def reconcile_clock(key: Key) -> None:
    """H18 to H20: ClockSynced is True while the agent's clock differs by less than five lease durations.

    1. A cluster that was never accepted, or has sent no heartbeat, is skipped.
    2. The difference is that at the time when the renewal was written (K47), not when it is looked at.
    3. The condition is written when it flips; the annotation that skips the check counts as synchronous (H19).
    """
    cluster = ManagedCluster.objects.at(key).first()
    if cluster is None or not cluster.accepted:
        return
    skew = Lease.objects.at(Key(cluster.name, LEASE_NAME)).values_list("skew", flat=True).first()
    verdict = verdicts.clock_verdict(cluster, skew)
    if verdict is not None:
        verbs.together(CONTROLLER, lambda batch: verdicts.clock_in(batch, key, verdict))


# ---------------------------------------------------------------- taints


def _tainted_otherwise(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    return () if new is None or is_deleting(new) or hub_taints.called_for(new) == taints_of(new) else (key,)


@admission.companion(MANAGED_CLUSTER)
def taint_follows_report(batch: verbs.Batch, old: Doc | None, new: Doc | None) -> None:
    """H21: who says that a cluster is available, unavailable or silent changes the hub's taint with it.

    A cluster that comes is left to ``reconcile_taints``, so that its creator's next write meets the version it got.
    """
    if old is None or new is None or hub_taints.available(old) == hub_taints.available(new):
        return
    key = Key("", new["metadata"]["name"])
    if hub_taints.called_for(new) != taints_of(new):
        batch.acting_as(CONTROLLER).edit(MANAGED_CLUSTER, key, hub_taints.set_taint)
    batch.settled.add(("taints", key))


@controllers.reconciler(MANAGED_CLUSTER, keys=_tainted_otherwise)
def reconcile_taints(key: Key) -> None:
    """H21, H27: taint ``unreachable`` while Available is Unknown or absent, ``unavailable`` while it is False.

    1. A cluster that is gone or being deleted is left as it is; one that was never accepted is not (K41).
    2. The taint that Available calls for is added unless it is there.
    3. The hub's other taints are removed. Taints of others stay, in their order.
    4. A cluster that has just come gets its finalizer in the same write.
    """
    try:
        verbs.edit(CONTROLLER, MANAGED_CLUSTER, key, _take_care_of)
    except errors.NotFound:
        return


def _take_care_of(doc: Doc) -> None:
    resource_cleanup.hold(doc)
    hub_taints.set_taint(doc)
