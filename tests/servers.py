"""PostgreSQL and Redis for one test run: on free loopback ports, with their own data, stopped by process id.

Invariant: the machine's own servers are never touched. PostgreSQL refuses to run as root, so root lends it to an
unprivileged user. Called by tests/conftest.py before Django's settings are read.
"""

from __future__ import annotations

import itertools
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict
from urllib.parse import urlsplit

import psycopg
import pytest
import redis
from psycopg import sql

from tests import tools

START_SECONDS = 180
ROOM = 4 << 30  # bytes
# Data that lives for one run needs no protection from a power cut.
POSTGRES_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
}

# Not C where it can be had, so that a query that forgets to ask for collation C is found out. The wheel has no ICU.
LOCALES = [["--locale-provider=icu", "--icu-locale=en"], ["--locale=en_US.UTF-8"], ["--no-locale"]]


class ServerError(RuntimeError):
    pass


def _own_ports() -> Iterator[int]:
    """A range of its own for each process of the run, below the ports that the kernel hands out.

    A port is bound long after it was chosen; one of the kernel's might be somebody else's by then.
    """
    number = 1 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw-1").removeprefix("gw"))
    first = 20_000 + 1_000 * (number % 12)
    yield from itertools.cycle(random.sample(range(first, first + 1_000), 1_000))


_ports = _own_ports()


def is_roomy(folder: Path) -> bool:
    """Whether a run fits into it, and programs that tests install there can be started."""
    if not os.access(folder, os.W_OK):
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC


def free_port() -> int:
    for port in _ports:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("it goes round and round")


@dataclass
class Program:
    """A server with its data, which may be killed and started again; ``ready`` raises one of ``failures`` until it is."""

    command: list[str]
    home: Path
    user: Unprivileged
    ready: Callable[[], object]
    failures: type[Exception]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """And wait until it answers."""
        log = self.home / "log"
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command, cwd=self.home, stdout=output, stderr=output, start_new_session=True, **self.user
            )
        if not wait_until(self.ready, self.failures, self.process):
            raise ServerError(f"{self.command[0]} did not start:\n{log.read_text(errors='replace')}")

    def kill(self) -> None:
        """With all its children, each of which may have a group of its own. Returns when they are gone."""
        assert self.process is not None
        number = self.process.pid
        self.process.send_signal(signal.SIGSTOP)  # it has no further children
        children = [int(each) for each in Path(f"/proc/{number}/task/{number}/children").read_text().split()]
        for each in (number, *children):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        self.process.wait()
        while any(map(_is_alive, children)):  # PostgreSQL does not start beside what is left of it
            time.sleep(0.01)

    def stop(self) -> None:
        if self.process is not None:
            stop(self.process, signal.SIGINT)  # PostgreSQL's fast shutdown; at SIGTERM it would wait for every client


def _is_alive(number: int) -> bool:
    """Not gone, nor a zombie that nobody has asked for."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def postgres(*, durable: bool = False, kept: Path | None = None) -> Iterator[str]:
    """A new cluster; its URL names the database `ocmconsole`, which exists and is empty. ``durable``: as in production.

    ``kept``: the folder of one that stays, with what was in it.
    """
    with postgres_program(durable=durable, kept=kept) as (url, _):
        yield url


@contextmanager
def postgres_program(*, durable: bool, kept: Path | None = None) -> Iterator[tuple[str, Program]]:
    """As ``postgres``, to be killed."""
    found = tools.postgres_of_machine() or tools.postgres_of_wheel()
    if found is None:
        raise ServerError("no PostgreSQL: neither the machine's nor the wheel's")
    with _folder() as folder:
        home, binaries = kept or folder, _reachable(found, folder)
        password, port = secrets.token_hex(16), free_port()
        if is_new := not (home / "data").exists():
            home.mkdir(exist_ok=True)
            _give_away(home)
            _initdb(binaries, home, password)
        else:
            password = (home / "password").read_text()
        settings = {name: value for name, value in POSTGRES_SETTINGS.items() if not (durable and value == "off")}
        options = [f"-c{name}={value}" for name, value in {**settings, "port": port}.items()]
        command = [str(binaries / "postgres"), "-D", str(home / "data"), *options]
        url = f"postgres://postgres:{password}@127.0.0.1:{port}/postgres"
        program = Program(command, home, _user(), lambda: psycopg.connect(url).close(), psycopg.OperationalError)
        with _running(program):
            yield create_database(url, "ocmconsole") if is_new else url.removesuffix("postgres") + "ocmconsole", program


@contextmanager
def redis_server(url: str = "") -> Iterator[str]:
    """An empty server; append `/0` to `/255` to its URL. It takes the place of a former one whose URL is given."""
    with redis_program(url) as (started, _):
        yield started


@contextmanager
def redis_program(url: str = "") -> Iterator[tuple[str, Program]]:
    """As ``redis_server``, to be killed; what is started again is empty."""
    binary = tools.redis_server()
    if binary is None:
        raise ServerError("no redis-server: neither the wheel's nor the machine's")
    password, port = urlsplit(url).password or secrets.token_hex(16), urlsplit(url).port or free_port()
    url = f"redis://:{password}@127.0.0.1:{port}"
    with _folder() as home:
        configuration = home / "redis.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(
            f'bind 127.0.0.1\nport {port}\nrequirepass {password}\ndatabases 256\nsave ""\nappendonly no\ndir {home}\n'
        )
        command = [str(binary), str(configuration)]
        program = Program(command, home, {}, lambda: _ping(url), redis.RedisError)
        with _running(program):
            yield url, program


def create_database(url: str, name: str, template: str = "template1") -> str:
    """A new database beside the one that the URL names, a copy of the template, to which nobody is connected; its URL."""
    with psycopg.connect(url, autocommit=True) as connection:
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        connection.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
    return url.rpartition("/")[0] + f"/{name}"


def _ping(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.ping()


def stop(process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGTERM, *, seconds: float = 60) -> int:
    """Its exit code. One that does not listen is killed."""
    process.send_signal(how)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def wait_until(
    ready: Callable[[], object],
    failures: type[Exception] | tuple[type[Exception], ...],
    process: subprocess.Popen[bytes],
) -> bool:
    """Ask until nothing is raised; False when the process ended or the time is over."""
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            ready()
        except failures:
            time.sleep(0.05)
        else:
            return True
    return False


@contextmanager
def _running(program: Program) -> Iterator[None]:
    try:
        program.start()
        yield
    finally:
        program.stop()


class Unprivileged(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


def _user() -> Unprivileged:
    """Arguments for subprocess that give up root; none for an ordinary user."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _give_away(path: Path) -> None:
    if user := _user():
        os.chown(path, user["user"], user["group"])


@contextmanager
def _folder() -> Iterator[Path]:
    # Not pytest's tmp_path: the unprivileged user must be able to reach it.
    home = Path(tempfile.mkdtemp(prefix="ocmconsole-test-"))
    try:
        _give_away(home)
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _reachable(binaries: Path, home: Path) -> Path:
    """A checkout below somebody's private folder hides the wheel's binaries from the unprivileged user: then a copy."""
    try:
        subprocess.run([binaries / "postgres", "--version"], check=True, capture_output=True, cwd=home, **_user())
    except (PermissionError, subprocess.CalledProcessError):
        installation, package = binaries.parents[0], binaries.parents[1]
        copy = home / package.name / installation.name
        shutil.copytree(installation, copy, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")  # a wheel finds them by their place beside it
        if libraries.is_dir():
            shutil.copytree(libraries, home / libraries.name)
        for path in home.rglob("*"):
            _give_away(path)
        return copy / "bin"
    return binaries


def _initdb(binaries: Path, home: Path, password: str) -> None:
    secret = home / "password"
    secret.touch(mode=0o600)
    secret.write_text(password)
    _give_away(secret)
    command = [str(binaries / "initdb"), "--pgdata", str(home / "data"), "--username=postgres", "--encoding=UTF8"]
    command += ["--no-sync", "--auth=scram-sha-256", f"--pwfile={secret}"]
    for locale in LOCALES:
        made = subprocess.run([*command, *locale], capture_output=True, text=True, check=False, cwd=home, **_user())
        if made.returncode == 0:
            return
    raise ServerError(f"initdb failed:\n{made.stderr}")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own, which only root can have."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
