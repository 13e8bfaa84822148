"""A hub behind nginx: on PostgreSQL two server processes, on SQLite one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import servers, tools
from tests.conftest import StartHub, missing
from tests.hub import Hub
from tests.proxy import nginx

CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"


@dataclass(frozen=True)
class Site:
    """``hub`` is the first server, asked without nginx; ``servers`` are all of them, ``metrics`` where theirs are."""

    servers: list[Hub]
    url: str
    console_url: str
    metrics: list[str]

    @property
    def hub(self) -> Hub:
        return self.servers[0]

    def client(self, pair: Path | None = None, **headers: str) -> httpx.Client:
        """Through nginx, HTTP/2."""
        tls = self.hub.tls(pair)
        return httpx.Client(base_url=self.url, verify=tls, headers=headers, timeout=60, trust_env=False, http2=True)


@pytest.fixture(scope="package")
def site(start_hub: StartHub) -> Iterator[Site]:
    ports, secret = (servers.free_port(), servers.free_port()), secrets.token_hex(16)
    with ExitStack() as stack:
        first = stack.enter_context(
            start_hub(
                API_URL=f"https://127.0.0.1:{ports[0]}",
                CONSOLE_URL=f"https://127.0.0.1:{ports[1]}",
                TRUSTED_PROXY="127.0.0.1",
                PROXY_SECRET=secret,
                UNKNOWN_CERTIFICATES="accept",  # tests sign some of their own
            )
        )
        hubs = [first]
        if os.environ.get("TEST_DATABASE_URL"):
            hubs.append(first.beside())
            hubs[1].start("server")
            stack.callback(hubs[1].stop, "server")
        yield stack.enter_context(behind_nginx(hubs, ports, secret))


@contextmanager
def behind_nginx(hubs: list[Hub], ports: tuple[int, int], secret: str, *, is_apart: bool = False) -> Iterator[Site]:
    binary = tools.nginx()
    if binary is None:
        missing("nginx")
    home = hubs[0].home
    (home / "proxy-secret.conf").write_text(f'proxy_set_header X-Proxy-Secret "{secret}";\n')
    metrics = servers.free_port(), servers.free_port()
    conf = nginx.configuration(
        home,
        apis=[hub.environment["OCMCONSOLE_API_ADDRESS"] for hub in hubs],
        consoles=[hub.environment["OCMCONSOLE_CONSOLE_ADDRESS"] for hub in hubs],
        ports=ports,
        metrics=metrics,
        is_apart=is_apart,
    )
    with nginx.running(binary, home, conf, ports[0]):
        urls = [f"https://127.0.0.1:{port}" for port in (*ports, *metrics)]
        yield Site(hubs, urls[0], urls[1], metrics=urls[2 : 2 + len(hubs)])


@pytest.fixture(scope="package")
def admin_pair(site: Site) -> Path:
    return site.hub.admin_pair()


def cluster(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": name},
        "spec": {"hubAcceptsClient": False},
    }
