"""The real kubectl and the real command against a served hub: the same rows, the same audit entry, the same refusal."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.entry_points import scene
from tests.entry_points.scene import Waiting
from tests.fleet import Fleet
from tests.hub import Hub

LETS_IN = '{"spec":{"hubAcceptsClient":true}}'
MAKE_PERSON = """
from django.contrib.auth import get_user_model
get_user_model().objects.get_or_create(username="ana")
"""
ALLOW = """
from django.contrib.auth import get_user_model
from guardian.shortcuts import assign_perm
from clusters.models import ManagedCluster
ana = get_user_model().objects.get(username="ana")
for name in {names!r}:
    assign_perm("clusters.accept_managedcluster", ana, ManagedCluster.objects.get(name=name))
"""
numbers = itertools.count(1)

Ran = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def fleet(hub: Hub) -> Iterator[Fleet]:
    with Fleet(hub) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def kubeconfig(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a person who may do nothing yet, with a certificate of the hub's own CA."""
    hub.manage("shell", "-c", MAKE_PERSON)
    path = tmp_path_factory.mktemp("ana") / "kubeconfig"
    path.write_text(hub.manage("user_kubeconfig", "ana"))
    return path


def asked(fleet: Fleet) -> Waiting:
    name = f"kubectl-site-{next(numbers):03}"
    return Waiting(name, fleet.ask(name).request)


def records(hub: Hub) -> list[scene.Record]:
    return scene.parsed(hub.manage("dumpdata", *scene.APPS))


def settled(hub: Hub, *clusters: Waiting) -> list[scene.Record]:
    """When nothing about the clusters is left to do and each has what it asked for."""
    deadline = time.monotonic() + 120
    names = {name for waiting in clusters for name in (waiting.name, waiting.request)}
    while True:
        with hub.reading() as query:
            states = dict(query("SELECT name, state FROM registration_certificatesigningrequest"))
            work = query("SELECT reconciler, name FROM kubeapi_workitem WHERE attempts = 0")
        busy = [reconciler for reconciler, name in work if name in names]
        if all(states[waiting.request] == "Issued" for waiting in clusters) and not busy:
            return records(hub)
        assert time.monotonic() < deadline, (states, busy)
        time.sleep(0.2)


@pytest.mark.contract("A4b", "D2", "D15", "W23")
def test_kubectl_and_the_command_leave_the_same(hub: Hub, fleet: Fleet, kubectl: Path, kubeconfig: Path) -> None:
    def run(*arguments: str) -> Ran:
        return hub.kubectl(kubectl, *arguments, kubeconfig=kubeconfig)

    by_kubectl, by_command = asked(fleet), asked(fleet)
    before = records(hub)
    for arguments in (
        ("patch", "managedcluster", by_kubectl.name, "--type=merge", "-p", LETS_IN),
        ("certificate", "approve", by_kubectl.request),
    ):
        refused = run(*arguments)
        assert refused.returncode != 0
        assert "forbidden" in refused.stderr.lower()
    assert scene.rows_of(by_kubectl, records(hub)) == scene.rows_of(by_kubectl, before)

    hub.manage("shell", "-c", ALLOW.format(names=[by_kubectl.name, by_command.name]))
    approved = run("certificate", "approve", by_kubectl.request)
    assert approved.stdout == f"certificatesigningrequest.certificates.k8s.io/{by_kubectl.request} approved\n"
    patched = run("patch", "managedcluster", by_kubectl.name, "--type=merge", "-p", LETS_IN)
    assert patched.stdout == f"managedcluster.cluster.open-cluster-management.io/{by_kubectl.name} patched\n"
    hub.manage("accept", by_command.name, "--as", "ana")
    found = settled(hub, by_kubectl, by_command)
    assert scene.rows_of(by_kubectl, found) == scene.rows_of(by_command, found)
    acts = [
        entry for entry in scene.audit_of(by_kubectl, found, user="ana") if json.loads(entry)["outcome"] == "allowed"
    ]
    assert len(acts) == 2
    assert acts == scene.audit_of(by_command, found, user="ana")


@pytest.mark.contract("D2", "D15", "H35")
def test_with_the_permission_alone_kubectl_does_nothing_else(
    hub: Hub, fleet: Fleet, kubectls: dict[str, Path], kubeconfig: Path
) -> None:
    def run(*arguments: str) -> Ran:
        return hub.kubectl(kubectls["recent"], *arguments, kubeconfig=kubeconfig)

    mine, other = asked(fleet), asked(fleet)
    hub.manage("shell", "-c", ALLOW.format(names=[mine.name]))
    before = records(hub)
    taint = '{"spec":{"taints":[{"key":"k","effect":"NoSelect"}]}}'
    for arguments, text in (
        (("label", "managedcluster", mine.name, "env=prod"), "allows changing"),
        (("patch", "managedcluster", mine.name, "--type=merge", "-p", taint), "allows changing"),
        (("patch", "managedcluster", other.name, "--type=merge", "-p", LETS_IN), "cannot get resource"),
        (("certificate", "approve", other.request), "cannot get resource"),
        (("certificate", "deny", other.request), "cannot get resource"),
        (("delete", "managedcluster", mine.name), "cannot delete resource"),
        (("get", "csr"), "cannot list resource"),
    ):
        refused = run(*arguments)
        assert refused.returncode != 0
        assert text in refused.stderr
    after = records(hub)
    for waiting in (mine, other):
        assert scene.rows_of(waiting, after) == scene.rows_of(waiting, before)
    assert run("certificate", "deny", mine.request).returncode == 0
