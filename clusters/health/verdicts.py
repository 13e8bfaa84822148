"""Verdicts on clusters: silent (H16), and whether their clocks agree (H18); of one, and of many at once.

Pure arithmetic of one cluster's heartbeat, and what a batch gets where a verdict has moved. ``tasks.sweep_leases`` has
many written together, the reconcilers one at a time what could not be written so; the rows are the same.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from clusters import object_writer
from clusters.health import hub_taints, status, uptime
from clusters.kinds import LEASE_NAME, MANAGED_CLUSTER, SECOND, ConditionType, microseconds
from clusters.models import Lease, ManagedCluster, Silence
from clusters.object_writer import CONTROLLER
from ocmconsole.core.event_documents import event_document, object_reference
from ocmconsole.core.kinds import EVENT, NAMESPACE
from ocmconsole.kubeapi import errors, many_writes
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema.conditions import Condition
from ocmconsole.kubeapi.writes.amendments import Alike

if TYPE_CHECKING:
    from clusters.health.uptime import Gap
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.verbs import Batch

log = logging.getLogger(__name__)

OF_SILENCE = (("status", "conditions"), ("spec", "taints"))  # all that it writes of a cluster
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


# ---------------------------------------------------------------- silence


def time_left(
    cluster: ManagedCluster, renewed: int | None, noted: Silence | None, now: datetime, gaps: list[Gap]
) -> timedelta:
    """Until the grace period of the last renewal is over; zero or less when it is.

    K46: for a renewal that was recorded as silent, the period starts again at that record, so that an agent that
    reports without renewing does not make Available flap.
    """
    heard = renewed or 0
    if noted is not None and noted.renew_time == renewed:
        heard = max(heard, microseconds(noted.at))
    grace = status.silence_grace(cluster.lease_duration_seconds)
    missed = uptime.missed_microseconds(gaps, heard)
    return grace + timedelta(microseconds=heard + missed - microseconds(now))


def silence_in(
    batch: Batch, cluster: ManagedCluster, renewed: int | None, now: datetime, events: Alike | None = None
) -> None:
    """H16, H21, H44: Available is Unknown, with the taint, in one write where that can be. A Warning Event says so.

    The renewal is recorded as silent (K46). ``events``: those of other clusters that fall silent at the same moment.
    """
    silenced, version = object_writer.set_condition(SILENT), str(cluster.resource_version)

    def tainted(doc: Doc) -> None:
        silenced(doc)
        hub_taints.set_taint(doc)

    if not batch.amend(MANAGED_CLUSTER, cluster.key, tainted, OF_SILENCE, expect=version):
        batch.edit(MANAGED_CLUSTER, cluster.key, silenced, subresource="status", expect=version)
    batch.records.append(lambda: Silence(cluster=cluster.name, renew_time=renewed, at=now))
    _warn(batch, cluster, now, events)


def _warn(batch: Batch, cluster: ManagedCluster, now: datetime, events: Alike | None) -> None:
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
        batch.create(EVENT, event, namespace=cluster.name, alike=events)
    except errors.ApiError as error:
        log.warning("no event about %s: %s", cluster.name, error.message)


def call_silent(names: Sequence[str], now: datetime, gaps: list[Gap]) -> list[str]:
    """H16: those of the clusters whose grace period is over become Unknown, with what follows from that.

    Returns those that could not be written with others, or need another look: one without a lease (H15), one whose
    period starts again (K46).
    """
    silencing = _Silencing(now, gaps)
    left = many_writes.write_each(CONTROLLER, [Key("", name) for name in names], silencing.read, silencing.compose)
    return [key.name for key in left]


@dataclass
class _Silencing:
    now: datetime
    gaps: list[Gap]
    clusters: Mapping[Key, ManagedCluster] = field(default_factory=dict)
    renewals: Mapping[str, int | None] = field(default_factory=dict)
    noted: Mapping[str, Silence] = field(default_factory=dict)
    events: Alike = field(default_factory=Alike)

    def read(self, batch: Batch, keys: Collection[Key]) -> None:
        names = [key.name for key in keys]
        self.clusters = batch.read(MANAGED_CLUSTER, keys)
        batch.read(NAMESPACE, keys)  # of the Events
        self.renewals = _of_leases(names, "renew_time")
        self.noted = Silence.objects.in_bulk(names)

    def compose(self, batch: Batch, key: Key) -> None:
        cluster, name = self.clusters.get(key), key.name
        if cluster is None or (name not in self.renewals and cluster.deleted_at is None):
            raise many_writes.LeftOut
        if not cluster.accepted or cluster.available == SILENT.status:
            return
        renewed = self.renewals.get(name)
        has_lease = name in self.renewals
        if has_lease and time_left(cluster, renewed, self.noted.get(name), self.now, self.gaps) > timedelta():
            raise many_writes.LeftOut
        silence_in(batch, cluster, renewed, self.now, self.events)


def _of_leases(names: Sequence[str], column: str) -> dict[str, int | None]:
    """A column of the clusters' leases, by name; those without a lease are not in it."""
    return dict(Lease.objects.filter(namespace__in=names, name=LEASE_NAME).values_list("namespace", column))


# ---------------------------------------------------------------- clocks


def clock_verdict(cluster: ManagedCluster, skew: int | None) -> Condition | None:
    """H18, H19: what ClockSynced must become; None where it may stay, or no heartbeat has come yet."""
    if not cluster.accepted or skew is None:
        return None
    limit = status.GRACE_LEASES * cluster.lease_duration_seconds * SECOND
    verdict = SYNCED if cluster.ignores_clock or abs(skew) < limit else OUT_OF_SYNC
    return verdict if cluster.clock_synced != verdict.status else None


def judge_clocks(names: Sequence[str]) -> list[str]:
    """H18: ClockSynced of the clusters says what their last heartbeats do. Returns those that were not written."""
    clocks = _Clocks()
    left = many_writes.write_each(CONTROLLER, [Key("", name) for name in names], clocks.read, clocks.compose)
    return [key.name for key in left]


@dataclass
class _Clocks:
    clusters: Mapping[Key, ManagedCluster] = field(default_factory=dict)
    skews: Mapping[str, int | None] = field(default_factory=dict)

    def read(self, batch: Batch, keys: Collection[Key]) -> None:
        self.clusters = batch.read(MANAGED_CLUSTER, keys)
        self.skews = _of_leases([key.name for key in keys], "skew")

    def compose(self, batch: Batch, key: Key) -> None:
        cluster = self.clusters.get(key)
        verdict = clock_verdict(cluster, self.skews.get(key.name)) if cluster is not None else None
        if verdict is not None:
            clock_in(batch, key, verdict)


def clock_in(batch: Batch, key: Key, verdict: Condition) -> None:
    """H18: the condition is written, and nothing is left to be looked at."""
    batch.edit(MANAGED_CLUSTER, key, object_writer.set_condition(verdict), subresource="status", verb="patch")
    batch.settled.add(("clock", key))
