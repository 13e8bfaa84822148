"""What Linux says of the processes that this one started: CPU seconds, memory; and of the machine they share.

A hub's servers (on PostgreSQL also the database, Redis and Celery) are all descendants of the benchmark, which asks
them from its own process, so that what the asking costs is never counted.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import orjson

TICKS = os.sysconf("SC_CLK_TCK")
QUIET = 0.05  # of a core: the servers rest
CALM, CALM_LOOKS = 0.15, 6  # of a core, in so many looks one after the other: so much their clock may take
PATIENCE = 600.0  # seconds
LOOK = 0.5  # seconds between two looks at whether the servers rest
YARDSTICK = {"metadata": {"name": "yardstick", "labels": {f"label-{number}": "value" for number in range(40)}}}
ROUNDS = 20_000  # of the yardstick, some 0.1 s
asking: set[int] = set()  # processes that ask, whose CPU time and memory are not the hub's


def cpu_seconds() -> float:
    """Of all descendants and the children that they have buried."""
    stats = _stats()
    return sum(stats[pid][1] for pid in _descendants(stats)) / TICKS


def cpu_seconds_of(pid: int) -> float:
    """Of one process and the children that it has buried."""
    return _stats()[pid][1] / TICKS


def _descendants(stats: dict[int, tuple[int, int]]) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in stats.items():
        children.setdefault(parent, []).append(pid)
    waiting = [os.getpid()]
    while waiting:
        found = [pid for pid in children.get(waiting.pop(), []) if pid not in asking]
        yield from found
        waiting += found


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


def settle(calm_use: float = CALM) -> None:
    """Wait until the servers have done what they owe, so that the next measurement does not pay for the last.

    ``calm_use``: of a core, that they may go on using.
    """
    deadline, calm = time.monotonic() + PATIENCE, 0
    while time.monotonic() < deadline:
        before = cpu_seconds()
        time.sleep(LOOK)
        used = (cpu_seconds() - before) / LOOK
        calm = calm + 1 if used <= calm_use else 0
        if used <= QUIET or calm == CALM_LOOKS:
            return


def memory_mb() -> float:
    """Of all descendants, memory that they share counted once (PSS)."""
    return sum(_kilobytes(pid, "smaps_rollup", "Pss:") for pid in _descendants(_stats())) / 1024


def resident_kb(pid: int) -> int:
    """Memory of one process that is in use."""
    return _kilobytes(pid, "status", "VmRSS:")


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_kb(pid: int) -> int:
    """The most that was in use at one time since ``forget_peak``."""
    return _kilobytes(pid, "status", "VmHWM:")


def _kilobytes(pid: int, file: str, field: str) -> int:
    with suppress(OSError):  # it has just ended
        for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1])
    return 0


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def yardstick() -> float:
    """Reading and writing a document of 1 KiB, thousands a CPU second: how fast this machine is at this moment."""
    text = orjson.dumps(YARDSTICK)
    began = time.process_time()
    for _ in range(ROUNDS):
        orjson.dumps(orjson.loads(text))
    return ROUNDS / (time.process_time() - began) / 1000


def description() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} CPUs, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


def commit() -> str:
    """Of the checkout, with a + where it was changed; empty where there is no git."""
    with suppress(OSError, subprocess.CalledProcessError):
        asked = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return ""


def allow_many_files() -> int:
    """How many files this process may have open, now that it asked for all it can get."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
