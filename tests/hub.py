"""A real hub for tests that go through the network: `manage.py serve` as its own process, home and database.

On PostgreSQL, a Celery worker and beat run beside it, as in production. The fixtures are in tests/conftest.py.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import httpx
import psycopg

from tests import preloaded, servers
from tests.server import Server

ROOT = Path(__file__).resolve().parent.parent
numbers = itertools.count(1)


@dataclass(frozen=True)
class Hub(Server):
    """Its processes may be stopped, killed and started again: address, home and database stay."""

    console_url: str
    environment: Mapping[str, str]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    program: tuple[str, ...] = (sys.executable, "manage.py")
    application: str = "ocmconsole"  # Celery's
    folder: Path = ROOT  # of the checkout whose code it runs

    def beside(self) -> Self:
        """One more server with the same home and database, at other addresses, which it writes into the admin's kubeconfig."""
        api, console = (f"127.0.0.1:{servers.free_port()}" for _ in range(2))
        addresses = {"OCMCONSOLE_API_ADDRESS": api, "OCMCONSOLE_CONSOLE_ADDRESS": console}
        return replace(
            self,
            api_url=f"https://{api}",
            console_url=f"http://{console}",
            environment={**self.environment, **addresses},
            processes={},
        )

    def stop_if_running(self) -> None:
        if "server" in self.processes:
            self.stop("server")

    @property
    def commands(self) -> dict[str, list[str]]:
        """What it consists of, by name. Without Redis the server does everything."""
        server = {"server": [*self.program, "serve"]}
        if "OCMCONSOLE_REDIS_URL" not in self.environment:
            return server
        celery = [sys.executable, "-m", "celery", "-A", self.application]
        worker = [*celery, "worker", "--pool=threads", "--concurrency=2", "--without-mingle", "--without-gossip"]
        return server | {"worker": worker, "beat": [*celery, "beat"]}

    def start(self, name: str) -> None:
        """Start a process; for the server, wait for /readyz over TLS."""
        with (self.home / f"{name}.log").open("ab") as log:
            process = preloaded.Popen[bytes](
                self.commands[name],
                cwd=self.folder,
                env=dict(self.environment),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes[name] = process
        if name == "server" and not servers.wait_until(self._ask_ready, (OSError, httpx.HTTPError), process):
            raise servers.ServerError(f"the hub did not start:\n{self.log(name)}")

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        servers.stop(self.processes.pop(name), how)

    def log(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text(errors="replace")

    def _ask_ready(self) -> None:
        with self.client() as client:
            client.get("/readyz").raise_for_status()

    @property
    def admin_password(self) -> str:
        return (self.home / "admin-password").read_text().strip()

    def manage(self, *arguments: str, check: bool = True, seconds: float = 400) -> str:
        """Standard output of a manage.py command against this hub's home and database; it may take so many seconds."""
        command = [*self.program, *arguments]
        done = preloaded.run(command, cwd=self.folder, env=dict(self.environment), timeout=seconds)
        assert not check or done.returncode == 0, f"manage.py {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def reading(self) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
        """Ask this hub's database, beside whatever is running; all questions see one state."""
        if database_url := self.environment.get("OCMCONSOLE_DATABASE_URL"):
            with psycopg.connect(database_url) as postgres:
                postgres.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                yield lambda statement: postgres.execute(statement.encode()).fetchall()
        else:
            address = f"file:{self.home / 'hub.sqlite3'}?mode=ro"
            with closing(sqlite3.connect(address, uri=True, timeout=100, isolation_level=None)) as sqlite:
                sqlite.execute("BEGIN")
                yield lambda statement: sqlite.execute(statement).fetchall()


def prepare(home: Path, *, database_url: str = "", redis_url: str = "", **settings: str) -> Hub:
    """A hub that nobody has started. `settings` are OCMCONSOLE_* variables without their prefix."""
    home.mkdir(parents=True, exist_ok=True)
    api, console = f"127.0.0.1:{servers.free_port()}", f"127.0.0.1:{servers.free_port()}"
    chosen = {
        "HOME": str(home),
        "API_ADDRESS": api,
        "CONSOLE_ADDRESS": console,
        "ADMIN_PASSWORD": "correct-horse-staple",
        "DISK_RESERVE": "4Mi",
    }
    chosen |= {"DATABASE_URL": database_url, "REDIS_URL": redis_url} if database_url else {}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OCMCONSOLE_")}
    environment |= {f"OCMCONSOLE_{name}": value for name, value in (chosen | settings).items()}
    return Hub(home, f"https://{api}", f"http://{console}", environment)


@dataclass(frozen=True)
class Template:
    """A database with every migration and nothing else: the file hub.sqlite3 of a home, or a database of the server."""

    home: Path
    database: str


def migrated(folder: Path) -> Template:
    """Made once a run: migrations take 3 s of CPU time, and a run starts forty hubs. ``folder`` is the run's.

    A hub that ``serve`` starts on an empty home still migrates for itself.
    """
    template = Template(folder / "migrated", "migrated")
    done = template.home / "done"
    with (folder / "migrated.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            server = os.environ.get("TEST_DATABASE_URL")
            urls = {"database_url": servers.create_database(server, template.database)} if server else {}
            prepare(template.home, **urls).manage("migrate", "--verbosity=0")
            done.touch()
    return template


@contextmanager
def serve(
    home: Path, *, database_url: str = "", redis_url: str = "", first: Sequence[str] = (), **settings: str
) -> Iterator[Hub]:
    """Start, wait for /readyz over TLS, yield, stop. ``first`` is a manage.py command that finds the hub at rest."""
    hub = prepare(home, database_url=database_url, redis_url=redis_url, **settings)
    if first:
        hub.manage(*first)
    with running(hub):
        yield hub


@contextmanager
def running(hub: Hub) -> Iterator[Hub]:
    try:
        for name in hub.commands:
            hub.start(name)
        yield hub
    finally:
        for name in reversed([*hub.processes]):
            hub.stop(name)
