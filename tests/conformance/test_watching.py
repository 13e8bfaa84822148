"""kubectl waits for the hub: `get -w` and `wait`."""

from __future__ import annotations

import subprocess

import pytest

from tests.conformance.cluster import AVAILABLE, MANAGED, Cluster, hold, let_go, managed, wait_until_only_held
from tests.conformance.commands import Kubectl, cells
from tests.conformance.conftest import Present


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


@pytest.mark.contract("W131")
def test_watched_table_gets_a_row_for_every_change(admin: Kubectl, present: Present, name: str) -> None:
    first = present(labels={"watched": name})
    with admin.running("get", "mcl", "-w", "-l", f"watched={name}", "-L", "env") as watch:
        assert cells(_line(watch))[0] == "NAME"
        assert cells(_line(watch))[0] == first
        admin("label", "mcl", first, "env=prod")
        while cells(row := _line(watch))[-1] != "prod":  # the hub's own taint and finalizer come through here too
            assert cells(row)[0] == first
        second = present(labels={"watched": name})
        while cells(_line(watch))[0] != second:
            pass


@pytest.mark.contract("W131", "W12")
def test_watch_of_one_cluster_names_it_at_once_and_again_when_it_changes(admin: Kubectl, present: Present) -> None:
    name = present()
    with admin.running("get", "mcl", name, "-w", "-o", "name") as watch:
        assert _line(watch) == f"{MANAGED}/{name}"
        admin("label", "mcl", name, "env=prod")
        assert _line(watch) == f"{MANAGED}/{name}"


@pytest.mark.contract("W177")
def test_watch_events_are_named_on_request(admin: Kubectl, name: str) -> None:
    with admin.running("get", "mcl", "-w", "-l", f"watched={name}", "--output-watch-events") as watch:
        admin("create", "-f", "-", stdin=managed(name, labels={"watched": name}))
        assert cells(_line(watch))[0] == "EVENT"
        assert cells(_line(watch))[:2] == ["ADDED", name]
        admin("label", "mcl", name, "watched-")
        while (row := cells(_line(watch)))[0] == "MODIFIED":
            pass
        assert row[:2] == ["DELETED", name]


@pytest.mark.contract("W138")
def test_wait_ends_when_the_condition_turns_true_or_is_true_already(cluster: Cluster) -> None:
    cluster.join()
    admin, name = cluster.admin, cluster.name
    with admin.running("wait", f"mcl/{name}", f"--for=condition={AVAILABLE}", "--timeout=120s") as waiting:
        assert waiting.poll() is None
        cluster.report("True")
        assert waiting.wait(timeout=120) == 0
    assert (
        admin("wait", f"mcl/{name}", f"--for=condition={AVAILABLE}", "--timeout=60s")
        == f"{MANAGED}/{name} condition met\n"
    )
    assert admin("wait", f"mcl/{name}", f"--for=condition={AVAILABLE}=True", "--timeout=60s").endswith(
        "condition met\n"
    )


@pytest.mark.contract("W138")
def test_wait_gives_up_when_its_time_is_over(admin: Kubectl, present: Present) -> None:
    name = present()
    refusal = f"error: timed out waiting for the condition on managedclusters/{name}"
    assert admin.refuses("wait", f"mcl/{name}", f"--for=condition={AVAILABLE}", "--timeout=3s") == refusal


@pytest.mark.contract("W138")
def test_wait_ends_when_the_cluster_is_gone(admin: Kubectl, present: Present) -> None:
    name = present()
    hold(admin, name)
    admin("delete", "mcl", name, "--wait=false")
    wait_until_only_held(admin, name)
    with admin.running("wait", f"mcl/{name}", "--for=delete", "--timeout=120s", "-v=6") as waiting:
        while "watch=true" not in _line(waiting):  # kubectl 1.20 fails when it is gone before that looks
            assert waiting.poll() is None
        let_go(admin, name)
        assert waiting.wait(timeout=120) == 0


@pytest.mark.kubectls("recent", "machine")
@pytest.mark.contract("W138")
def test_wait_for_a_field_ends_when_it_has_the_value(admin: Kubectl, present: Present) -> None:
    name = present()
    with admin.running(
        "wait", f"mcl/{name}", "--for=jsonpath={.spec.leaseDurationSeconds}=7", "--timeout=120s"
    ) as waiting:
        admin("patch", "mcl", name, "--type=merge", "-p", '{"spec":{"leaseDurationSeconds":7}}')
        assert waiting.wait(timeout=120) == 0
