"""Ten thousand clusters that fall silent at one moment: when the last is Unknown, and what all of it cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

from tests.bench import database, machine
from tests.bench.row import Row
from tests.bench.rows import Scale
from tests.bench.seeds import Seeds
from tests.hub import Hub

LEASE_SECONDS = 2  # of all clusters: who is silent is found ten seconds after the hub's start, and not five minutes
SERVING = 5 * LEASE_SECONDS + 2.0  # seconds that the hub must have served before silence counts (D17)
STEP = 0.5  # seconds between two looks, which the database pays for; when the last was written it says itself
PATIENCE = 120.0  # seconds, after which the rest is computed from what is done
HEARD = "hub_accepts_client AND available <> 'Unknown'"
TAINTED = """available = 'Unknown' AND wire LIKE '%"key":"cluster.open-cluster-management.io/unreachable"%'"""


def measure(made: Seeds, scale: Scale) -> Iterator[Row]:
    with made.hub(scale.clusters, first=partial(database.shorten_grace, seconds=LEASE_SECONDS)) as hub:
        time.sleep(SERVING)
        machine.settle()
        heard = _count(hub, HEARD)
        head, before = _head(hub), machine.cpu_seconds()
        began = database.beat(hub, None, timedelta(hours=-1))
        deadline = time.monotonic() + PATIENCE
        if _is_in_time(lambda: not _count(hub, HEARD), deadline):
            _is_in_time(lambda: _count(hub, TAINTED) >= heard, deadline)
        done = min(heard, _count(hub, TAINTED))
        if done >= heard:
            machine.settle()
        cpu, seconds = machine.cpu_seconds() - before, (_last(hub, head) - began).total_seconds()
        about = f"{done} of {heard} clusters: {seconds:.1f} s, {done / seconds:.0f}/s, {cpu:.1f} CPU s"
        scaled = "" if done == heard else "scaled from "
        yield Row("silent_10000_s", seconds * heard / max(1, done), f"{scaled}{about}")
        yield Row("silent_cpu_ms", 1000 * cpu / max(1, done), about)


def _is_in_time(is_done: Callable[[], bool], deadline: float) -> bool:
    while not is_done():
        if time.monotonic() > deadline:
            return False
        time.sleep(STEP)
    return True


def _count(hub: Hub, condition: str) -> int:
    with hub.reading() as ask:
        return int(ask(f"SELECT count(*) FROM clusters_managedcluster WHERE {condition}")[0][0])  # noqa: S608 - ours


def _head(hub: Hub) -> int:
    with hub.reading() as ask:
        return int(ask("SELECT coalesce(max(revision), 0) FROM kubeapi_change")[0][0])


def _last(hub: Hub, head: int) -> datetime:
    """When a cluster was written last, as the change log says."""
    resource = "managedclusters.cluster.open-cluster-management.io"
    with hub.reading() as ask:
        [(last,)] = ask(
            f"SELECT max(time) FROM kubeapi_change WHERE resource = '{resource}' AND revision > {head}"  # noqa: S608 - ours
        )
    return moment(last)


def moment(value: object) -> datetime:
    """A time as either database gives it."""
    found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return found if found.tzinfo else found.replace(tzinfo=UTC)
