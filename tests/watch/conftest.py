"""A hub of its own for the watches: its server is stopped, killed and compacted under their feet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from django.db import connections

from tests.conftest import StartHub
from tests.hub import Hub
from tests.watch.site import Impatient, Redis, Site


@pytest.fixture(scope="module")
def watched(start_hub: StartHub) -> Iterator[Hub]:
    with start_hub() as hub:
        yield hub


@pytest.fixture(scope="module")
def pair(watched: Hub) -> Path:
    return watched.admin_pair()


@pytest.fixture
def admin(watched: Hub, pair: Path) -> Iterator[httpx.Client]:
    with watched.client(pair=pair) as client:
        yield client


@pytest.fixture(scope="module")
def site(start_hub: StartHub) -> Iterator[Site]:
    """Impatient servers: on PostgreSQL two, and a Redis of their own."""
    with ExitStack() as stack:
        redis = stack.enter_context(Redis.running()) if os.environ.get("TEST_DATABASE_URL") else None
        settings = {"REDIS_URL": f"{redis.url}/0"} if redis else {}
        patient = stack.enter_context(start_hub(**settings))
        patient.stop("server")
        servers = [Impatient(**vars(patient))]
        if redis:
            servers.append(servers[0].beside())
        for server in servers:
            server.start("server")
            stack.callback(server.stop_if_running)
        yield Site(servers, patient.admin_pair(), redis)


@pytest.fixture
def thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Log and pages are read on one thread, so that its connection to the database can be closed."""
    from ocmconsole.console import live_updates
    from ocmconsole.kubeapi.watch import follower

    with ThreadPoolExecutor(1) as pool:
        for module in (follower, live_updates):
            monkeypatch.setattr(module, "_threads", pool)
        yield
        pool.submit(connections.close_all).result()
