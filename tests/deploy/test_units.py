"""Units of systemd: their commands are a hub of several processes, and systemd finds nothing wrong with them."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from tests import hub as hubs
from tests import servers, tools
from tests.conftest import missing
from tests.hub import ROOT
from tests.proxy import nginx

UNITS = ROOT / "deploy" / "systemd"
MOST_EXPOSED = 2.0  # of systemd's 10 for a service without any protection
ALIKE = ("Protect", "Private", "Restart", "Restrict", "Runtime", "SystemCall", "Capab")
PROGRAMS = {
    "/opt/ocmconsole/bin/ocmconsole": [sys.executable, "manage.py"],
    "/opt/ocmconsole/bin/celery": [sys.executable, "-m", "celery"],
}
SERVICES = ("ocmconsole-server@1", "ocmconsole-server@2", "ocmconsole-worker@1", "ocmconsole-clock", "ocmconsole-beat")


@dataclass(frozen=True)
class Service:
    command: list[str]
    environment: dict[str, str]

    @classmethod
    def of(cls, name: str, folder: Path) -> Service:
        """As systemd starts it, but for its folders and the environment of its programs."""
        template, _, instance = name.partition("@")
        file = UNITS / f"{template}{'@' if instance else ''}.service"
        text = file.read_text().replace("%i", instance).replace("%%", "%")
        text = text.replace("/var/lib/ocmconsole", str(folder)).replace("/run/ocmconsole", str(folder))
        lines = [line for line in text.splitlines() if line.startswith(("ExecStart=", "Environment="))]
        words = next(line for line in lines if line.startswith("ExecStart=")).removeprefix("ExecStart=").split()
        command = [part for word in words for part in PROGRAMS.get(word, [word])]
        variables = [line.partition("=")[2].partition("=") for line in lines if line.startswith("Environment=")]
        return cls(command, {name: value for name, _, value in variables})


@dataclass(frozen=True)
class Running:
    """``process`` is the last that was started."""

    home: Path
    process: subprocess.Popen[bytes]
    environment: Mapping[str, str]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Running]:
    """All five services run, each as its unit says. A socket's path has at most 107 bytes."""
    if "TEST_DATABASE_URL" not in os.environ:
        pytest.skip("the units have PostgreSQL")
    redis = servers.redis_server()
    with ExitStack() as stack:
        home = Path("/tmp") / f"units-{os.getpid()}"  # noqa: S108 - short, and removed
        home.mkdir(mode=0o700)
        stack.callback(shutil.rmtree, home)
        prepared = hubs.prepare(
            home,
            database_url=servers.create_database(os.environ["TEST_DATABASE_URL"], "hub_of_units"),
            redis_url=f"{stack.enter_context(redis)}/0",
            API_URL="https://hub.example.com",
            CONSOLE_URL="https://hub.example.com:8443",
        )
        # Of a small hub, and left in the file: EnvironmentFile= wins over Environment=.
        elsewhere = {"OCMCONSOLE_API_ADDRESS": "127.0.0.1:1", "OCMCONSOLE_CONSOLE_ADDRESS": "127.0.0.1:1"}
        in_file = {**prepared.environment, **elsewhere}
        for name in SERVICES:
            service = Service.of(name, home)
            log = stack.enter_context((tmp_path / f"{name}.log").open("wb"))
            process = subprocess.Popen(
                service.command,
                cwd=ROOT,
                env={**service.environment, **in_file},
                stdout=log,
                stderr=log,
            )
            stack.callback(servers.stop, process)
            if "server" in name:
                number = name.partition("@")[2]
                servers.wait_until(lambda: ready(home / f"api-{number}.sock"), (OSError, httpx.HTTPError), process)  # noqa: B023
        yield Running(home, process, prepared.environment)


def ready(socket: Path, query: str = "") -> str:
    if not socket.exists():
        raise OSError(f"{socket} is not there")
    with httpx.Client(
        transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://hub.example.com", timeout=60
    ) as client:
        return client.get(f"/readyz{query}").raise_for_status().text


def test_the_units_together_are_a_hub_whose_parts_see_each_other(hub: Running) -> None:
    def all_are_seen() -> None:
        for number in (1, 2):
            found = ready(hub.home / f"api-{number}.sock", "?verbose")
            if "[+]worker ok" not in found or "[+]clock ok" not in found or "not seen yet" in found:
                raise OSError(found)

    assert servers.wait_until(all_are_seen, (OSError, httpx.HTTPError), hub.process)
    assert_compose_checks_health(hub)
    assert_proxy_of_compose_answers(hub)


def assert_compose_checks_health(hub: Running) -> None:
    """The health checks of deploy/compose.yaml, beside the same commands as its containers run."""
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text().replace("$$", "$"))["services"]
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**hub.environment, "PATH": programs}

    def is_healthy(command: list[str], **settings: str) -> bool:
        given = command if command[0] == "CMD" else ["CMD", "sh", "-c", command[1]]
        return not subprocess.run(
            given[1:], cwd=ROOT, env={**environment, **settings}, check=False, capture_output=True
        ).returncode

    server = services["server-1"]["healthcheck"]["test"]
    assert is_healthy(server, OCMCONSOLE_API_ADDRESS=f"unix:{hub.home}/api-1.sock")
    assert not is_healthy(server, OCMCONSOLE_API_ADDRESS=f"unix:{hub.home}/api-3.sock")
    assert is_healthy(services["clock"]["healthcheck"]["test"])
    kind, worker = services["worker"]["healthcheck"]["test"]
    assert is_healthy([kind, worker.replace("worker@", "worker-1@")])
    assert not is_healthy([kind, worker.replace("worker@", "worker-2@").replace("10", "1")])


def assert_proxy_of_compose_answers(hub: Running) -> None:
    binary = tools.nginx() or missing("nginx")
    conf = (ROOT / "deploy" / "compose" / "nginx.conf").read_text()
    ports = [servers.free_port() for _ in range(4)]
    for there, here in {
        "/run/nginx/": f"{hub.home}/nginx-",
        "/run/ocmconsole/": f"{hub.home}/",
        "/run/tls/": f"{hub.home}/",
        "/run/secrets/console.": f"{hub.home}/serving.",
        "listen 6443": f"listen 127.0.0.1:{ports[0]}",
        "listen 8443": f"listen 127.0.0.1:{ports[1]}",
        **{f"{port} ": f"{own} " for port, own in zip(("9443", "9444"), ports[2:], strict=True)},
        "keepalive_timeout 5s": "keepalive_timeout 1s",  # so that the servers stop sooner
    }.items():
        assert there in conf
        conf = conf.replace(there, here)
    with nginx.running(binary, hub.home, f"user root;\n{conf}" if os.geteuid() == 0 else conf, ports[0]):
        for port, path in ((ports[0], "/livez"), (ports[1], "/login/")):
            url, named = f"https://127.0.0.1:{port}{path}", {"Host": "hub.example.com:8443"}
            found = httpx.get(url, headers=named, verify=False, timeout=60)  # noqa: S501 - the certificate is for another name
            assert found.status_code == 200, found.text
        for port in ports[2:]:
            nobody = httpx.get(f"https://127.0.0.1:{port}/metrics", verify=False)  # noqa: S501 - as above
            assert nobody.status_code == 403, nobody.text
            assert nobody.json()["kind"] == "Status"  # of the hub


def unit_files(folder: Path) -> list[Path]:
    """With a program that is there, an instance for each template."""
    found = []
    for file in sorted(UNITS.glob("*.service")):
        target = folder / file.name.replace("@.", "@1.")
        target.write_text(file.read_text().replace("/opt/ocmconsole/bin/", "/bin/true "))
        if target.name != file.name:
            shutil.copy(target, folder / file.name)
        found.append(target)
    return found


def test_systemd_finds_nothing_wrong_and_little_exposed(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    for file in unit_files(tmp_path):
        verified = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, check=False)
        assert (verified.returncode, verified.stdout + verified.stderr) == (0, ""), file.name
        told = ["systemd-analyze", "security", "--offline=true", f"--threshold={10 * MOST_EXPOSED:.0f}", str(file)]
        judged = subprocess.run(told, capture_output=True, text=True, check=False)
        assert judged.returncode == 0, judged.stdout[-200:]


def test_services_are_protected_and_started_again_alike() -> None:
    """Those of one file hold for all: a line that one of them lacks is an oversight."""
    protections = {}
    for file in UNITS.glob("*.service"):
        parsed = configparser.RawConfigParser(strict=False, interpolation=None)
        parsed.optionxform = str  # type: ignore[assignment,method-assign] # names as they are written
        parsed.read(file)
        section = dict(parsed["Service"])
        names = [name for name in section if name.startswith(ALIKE)]
        limit = parsed["Unit"]["StartLimitIntervalSec"]  # 0: started again however often it ends
        protections[file.name] = {"StartLimitIntervalSec": limit, **{name: section[name] for name in names}}
    first, *others = protections.values()
    assert len(first) > 20
    assert first["StartLimitIntervalSec"] == "0"
    assert first["RuntimeDirectoryPreserve"] == "yes"  # one that stops leaves the sockets of the others
    assert all(each == first for each in others)
