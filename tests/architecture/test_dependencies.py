"""Declared dependencies: each is used; and the private parts of uvicorn that `ocmconsole.server.serving` overrides, for which it is pinned."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

ROOT = Path(__file__).parents[2]
DECLARED: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
PRODUCT = ("ocmconsole", "clusters", "clustersets", "placements", "registration")
# Loaded by another library because they are installed.
NEEDED_BY = {
    "argon2-cffi": "django.contrib.auth.hashers",
    "psycopg": "django.db.backends.postgresql",
    "requests": "allauth.socialaccount, for single sign-on",
    "uvloop": "uvicorn",
    "httptools": "uvicorn",
}
# Overridden or called, with the parameters after self that connections.Connection and serving.Listener rely on.
PRIVATE: dict[Callable[..., object], list[str]] = {
    HttpToolsProtocol.connection_made: ["transport"],
    HttpToolsProtocol.connection_lost: ["exc"],
    HttpToolsProtocol.data_received: ["data"],
    HttpToolsProtocol.on_message_begin: [],
    HttpToolsProtocol.on_url: ["url"],
    HttpToolsProtocol.on_header: ["name", "value"],
    HttpToolsProtocol.on_headers_complete: [],
    HttpToolsProtocol._start_asgi_task: ["cycle", "app"],
    HttpToolsProtocol._unset_keepalive_if_required: [],
    HttpToolsProtocol.pause_writing: [],
    HttpToolsProtocol.resume_writing: [],
    uvicorn.Server.startup: ["sockets"],
    uvicorn.Server.shutdown: ["sockets"],
    uvicorn.Server.capture_signals: [],
}
ATTRIBUTES = {
    HttpToolsProtocol: ["client", "loop", "scope", "transport"],
    RequestResponseCycle: [
        "default_headers",
        "disconnected",
        "flow",
        "keep_alive",
        "message_event",
        "more_body",
        "on_response",
        "response_complete",
        "response_started",
        "scope",
        "transport",
    ],
    uvicorn.Server: ["config", "server_state", "servers", "started"],
}


@pytest.mark.parametrize("method", PRIVATE, ids=lambda method: method.__qualname__)
def test_a_method_of_uvicorn_that_is_overridden_has_the_parameters_it_had(method: Callable[..., object]) -> None:
    assert list(inspect.signature(method).parameters)[1:] == PRIVATE[method]


@pytest.mark.parametrize("owner", ATTRIBUTES, ids=lambda owner: owner.__name__)
def test_an_attribute_of_uvicorn_that_is_used_is_still_set(owner: type) -> None:
    source = inspect.getsource(owner)
    assert [name for name in ATTRIBUTES[owner] if f"self.{name}" not in source] == []


def test_uvicorn_is_pinned_to_the_minor_version_that_was_read() -> None:
    major, minor, *_ = version("uvicorn").split(".")
    assert f"uvicorn>={major}.{minor},<{major}.{int(minor) + 1}" in DECLARED


def test_each_declared_dependency_is_imported_or_named_in_the_settings() -> None:
    sources = "\n".join(path.read_text() for app in PRODUCT for path in (ROOT / app).rglob("*.py"))
    modules: dict[str, set[str]] = {}
    for module, distributions in packages_distributions().items():
        for distribution in distributions:
            modules.setdefault(re.sub(r"[-_.]+", "-", distribution).lower(), set()).add(module)
    names = {re.split(r"[\[<>=]", entry)[0] for entry in DECLARED}
    unused = {
        name
        for name in names - NEEDED_BY.keys()
        if not any(re.search(rf"(import|from) {module}\b|['\"]{module}[.'\"]", sources) for module in modules[name])
    }
    assert unused == set()
