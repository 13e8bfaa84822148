"""Simulated fleets: what is asked for is read or refused, what happened is counted, and real agents join a served hub."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from registration.agent.client import api
from registration.agent.client.clock import AgentClock
from registration.agent.client.kubeconfig import ApiEndpoint, Kubeconfig, Login
from registration.simulation.happenings import FleetOutage, FleetSkew, parse_outage, parse_skew
from registration.simulation.report import FleetReport, percentiles
from registration.simulation.simulation import source_of
from tests.agent.conftest import cluster_on, condition, eventually
from tests.agent.process import PATIENCE
from tests.conftest import StartHub
from tests.hub import Hub

AVAILABLE, CLOCK_SYNCED = "ManagedClusterConditionAvailable", "ManagedClusterConditionClockSynced"


def simulate(hub: Hub, folder: Path, *options: str) -> dict[str, Any]:
    """The report."""
    file = folder / "report.json"
    hub.manage("simulate_fleet", "--report", str(file), *options)
    doc: dict[str, Any] = json.loads(file.read_text())
    return doc


@pytest.mark.slow
@pytest.mark.contract("G31", "G37", "H18")
def test_agents_join_fall_out_come_back_and_beat_with_clocks_of_their_own(hub: Hub, tmp_path: Path) -> None:
    happenings = ["--outage", "50%@1s+1s", "--skew", "25%=3000s", "--flapping", "25"]
    report = simulate(hub, tmp_path, "--clusters", "4", "--prefix", "fleet", "--seconds", "3", *happenings)
    assert report["joined"] == 4
    assert report["returned"] >= 1  # half of the three that do not flap
    requests = report["requests"]
    assert requests["POST managedclusters"]["count"] == 4
    assert requests["POST certificatesigningrequests"]["count"] == 4
    assert requests["PUT lease"]["count"] >= 4 + report["returned"]
    assert requests["PUT lease"]["p50"] <= requests["PUT lease"]["max"]
    assert [
        name for name in report["refusals"] if name.endswith((api.NOT_CONNECTED, api.UNANSWERED)) or ": 5" in name
    ] == []
    deadline = time.monotonic() + PATIENCE
    while (found := clocks(hub, 4)) != ["False", "True", "True", "True"]:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def clocks(hub: Hub, count: int) -> list[str]:
    """What the hub says of the clocks of the fleet."""
    docs = [cluster_on(hub, f"fleet-{number:05}") for number in range(count)]
    return sorted(condition(doc, CLOCK_SYNCED).get("status", "") for doc in docs)


@pytest.mark.slow
def test_agents_share_connections_as_behind_the_trusted_proxy(start_hub: StartHub, tmp_path: Path) -> None:
    with start_hub(TRUSTED_PROXY="127.0.0.1", PROXY_SECRET="s3cret-of-the-proxy-that-is-long-enough") as hub:
        report = simulate(hub, tmp_path, "--clusters", "2", "--prefix", "pooled", "--seconds", "1", "--pooled")
        assert report["joined"] == 2
        docs = [
            eventually(hub, f"pooled-{number:05}", lambda doc: condition(doc, AVAILABLE).get("status") == "True")
            for number in range(2)
        ]
        assert {doc["status"]["version"]["kubernetes"] for doc in docs} == {"v1.34.2"}


@pytest.mark.slow
def test_sharing_connections_without_a_secret_of_the_proxy_is_refused(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="--pooled needs OCMCONSOLE_TRUSTED_PROXY"):
        simulate(hub, tmp_path, "--clusters", "1", "--pooled")


def test_agents_of_a_hub_on_loopback_call_from_as_many_addresses_as_they_need_ports() -> None:
    sources = [source_of("https://127.0.0.1:6443", number) for number in range(0, 100_000, 40)]
    assert sources[0] == "127.0.0.1"
    assert max(Counter(sources).values()) * 40 * 3 < 28_232
    assert source_of("https://hub.example.com", 50_000) is None


@pytest.mark.parametrize("prefix", ["", "Sim", "-sim", "a-name-that-is-too-long"])
def test_a_prefix_of_which_no_certificate_could_be_asked_for_is_refused(prefix: str) -> None:
    with pytest.raises(CommandError, match="--prefix takes 1 to 20"):
        call_command("simulate_fleet", f"--prefix={prefix}", clusters=1)


def test_what_is_to_happen_is_read() -> None:
    assert parse_outage("50%@60s+30s") == FleetOutage(0.5, 60, 30)
    assert parse_skew("10%=-300s") == FleetSkew(0.1, -300)


@pytest.mark.parametrize("text", ["", "50%", "0%@1s+1s", "101%@1s+1s", "50%@1s+0s", "half@1s+1s"])
def test_an_outage_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no outage such as"):
        parse_outage(text)


@pytest.mark.parametrize("text", ["", "10%", "0%=1s", "101%=1s", "10%=1m"])
def test_a_skew_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no skew such as"):
        parse_skew(text)


def test_a_report_sorts_requests_and_counts_what_was_refused() -> None:
    report = FleetReport()
    cluster = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
    report.heard("PUT", "/apis/coordination.k8s.io/v1/namespaces/c/leases/managed-cluster-lease", 200, 0.010)
    report.heard("PATCH", f"{cluster}/c/status", 409, 0.001)
    report.heard("GET", cluster, 200, 0.002)
    report.heard("POST", cluster, api.UNANSWERED, 5)
    doc = report.as_document()
    assert doc["requests"] == {
        "PUT lease": {"count": 1, "p50": 10.0, "p95": 10.0, "p99": 10.0, "max": 10.0},
        "open watch of managedclusters": {"count": 1, "p50": 2.0, "p95": 2.0, "p99": 2.0, "max": 2.0},
    }
    assert doc["refusals"] == {"PATCH status: 409": 1, "POST managedclusters: no answer": 1}
    assert "     1  PATCH status: 409" in report.lines()


def test_a_report_tells_a_connection_that_came_too_late_from_one_that_brought_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(api, "CONNECT", 0.2)
    report = FleetReport()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and begins no handshake
        nobody = Kubeconfig(ApiEndpoint(f"https://127.0.0.1:{silent.getsockname()[1]}"), Login())
        asyncio.run(asked(nobody, report))
    asyncio.run(asked(nobody, report))  # refused: it listens no more
    sort = "GET managedcluster"
    assert report.refusals == {f"{sort}: no connection in time": 1, f"{sort}: no answer": 1}


async def asked(kubeconfig: Kubeconfig, report: FleetReport) -> None:
    client = api.Api(kubeconfig, AgentClock(timedelta()), heard=report.heard)
    with pytest.raises(api.Unreachable):
        await client.get("/apis/cluster.open-cluster-management.io/v1/managedclusters/c")
    await client.close()


def test_percentiles_are_those_of_the_durations_in_milliseconds() -> None:
    assert percentiles([n / 1000 for n in range(1, 101)]) == {"p50": 51.0, "p95": 96.0, "p99": 100.0, "max": 100.0}
