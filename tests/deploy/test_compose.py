"""The compose file, as far as it can be judged without an engine: Compose itself reads it, and what it names is there.

Its health checks are run beside the services of test_units.
"""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests import servers, tools
from tests.conftest import missing
from tests.hub import ROOT

COMPOSE = Path(sys.executable).parent / "docker-compose"
FILE = ROOT / "deploy" / "compose.yaml"
GIVEN = {
    "OCMCONSOLE_VERSION": "0.1.0",
    "OCMCONSOLE_API_URL": "https://hub.example.com",
    "OCMCONSOLE_CONSOLE_URL": "https://hub.example.com:8443",
}
YEAR = timedelta(days=365)
POSTGRESQL_OF_DEBIAN = {"bookworm": 15, "trixie": 17}  # the major version of its package postgresql-client
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
    "    proxy_ssl_verify on;\n": "",
    "    proxy_ssl_trusted_certificate /etc/ocmconsole/ca.crt;\n": "",
    "    proxy_ssl_name localhost;\n": "",
    "            allow 127.0.0.1;                    # and where Prometheus is\n            deny all;\n": "",
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


def test_its_proxy_shows_a_renewed_certificate_without_a_restart(services: dict[str, Any], tmp_path: Path) -> None:
    """A proxy reads certificates only when it starts or is told to; that of the file is told each day."""
    binary = tools.nginx() or missing("nginx")
    for name in ("serving", "console"):
        self_signed(tmp_path / name)
    first, second = servers.free_port(), servers.free_port()
    conf = (ROOT / "deploy" / "compose" / "nginx.conf").read_text()
    for there, here in {
        "/run/nginx/": f"{tmp_path}/nginx-",
        "/run/ocmconsole/": f"{tmp_path}/",
        "/run/tls/": f"{tmp_path}/",
        "/run/secrets/": f"{tmp_path}/",
        "listen 6443": f"listen 127.0.0.1:{first}",
        "listen 8443": f"listen 127.0.0.1:{second}",
        "listen 9443": f"listen unix:{tmp_path}/9443",
        "listen 9444": f"listen unix:{tmp_path}/9444",
    }.items():
        assert there in conf
        conf = conf.replace(there, here)
    (tmp_path / "nginx.conf").write_text(conf)
    *shell, script = services["nginx"]["entrypoint"]
    assert "sleep 86400" in script
    command = script.replace("/etc/ocmconsole/nginx.conf", f"{tmp_path}/nginx.conf").replace("sleep 86400", "sleep 0.5")
    environment = {"PATH": f"{binary.parent}{os.pathsep}{os.environ['PATH']}"}
    process = subprocess.Popen([*shell, command], env=environment, start_new_session=True)
    try:
        shown = shown_at(first, process)
        self_signed(tmp_path / "serving")

        def is_another() -> None:
            if shown_at(first, process) == shown:
                raise OSError("the certificate from before")

        assert servers.wait_until(is_another, OSError, process)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def self_signed(stem: Path) -> None:
    """Write a certificate and its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hub")])
    begins = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), begins, begins + YEAR)
    stem.with_suffix(".crt").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    stem.with_suffix(".key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def shown_at(port: int, process: subprocess.Popen[bytes]) -> str:
    found: list[str] = []
    assert servers.wait_until(lambda: found.append(ssl.get_server_certificate(("127.0.0.1", port))), OSError, process)
    return found[-1]


def test_pg_dump_of_the_image_is_not_older_than_its_server(services: dict[str, Any]) -> None:
    """Such a one refuses; and backups with it."""
    *_, final = (ROOT / "deploy" / "Containerfile").read_text().split("\nFROM ")
    (debian,) = re.findall(r"^\S+-slim-(\w+)\n", final)
    assert "--no-install-recommends postgresql-client " in final
    server = int(services["postgres"]["image"].partition("postgres:")[2].partition("-")[0])
    assert POSTGRESQL_OF_DEBIAN[debian] >= server


def test_settings_that_the_file_has_not_are_read_from_one_beside_it(tmp_path: Path) -> None:
    """By every process of the hub; what the file says itself wins."""
    file = tmp_path / "compose.yaml"
    file.write_text(FILE.read_text())
    (tmp_path / "settings.env").write_text("OCMCONSOLE_HUB_NAME=north\nOCMCONSOLE_REDIS_URL=redis://elsewhere\n")
    found = json.loads(read(GIVEN, file).stdout)["services"]
    for name in OF_THE_HUB - {"tls"}:
        assert found[name]["environment"]["OCMCONSOLE_HUB_NAME"] == "north"
        assert found[name]["environment"]["OCMCONSOLE_REDIS_URL"] == "redis://redis:6379/0"
