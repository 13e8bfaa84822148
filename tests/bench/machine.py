"""What Linux says of the processes that this one started: CPU seconds, memory; and of the machine they share.

A hub's servers (on PostgreSQL also the database, Redis and Celery) are all descendants of the benchmark, which asks
them from its own process, so that what the asking costs is never counted.
"""

from __future__ import annotations

import os
import platform
import resource
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
QUIET = 0.05
PATIENCE = 600.0


def cpu_seconds() -> float:
    """Of all descendants and the children that they have buried."""
    stats = _stats()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in stats.items():
        children.setdefault(parent, []).append(pid)
    ticks, waiting = 0, [os.getpid()]
    while waiting:
        found = children.get(waiting.pop(), [])
        ticks += sum(stats[pid][1] for pid in found)
        waiting += found
    return ticks / TICKS


def _stats() -> dict[int, tuple[int, int]]:
    """Parent and ticks of each process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        found[int(path.parent.name)] = int(fields[1]), sum(int(ticks) for ticks in fields[11:15])
    return found


def settle() -> None:
    """Wait until the servers have done what they owe, so that the next measurement does not pay for the last."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        before = cpu_seconds()
        time.sleep(0.5)
        if cpu_seconds() - before <= 0.5 * QUIET:
            return


def resident_kb(pid: int) -> int:
    """Memory of one process that is in use."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise ProcessLookupError(pid)


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def description() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} CPUs, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


def allow_many_files() -> int:
    """How many files this process may have open, now that it asked for all it can get."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
