"""What several servers behind nginx change: on PostgreSQL there are two, on SQLite one (W21, W30)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.proxy.conftest import CLUSTERS, Site, cluster

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
