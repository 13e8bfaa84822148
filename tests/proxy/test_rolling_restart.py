"""Two servers behind nginx are restarted one after the other: no client sees a failed request (W30).

FULL=1 does it with 300 clusters and 20 ``kubectl get -w``.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.proxy import load
from tests.proxy.conftest import Site

pytestmark = [pytest.mark.contract("W12", "W30"), pytest.mark.slow, pytest.mark.timeout(1_800)]


def test_a_rolling_restart_is_seen_by_no_client(site: Site, admin_pair: Path, tmp_path: Path) -> None:
    if len(site.servers) == 1:
        pytest.skip("SQLite has one server")
    with load.at_work(site, admin_pair, tmp_path / "report.json"):
        for server in site.servers:
            server.stop("server")
            server.start("server")
            time.sleep(1)
    assert "agree" in site.hub.manage("check_wire")
