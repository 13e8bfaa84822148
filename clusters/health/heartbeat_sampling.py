"""The looks at all heartbeats, once a minute, and what is kept of them. The only writer of their history.

A look needs two statements and writes the rows that it changes: those of clusters that are worse than the cell says,
and all of them when a cell begins, some hundreds in one transaction, so that heartbeats get in between. It writes
nothing when it is repeated. In plain SQL: of 100,000 clusters the ORM's looks took six seconds of each minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from django.db import connection

from clusters.health import heartbeat_history
from clusters.health.heartbeat_history import KEPT, NO_CELLS, NO_SKEWS, Level
from clusters.kinds import LEASE_NAME, SECOND, microseconds
from clusters.models import FleetMinute, HeartbeatDay, Transition
from ocmconsole.kubeapi import write_queue
from ocmconsole.kubeapi.storage import plain_sql

MOST_AT_ONCE = 500  # rows of one transaction
# Until a hub that has just begun to serve has met every agent, it cannot count who is missing.
PATIENCE = timedelta(minutes=2)
_EXPECTED = """SELECT cluster.name, cluster.created, cluster.lease_duration_seconds, lease.renew_time, lease.skew
               FROM clusters_managedcluster cluster
               LEFT JOIN clusters_lease lease ON lease.namespace = cluster.name AND lease.name = %s
               WHERE cluster.hub_accepts_client AND cluster.joined = 'True'"""
_STORED = "SELECT cluster, cells, skews FROM clusters_heartbeatday WHERE day = %s"


class HeartbeatReading(NamedTuple):
    """A cluster whose heartbeats are expected, and how well it is heard; the clock's difference if that is fresh."""

    cluster: str
    level: Level
    skew: int | None


def note_heartbeats(now: datetime, since: datetime) -> None:
    """Note how well every expected cluster is heard (D17): ``since`` is when the hub began to serve."""
    seen = list(_expected(now, since))
    store(*heartbeat_history.cell_of(now), now.hour, [each for each in seen if each.level is not Level.UNKNOWN])
    if now - since >= PATIENCE:
        minute = now.replace(second=0, microsecond=0)
        heard = sum(each.level is Level.FULL for each in seen)
        looked = FleetMinute(minute=minute, heard=heard, expected=len(seen))
        FleetMinute.objects.bulk_create([looked], ignore_conflicts=True)


def _expected(now: datetime, since: datetime) -> Iterator[HeartbeatReading]:
    """Those that are let in and have joined. A heartbeat counts when it came, whatever the agent's clock said (K47)."""
    began, at = microseconds(since), microseconds(now)
    hour = microseconds(now.replace(minute=0, second=0, microsecond=0))
    for name, created, lease, renewed, skew in plain_sql.rows(_EXPECTED, LEASE_NAME):
        when = None if renewed is None or skew is None else renewed + skew
        # An earlier cluster of this name may have left the lease.
        mine = when if when is not None and when >= microseconds(_time(created)) else None
        fresh = skew if mine is not None and mine >= hour else None
        yield HeartbeatReading(name, heartbeat_history.level(mine, began, at, lease * SECOND), fresh)


def _time(value: object) -> datetime:
    """A time as either database gives it."""
    found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def store(day: date, index: int, hour: int, seen: list[HeartbeatReading]) -> None:
    """Put what was seen into the cell; rows that say it already are left alone."""
    rows = plain_sql.rows(_STORED, connection.ops.adapt_datefield_value(day))
    stored = {cluster: (bytes(cells), bytes(skews)) for cluster, cells, skews in rows}
    changed = []
    for each in seen:
        cells, skews = before = stored.get(each.cluster, (NO_CELLS, NO_SKEWS))
        after = (
            heartbeat_history.worsened(cells, index, each.level),
            skews if each.skew is None else heartbeat_history.sampled(skews, hour, each.skew),
        )
        if after != before:
            changed.append(HeartbeatDay(cluster=each.cluster, day=day, cells=after[0], skews=after[1]))
    store_readings(changed)


def store_readings(rows: list[HeartbeatDay]) -> None:
    """In many transactions, between which heartbeats get in: each waits for its turn."""
    for start in range(0, len(rows), MOST_AT_ONCE):
        with write_queue.forgettable():
            HeartbeatDay.objects.bulk_create(
                rows[start : start + MOST_AT_ONCE],
                update_conflicts=True,
                unique_fields=["cluster", "day"],
                update_fields=["cells", "skews"],
            )


def delete_old_heartbeats(now: datetime) -> None:
    """What is older than anybody can see."""
    for old in (
        HeartbeatDay.objects.filter(day__lt=(now - KEPT).date()),
        FleetMinute.objects.filter(minute__lt=now - KEPT),
        Transition.objects.filter(at__lt=now - KEPT),
    ):
        with write_queue.forgettable():
            old.delete()
