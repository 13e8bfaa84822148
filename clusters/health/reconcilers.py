"""Reconcilers of health: silence, clocks and the taints that follow (H15 to H21).

A heartbeat causes no work. ``tasks.sweep_leases`` finds with one query what the passing of time has changed and asks
the reconcilers here to look; they look for themselves and may come late or twice.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.conf import settings

from clusters import object_writer
from clusters.acceptance import resource_cleanup
from clusters.health import status, uptime
from clusters.kinds import (
    CLUSTER_LABEL,
    LEASE,
    LEASE_NAME,
    MANAGED_CLUSTER,
    SECOND,
    SKIP_CLOCK_CHECK,
    UNAVAILABLE_TAINT,
    UNREACHABLE_TAINT,
    ConditionType,
    conditions_of,
    is_deleting,
    is_hub_taint,
    is_same_taint,
    label_of,
    microseconds,
    spec_of,
    taints_of,
)
from clusters.models import Lease, ManagedCluster, Serving, Silence
from clusters.object_writer import CONTROLLER
from ocmconsole.core.event_documents import event_document, object_reference
from ocmconsole.core.kinds import EVENT, NAMESPACE
from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.control import controllers
from ocmconsole.kubeapi.health import probes
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema import conditions
from ocmconsole.kubeapi.schema.conditions import Condition

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

log = logging.getLogger(__name__)

LONGEST_PAUSE = timedelta(seconds=30)  # without a look at leases: then the clock counts as dead
LOOK_AGAIN = timedelta(seconds=5)  # while the namespace of a lease is missing or terminating

SILENT = Condition(
    ConditionType.AVAILABLE,
    "Unknown",
    "ManagedClusterLeaseUpdateStopped",
    "Registration agent stopped updating its lease.",
)
SYNCED = Condition(
    ConditionType.CLOCK_SYNCED,
    "True",
    "ManagedClusterClockSynced",
    "The clock of the managed cluster is synced with the hub.",
)
OUT_OF_SYNC = Condition(
    ConditionType.CLOCK_SYNCED,
    "False",
    "ManagedClusterClockOutOfSync",
    "The clock of hub and agent is out of sync. This may cause the Unknown status and affect agent functionalities.",
)


def _lease_seconds(doc: Doc) -> object:
    return spec_of(doc).get("leaseDurationSeconds")


def _skips_clock(doc: Doc) -> object:
    return (doc["metadata"].get("annotations") or {}).get(SKIP_CLOCK_CHECK)


def _was_accepted(doc: Doc) -> bool:
    """Whether the cluster has, or once had, a lease."""
    return conditions.find_condition(conditions_of(doc), ConditionType.ACCEPTED) is not None


def _available(doc: Doc) -> str:
    return conditions.status_of(conditions_of(doc), ConditionType.AVAILABLE)


def _clock(doc: Doc) -> str:
    return conditions.status_of(conditions_of(doc), ConditionType.CLOCK_SYNCED)


def grace_of(cluster: ManagedCluster) -> timedelta:
    return status.silence_grace(cluster.lease_duration_seconds)


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
    keys=controllers.changed(_was_accepted, is_deleting, _lease_seconds, _available, only=_was_accepted),
    also={LEASE: _lost_renewal, NAMESPACE: _new_namespace},
)
def reconcile_lease_health(key: Key) -> timedelta | None:
    """H15, H16: Available becomes Unknown five lease durations after the last renewal; only the agent ends that (H17).

    1. A cluster that was never accepted has no lease and is skipped.
    2. A missing lease is created; while the cluster is being deleted it counts as silent instead.
    3. Before the grace period is over nothing is written.
    4. Then Available becomes Unknown, the renewal is recorded as silent (K46), and a Warning Event is written.

    Returns when to look again.
    """
    cluster = ManagedCluster.objects.at(key).first()
    if cluster is None:
        Silence.objects.filter(cluster=key.name).delete()
    if cluster is None or not cluster.accepted:
        return None
    lease = Lease.objects.at(Key(cluster.name, LEASE_NAME)).first()
    if lease is None and cluster.deleted_at is None:
        return _create_lease(cluster)
    if cluster.available == SILENT.status:
        return None
    now = clock.now()
    if lease is not None and (left := _time_left(cluster, lease, now)) > timedelta():
        return left if _was_called_silent(cluster, lease) else None
    _call_silent(cluster, lease, now)
    return None


def _create_lease(cluster: ManagedCluster) -> timedelta | None:
    """H15: create the cluster's lease. Returns when to look again while its namespace is missing or terminating."""
    try:
        verbs.create(CONTROLLER, LEASE, object_writer.new_lease(cluster.name), namespace=cluster.name)
    except (errors.NotFound, errors.Forbidden):
        return LOOK_AGAIN
    return None


def _time_left(cluster: ManagedCluster, lease: Lease, now: datetime) -> timedelta:
    """Until the grace period of the last renewal is over; zero or less when it is.

    K46: for a renewal that was recorded as silent, the period starts again at that record, so that an agent that
    reports without renewing does not make Available flap.
    """
    heard = lease.renew_time or 0
    silence = Silence.objects.filter(cluster=cluster.name, renew_time=lease.renew_time).first()
    if silence is not None:
        heard = max(heard, microseconds(silence.at))
    missed = uptime.missed_microseconds(uptime.serving_gaps(now), heard)
    return grace_of(cluster) + timedelta(microseconds=heard + missed - microseconds(now))


def _was_called_silent(cluster: ManagedCluster, lease: Lease) -> bool:
    """Then the sweep's arithmetic does not apply, and a timer does."""
    return Silence.objects.filter(cluster=cluster.name, renew_time=lease.renew_time).exists()


def _call_silent(cluster: ManagedCluster, lease: Lease | None, now: datetime) -> None:
    renewed = lease.renew_time if lease is not None else None
    with verbs.batch(CONTROLLER) as batch:
        batch.edit(
            MANAGED_CLUSTER,
            cluster.key,
            object_writer.set_condition(SILENT),
            subresource="status",
            expect=str(cluster.resource_version),
        )
        batch.records.append(lambda: Silence(cluster=cluster.name, renew_time=renewed, at=now))
    _warn(cluster, now)


def _warn(cluster: ManagedCluster, now: datetime) -> None:
    """H44: an Event about a cluster is in the cluster's namespace. A failure is logged only: no state depends on it."""
    event = event_document(
        f"{cluster.name}.{secrets.token_hex(8)}",
        object_reference(MANAGED_CLUSTER, cluster.name, cluster.name, cluster.uid),
        type_="Warning",
        reason="AvailableUnknown",
        action="AvailableUnknown",
        message=f"The {cluster.name} is successfully imported. However, the connection check from the managed "
        "cluster to the hub cluster has failed",
        reporter="registration-controller",
        now=now,
    )
    try:
        verbs.create(CONTROLLER, EVENT, event, namespace=cluster.name)
    except errors.ApiError as error:
        log.warning("no event about %s: %s", cluster.name, error.message)


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
    if skew is None:
        return  # no heartbeat yet
    limit = status.GRACE_LEASES * cluster.lease_duration_seconds * SECOND
    verdict = SYNCED if cluster.ignores_clock or abs(skew) < limit else OUT_OF_SYNC
    if cluster.clock_synced != verdict.status:
        object_writer.report_condition(cluster.name, verdict)


# ---------------------------------------------------------------- taints


def _taints_called_for(doc: Doc) -> list[Doc]:
    """Others' taints stay, in their order."""
    wanted = {"True": None, "False": UNAVAILABLE_TAINT}.get(_available(doc), UNREACHABLE_TAINT)
    kept = [taint for taint in taints_of(doc) if not is_hub_taint(taint) or (wanted and is_same_taint(taint, wanted))]
    if wanted is not None and not any(is_same_taint(taint, wanted) for taint in kept):
        kept.append(dict(wanted))
    return kept


def _tainted_otherwise(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    return () if new is None or is_deleting(new) or _taints_called_for(new) == taints_of(new) else (key,)


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
    _taint(doc)


def _taint(doc: Doc) -> None:
    wanted = _taints_called_for(doc)
    if is_deleting(doc) or wanted == taints_of(doc):
        return
    if wanted:
        doc.setdefault("spec", {})["taints"] = wanted
    else:
        doc["spec"].pop("taints")
