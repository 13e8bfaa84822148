"""The ASGI applications: which listener a request belongs to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.db import connections
from django.utils import timezone

from clusters.models import Serving
from ocmconsole.kubeapi.health import probes
from tests.serving.test_request_threads import eventually

pytestmark = pytest.mark.filterwarnings("ignore:No directory at")  # static files are collected by `make`, not by tests

BACKGROUND = {"presence", "read-only", "succession"}  # threads that end after their look at the database, once stopped


@pytest.fixture
def application(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.ASGITransport]:
    """On one thread a application, so that its one connection to the database can be closed."""
    from ocmconsole import asgi

    for application in (asgi.api_application, asgi.console_application):
        monkeypatch.setattr(application, "pool", ThreadPoolExecutor(1))
    yield httpx.ASGITransport(app=asgi.application)  # type: ignore[arg-type] # httpx types ASGI more loosely
    for application in (asgi.api_application, asgi.console_application):
        application.pool.submit(connections.close_all).result()
        application.pool.shutdown()
    assert eventually(lambda: not BACKGROUND & {each.name for each in threading.enumerate()})


def get(transport: httpx.ASGITransport, port: int, path: str, **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.get(f"http://127.0.0.1:{port}{path}", headers=headers)

    return asyncio.run(ask())


def test_the_api_is_served_at_the_apis_address_only(application: httpx.ASGITransport) -> None:
    api = get(application, settings.OCMCONSOLE_API_ADDRESS[1], "/api/v1/nodes")
    console = get(application, settings.OCMCONSOLE_CONSOLE_ADDRESS[1], "/api/v1/nodes")
    assert api.json()["kind"] == "Status"
    assert console.status_code == 404
    assert "json" not in console.headers["content-type"]


@pytest.mark.parametrize("ending", ["", ":8000", ":80"])
@pytest.mark.parametrize("name", ["localhost", "LocalHost", "127.0.0.1", "[::1]"])
def test_the_console_answers_to_its_names_in_every_form(
    application: httpx.ASGITransport, name: str, ending: str
) -> None:
    port = settings.OCMCONSOLE_CONSOLE_ADDRESS[1]
    assert get(application, port, "/api/v1/nodes", Host=name + ending).status_code == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost:evil", "::1", "[::1", "localhost:1:1"]
)
def test_the_console_answers_to_no_other_name(application: httpx.ASGITransport, host: str) -> None:
    port = settings.OCMCONSOLE_CONSOLE_ADDRESS[1]
    assert get(application, port, "/api/v1/nodes", Host=host).status_code == 400


def test_a_body_that_is_too_large_still_gets_the_apis_own_answer(application: httpx.ASGITransport) -> None:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=application) as client:
            port = settings.OCMCONSOLE_API_ADDRESS[1]
            return await client.post(
                f"http://127.0.0.1:{port}/apis/authentication.k8s.io/v1/selfsubjectreviews",
                content=b" " * 4_194_304,
                headers={"Authorization": "Bearer nonsense"},
            )

    answer = asyncio.run(ask()).json()
    assert (answer["kind"], answer["code"]) == ("Status", 401)  # an unknown caller learns nothing about the limit


# ---------------------------------------------------------------- servers other than manage.py serve


@contextmanager
def lifespan(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """What a server sends before the first request and after the last one (ASGI's lifespan protocol)."""
    from ocmconsole import asgi

    told, said = asyncio.Queue[Any](), asyncio.Queue[Any]()
    life = loop.create_task(asgi.application({"type": "lifespan"}, told.get, said.put))  # type: ignore[arg-type] # as servers send it
    for event in ("startup", "shutdown"):
        told.put_nowait({"type": f"lifespan.{event}"})
        answered = loop.run_until_complete(asyncio.wait_for(said.get(), 30))
        assert answered == {"type": f"lifespan.{event}.complete"}
        if event == "startup":
            yield
    loop.run_until_complete(life)


@pytest.mark.contract("W6", "D17")
def test_a_server_of_another_kind_looks_at_its_health_and_notes_that_it_serves(
    application: httpx.ASGITransport,
) -> None:
    begun = timezone.now()
    with asyncio.Runner() as runner, lifespan(runner.get_loop()):
        assert probes.monitor.is_running
        assert get(application, settings.OCMCONSOLE_API_ADDRESS[1], "/readyz/database").text == "ok"
        assert eventually(lambda: Serving.objects.filter(served__gte=begun).exists())
    assert not probes.monitor.is_running


def test_a_server_without_lifespan_looks_at_its_health_when_it_is_asked(application: httpx.ASGITransport) -> None:
    from ocmconsole import asgi

    try:
        assert get(application, settings.OCMCONSOLE_API_ADDRESS[1], "/readyz/database").text == "ok"
        assert probes.monitor.is_running
    finally:
        asgi.api_application.beside.stop()  # type: ignore[union-attr] # it has one
