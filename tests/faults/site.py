"""A hub of several servers, each part in a network namespace of its own, on a PostgreSQL with a replica, behind nginx."""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import redis

from tests import hub as hubs
from tests import servers, tools
from tests.faults import network
from tests.faults.network import Place
from tests.hub import Hub
from tests.proxy import nginx

CLUSTERS = 20
LEASE_SECONDS = 8  # agents beat so often; a cluster is silent after five times that
PLACES = ("clients", "nginx", "server1", "server2", "worker1", "worker2", "redis", "primary", "replica")
PORT = 5432
DISK = "600m"


@dataclass(frozen=True)
class PlacedHub(Hub):
    """Processes of a hub that run in one place. ``skew``: seconds by which their clock is ahead."""

    place: Place = field(default_factory=lambda: Place("nowhere", 0))
    skew: float = 0

    @property
    def commands(self) -> dict[str, list[str]]:
        found = super().commands
        if self.skew:
            wrong = [sys.executable, "-m", "tests.faults.skewed", str(self.skew)]
            found = {name: [*wrong, *_without_interpreter(command)] for name, command in found.items()}
        return {name: [*self.place.inside, *command] for name, command in found.items()}

    def _ask_ready(self) -> None:
        context = self.tls()
        context.check_hostname = False
        url = f"https://{self.environment['OCMCONSOLE_API_ADDRESS']}/readyz"
        httpx.get(url, verify=context, trust_env=False, timeout=5).raise_for_status()

    def is_ready(self) -> bool:
        with suppress(httpx.HTTPError, OSError):
            self._ask_ready()
            return True
        return False


def _without_interpreter(command: list[str]) -> list[str]:
    """``python manage.py …`` and ``python -m celery …`` from the program's name on."""
    return command[2:] if command[1] == "-m" else command[1:]


@dataclass
class Database:
    """A PostgreSQL in a place, which a supervisor would start again when it has ended."""

    place: Place
    program: servers.Program
    data: Path

    @property
    def processes(self) -> list[int]:
        assert self.program.process is not None
        number = self.program.process.pid
        return [number, *map(int, Path(f"/proc/{number}/task/{number}/children").read_text().split())]


@dataclass
class Site:
    """``parts`` are processes of the hub by place; ``hub`` is how this machine asks it, through nginx."""

    places: dict[str, Place]
    hub: PlacedHub
    parts: dict[str, PlacedHub]
    primary: Database
    replica: Database
    redis: servers.Program
    nginx_url: str
    ended: list[str] = field(default_factory=list)

    def client(self) -> httpx.Client:
        tls = self.hub.tls(self.hub.home / "admin.pem")
        return httpx.Client(base_url=self.nginx_url, verify=tls, timeout=40, trust_env=False, http2=True)

    def direct(self) -> Any:
        return psycopg.connect(self.hub.environment["OCMCONSOLE_DATABASE_URL"], autocommit=True, connect_timeout=5)

    def pid(self, place: str, name: str) -> int:
        return self.parts[place].processes[name].pid


@contextmanager
def served() -> Iterator[Site]:
    """Raises network.NotPermitted, ServerError."""
    with ExitStack() as stack:
        places = stack.enter_context(network.places(*PLACES))
        home = Path(stack.enter_context(servers._folder()))
        home.chmod(0o755)
        primary, replica, url = _databases(stack, places, home)
        broker, redis_url = _redis(stack, places["redis"], home)
        secret = secrets.token_hex(16)
        front = places["nginx"].address
        hub = hubs.prepare(
            home / "hub",
            database_url=url,
            redis_url=redis_url,
            API_URL=f"https://{front}:6443",
            CONSOLE_URL=f"https://{front}:8443",
            TRUSTED_PROXY=front,
            PROXY_SECRET=secret,
        )
        fields = {name: getattr(hub, name) for name in ("home", "console_url", "environment")}
        parts = {name: _part(fields, places[name]) for name in ("server1", "server2", "worker1", "worker2")}
        for name, starts in (
            ("server1", ["server"]),
            ("server2", ["server"]),
            ("worker1", ["worker", "beat"]),
            ("worker2", ["worker", "beat"]),
        ):
            for each in starts:
                parts[name].start(each)
            stack.callback(_stop, parts[name])
        seen = PlacedHub(**{**fields, "api_url": f"https://{front}:6443"})
        seen.admin_pair()
        (hub.home / "proxy-secret.conf").write_text(f'proxy_set_header X-Proxy-Secret "{secret}";\n')
        binary = tools.nginx()
        assert binary is not None, "nginx is missing"
        conf = nginx.configuration(
            hub.home,
            apis=[parts[name].environment["OCMCONSOLE_API_ADDRESS"] for name in ("server1", "server2")],
            consoles=[parts[name].environment["OCMCONSOLE_CONSOLE_ADDRESS"] for name in ("server1", "server2")],
            ports=(6443, 8443),
            address=front,
        )
        stack.enter_context(nginx.running(binary, hub.home, conf, 6443, address=front, inside=places["nginx"].inside))
        yield Site(places, seen, parts, primary, replica, broker, f"https://{front}:6443")


def _part(fields: dict[str, Any], place: Place) -> PlacedHub:
    api, console = f"{place.address}:6443", f"{place.address}:8000"
    environment = {**fields["environment"], "OCMCONSOLE_API_ADDRESS": api, "OCMCONSOLE_CONSOLE_ADDRESS": console}
    return PlacedHub(**{**fields, "api_url": f"https://{api}", "environment": environment}, place=place)


def _stop(part: PlacedHub) -> None:
    for name in reversed([*part.processes]):
        part.stop(name)


def _databases(stack: ExitStack, places: dict[str, Place], home: Path) -> tuple[Database, Database, str]:
    """A primary that acknowledges nothing that its replica does not have, at the floating address."""
    binaries = servers._reachable(tools.postgres_of_machine() or tools.postgres_of_wheel() or Path(), home)
    password = secrets.token_hex(16)
    disk = stack.enter_context(servers.small_disk(home / "disk", DISK))
    servers._give_away(disk)
    servers._initdb(binaries, disk, password)
    with (disk / "data" / "pg_hba.conf").open("a") as allowed:
        allowed.write("host all all 10.231.0.0/16 scram-sha-256\nhost replication all 10.231.0.0/16 scram-sha-256\n")
    address = f"postgres:{password}@{network.FLOATING}:{PORT}"
    network.give_floating(places["primary"])
    settings = {
        **{name: value for name, value in servers.POSTGRES_SETTINGS.items() if value != "off"},
        "listen_addresses": "*", "port": PORT, "max_wal_size": "64MB", "wal_keep_size": "64MB", "hot_standby": "on",
    }  # fmt: skip
    options = [f"-c{name}={value}" for name, value in settings.items()]

    user = servers._user()
    become = ["setpriv", f"--reuid={user['user']}", f"--regid={user['group']}", "--clear-groups"]

    def program(place: Place, folder: Path) -> servers.Program:
        command = [*place.inside, *become, str(binaries / "postgres"), "-D", str(folder / "data"), *options]
        url = f"postgres://postgres:{password}@{place.address}:{PORT}/postgres"
        return servers.Program(command, folder, {}, lambda: psycopg.connect(url).close(), psycopg.OperationalError)

    primary = program(places["primary"], disk)
    primary.start()
    stack.callback(primary.stop)
    servers.create_database(f"postgres://{address}/postgres", "hub")
    copy = home / "copy"
    copy.mkdir()
    servers._give_away(copy)
    source = f"postgres://postgres:{password}@{places['primary'].address}:{PORT}/postgres?application_name=replica"
    base = [str(binaries / "pg_basebackup"), "-d", source, "-D", str(copy / "data"), "-R", "-X", "stream", "-c", "fast"]
    subprocess.run([*places["replica"].inside, *become, *base], check=True, capture_output=True)
    replica = program(places["replica"], copy)
    replica.start()
    stack.callback(replica.stop)
    with psycopg.connect(f"postgres://{address}/postgres", autocommit=True) as asking:
        asking.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        asking.execute("SELECT pg_reload_conf()")
    url = f"postgres://{address}/hub"
    return Database(places["primary"], primary, disk / "data"), Database(places["replica"], replica, copy / "data"), url


def _redis(stack: ExitStack, place: Place, home: Path) -> tuple[servers.Program, str]:
    binary, password = tools.redis_server(), secrets.token_hex(16)
    assert binary is not None, "redis-server is missing"
    folder = home / "redis"
    folder.mkdir()
    url = f"redis://:{password}@{place.address}:6379"
    written = folder / "redis.conf"
    written.write_text(
        f'bind {place.address}\nport 6379\nrequirepass {password}\nsave ""\nappendonly no\ndir {folder}\n'
    )

    def ping() -> None:
        with redis.Redis.from_url(url) as client:
            client.ping()

    program = servers.Program([*place.inside, str(binary), str(written)], folder, {}, ping, redis.RedisError)
    program.start()
    stack.callback(program.stop)
    return program, f"{url}/0"


# ---------------------------------------------------------------- agents


@contextmanager
def fleet(site: Site) -> Iterator[None]:
    """Agents that join, and beat until the block ends."""
    command = [
        *site.places["clients"].inside,
        sys.executable,
        "manage.py",
        "simulate_fleet",
        "--clusters",
        str(CLUSTERS),
    ]
    with (site.hub.home / "fleet.log").open("wb") as log:
        agents = subprocess.Popen(
            [*command, "--seconds", "100000"], cwd=hubs.ROOT, env=dict(site.hub.environment), stdout=log, stderr=log
        )
    try:
        with site.client() as admin:
            listed = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
            while True:
                found = admin.get(listed).json()["items"]
                joined = [each["metadata"]["name"] for each in found if _is_joined(each)]
                if len(joined) == CLUSTERS:
                    break
                time.sleep(1)
            for name in joined:
                body = {"spec": {"leaseDurationSeconds": LEASE_SECONDS}}
                admin.patch(
                    f"{listed}/{name}", json=body, headers={"Content-Type": "application/merge-patch+json"}
                ).raise_for_status()
        time.sleep(3 * LEASE_SECONDS)  # each has renewed its lease since, and beats so often
        while _troubled(site):
            time.sleep(1)
        yield
    finally:
        agents.terminate()
        agents.wait()


def _is_joined(cluster: dict[str, Any]) -> bool:
    conditions = (cluster.get("status") or {}).get("conditions") or []
    return any(each["type"] == "ManagedClusterJoined" and each["status"] == "True" for each in conditions)


def _troubled(site: Site) -> list[Any]:
    with site.hub.reading() as ask:
        return ask("SELECT name FROM clusters_managedcluster WHERE name LIKE 'sim-%' AND available <> 'True'")


class Joining:
    """New clusters that join while something is wrong; their tokens are minted before."""

    def __init__(self, site: Site, prefix: str) -> None:
        self.report = site.hub.home / f"{prefix}.json"
        self._log = site.hub.home / f"{prefix}.log"
        command = [*site.places["clients"].inside, sys.executable, "manage.py", "simulate_fleet", "--clusters", "3"]
        command += ["--prefix", prefix, "--join-over", "6", "--seconds", "1", "--report", str(self.report)]
        with self._log.open("wb") as log:
            self._agents = subprocess.Popen(
                command, cwd=hubs.ROOT, env=dict(site.hub.environment), stdout=log, stderr=log
            )
        while b"agents heard" not in self._log.read_bytes() and self._agents.poll() is None:
            time.sleep(0.1)

    def wait(self, seconds: float) -> str:
        """What was wrong."""
        try:
            code = self._agents.wait(seconds)
        except subprocess.TimeoutExpired:
            self._agents.kill()
            return f"clusters did not join within {seconds:.0f} s"
        return self._log.read_text().strip().splitlines()[-1][:200] if code else ""
