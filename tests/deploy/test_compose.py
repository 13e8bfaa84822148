"""The compose file, as far as it can be judged without an engine: Compose itself reads it, and what it names is there.

Its health checks are run beside the services of test_units.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing
from tests.hub import ROOT

COMPOSE = Path(sys.executable).parent / "docker-compose"
FILE = ROOT / "deploy" / "compose.yaml"
GIVEN = {
    "OCMCONSOLE_VERSION": "0.1.0",
    "OCMCONSOLE_API_URL": "https://hub.example.com",
    "OCMCONSOLE_CONSOLE_URL": "https://hub.example.com:8443",
}
OF_THE_HUB = {"server-1", "server-2", "worker", "clock", "beat", "tls"}
# What deploy/compose/nginx.conf has in place of lines of docs/nginx.conf.
OTHER_LINES = {
    "worker_processes auto;": "pid /run/nginx/nginx.pid;\nerror_log /dev/stderr warn;\nworker_processes auto;",
    "http {\n": "http {\n"
    + "".join(
        f"    {name}_temp_path /run/nginx/{name.split('_')[-1]};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    ),
    "127.0.0.1:6443": "unix:/run/ocmconsole/api-1.sock",
    "127.0.0.1:6444": "unix:/run/ocmconsole/api-2.sock",
    "127.0.0.1:8000": "unix:/run/ocmconsole/console-1.sock",
    "127.0.0.1:8001": "unix:/run/ocmconsole/console-2.sock",
    '    include /etc/ocmconsole/proxy-secret.conf;  # proxy_set_header X-Proxy-Secret "…";\n': "",
    "listen 443 ssl": "listen 6443 ssl",
    "server_name hub.example.com;": "server_name _;",
    "/etc/ocmconsole/serving.": "/run/tls/serving.",
    "/etc/ocmconsole/console.": "/run/secrets/console.",
    "proxy_pass https": "proxy_pass http",
    "        proxy_ssl_verify on;\n": "",
    "        proxy_ssl_trusted_certificate /etc/ocmconsole/ca.crt;\n": "",
    "        proxy_ssl_name localhost;\n": "",
}


def read(given: dict[str, str], file: Path = FILE) -> subprocess.CompletedProcess[str]:
    """By Compose. Its wrapper ends with 0 whatever it says."""
    if not COMPOSE.exists():
        missing("docker-compose")
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **given}
    command = [str(COMPOSE), "--file", str(file), "config", "--format", "json"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read(GIVEN).stdout)["services"]
    return found


def test_compose_reads_the_file_and_asks_for_what_it_needs() -> None:
    said = read(GIVEN)
    assert said.stderr == ""
    assert len(json.loads(said.stdout)["services"]) == 9
    for name in GIVEN:
        refused = read({other: value for other, value in GIVEN.items() if other != name})
        assert f"required variable {name} is missing" in refused.stdout + refused.stderr


def test_compose_would_find_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text(FILE.read_text().replace("read_only: true", "readonly: true", 1))
    assert "readonly" in read(GIVEN, file).stderr


def test_every_service_is_without_rights_and_writes_nothing_but_its_volumes(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert not service["user"].startswith("0"), name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name
        assert ":latest" not in service["image"], name
        check = service["healthcheck"]
        assert check.get("disable") is (True if name == "beat" else None), name
        assert "ports" not in service or name == "nginx"
    assert services["beat"]["deploy"]["replicas"] == 2


def test_only_the_hub_and_the_proxy_can_leave_and_the_proxy_does_not_see_the_home(services: dict[str, Any]) -> None:
    networks = json.loads(read(GIVEN).stdout)["networks"]
    assert networks["stores"]["internal"] is True
    for name in ("postgres", "redis"):
        assert [*services[name]["networks"]] == ["stores"]
    assert [*services["nginx"]["networks"]] == ["front"]
    assert "home" not in {each.get("source") for each in services["nginx"]["volumes"]}
    secrets = {name: {each["source"] for each in service.get("secrets", ())} for name, service in services.items()}
    assert secrets["nginx"] == {"console.crt", "console.key"}
    assert secrets["postgres"] == {"postgres-password"}
    assert not any(
        "password" in str(service.get("environment", "")).lower()
        for name, service in services.items()
        if name != "postgres"
    )


def test_settings_commands_and_files_that_it_names_are_there(services: dict[str, Any]) -> None:
    documented = (ROOT / "docs" / "settings.md").read_text()
    for service in services.values():
        for name in service.get("environment") or ():
            if name.startswith("OCMCONSOLE_"):
                assert f"`{name.removesuffix('_FILE')}`" in documented
    assert services["server-1"]["build"]["dockerfile"] == "deploy/Containerfile"
    assert (Path(services["server-1"]["build"]["context"]) / "deploy" / "Containerfile").exists()
    assert {each["image"] for name, each in services.items() if name in OF_THE_HUB} == {"ocmconsole:0.1.0"}
    assert 'ENTRYPOINT ["ocmconsole"]\nCMD ["serve"]' in (ROOT / "deploy" / "Containerfile").read_text()
    units = {
        name: options(unit_command(file))
        for name, file in (("worker", "worker@"), ("clock", "clock"), ("beat", "beat"))
    }
    for name, expected in units.items():
        assert options(services[name]["entrypoint"]) == expected, name  # as systemd starts them


def unit_command(name: str) -> list[str]:
    text = (ROOT / "deploy" / "systemd" / f"ocmconsole-{name}.service").read_text()
    found: str = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)[0]
    return found.replace("%%", "%").replace("-%i@", "@").split()


def options(command: list[str]) -> set[str]:
    """A program with its options, each with its value."""
    return {Path(command[0]).name, *re.split(r" (?=-)", " ".join(command[1:]))}


def test_its_proxy_differs_from_the_documented_one_in_places_alone() -> None:
    _, _, expected = (ROOT / "docs" / "nginx.conf").read_text().partition("\n\n")
    for documented, here in OTHER_LINES.items():
        assert documented in expected
        expected = expected.replace(documented, here)
    assert (ROOT / "deploy" / "compose" / "nginx.conf").read_text().partition("\n\n")[2] == expected
