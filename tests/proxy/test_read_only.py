"""A hub of several processes is made read-only, and writes again, while agents and people are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.commands import eventually
from tests.fleet import Fleet
from tests.proxy.conftest import CLUSTERS, Site, cluster
from tests.serving import leases

pytestmark = [pytest.mark.contract("W30", "D17"), pytest.mark.slow]


def test_every_server_refuses_writes_and_answers_reads_until_it_is_over(site: Site, admin_pair: Path) -> None:
    with site.client(admin_pair) as admin, Fleet(site.hub) as fleet:
        agent = fleet.join("ro-agent").client
        path = leases.PATH.format("ro-agent")
        lease = agent.get(path).json()
        site.hub.manage("read_only", "on", "--reason", "the database moves")
        try:
            with site.hub.reading() as ask:
                before = ask("SELECT value FROM kubeapi_revision")
            for _ in range(4):  # each server in its turn
                refused = admin.post(CLUSTERS, json=cluster("ro-late"))
                assert (refused.status_code, refused.headers["Retry-After"]) == (503, "2")
                assert "the database moves" in refused.json()["message"]
                assert admin.get(CLUSTERS).status_code == 200
            lease["spec"]["renewTime"] = leases.moment()
            assert agent.put(path, json=lease).status_code == 503
            assert agent.get(path).status_code == 200
            assert admin.get("/readyz").text == "ok"
            with site.hub.reading() as ask:
                assert ask("SELECT value FROM kubeapi_revision") == before
        finally:
            site.hub.manage("read_only", "off")
        eventually(lambda: agent.put(path, json=lease).status_code == 200)
        assert admin.post(CLUSTERS, json=cluster("ro-after")).status_code == 201
