"""What several servers behind nginx change: on PostgreSQL there are two, on SQLite one (W21, W30)."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests import hub as hubs
from tests import servers
from tests.fleet import Fleet
from tests.proxy.conftest import CLUSTERS, Site, cluster
from tests.serving import leases

pytestmark = [pytest.mark.contract("W30", "W21"), pytest.mark.slow]


def test_a_watch_through_nginx_brings_events_as_they_happen(site: Site, admin_pair: Path) -> None:
    """On PostgreSQL reader and writer may well be on different servers."""
    # Two clients: httpx reads a connection only for the answer that it waits for.
    with site.client(admin_pair) as watcher, site.client(admin_pair) as client:
        client.post(CLUSTERS, json=cluster("first")).raise_for_status()  # see below: something of a body
        for number in range(4):
            with watcher.stream("GET", CLUSTERS, params={"watch": "true"}) as stream:
                lines = stream.iter_lines()
                name = f"streamed{number}"
                client.post(CLUSTERS, json=cluster(name)).raise_for_status()
                names = (json.loads(line)["object"]["metadata"]["name"] for line in lines)
                assert name in (seen for seen in names if seen == name)


def test_a_server_that_goes_leaves_the_others_serving(site: Site, admin_pair: Path) -> None:
    if len(site.servers) == 1:
        pytest.skip("SQLite has one server")
    second = site.servers[1]
    second.stop("server")
    try:
        with site.client(admin_pair) as client:
            assert all(client.get(CLUSTERS).status_code == 200 for _ in range(5))
    finally:
        second.start("server")


def test_two_servers_that_start_together_make_one_hub_of_an_empty_database(tmp_path: Path) -> None:
    """H1: the one migrates, the other waits, and each serves what is there."""
    if (server := os.environ.get("TEST_DATABASE_URL")) is None:
        pytest.skip("SQLite has one server")
    urls = {"database_url": servers.create_database(server, f"together_{next(hubs.numbers)}_{os.getpid()}")}
    first = hubs.prepare(tmp_path / "home", redis_url=f"{os.environ['TEST_REDIS_URL']}/0", **urls)
    both = (first, first.beside())
    with ThreadPoolExecutor(2) as pool:
        try:
            list(pool.map(lambda hub: hub.start("server"), both))
            for hub in both:
                with hub.client(pair=hub.admin_pair()) as admin:
                    sets = admin.get("/apis/cluster.open-cluster-management.io/v1beta2/managedclustersets").json()
                assert {each["metadata"]["name"] for each in sets["items"]} == {"default", "global"}
        finally:
            for hub in both:
                hub.stop_if_running()


# ---------------------------------------------------------------- the lease path, by passed-on certificates


def batched(site: Site) -> float:
    """Requests for leases that the servers have answered by the lease path."""
    total = 0.0
    for hub in site.servers:
        with hub.client(pair=hub.admin_pair()) as admin:
            total += sum(leases.batched(admin).values())
    return total


@pytest.mark.contract("H7", "D19")
@pytest.mark.parametrize(("end", "status"), [("sent-away", 403), ("revoked", 401)])
def test_an_agent_renews_its_lease_over_http_2_until_its_right_ends(site: Site, end: str, status: int) -> None:
    name, headers = f"px-{end}", {"User-Agent": leases.AGENT, "Accept": leases.JSON}
    path = leases.PATH.format(name)
    with Fleet(site.hub) as fleet:
        context = fleet.join(name).client._transport._pool._ssl_context  # type: ignore[attr-defined]
        shown = {"verify": context, "headers": headers}
        with httpx.Client(base_url=site.url, http2=True, trust_env=False, timeout=60, **shown) as agent:

            def renew() -> httpx.Response:
                lease = agent.get(path).json()
                lease["spec"]["renewTime"] = leases.moment()
                media = {"Content-Type": leases.PROTOBUF}
                return agent.put(path, content=leases.protobuf(lease), headers=media)

            for _ in range(6 * len(site.servers)):  # until every server has met the certificate
                assert renew().http_version == "HTTP/2"
            before = batched(site)
            assert renew().status_code == 200
            assert batched(site) == before + 2
            lease = agent.get(path).json()
            if end == "revoked":
                with site.hub.reading() as ask:
                    found = ask(f"SELECT fingerprint FROM registration_issuedcertificate WHERE cluster = '{name}'")  # noqa: S608 - a name of this file
                for (fingerprint,) in found:
                    site.hub.manage("revoke_certificate", fingerprint, "--reason", "stolen")
            else:
                fleet.patch(name, {"spec": {"hubAcceptsClient": False}})
            lease["spec"]["renewTime"] = leases.moment()
            late = [agent.put(path, json=lease), agent.get(path), agent.put(path, json=lease), agent.get(path)]
            assert {each.status_code for each in late} == {status}
