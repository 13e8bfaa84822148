"""Request threads and their connections to the database."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from django.db import connections

from tests.serving.conftest import Serve

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=60, trust_env=False) as client:
        yield client


def test_a_thread_keeps_its_database_connection(serve: Serve, client: httpx.Client) -> None:
    site = serve()
    try:
        assert len({client.get(site.url("/database")).text for _ in range(5)}) == 1
    finally:
        client.get(site.url("/hang-up"))


def test_a_broken_database_connection_is_replaced(serve: Serve, client: httpx.Client) -> None:
    if connections["default"].vendor == "sqlite":
        pytest.skip("a file does not hang up")
    site = serve()
    try:
        before = client.get(site.url("/database")).text
        assert client.get(site.url("/database?break=1")).status_code == 500
        after = client.get(site.url("/database"))
        assert after.status_code == 200
        assert before.split()[0] == after.text.split()[0]
    finally:
        client.get(site.url("/hang-up"))


def test_postgresql_soon_ends_a_session_whose_machine_is_gone() -> None:
    """Else its open write holds up every other one for two hours. ``make faults`` has the whole of it."""
    if connections["default"].vendor == "sqlite":
        pytest.skip("a file has one machine")
    with connections["default"].cursor() as cursor:
        values = {}
        for name in ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout"):
            cursor.execute("SELECT setting::int FROM pg_settings WHERE name = %s", [name])
            (values[name],) = cursor.fetchone()
    assert list(values.values()) == [5, 3, 3, 15_000]
