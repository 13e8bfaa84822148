"""The faults: each a block in which something is wrong. Nobody mends the hub; a supervisor starts programs that have ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace

import psycopg

from tests.crash.test_outages import fill
from tests.faults import network
from tests.faults.network import FLOATING
from tests.faults.site import Site
from tests.hub import ROOT
from tests.servers import Program

SECONDS = 8.0  # that a fault lasts
RESTART_SECONDS = 1.0  # of a supervisor, as RestartSec of our units
SKEW_SECONDS = 600.0
SLOW_FSYNC = 100_000  # microseconds


@dataclass(frozen=True)
class Fault:
    """``block`` begins and ends it."""

    title: str
    block: Callable[[Site], AbstractContextManager[None]]
    seconds: float = SECONDS


# ---------------------------------------------------------------- killed, stopped


@contextmanager
def killed(site: Site, place: str, name: str) -> Iterator[None]:
    site.parts[place].stop(name, signal.SIGKILL)
    time.sleep(RESTART_SECONDS)
    site.parts[place].start(name)
    yield


@contextmanager
def stopped(numbers: list[int]) -> Iterator[None]:
    for number in numbers:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGSTOP)
    try:
        yield
    finally:
        for number in numbers:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGCONT)


def stopped_redis(site: Site) -> AbstractContextManager[None]:
    assert site.redis.process is not None
    return stopped([site.redis.process.pid])


@contextmanager
def killed_redis(site: Site) -> Iterator[None]:
    site.redis.kill()
    yield
    site.redis.start()


# In a process beside the server: a transaction that has just taken the counter of revisions.
HOLD = """
from django.db import transaction
from ocmconsole.kubeapi.models import Revision
with transaction.atomic():
    Revision.objects.select_for_update().get()
    print("held", flush=True)
    __import__("time").sleep(600)
"""


@contextmanager
def machine_gone(site: Site, place: str) -> Iterator[None]:
    """No process of it says goodbye, and PostgreSQL has a write of it that is not over."""
    command = [*site.places[place].inside, sys.executable, "manage.py", "shell", "--no-imports", "-c", HOLD]
    holder = subprocess.Popen(
        command, cwd=ROOT, env=dict(site.hub.environment), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with network.unplugged(site.places[place]):
            holder.kill()
            site.parts[place].stop("server", signal.SIGKILL)
            yield
    site.parts[place].start("server")


# ---------------------------------------------------------------- cut, lost


def cut(*pairs: tuple[str, str]) -> Callable[[Site], AbstractContextManager[None]]:
    """By names of places; ``database`` is whichever has the floating address."""

    def addresses(site: Site) -> list[tuple[str, str]]:
        return [
            (
                FLOATING if one == "database" else site.places[one].address,
                FLOATING if other == "database" else site.places[other].address,
            )
            for one, other in pairs
        ]

    return lambda site: network.cut(*addresses(site))


def lossy(place: str, share: float) -> Callable[[Site], AbstractContextManager[None]]:
    return lambda site: network.lossy(site.places[place], share)


# ---------------------------------------------------------------- wrong clocks


def _how(name: str) -> signal.Signals:
    """A worker ends when its tasks have, which is not what is looked at."""
    return signal.SIGTERM if name == "server" else signal.SIGKILL


@contextmanager
def skewed(site: Site, place: str, names: tuple[str, ...], seconds: float) -> Iterator[None]:
    part = site.parts[place]
    wrong = replace(part, skew=seconds)  # shares the processes
    for name in names:
        part.stop(name, _how(name))
        wrong.start(name)
    yield
    for name in names:
        wrong.stop(name, _how(name))
        part.start(name)


# ---------------------------------------------------------------- the database


@contextmanager
def supervised(program: Program) -> Iterator[None]:
    """Started again when it has ended, until it runs at the end of the block."""
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            assert program.process is not None
            if program.process.poll() is not None:
                time.sleep(RESTART_SECONDS)
                with suppress(Exception):
                    log = (program.home / "log").open("ab")
                    program.process = subprocess.Popen(
                        program.command, cwd=program.home, stdout=log, stderr=log, start_new_session=True
                    )
            time.sleep(0.2)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with suppress(psycopg.OperationalError):
                program.ready()
                break
            time.sleep(0.2)
        over.set()
        thread.join()


@contextmanager
def full_disk(site: Site) -> Iterator[None]:
    filler = site.primary.program.home / "filler"
    with supervised(site.primary.program):
        fill(filler)
        yield
        filler.unlink()


@contextmanager
def slow_disk(site: Site) -> Iterator[None]:
    """Each flush of the write-ahead log waits: ``commit_delay`` stands for a disk that takes so long."""
    _altered(site, f"SET commit_delay = {SLOW_FSYNC}", "SET commit_siblings = 0")
    try:
        yield
    finally:
        _altered(site, "RESET commit_delay", "RESET commit_siblings")


def _altered(site: Site, *changes: str) -> None:
    with site.direct() as asking:
        for change in changes:
            asking.execute(f"ALTER SYSTEM {change}")
        asking.execute("SELECT pg_reload_conf()")


@contextmanager
def failover(site: Site) -> Iterator[None]:
    """The primary dies, the replica takes its place and its address, as a manager of PostgreSQL does it. The last fault."""
    site.primary.program.kill()
    time.sleep(3)  # until a manager is sure
    postmaster = site.replica.processes[0]
    (site.replica.data / "promote").touch()
    os.kill(postmaster, signal.SIGUSR1)
    network.run(
        *site.primary.place.inside,
        "ip",
        "address",
        "delete",
        f"{FLOATING}/32",
        "dev",
        f"{site.primary.place.link}n",
        check=False,
    )
    network.give_floating(site.replica.place)
    url = site.hub.environment["OCMCONSOLE_DATABASE_URL"]
    while True:
        with suppress(psycopg.Error), psycopg.connect(url, autocommit=True, connect_timeout=3) as asking:
            asking.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
            asking.execute("SELECT pg_reload_conf()")
            break
        time.sleep(0.2)
    yield


# ---------------------------------------------------------------- all of them


FAULTS = [
    Fault("nothing is wrong", lambda _: nullcontext(), 6),
    Fault("a server is killed, and started again after a second", lambda site: killed(site, "server1", "server"), 3),
    Fault("a server's machine is gone in the middle of a write", lambda site: machine_gone(site, "server1"), 40),
    Fault("a server hangs (SIGSTOP)", lambda site: stopped([site.pid("server1", "server")])),
    Fault("a worker hangs", lambda site: stopped([site.pid("worker1", "worker")])),
    Fault("a worker is killed, and started again", lambda site: killed(site, "worker2", "worker"), 3),
    Fault("the beat that keeps the clock hangs", lambda site: stopped([site.pid("worker1", "beat")]), 15),
    Fault("Redis hangs", stopped_redis),
    Fault("Redis is killed, and started again empty", killed_redis),
    Fault("PostgreSQL hangs", lambda site: stopped(site.primary.processes)),
    Fault("cut: a server and PostgreSQL", cut(("server1", "database"))),
    Fault("cut: a worker and PostgreSQL", cut(("worker1", "database"))),
    Fault("cut: all and Redis", cut(*((name, "redis") for name in ("server1", "server2", "worker1", "worker2")))),
    Fault("cut: nginx and a server", cut(("nginx", "server2"))),
    Fault("cut: agents and nginx", cut(("clients", "nginx"))),
    Fault("5 % of packets of a server are lost", lossy("server1", 0.05)),
    Fault("5 % of packets of PostgreSQL are lost", lossy("primary", 0.05)),
    Fault("a server's clock is ten minutes ahead", lambda site: skewed(site, "server2", ("server",), SKEW_SECONDS)),
    Fault(
        "a worker's and beat's clock is ten minutes ahead",
        lambda site: skewed(site, "worker1", ("worker", "beat"), SKEW_SECONDS),
    ),
    Fault(
        "a worker's and beat's clock is ten minutes behind",
        lambda site: skewed(site, "worker2", ("worker", "beat"), -SKEW_SECONDS),
    ),
    Fault("PostgreSQL's disk is slow: 0.1 s for a flush", slow_disk),
    Fault("PostgreSQL's disk is full", full_disk),
    Fault("PostgreSQL's primary dies, its replica takes over", failover, 3),
]
