"""What a start imports before it is ready: no seconds are measured, but what takes them is not there."""

from __future__ import annotations

from dataclasses import replace

import httpx

from tests.conftest import StartHub
from tests.hub import Hub, running

# For the first request of a listener, for a command, or never.
PAGES = {"ocmconsole.urls", "clusters.urls", "allauth.account.views", "fido2", "requests"}
API = {"ocmconsole.kubeapi.http.views", "rest_framework.compat", "rest_framework.views"}
LATER = PAGES | API | {"ocmconsole.demo.building", "django.core.management.commands.migrate"}
REDIS = {"celery", "kombu", "redis"}
POSTGRES = {"psycopg", "django.contrib.postgres"}


def imported(log: str) -> set[str]:
    """By a process that was started with PYTHONVERBOSE: ``import 'name' # loader``."""
    return {line.split("'")[1] for line in log.splitlines() if line.startswith("import '")}


def test_a_hub_that_starts_again_imports_only_what_it_needs_to_be_ready(start_hub: StartHub) -> None:
    with start_hub() as first:
        is_sqlite = "OCMCONSOLE_DATABASE_URL" not in first.environment
    again = replace(first, environment={**first.environment, "PYTHONVERBOSE": "1"}, processes={})
    (again.home / "server.log").unlink()
    with running(again):
        before = imported(again.log("server"))
        assert "ocmconsole.management.commands.serve" in before
        early = before & (LATER | (REDIS | POSTGRES if is_sqlite else set()))
        early |= {name for name in before if ".migrations.0" in name}  # nothing is to be migrated
        assert not early
        with again.client() as anybody:
            anybody.get("/version").raise_for_status()
        httpx.get(f"{again.console_url}/login/", follow_redirects=True, timeout=60).raise_for_status()
        after = imported(again.log("server"))
        assert after >= PAGES | API
        if is_sqlite:  # redis-py imports it where it is installed
            assert not {name for name in after if name.startswith("opentelemetry")}  # traces are off


def test_no_thread_of_a_process_runs_long_while_others_wait(hub: Hub) -> None:
    said = hub.manage("shell", "-v", "0", "-c", "import sys; print(sys.getswitchinterval())")
    assert said.split()[-1] == "0.001"
