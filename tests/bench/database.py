"""What the bench does to a hub's database behind the hub's back: leases are set back or ahead, graces are shortened.

Statements keep columns and wire text equal. Nothing of it is logged, so no watch sees it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from tests.hub import Hub

SQLITE_PATIENCE = 60.0  # seconds for the hub's own writers
BATCH = 500  # names of one statement
DIGITS = 27  # of a time such as 2026-01-31T12:00:00.000000Z
SECOND = 1_000_000  # microseconds
BEGINNING = -(10**17)  # as in ``clusters.health.uptime``

Ask = Callable[[str, Sequence[Any]], int]


@contextmanager
def writing(hub: Hub) -> Iterator[Ask]:
    """One transaction; statements have %s for their values and return how many rows they changed."""
    if url := hub.environment.get("OCMCONSOLE_DATABASE_URL"):
        with psycopg.connect(url) as postgres:
            yield lambda statement, values: postgres.execute(statement.encode(), values).rowcount
    else:
        with closing(
            sqlite3.connect(hub.home / "hub.sqlite3", timeout=SQLITE_PATIENCE, isolation_level=None)
        ) as sqlite:
            sqlite.execute("BEGIN IMMEDIATE")
            yield lambda statement, values: sqlite.execute(statement.replace("%s", "?"), values).rowcount
            sqlite.execute("COMMIT")
            sqlite.execute("PRAGMA wal_checkpoint(PASSIVE)")  # else the hub's next commit would pay for it


def beat(hub: Hub, names: Sequence[str] | None, ahead: timedelta) -> datetime:
    """Leases of these clusters, or of all, say that they were renewed so long after now; when that was committed."""
    moment = datetime.now(UTC) + ahead
    text = f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"
    at = round(moment.timestamp() * SECOND)
    place = "strpos" if "OCMCONSOLE_DATABASE_URL" in hub.environment else "instr"
    begin = f'{place}(wire, \'"renewTime":"\') + 13'
    change = f"wire = substr(wire, 1, {begin} - 1) || %s || substr(wire, {begin} + {DIGITS})"
    statement = f"UPDATE clusters_lease SET renew_time = %s, {change}"  # noqa: S608 - ours
    with writing(hub) as ask:
        for gaps in _other_gaps(hub):  # else a sweep asks the log whose lease moved
            ask("UPDATE clusters_serving SET gaps = %s", [gaps])
        if names is None:
            ask(statement, [at, text])
        for start in range(0, len(names or ()), BATCH):
            some = list(names or ())[start : start + BATCH]
            ask(f"{statement} WHERE namespace IN ({', '.join(['%s'] * len(some))})", [at, text, *some])
    return datetime.now(UTC)


def _other_gaps(hub: Hub) -> list[str]:
    """The hub's gaps (D17) with one more, without length, after the first; none of a hub that has not served."""
    with hub.reading() as ask:
        found = ask("SELECT gaps, since FROM clusters_serving")
    if not found:
        return []
    [(stored, since)] = found
    gaps = json.loads(stored) if isinstance(stored, str) else stored
    begun = since if isinstance(since, datetime) else datetime.fromisoformat(f"{since}+00:00")
    first, *others = gaps or [[BEGINNING, round(begun.timestamp() * SECOND)]]
    return [json.dumps([first, [first[1], first[1]], *others])]


def shorten_grace(hub: Hub, seconds: int) -> None:
    """Of all clusters: their leaseDurationSeconds, five of which they may be silent."""
    old, new = ('"leaseDurationSeconds":60', f'"leaseDurationSeconds":{seconds}')
    with writing(hub) as ask:
        ask("UPDATE clusters_managedcluster SET lease_duration_seconds = %s, wire = replace(wire, %s, %s)",
            [seconds, old, new])  # fmt: skip
