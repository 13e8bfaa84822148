"""nginx with docs/nginx.conf, its addresses and paths replaced, before the servers of one hub."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests import servers

CONF = Path(__file__).resolve().parents[2] / "docs" / "nginx.conf"
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def configuration(
    home: Path,
    *,
    apis: Sequence[str],
    consoles: Sequence[str],
    ports: tuple[int, int],
    metrics: tuple[int, int] | None = None,
    address: str = "127.0.0.1",
    is_apart: bool = False,
) -> str:
    """The documented file for these servers (host:port). With one server only, the second line of each goes.

    ``metrics``: the ports at which each server's are, else any two. ``is_apart``: the first server is that of agents, as docs/guide/production.md says.
    """
    (api, console), (first, second) = ports, metrics or (servers.free_port(), servers.free_port())
    conf = CONF.read_text()
    replaced = {
        "server 127.0.0.1:6443 max_fails=0;": f"server {apis[0]} max_fails=0;",
        "server 127.0.0.1:6444 max_fails=0;": f"server {apis[1]} max_fails=0;" if len(apis) > 1 else "",
        "server 127.0.0.1:8000 max_fails=0;": f"server {consoles[0]} max_fails=0;",
        "server 127.0.0.1:8001 max_fails=0;": f"server {consoles[1]} max_fails=0;" if len(consoles) > 1 else "",
        "listen 443 ": f"listen {address}:{api} ",
        "listen 8443 ": f"listen {address}:{console} ",
        "listen 9443 ": f"listen {address}:{first} ",
        "listen 9444 ": f"listen {address}:{second} ",
        "9443 127.0.0.1:6443;": f"{first} {apis[0]};",
        "9444 127.0.0.1:6444;": f"{second} {apis[-1]};",
        "/etc/ocmconsole/proxy-secret.conf": str(home / "proxy-secret.conf"),
        "/etc/ocmconsole/console.": f"{home}/serving.",
        "/etc/ocmconsole/": f"{home}/",
        "keepalive_timeout 5s;": "keepalive_timeout 1s;",  # so that a server stops sooner
        "http {": "\n".join(["http {", *(f"{name}_temp_path {home}/nginx-{name};" for name in TEMPORARY)]),
    }
    for documented, here in replaced.items():
        assert documented in conf, documented
        conf = conf.replace(documented, here)
    if is_apart:
        conf = _apart(conf, apis, consoles)
    return f"pid {home / 'nginx.pid'};\nerror_log {home / 'nginx.log'};\n{'user root;' if os.geteuid() == 0 else ''}\n{conf}"


def _apart(conf: str, apis: Sequence[str], consoles: Sequence[str]) -> str:
    ordinary, agents, rest = re.split(r"(?=upstream agents|upstream console)", conf)
    weighted = (
        (ordinary, f"server {apis[1]} "), (agents, f"server {apis[0]} "), (rest, f"server {consoles[1]} "),
    )  # fmt: skip
    return "".join(part.replace(line, f"{line}weight=100 ") for part, line in weighted)


@contextmanager
def running(
    binary: Path, home: Path, conf: str, port: int, *, address: str = "127.0.0.1", inside: Sequence[str] = ()
) -> Iterator[None]:
    """``inside``: what its command begins with, where it runs elsewhere."""
    path = home / "nginx.conf"
    path.write_text(conf)
    command = [
        *inside,
        str(binary),
        "-p",
        str(home),
        "-c",
        str(path),
        "-e",
        str(home / "nginx.log"),
        "-g",
        "daemon off;",
    ]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        answers = servers.wait_until(lambda: socket.create_connection((address, port)).close(), OSError, process)
        assert answers, (home / "nginx.log").read_text()
        yield
    finally:
        servers.stop(process)
