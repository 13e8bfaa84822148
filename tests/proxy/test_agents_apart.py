"""Heartbeats and watches on one server, people on another: docs/nginx.conf with weights, two servers and one SQLite file."""

from __future__ import annotations

import json
import re
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import httpx
import pytest

from tests import servers
from tests.conftest import StartHub
from tests.fleet import MERGE, Fleet
from tests.hub import Hub
from tests.proxy.conftest import CLUSTERS, Site, behind_nginx
from tests.serving import leases

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]

SERVED = re.compile(r'ocmconsole_requests_total\{code="200",listener="(\w+)",method="(\w+)"\} ([0-9.]+)')


@dataclass(frozen=True)
class Apart:
    """``site``: the first of its two servers is the agents' own."""

    site: Site
    fleet: Fleet

    def served(self) -> tuple[Counter[str], Counter[str]]:
        """Requests that agents' and people's server have answered, by listener and method."""
        agents, people = (_served(hub) for hub in self.site.servers)
        return agents, people

    def agent(self, name: str) -> httpx.Client:
        context = self.fleet.join(name).client._transport._pool._ssl_context  # type: ignore[attr-defined]
        headers = {"User-Agent": leases.AGENT, "Accept": leases.JSON}
        return httpx.Client(base_url=self.site.url, verify=context, headers=headers, trust_env=False, timeout=100)


def _served(hub: Hub) -> Counter[str]:
    with hub.client(pair=hub.admin_pair()) as admin:
        found = SERVED.findall(admin.get("/metrics").text)
    return Counter({f"{listener} {method}": int(float(number)) for listener, method, number in found})


@pytest.fixture(scope="module")
def apart(start_hub: StartHub) -> Iterator[Apart]:
    ports, secret = (servers.free_port(), servers.free_port()), secrets.token_hex(16)
    with ExitStack() as stack:
        urls = {"API_URL": f"https://127.0.0.1:{ports[0]}", "CONSOLE_URL": f"https://127.0.0.1:{ports[1]}"}
        alone = {"CONTROLLERS": "inline"}  # the other one does what follows from a write
        first = stack.enter_context(start_hub(TRUSTED_PROXY="127.0.0.1", PROXY_SECRET=secret, **urls, **alone))
        second = first.beside()
        second = replace(second, environment={**second.environment, "OCMCONSOLE_CONTROLLERS": "thread"})
        second.start("server")
        stack.callback(second.stop_if_running)
        site = stack.enter_context(behind_nginx([first, second], ports, secret, is_apart=True))
        yield Apart(site, stack.enter_context(Fleet(second)))


def renew(agent: httpx.Client, name: str) -> httpx.Response:
    path = leases.PATH.format(name)
    lease = agent.get(path).raise_for_status().json()
    lease["spec"]["renewTime"] = leases.moment()
    return agent.put(path, json=lease)


def test_heartbeats_and_watches_reach_the_agents_server_and_nothing_else(apart: Apart) -> None:
    pair, tls = apart.site.hub.admin_pair(), apart.site.hub.tls()
    with apart.agent("ap-one") as agent, apart.site.client(pair) as admin:
        renew(agent, "ap-one").raise_for_status()
        before = apart.served()
        for _ in range(5):
            renew(agent, "ap-one").raise_for_status()
            admin.get(CLUSTERS).raise_for_status()
            httpx.get(f"{apart.site.console_url}/login/", verify=tls, trust_env=False, timeout=60).raise_for_status()
        revision = admin.get(CLUSTERS).json()["metadata"]["resourceVersion"]
        seen = {"watch": "true", "fieldSelector": "metadata.name=ap-one", "resourceVersion": revision}
        with agent.stream("GET", CLUSTERS, params=seen) as stream:
            label = {"metadata": {"labels": {"seen": "yes"}}}
            admin.patch(f"{CLUSTERS}/ap-one", json=label, headers=MERGE).raise_for_status()
            event = json.loads(next(stream.iter_lines()))  # by the log: the other server wrote it
            assert event["object"]["metadata"]["labels"]["seen"] == "yes"
        agents, people = (after - was for after, was in zip(apart.served(), before, strict=True))
    asked = Counter({"api GET": 1})  # /metrics, by this test
    assert agents == Counter({"api GET": 6, "api PUT": 5}) + asked
    assert people == Counter({"api GET": 6, "api PATCH": 1, "console GET": 5}) + asked


def test_who_is_sent_away_by_people_is_refused_by_the_agents_server(apart: Apart) -> None:
    with apart.agent("ap-gone") as agent, apart.site.client(apart.site.hub.admin_pair()) as admin:
        renew(agent, "ap-gone").raise_for_status()
        lease = agent.get(leases.PATH.format("ap-gone")).json()
        refused = {"spec": {"hubAcceptsClient": False}}
        admin.patch(f"{CLUSTERS}/ap-gone", json=refused, headers=MERGE).raise_for_status()
        lease["spec"]["renewTime"] = leases.moment()
        assert agent.put(leases.PATH.format("ap-gone"), json=lease).status_code == 403


def test_the_other_server_stands_in_for_the_agents_own(apart: Apart) -> None:
    with apart.agent("ap-both") as agent:
        apart.site.hub.stop("server")
        renew(agent, "ap-both").raise_for_status()
        apart.site.hub.start("server")
